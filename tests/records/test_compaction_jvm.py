"""What stays of a batch, byte by byte, beside the JVM: MemoryRecords.filterTo with the rules of the JVM's own Cleaner."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import KafkaError
from odradek.records.batch import decode_records, encode_batch, read_header
from odradek.records.compaction import FilteredBatch, OffsetMap, filter_batch
from odradek.records.compression import Compression
from odradek.records.patch import patched, seal, with_max_timestamp
from tests.records.support import text

from .oracle import Oracle
from .strategies import RawRecord

pytestmark = pytest.mark.jvm

NOW = 1_700_000_000_000
RETENTION = 86_400_000
KEYS = [b"", b"a", b"bb", b"ccc" * 9, bytes(range(64))]


def keyed_records(rng: random.Random) -> list[RawRecord]:
    """Records with few keys, tombstones, headers, and timestamps that the JVM's builder takes."""
    records: list[RawRecord] = []
    timestamp = rng.choice([0, 5, NOW])
    for _ in range(rng.randint(1, 12)):
        timestamp += rng.choice([0, 0, 1, -1, 1000, 10**9])
        headers: list[tuple[str, bytes | None]] = [("h", rng.choice([None, b"", b"x" * 70]))] * rng.choice([0, 0, 2])
        key = rng.choice([*KEYS, None]) if rng.random() < 0.8 else rng.randbytes(8)
        value = rng.choice([None, b"", b"value" * rng.randint(1, 40)])
        records.append((rng.choice([max(timestamp, 0), max(timestamp, 0), -1]), key, value, headers))
    return records


def batch_of(rng: random.Random, records: list[RawRecord], compression: Compression) -> bytes:
    producer = rng.choice([-1, 77])
    control = rng.random() < 0.15
    batch = bytearray(
        encode_batch(
            records,
            base_offset=100,
            compression=compression,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 3,
            base_sequence=-1 if producer < 0 else 2**31 - 2,
            transactional=producer >= 0 and (control or rng.random() < 0.5),
            control=control and producer >= 0,
            partition_leader_epoch=rng.choice([0, 8]),
        )
    )
    if rng.random() < 0.3:
        batch = bytearray(with_max_timestamp(batch, NOW + 5, log_append_time=True))
    if rng.random() < 0.3:
        # Offsets behind the last record have been compacted away.
        batch[23:27] = (len(records) + 3).to_bytes(4, "big")
        seal(batch)
    return bytes(batch)


def asked(oracle: Oracle, batch: bytes, latest: int, known: dict[bytes, int], switches: dict[str, bool], now: int) -> str:
    mapping = ",".join(f"{key.hex()}={offset}" for key, offset in known.items()) or "-"
    names = ("discard_records", "retain_empty", "empty_transaction", "legacy_retain_deletes")
    return oracle.ask("F", latest, mapping, *(str(switches[name]).lower() for name in names), now, RETENTION, batch.hex())


def ours(batch: bytes, latest: int, known: dict[bytes, int], switches: dict[str, bool], now: int) -> FilteredBatch:
    offset_map = OffsetMap(24_000)
    for key, offset in known.items():
        offset_map.put(key, offset)
    offset_map.latest_offset = latest
    return filter_batch(memoryview(batch), read_header(batch), offset_map, now_ms=now, delete_retention_ms=RETENTION, **switches)


def compare(answer: str, batch: bytes, result: FilteredBatch, note: str) -> None:
    assert answer.startswith("ok "), f"{note}: {answer}"
    _, read, kept, max_timestamp, shallow, octets = answer.split(" ")
    theirs = bytes.fromhex(octets)
    data = b"" if result.data is None else bytes(result.data)
    if data or int(read):
        assert (result.records_kept, result.max_timestamp) == (int(kept), int(max_timestamp)), note
    if result.max_timestamp != -1:
        assert result.shallow_offset_of_max_timestamp == int(shallow), note
    if read_header(batch).is_compressed and theirs not in (b"", batch):
        # The encoders differ; the records and the header around them do not.
        assert decode_records(data) == decode_records(theirs), note
        one, other = read_header(data), read_header(theirs)
        assert one._replace(crc=0, batch_length=0) == other._replace(crc=0, batch_length=0), note
    else:
        assert data.hex() == theirs.hex(), note


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("seed", range(80))
def test_what_stays_of_a_batch(oracle: Oracle, compression: Compression, seed: int) -> None:
    rng = random.Random(seed)
    records = keyed_records(rng)
    batch = batch_of(rng, records, compression)
    now = NOW
    for cleaning in range(3):
        # Again and again, as a log is cleaned: the delete horizon set by one cleaning is obeyed by a later one.
        header = read_header(batch)
        known = {key: rng.choice([99, 100, 104, 120]) for key in KEYS if rng.random() < 0.6}
        latest = rng.choice([-1, 99, 105, 200, 200])
        switches = {
            "discard_records": rng.random() < 0.1,
            "retain_empty": rng.random() < 0.5,
            "empty_transaction": header.is_control and rng.random() < 0.7,
            "legacy_retain_deletes": True,
        }
        note = f"seed {seed} cleaning {cleaning} {switches} {latest} {known} {batch.hex()}"
        answer = asked(oracle, batch, latest, known, switches, now)
        result = ours(batch, latest, known, switches, now)
        compare(answer, batch, result, note)
        if result.data is None or result.records_kept == 0:
            return
        assert oracle.ask("D", bytes(result.data).hex()) == "ok " + text(_readable(result.data), slice(0, 5)), note
        batch = bytes(result.data)
        now += rng.choice([1, RETENTION - 1, RETENTION, 2 * RETENTION])


def _readable(data: bytes | memoryview) -> list[RawRecord]:
    from odradek.records.batch import decode_batch

    return decode_batch(data, 0, read_header(data))  # type: ignore[return-value]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
@pytest.mark.parametrize("seed", range(10))
def test_what_stays_of_old_messages(oracle: Oracle, magic: int, compression: Compression, seed: int) -> None:
    rng = random.Random(seed)
    records: list[RawRecord] = [(max(record[0], 0), *record[1:3], []) for record in keyed_records(rng)]
    if compression == Compression.NONE:
        records = records[:1]
    batch = bytes.fromhex(oracle.ask("E", magic, compression.name.lower(), 100, text(records, slice(0, 4)))[3:])
    known = {key: rng.choice([99, 100, 104, 120]) for key in KEYS if rng.random() < 0.6}
    switches = dict.fromkeys(("discard_records", "retain_empty", "empty_transaction"), False)
    switches["legacy_retain_deletes"] = rng.random() < 0.5
    answer = asked(oracle, batch, 200, known, switches, NOW)
    compare(answer, batch, ours(batch, 200, known, switches, NOW), f"seed {seed} {known} {batch.hex()}")


@pytest.mark.parametrize("seed", range(60))
def test_mutated_batches_are_refused_or_cleaned_alike(oracle: Oracle, seed: int) -> None:
    """Whatever the JVM cleans is cleaned to the same records; what it trips over may be refused, and never ends in another error."""
    rng = random.Random(seed)
    batch = bytearray(batch_of(rng, keyed_records(rng), rng.choice(list(Compression))))
    for _ in range(rng.randint(1, 3)):
        batch[rng.randrange(61, len(batch))] = rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF])
    seal(batch)
    known = {key: rng.choice([99, 104, 120]) for key in KEYS}
    switches = dict.fromkeys(("discard_records", "retain_empty", "empty_transaction", "legacy_retain_deletes"), False)
    answer = asked(oracle, bytes(batch), 200, known, switches, NOW)
    try:
        result = ours(bytes(batch), 200, known, switches, NOW)
    except KafkaError:
        return
    if answer.startswith("ok"):
        octets = answer.split(" ")[5]
        data = b"" if result.data is None else bytes(result.data)
        assert decode_records(data) == decode_records(bytes.fromhex(octets)), f"seed {seed} {batch.hex()}"


def test_the_oracle_disagrees_with_other_rules(oracle: Oracle) -> None:
    """The comparison can fail: another map, another answer."""
    batch = patched(encode_batch([(NOW, b"a", b"1", ()), (NOW, b"a", b"2", ())]), 100, 0)
    switches = dict.fromkeys(("discard_records", "retain_empty", "empty_transaction", "legacy_retain_deletes"), False)
    answer = asked(oracle, batch, 200, {b"a": 101}, switches, NOW)
    compare(answer, batch, ours(batch, 200, {b"a": 101}, switches, NOW), "")
    with pytest.raises(AssertionError):
        compare(answer, batch, ours(batch, 200, {b"a": 100}, switches, NOW), "")
