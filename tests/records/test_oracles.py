"""Other people's record codecs in Python: kio, kafka-python, aiokafka. Bytes equal where nothing is left to taste, else equal when read."""

from __future__ import annotations

import io
import random
import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords

from odradek.records.batch import decode_records, encode_batch
from odradek.records.compression import Compression

from .strategies import RawRecord, random_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

SEEDS = range(25)
FOREIGN = {"kafka-python": (KafkaPythonBuilder, KafkaPythonRecords), "aiokafka": (AioBuilder, AioRecords)}


def needs_codec(client: str, compression: Compression) -> None:
    """kafka-python takes its codecs from further packages (python-snappy, lz4, zstandard)."""
    if client == "kafka-python" and not getattr(kafka.codec, f"has_{compression.name.lower()}", lambda: True)():
        pytest.fail(f"kafka-python has no {compression.name.lower()} here: install the dev extra")


def plain(seed: int) -> list[RawRecord]:
    return [(abs(timestamp), key, value, headers) for timestamp, key, value, headers in random_records(random.Random(seed))]


def foreign_batch(builder_class: Any, records: list[RawRecord], compression: Compression) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp=timestamp, key=key, value=value, headers=headers) is not None
    return bytes(builder.build())


@pytest.mark.parametrize("client", list(FOREIGN))
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("seed", SEEDS)
def test_theirs_read_by_us(client: str, compression: Compression, seed: int) -> None:
    needs_codec(client, compression)
    records = plain(seed)
    theirs = foreign_batch(FOREIGN[client][0], records, compression)
    ours = encode_batch(records, compression=compression)
    assert decode_records(theirs) == decode_records(ours)


@pytest.mark.parametrize("client", list(FOREIGN))
@pytest.mark.parametrize("seed", SEEDS)
def test_uncompressed_bytes_are_equal(client: str, seed: int) -> None:
    records = plain(seed)
    theirs = bytearray(foreign_batch(FOREIGN[client][0], records, Compression.NONE))
    ours = bytearray(encode_batch(records))
    theirs[12:16] = ours[12:16]  # the leader epoch of a batch that has none yet: 0 there, -1 in the JVM and here
    assert theirs == ours


@pytest.mark.parametrize("client", list(FOREIGN))
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("seed", SEEDS)
def test_ours_read_by_them(client: str, compression: Compression, seed: int) -> None:
    needs_codec(client, compression)
    records = plain(seed)
    reader = FOREIGN[client][1](encode_batch(records, compression=compression, base_offset=5))
    read: list[tuple[Any, ...]] = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        read += [(record.offset, record.timestamp, record.key, record.value, list(record.headers)) for record in batch]
    assert read == [(5 + index, *record) for index, record in enumerate(records)]


@pytest.mark.parametrize("seed", SEEDS)
def test_kio_reads_ours_and_writes_the_same(seed: int) -> None:
    from kio.records.readers import read_batch
    from kio.records.schema import NewRecordBatch
    from kio.records.writers import write_batch

    records = [(timestamp // 1000 * 1000, key, value, headers) for timestamp, key, value, headers in plain(seed)]
    ours = encode_batch(records, producer_id=1, producer_epoch=2, base_sequence=3)
    batch, size = read_batch(ours, 0)
    assert size == len(ours)
    read = [(r.offset, round(r.timestamp.timestamp() * 1000), r.key, r.value, [(h.key, h.value) for h in r.headers]) for r in batch.records]
    assert read == [(i, t, k, v, [(name.encode(), content) for name, content in h]) for i, (t, k, v, h) in enumerate(records)]
    theirs = io.BytesIO()
    write_batch(
        theirs,
        NewRecordBatch(
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            partition_leader_epoch=batch.partition_leader_epoch,
            base_sequence=batch.base_sequence,
            records=batch.records,
            attributes=batch.attributes,
        ),
    )
    assert theirs.getvalue() == ours
