"""The snippets of docs/consumer.md run, one after the other, against a broker of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic
from odradek.testing.kit.embedded import unique_name
from tests.client.members import fill

PAGE = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text()


def test_what_the_page_shows_works(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    topic = unique_name("greetings")  # Other pages have a topic of that name on the same broker.
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    fill(bootstrap, topic, 3, partitions=1)
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 4
    for snippet in snippets:
        exec(compile(snippet.replace("localhost:9092", bootstrap).replace("greetings", topic), "docs/consumer.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "0 0 b'0'"
    assert said[1].startswith(f"came: [TopicPartition(topic='{topic}', partition=0)]")
    assert said[2].startswith("about to go: ")
    assert "OffsetAndMetadata(offset=1, leader_epoch=None, metadata='a note')" in said[3]
    assert said[4] == "read: 3"
    assert said[5] == f"committed: [TopicPartition(topic='{topic}', partition=0)]"
