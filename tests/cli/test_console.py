"""`odradek consume` and `produce` with the options of kafka-console-consumer and kafka-console-producer."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import OdradekError
from odradek.cli.records import consume
from odradek.cli.records.console_formatter import Undecodable, console_formatter
from odradek.cli.records.console_reader import Line, line_parser, lines
from odradek.cli.shared.progress import Meter
from odradek.client import ConsumerRecord
from tests.cli.conftest import Command

RECORD = ConsumerRecord("t", 2, 7, 1000, 0, b"k", b"v", (("a", b"1"), ("b", None)))
ALL = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "delivery", "headers", "key")}
INTEGER = "org.apache.kafka.common.serialization.IntegerDeserializer"


# -- the formatter ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "printed"),
    [
        ({}, b"v\n"),
        (ALL, b"CreateTime:1000\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\ta:1,b:null\tk\tv\n"),
        ({"print.key": " TRUE ", "print.value": "yes"}, b"k\n"),
        ({"print.value": "false"}, b""),
        ({"print.key": "true", "key.separator": "=", "line.separator": "||"}, b"k=v||"),
        ({"print.headers": "true", "headers.separator": ";", "null.literal": "-"}, b"a:1;b:-\tv\n"),
    ],
)
def test_a_record_is_printed_as_its_properties_say(properties: dict[str, str], printed: bytes) -> None:
    assert console_formatter(properties)(RECORD) == printed


def test_null_is_apart_from_empty() -> None:
    render = console_formatter(ALL)
    assert render(RECORD._replace(key=None, value=None, headers=(), timestamp_type=1)) == (
        b"LogAppendTime:1000\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n"
    )
    assert render(RECORD._replace(key=b"", value=b"", timestamp=-1)).startswith(b"NO_TIMESTAMP\t")
    assert render(RECORD._replace(key=b"", value=b"", timestamp=-1)).endswith(b"\t\t\n")


def test_deserializers_decode_what_they_are_named_for() -> None:
    render = console_formatter({"print.key": "true", "key.deserializer": INTEGER, "value.deserializer": "LongDeserializer"})
    assert render(RECORD._replace(key=b"\xff\xff\xff\xff", value=bytes(7) + b"\x05")) == b"-1\t5\n"
    with pytest.raises(Undecodable, match="Size of data received by IntegerDeserializer is not 4"):
        render(RECORD._replace(key=b"\x01", value=bytes(8)))
    assert console_formatter({"value.deserializer": "StringDeserializer"})(RECORD._replace(value=b"\xff")) == "\ufffd\n".encode()


# -- the reader ---------------------------------------------------------------------------------------------------------------------------


class Pieces(io.BytesIO):
    """Gives what each read shall give."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self.pieces = [piece for piece in pieces if piece]

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@given(st.lists(st.text(alphabet="a\r\n", max_size=4).map(str.encode), max_size=8))
def test_lines_end_as_in_java_wherever_reads_end(pieces: list[bytes]) -> None:
    text = b"".join(pieces).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert list(lines(Pieces(pieces))) == (text.removesuffix(b"\n").split(b"\n") if text else [])


BOTH = {"parse.key": "true", "parse.headers": "true"}


@pytest.mark.parametrize(
    ("properties", "line", "parsed"),
    [
        ({}, b"a\tb", Line(None, b"a\tb", [])),
        ({"parse.key": "true"}, b"k\tv\tw", Line(b"k", b"v\tw", [])),
        ({"parse.key": "true"}, b"\t", Line(b"", b"", [])),
        (BOTH, b"a:1,b:2:3,c:\tk\tv", Line(b"k", b"v", [("a", b"1"), ("b", b"2:3"), ("c", b"")])),
        (BOTH | {"null.marker": "NULL"}, b"NULL\tNULL\tNULL", Line(None, None, [])),
        (BOTH | {"null.marker": "NULL"}, b"a:NULL\tk\tv", Line(b"k", b"v", [("a", None)])),
        ({"null.marker": "NULL"}, b"NULL", Line(None, None, [])),
        ({"parse.headers": "true", "headers.separator": "[;|]"}, b"a:1;b:2|\tv", Line(None, b"v", [("a", b"1"), ("b", b"2")])),
        ({"parse.headers": "true", "headers.delimiter": "@@", "headers.key.separator": "="}, b"a=1@@v", Line(None, b"v", [("a", b"1")])),
        ({"parse.headers": "true"}, b"a:1,,\tv", Line(None, b"v", [("a", b"1")])),
        ({"parse.headers": "true"}, b",\tv", Line(None, b"v", [])),
        (BOTH | {"ignore.error": "true"}, b"bare", Line(None, b"bare", [])),
        (BOTH | {"ignore.error": "true"}, b"bare\tv", Line(None, b"v", [("bare", None)])),
    ],
)
def test_a_line_is_read_as_its_properties_say(properties: dict[str, str], line: bytes, parsed: Line) -> None:
    assert line_parser(properties)(line, 1) == parsed


@pytest.mark.parametrize(
    ("properties", "line", "wrong"),
    [
        ({"parse.key": "true"}, b"bare", "No key separator found on line number 3: 'bare'"),
        (BOTH, b"bare", "No headers delimiter found on line number 3: 'bare'"),
        (BOTH, b"a\tk\tv", "No header key separator found in pair 'a' on line number 3"),
        (BOTH, b"\tk\tv", "No header key separator found in pair '' on line number 3"),
        (BOTH | {"null.marker": "N"}, b"N:1\tk\tv", "A header's key on line number 3 is the null marker 'N'"),
    ],
)
def test_a_line_that_is_not_so_is_told(properties: dict[str, str], line: bytes, wrong: str) -> None:
    with pytest.raises(OdradekError) as raised:
        line_parser(properties)(line, 3)
    assert str(raised.value) == wrong


@pytest.mark.parametrize("one", ["headers.separator", "headers.key.separator"])
def test_separators_are_apart(one: str) -> None:
    with pytest.raises(click.UsageError, match=f"headers.delimiter and {one} may not be equal"):
        line_parser({one: "\t"})


# -- the commands -------------------------------------------------------------------------------------------------------------------------


def test_a_script_reads_what_a_script_wrote(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "reader").write_text("parse.key=true\nkey.separator=?\n")
    at = ("--topic", topic, "--bootstrap-server", bootstrap)
    wrote = command(
        "kafka-console-producer.sh",
        *("--reader-config", str(tmp_path / "reader"), "--reader-property", "key.separator=:", "--sync", "--compression-codec", "lz4"),
        *at,
        stdin=b"a:1\r\nb:2\n",
    )
    assert wrote == (0, "", "")
    reading = ("--from-beginning", "--timeout-ms", "60000", "--max-messages", "2", "--formatter-property", "print.key=true")
    read = command("kafka-console-consumer.sh", *reading, *at)
    assert read == (0, "a\t1\nb\t2\n", "Processed a total of 2 messages\n")
    assert command("consume", "--from-beginning", "--max-messages", "1", *at) == (0, "1\n", "")
    assert command("kafka-console-consumer", "--partition", "0", "--offset", "earliest", "--max-messages", "1", *at).out == "1\n"
    assert command("kafka-console-consumer", "--partition", "0", "--timeout-ms", "100", *at).err == "Processed a total of 0 messages\n"
    assert command("consume", "--console", "-q", "--timeout-ms", "100", *at) == (0, "", "")


def test_included_topics_are_those_whose_whole_name_matches(bootstrap: str, topic: str, command: Command) -> None:
    at = ("-b", bootstrap)
    command("produce", "-t", topic, *at, stdin=b"here\n")
    whole = ("--include", topic[:-1] + ".", "--from-beginning", "--max-messages", "1")
    assert command("consume", *whole, *at) == (0, "here\n", "")
    assert command("consume", "--include", topic[:-1], "--from-beginning", "--timeout-ms", "1500", *at).out == ""
    assert "console-consumer-" not in command("groups", "list", "--state", "stable", *at).out


def test_lines_before_a_mistake_are_written(bootstrap: str, topic: str, command: Command) -> None:
    at = ("-t", topic, "-b", bootstrap)
    answer = command("produce", "--property", "parse.key=true", *at, stdin=b"a\tone\nbare\nb\ttwo\n")
    assert answer == (1, "", "odradek produce: No key separator found on line number 2: 'bare'\n")
    assert command("consume", "-e", *at).out == "one\n"


def test_what_cannot_be_decoded_ends_it_or_is_skipped(bootstrap: str, topic: str, command: Command) -> None:
    at = ("-t", topic, "-b", bootstrap)
    command("produce", *at, stdin=b"good\nbad\nfine\n")
    numbers = ("consume", "-e", "--value-deserializer", INTEGER)
    wrong = f"{topic}-0 at offset 1: Size of data received by IntegerDeserializer is not 4"
    assert command(*numbers, *at) == (1, "1735356260\n", f"odradek consume: {wrong}; use --skip-message-on-error to continue\n")
    assert command(*numbers, "--skip-message-on-error", *at) == (0, "1735356260\n1718185573\n", f"odradek consume: skipped {wrong}\n")


def test_uncommitted_records_are_read_where_that_is_asked_for(bootstrap: str, topic: str, command: Command) -> None:
    from odradek.client import Producer

    at = ("consume", "-t", topic, "-b", bootstrap, "-X", "isolation.level=read_committed")
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").result(10)
        assert command(*at, "--timeout-ms", "400").out == ""
        assert command(*at, "--max-messages", "1", "--isolation-level", "read_uncommitted").out == "open\n"
        producer.commit_transaction()


def test_a_configuration_by_its_option_goes_before_that_of_a_file(bootstrap: str, topic: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "client").write_text("acks=7\nbatch.size=-5\n")
    at = ("produce", "-t", topic, "-b", bootstrap, "--producer.config", str(tmp_path / "client"))
    assert command(*at, "--request-required-acks", "all", stdin=b"x\n").err.startswith("odradek produce: ")
    fixed = (*at, "--request-required-acks", "all", "--max-partition-memory-bytes", "1000", "--batch-size", "-7")
    assert command(*fixed, stdin=b"x\n") == (0, "", "")


def test_the_pause_is_measured_from_the_last_record(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    now = [0.0]

    class Slow:
        """Has a record each 900 ms, five of them."""

        left = 5

        def wakeup(self) -> None: ...

        def poll(self, timeout_ms: int, max_records: int | None = None) -> list[ConsumerRecord]:
            assert max_records is None
            now[0] += min(timeout_ms, 900) / 1000
            if timeout_ms < 900 or not self.left:
                return []
            self.left -= 1
            return [RECORD]

    monkeypatch.setattr(consume.time, "monotonic", lambda: now[0])
    consume.Printer(lambda record: record.value, None, 1000, skip_errors=False, meter=Meter()).run(Slow(), None)  # type: ignore[arg-type]
    assert capsysbinary.readouterr().out == b"vvvvv"
    assert now == [5.5]


def test_a_slow_reader_is_no_lack_of_records(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    now = [0.0]

    class Full:
        left = 3

        def wakeup(self) -> None: ...

        def poll(self, timeout_ms: int, max_records: int | None = None) -> list[ConsumerRecord]:
            self.left -= 1
            now[0] += 0.0 if self.left >= 0 else timeout_ms / 1000
            return [RECORD] if self.left >= 0 else []

    def render(record: ConsumerRecord) -> bytes:
        now[0] += 7.0  # a pipe that is full for seven seconds
        return record.value or b""

    monkeypatch.setattr(consume.time, "monotonic", lambda: now[0])
    consume.Printer(render, None, 1000, skip_errors=False, meter=Meter()).run(Full(), None)  # type: ignore[arg-type]
    assert capsysbinary.readouterr().out == b"vvv"
    assert now == [22.0]
