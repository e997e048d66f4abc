"""Records as JSON: `produce -J` reads what `consume -J` writes, without loss."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import OdradekError
from odradek.cli.records.record_json import json_line, parse_json_line
from odradek.client import Admin, ConsumerRecord, NewTopic, Producer
from tests.cli.conftest import Command

CONTENT = st.none() | st.binary(max_size=6) | st.text(max_size=4).map(str.encode)
RECORDS = st.builds(
    ConsumerRecord,
    topic=st.just("t"),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(0, 2**63 - 1),
    timestamp_type=st.integers(0, 1),
    key=CONTENT,
    value=CONTENT,
    headers=st.lists(st.tuples(st.text(max_size=3), CONTENT), max_size=3).map(tuple),
)


@given(RECORDS)
def test_what_is_written_is_read_back(record: ConsumerRecord) -> None:
    line = json_line(record)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert parse_json_line(line, 1) == (record.key, record.value, list(record.headers), record.partition, record.timestamp)


def test_what_is_no_text_is_said_to_be_base64() -> None:
    shown = json.loads(json_line(ConsumerRecord("t", 0, 0, 0, 0, b"k", b"\xff", (("a", b"1"), ("b", b"\xfe")))))
    assert (shown["key"], shown["payload"], shown["headers"]) == ("k", "/w==", ["a", "1", "b", "/g=="])
    assert shown["base64"] == ["headers[3]", "payload"]
    assert "base64" not in json.loads(json_line(ConsumerRecord("t", 0, 0, 0, 0, b"k", b"/w==", ())))


def test_what_is_left_out_is_null_and_now() -> None:
    assert parse_json_line(b"{}", 1) == (None, None, [], None, None)
    assert parse_json_line(b'{"ts": -1, "payload": "v", "headers": null}', 1) == (None, b"v", [], None, None)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"", "invalid JSON"),
        (b"[" * 100_000, "invalid JSON"),
        (b"\xff", "invalid JSON"),
        (b"[]", "expected a JSON object"),
        (b'{"key": 7}', '"key" must be a string or null'),
        (b'{"headers": ["a"]}', '"headers" must be a list in which names and values alternate'),
        (b'{"headers": [1, "a"]}', '"headers" must be a list in which names and values alternate'),
        (b'{"partition": true}', '"partition" must be a number'),
        (b'{"partition": -1}', '"partition" must be a number'),
        (b'{"partition": 2147483648}', '"partition" must be a number'),
        (b'{"ts": 1e3}', '"ts" must be a number'),
        (b'{"payload": "a", "base64": ["payload"]}', '"payload" is not valid base64'),
        (b'{"payload": "a", "base64": "payload"}', '"base64" must be a list of names of members'),
        (b'{"payload": "\\ud800"}', '"payload" contains an unpaired surrogate, which UTF-8 cannot encode'),
        (b'{"headers": ["a", "1", "\\udc80", "2"]}', '"headers[2]" contains an unpaired surrogate, which UTF-8 cannot encode'),
    ],
)
def test_a_line_that_is_not_so_is_told(line: bytes, wrong: str) -> None:
    with pytest.raises(OdradekError) as raised:
        parse_json_line(line, 3)
    assert str(raised.value).startswith(f"line 3: {wrong}")
    assert "\n" not in str(raised.value)


def test_a_topic_is_copied_with_all_that_its_records_have(bootstrap: str, command: Command) -> None:
    at = ("-b", bootstrap)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2, 1) for name in ("json-from", "json-to")])
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("json-from", b"\xff\x00", key=b"k", partition=1, headers=[("h", None), ("h", b"\xfe")], timestamp=1_700_000_000_000)
        producer.send("json-from", None, key=b"gone", partition=0, timestamp=1_700_000_000_001)
    written = command("consume", "-t", "json-from", "-e", "-J", *at).out
    assert len(written.splitlines()) == 2
    assert command("produce", "-t", "json-to", "-J", *at, stdin=written.encode()) == (0, "", "")
    copied = command("consume", "-t", "json-to", "-e", "-J", *at).out
    assert sorted(copied.replace("json-to", "json-from").splitlines()) == sorted(written.splitlines())
    assert command("produce", "-t", "json-to", "-J", "-p", "0", *at, stdin=written.encode()).status == 0
    assert len(command("consume", "-t", "json-to", "-p", "0", "-e", "-f", "%o\\n", *at).out.splitlines()) == 3
    assert command("produce", "-t", "json-to", "-J", *at, stdin=b"{}\nx\n").err.startswith("odradek produce: line 2: invalid JSON")
