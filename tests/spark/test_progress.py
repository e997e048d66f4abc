"""How far a streaming query is behind, by what Spark says of its progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.spark import offsets_behind_latest
from odradek.spark.ranges import TOPIC_IDS

END, LATEST = {"a": {"0": 5, "1": 7}, "b": {"0": 1}}, {"a": {"0": 8, "1": 7, "2": 9}, "b": {"0": 3}}


@pytest.mark.parametrize("ids", [{}, {TOPIC_IDS: {"a": "kc5NMmaDRX-i15Z8zSSX1g"}}])
@pytest.mark.parametrize("spoken", [lambda offset: offset, json.dumps])
def test_partitions_that_were_read_count(spoken: Any, ids: dict[str, Any]) -> None:
    sources = [{"endOffset": spoken(END | ids), "latestOffset": spoken(LATEST | ids)}]
    behind = {"minOffsetsBehindLatest": 0.0, "maxOffsetsBehindLatest": 3.0, "avgOffsetsBehindLatest": 5 / 3}
    assert offsets_behind_latest({"sources": sources}) == [behind]


@pytest.mark.parametrize(("end", "latest"), [(None, LATEST), (END, None), ("null", "null"), ("7", "9"), ({}, LATEST), ({"a": 5}, {"a": 7})])
def test_nothing_is_said_of_what_has_no_offsets_of_partitions(end: Any, latest: Any) -> None:
    assert offsets_behind_latest({"sources": [{"endOffset": end, "latestOffset": latest}]}) == [{}]
