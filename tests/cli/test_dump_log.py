"""`odradek dump-log` over a segment of three batches; tests/interop/test_cli_dump_log.py compares it with the tool of Kafka."""

from __future__ import annotations

import re
import shlex
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.base.errors import KafkaError
from odradek.cli.dumping import dump_log
from odradek.cli.dumping.batches import read_batches
from odradek.cli.dumping.index_text import in_java_order
from odradek.protocol.as_json import json_text, message_json
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.records.batch import encode_batch, read_header
from odradek.records.compression import Compression, compress
from odradek.records.legacy import decode_checked
from odradek.storage.disk import OsDisk
from odradek.storage.names import segment_file
from tests.cli.conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "cli" / "dump-log.md"


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Offsets 0 to 2, then 3, then 7."""
    path = tmp_path / segment_file(0, ".log")
    batches = [
        encode_batch([(5, b"k", b"one", ()), (6, None, b"two", [("h", b"")]), (7, b"k", None, ())]),
        encode_batch(
            [(8, b"k", b"three", ())], base_offset=3, compression=Compression.ZSTD, producer_id=4, producer_epoch=1, base_sequence=9
        ),
        encode_batch([(9, b"k", b"four", ())], base_offset=7),
    ]
    path.write_bytes(b"".join(batches))
    path.with_suffix(".index").write_bytes(struct.pack(">iiii", 2, 0, 3, len(batches[0])))
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qiqi", 7, 2, 8, 3))
    return path


def test_one_line_a_batch_and_one_a_record(segment: Path, command: Command) -> None:
    answer = command("dump-log", str(segment), "--print-data-log")
    lines = answer.out.splitlines()
    assert answer.status == 0
    assert lines[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    assert lines[3] == "| offset: 0 CreateTime: 5 keySize: 1 valueSize: 3 sequence: -1 headerKeys: [] key: k payload: one"
    assert lines[4] == "| offset: 1 CreateTime: 6 keySize: -1 valueSize: 3 sequence: -1 headerKeys: [h] payload: two"
    assert lines[5] == "| offset: 2 CreateTime: 7 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [] key: k"
    assert lines[7] == "| offset: 3 CreateTime: 8 keySize: 1 valueSize: 5 sequence: 9 headerKeys: [] key: k payload: three"
    assert answer.err == f"Non-consecutive offsets in {segment}\n  3 is followed by 7\n"
    assert len(command("kafka-dump-log.sh", "--files", str(segment)).out.splitlines()) == 5


def test_records_do_not_move_the_cursor_of_a_terminal(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / segment_file(0, ".log")
    path.write_bytes(encode_batch([(5, b"k\t1", b"a\n| offset: 1\x1b[2J\r", ())]))
    as_kafka = command("dump-log", str(path), "--print-data-log").out
    assert "key: k\t1 payload: a\n| offset: 1\x1b[2J\r\n" in as_kafka
    monkeypatch.setattr(dump_log, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    [shown] = [line for line in command("dump-log", str(path), "--print-data-log").out.split("\n") if "payload" in line]
    assert shown.endswith("key: k\t1 payload: a\\n| offset: 1\\x1b[2J\\r")


def test_each_record_has_a_sequence(tmp_path: Path, command: Command) -> None:
    path = tmp_path / segment_file(4, ".log")
    records = [(1, None, b"a", ()), (1, None, b"b", ()), (1, None, b"c", ())]
    path.write_bytes(encode_batch(records, base_offset=4, producer_id=1, producer_epoch=0, base_sequence=2**31 - 1))
    lines = command("dump-log", str(path), "--deep-iteration").out.splitlines()
    assert [line.split("sequence: ")[1].split()[0] for line in lines[3:]] == ["2147483647", "0", "1"]


def test_zeros_at_the_end_of_an_index_are_no_entries(segment: Path, command: Command) -> None:
    for suffix in (".index", ".timeindex"):
        path = segment.with_suffix(suffix)
        before = command("dump-log", str(path))
        path.write_bytes(path.read_bytes() + bytes(240))
        assert command("dump-log", str(path)) == before


def test_only_one_batch_is_in_memory(segment: Path) -> None:
    asked: list[int] = []
    file = OsDisk().open(str(segment), readonly=True)

    class Counting:
        def pread(self, size: int, offset: int) -> bytes:
            asked.append(size)
            return file.pread(size, offset)

    sizes = [batch.header.size for batch in read_batches(Counting(), "x", 0, file.size())]  # type: ignore[arg-type]
    file.close()
    assert max(asked) == max(sizes)
    assert len(asked) == 2 * len(sizes)


def test_indexes_are_held_to_their_segment(segment: Path, command: Command) -> None:
    index, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    assert command("dump-log", str(index), str(times)).err == ""
    index.write_bytes(index.read_bytes()[:8] + struct.pack(">ii", 5, 0))
    times.write_bytes(struct.pack(">qiqiqi", 6, 2, 5, 2, 9, 5))
    answer = command("dump-log", "--files", f"{index},{times}", "--verify-index-only")
    assert answer.out == f"Dumping {index}\nDumping {times}\n"
    assert answer.err.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 5, log offset: 2",
        f"Found timestamp mismatch in :{times}",
        "  Index timestamp: 6, log timestamp: 7",
        "  Index timestamp: 5, log timestamp: 7",
        f"Found out of order timestamp in :{times}",
        "  Index timestamp: 5, Previously indexed timestamp: 6",
        f"The following indexed offsets are not found in :{times}",
        "Indexed offset: 5, found log offset: 7",
    ]


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ("", 2, "Missing argument 'FILE...'; see `odradek dump-log --help`"),
        ("@.log --offsets-decoder --cluster-metadata-decoder", 2, "give only one decoder<*>"),
        ("@.log --remote-log-metadata-decoder", 2, "No such option<*>"),
        ("@.log --value-decoder-class mine.Decoder", 2, "Invalid value for '--value-decoder-class'<*>"),
        ("none.log", 1, "none.log: No such file or directory"),
        (
            "@.log --value-decoder-class org.apache.kafka.tools.api.LongDecoder",
            1,
            "@.log: Size of data received by LongDeserializer is not 8",
        ),
        ("@.log --offsets-decoder --skip-record-metadata", 1, "@.log: Failed to decode message at offset 1 using the specified decoder<*>"),
        (
            "/tmp/x/letters.index",
            1,
            "/tmp/x/letters.index: the name letters.index does not begin with an offset (such as 00000000000000000000.index)",
        ),
    ],
)
def test_mistakes(typed: str, status: int, said: str, segment: Path, command: Command) -> None:
    where = str(segment.with_suffix(""))
    answer = command("dump-log", *typed.replace("@", where).split())
    expected = f"odradek dump-log: {said.replace('@', where)}"
    assert answer.status == status
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(expected[:-3]) if said.endswith("<*>") else answer.err == expected + "\n"


def test_json_is_javas() -> None:
    assert json_text({"a": [1, True, None, 1.5e-5, 1e7, -12345678.5, 0.25], "b": b"\x01", "c": '\u00fc"\\\n\x1f/'}) == (
        '{"a":[1,true,null,1.5E-5,1.0E7,-1.23456785E7,0.25],"b":"AQ==","c":"\u00fc\\"\\\\\\n\\u001F/"}'
    )
    value = OffsetCommitValue(offset=3, leader_epoch=2, metadata="m", commit_timestamp=4)
    assert json_text(message_json(value, 3)) == '{"offset":3,"leaderEpoch":2,"metadata":"m","commitTimestamp":4}'
    assert json_text(message_json(value, 0)) == '{"offset":3,"metadata":"m","commitTimestamp":4}'
    assert json_text(message_json(value, 4)) == '{"offset":3,"leaderEpoch":2,"metadata":"m","commitTimestamp":4}'


def test_files_are_in_the_order_of_javas_buckets() -> None:
    assert [name for name, _ in in_java_order({"b": 0, "a": 1, "q": 2})] == ["a", "q", "b"]


def message(offset: int, value: bytes, attributes: int = 0) -> bytes:
    body = struct.pack(">bbqi", 1, attributes, 77, -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_old_messages_have_a_checksum_each(tmp_path: Path, command: Command) -> None:
    inner = message(0, b"first") + message(1, b"second")
    outer = message(9, bytes(compress(inner, Compression.GZIP)), attributes=1)
    found = decode_checked(outer, 0, read_header(outer))
    assert [(record.offset, valid) for record, _, valid in found] == [(8, True), (9, True)]
    assert [crc for _, crc, _ in found] == [struct.unpack_from(">I", inner, 12)[0], struct.unpack_from(">I", inner, 51)[0]]
    path = tmp_path / segment_file(8, ".log")
    path.write_bytes(outer)
    lines = command("dump-log", str(path), "--print-data-log").out.splitlines()
    assert lines[2].startswith("offset: 9 position: 0 CreateTime: 77 size: ")
    assert lines[3] == f"| offset: 8 CreateTime: 77 keySize: -1 valueSize: 5 isValid: true crc: {found[0][1]} payload: first"


def test_a_gzip_that_is_none_is_one_line(segment: Path, command: Command) -> None:
    content = bytearray(segment.read_bytes())
    content[22] |= 1
    segment.write_bytes(content)
    answer = command("dump-log", str(segment), "--deep-iteration")
    assert (answer.status, answer.err.count("\n")) == (1, 1)
    assert "isvalid: false" in answer.out
    assert KafkaError.__name__ not in answer.err


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders-0").mkdir()
    records = [(1700000000000, b"a", b"apple", ()), (1700000000001, b"b", b"pear", [("kind", b"green")])]
    (tmp_path / "orders-0" / segment_file(0, ".log")).write_bytes(encode_batch(records))
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for part in block.split("$ odradek ")[1:]:
        line, _, shown = part.partition("\n")
        answer = command(*shlex.split(line))
        assert answer.out + answer.err == shown
