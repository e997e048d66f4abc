"""The snippets of docs/arrow.md run, one after the other, against a broker of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic
from odradek.testing.kit.embedded import EmbeddedBroker

PAGE = (Path(__file__).parents[2] / "docs" / "arrow.md").read_text()


def test_what_the_page_shows_works(capsys: pytest.CaptureFixture[str]) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(snippets) == 3
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("temperatures", 1)])
        for snippet in snippets:
            exec(compile(snippet.replace("localhost:9092", broker.bootstrap_servers), "docs/arrow.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "3 records",
        "{'key': [b'lisbon', b'oslo', b'lisbon'], 'value': [b'21.5', b'3.0', b'22.1'], 'offset': [0, 1, 2]}",
        "hottest: 22.1",
    ]
