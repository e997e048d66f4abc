"""The JVM's own record classes, asked through one process for many cases (jvm/RecordsOracle.java)."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.records.batch import BatchHeader, Record, decode_records, encode_batch, read_header
from odradek.records.compression import Compression
from odradek.records.patch import patched
from odradek.records.validation import AppendRules, RecordValidationError, validate_append
from tests.records.support import text

from .oracle import Oracle
from .strategies import RawRecord, mutated, random_records

pytestmark = pytest.mark.jvm

NOW = 1_700_000_000_000


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("seed", range(20))
def test_ours_read_by_the_jvm(oracle: Oracle, compression: Compression, seed: int) -> None:
    records = random_records(random.Random(seed))
    batch = encode_batch(records, compression=compression, base_offset=17)
    assert oracle.ask("D", batch.hex()) == "ok " + text(decode_records(batch), slice(0, 5))


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("seed", range(20))
def test_the_jvms_read_by_us(oracle: Oracle, compression: Compression, seed: int) -> None:
    records = [(max(timestamp, 0), key, value, headers) for timestamp, key, value, headers in random_records(random.Random(seed))]
    answer = oracle.ask("E", 2, compression.name.lower(), 5, text(records, slice(0, 4)))
    assert answer.startswith("ok ")
    theirs = bytes.fromhex(answer[3:])
    ours = encode_batch(records, compression=compression, base_offset=5)
    assert decode_records(theirs) == decode_records(ours)
    if compression == Compression.NONE:
        assert theirs == ours


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_old_messages_of_the_jvm_are_read(oracle: Oracle, magic: int, compression: Compression) -> None:
    records: list[RawRecord] = [(10, b"k", b"v" * 100, []), (12, None, b"w", []), (11, b"", None, [])]
    answer = oracle.ask("E", magic, compression.name.lower(), 5, text(records, slice(0, 4)))
    expected = [Record(5 + i, r[0] if magic else -1, r[1], r[2], ()) for i, r in enumerate(records)]
    assert decode_records(bytes.fromhex(answer[3:])) == expected


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD, Compression.GZIP])
@pytest.mark.parametrize("size", [40_000, 200_000])
def test_large_batches_pass_both_ways(oracle: Oracle, compression: Compression, size: int) -> None:
    records: list[RawRecord] = [(5, None, random.Random(1).randbytes(100) * (size // 100), [])]
    ours = encode_batch(records, compression=compression)
    assert oracle.ask("D", ours.hex()) == "ok " + text(decode_records(ours), slice(0, 5))
    theirs = bytes.fromhex(oracle.ask("E", 2, compression.name.lower(), 0, text(records, slice(0, 4)))[3:])
    assert decode_records(theirs) == decode_records(ours)


RULES = [
    ("producer", AppendRules(1 << 20)),
    ("producer", AppendRules(1 << 20, require_keys=True)),
    ("producer", AppendRules(1 << 20, log_append_time=True)),
    ("producer", AppendRules(1 << 20, before_max_ms=NOW, after_max_ms=500)),
    ("zstd", AppendRules(1 << 20, compression=Compression.ZSTD)),
    ("none", AppendRules(1 << 20, compression=Compression.NONE)),
]


def validated(oracle: Oracle, batch: bytes, target: str, rules: AppendRules) -> str:
    switches = [str(rules.require_keys).lower(), str(rules.log_append_time).lower(), rules.before_max_ms, rules.after_max_ms, NOW]
    return oracle.ask("V", target, *switches, batch.hex())


def ours(batch: bytes, rules: AppendRules) -> tuple[str, bytes]:
    """The answer as the oracle would spell it, and the batch to be stored."""
    names = {
        ErrorCode.INVALID_RECORD: "InvalidRecordException",
        ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
        ErrorCode.INVALID_TIMESTAMP: "InvalidTimestampException",
    }
    try:
        result = validate_append(memoryview(batch), 0, read_header(batch), rules, now_ms=NOW)
    except RecordValidationError as error:
        return " ".join(["error", names[error.code], *(str(e.batch_index) for e in error.record_errors)]), b""
    except KafkaError as error:
        return f"error {names.get(error.code, error.code.name)}", b""
    except ProtocolError:
        return "error CorruptRecordException", b""
    return f"ok {result.max_timestamp}", patched(result.batch, 1000, 7)


def compare(theirs: str, answer: str, stored: bytes, batch: bytes, note: str) -> None:
    if not theirs.startswith("ok"):
        assert answer == theirs, note
        return
    _, max_timestamp, octets_of_theirs = theirs.split(" ")
    assert answer == f"ok {max_timestamp}", note
    jvm = bytes.fromhex(octets_of_theirs)
    if read_header(jvm).compression == read_header(batch).compression and not read_header(jvm).is_compressed:
        assert stored == jvm, note
    assert decode_records(stored) == decode_records(jvm), note
    assert _essence(read_header(stored)) == _essence(read_header(jvm)), note


def _essence(header: BatchHeader) -> tuple[int, ...]:
    """The header without what compression and the choice of the base timestamp change."""
    return (header.base_offset, header.partition_leader_epoch, *header[5:7], *header[8:])


@pytest.mark.parametrize(("target", "rules"), RULES)
@pytest.mark.parametrize("seed", range(25))
def test_good_batches_are_judged_as_the_jvm_does(oracle: Oracle, target: str, rules: AppendRules, seed: int) -> None:
    rng = random.Random(seed)
    records = random_records(rng)
    batch = encode_batch(records, compression=rng.choice(list(Compression)), timestamp_type=int(rng.random() < 0.1))
    answer, stored = ours(batch, rules)
    compare(validated(oracle, batch, target, rules), answer, stored, batch, f"seed {seed} {batch.hex()}")


def stricter(batch: bytes, theirs: str, answer: str) -> bool:
    """The reviewed differences (validation.py): what the JVM lets pass or trips over is INVALID_RECORD here."""
    if answer == "error UNSUPPORTED_COMPRESSION_TYPE":
        return theirs == "error IllegalArgumentException"
    if answer == "error InvalidTimestampException":
        return theirs == "error IllegalArgumentException"  # the JVM's builder on a negative timestamp
    if answer in ("error InvalidRecordException", "error MESSAGE_TOO_LARGE") and not theirs.startswith("ok"):
        return True  # the JVM refuses as well, in other words
    if answer == "error CorruptRecordException" and not theirs.startswith("ok"):
        return True
    # Stored by the JVM as they are: offset deltas that do not count up, sizes of compressed records that are wrong.
    return answer == "error InvalidRecordException" and theirs.startswith("ok")


@pytest.mark.parametrize("seed", range(300))
def test_mutated_batches_are_judged_as_the_jvm_does(oracle: Oracle, seed: int) -> None:
    rng = random.Random(seed)
    batch, did = mutated(rng, reseal=1.0)
    target, rules = rng.choice(RULES)
    answer, stored = ours(batch, rules)
    theirs = validated(oracle, batch, target, rules)
    note = f"seed {seed} {did} {batch.hex()}"
    if theirs.startswith("ok") and answer.startswith("ok"):
        compare(theirs, answer, stored, batch, note)
    elif theirs != answer:
        assert answer.startswith("error"), f"{note}: the JVM says {theirs}"
        assert stricter(batch, theirs, answer), f"{note}: {theirs} there, {answer} here"
