"""The snippets of docs/producer.md run, one after the other, against a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.client import Admin, Consumer, NewTopic, TopicPartition
from odradek.client.admin.types.transactions import TransactionState
from odradek.testing.kit.embedded import unique_name

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text()


def test_what_the_page_shows_works(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    topics = {name: unique_name(name) for name in ("greetings", "farewells", "shouts")}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in topics.values()])
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 9
    for snippet in snippets:
        code = re.sub("greetings|farewells|shouts", lambda name: topics[name[0]], snippet.replace("localhost:9092", bootstrap))
        exec(compile(code, "docs/producer.md", "exec"), {})
    said = capsys.readouterr().out
    assert f"topic='{topics['greetings']}'" in said
    assert "2 records are on their way" in said
    assert "written at offset" in said
    assert "all countries are sent" in said
    assert f"the key of a record for topic {topics['farewells']} cannot be serialized by uuid" in said
    assert "ok RecordMetadata" in said
    with Admin(bootstrap_servers=bootstrap) as admin:
        states = admin.describe_transactions(["greeter-2"])
        assert states["greeter-2"].state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topics["shouts"], 0)])
        (first, *_) = consumer.poll(5000)
        assert first.value == (first.value or b"").upper()
