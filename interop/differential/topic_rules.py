"""Batches against every configuration that decides what a log takes and how it stores it, and a fetch of what was stored."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import partial

from interop.differential.batches import NOW, batch
from interop.differential.case import Case
from interop.differential.cases import fetch_request, produce_request
from interop.differential.peer import Peer
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.records.batch import encode_batch
from odradek.records.compression import Compression

HOUR_MS = 3_600_000
TEXT = b"the quick brown fox jumps over the lazy dog; " * 20
COMPRESSIONS: dict[str, dict[str, str]] = {
    "producer": {"compression.type": "producer"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "gzip 1": {"compression.type": "gzip", "compression.gzip.level": "1"},
    "gzip 9": {"compression.type": "gzip", "compression.gzip.level": "9"},
    "snappy": {"compression.type": "snappy"},
    "lz4": {"compression.type": "lz4"},
    "lz4 1": {"compression.type": "lz4", "compression.lz4.level": "1"},
    "lz4 17": {"compression.type": "lz4", "compression.lz4.level": "17"},
    "zstd": {"compression.type": "zstd"},
    "zstd -5": {"compression.type": "zstd", "compression.zstd.level": "-5"},
    "zstd 22": {"compression.type": "zstd", "compression.zstd.level": "22"},
    # The level of a codec that is not the topic's is stored and has no effect.
    "zstd, gzip level": {"compression.type": "zstd", "compression.gzip.level": "9"},
}
STAMPS: dict[str, dict[str, str]] = {
    "append time": {"message.timestamp.type": "LogAppendTime"},
    "append time, zstd": {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
    "append time, uncompressed": {"message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed"},
    "append time, window": {
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1",
        "message.timestamp.after.max.ms": "1",
    },
    "window": {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": str(HOUR_MS)},
    "no past": {"message.timestamp.before.max.ms": "0"},
    "no future": {"message.timestamp.after.max.ms": "0"},
}
SIZES: dict[str, dict[str, str]] = {
    "small": {"max.message.bytes": "700"},
    "small, uncompressed": {"max.message.bytes": "700", "compression.type": "uncompressed"},
    "small, gzip": {"max.message.bytes": "700", "compression.type": "gzip"},
    "none": {"max.message.bytes": "0"},
    "larger than a segment": {"max.message.bytes": "5000000", "segment.bytes": "1048576"},
}
POLICIES: dict[str, dict[str, str]] = {
    "compact": {"cleanup.policy": "compact"},
    # The records are old, the cases for brokers set log.retention.ms for a while, and a cleaner may apply it at any time.
    "compact,delete": {"cleanup.policy": "compact,delete", "retention.ms": "-1"},
    "compact, gzip": {"cleanup.policy": "compact", "compression.type": "gzip"},
    "delete": {"cleanup.policy": "delete"},
}


def rows(*stamps: int, key: bytes | None = b"k", value: bytes | None = TEXT) -> list[tuple[int, bytes | None, bytes | None, tuple[()]]]:
    return [(stamp, key, value, ()) for stamp in stamps]


def compression_batches() -> dict[str, bytes]:
    """In each codec: three records that compress well, and one that hardly does; and enough to tell the levels of a codec apart."""
    found: dict[str, bytes] = {}
    for codec in Compression:
        found[f"of {codec.name.lower()}"] = batch(3, value=TEXT, compression=codec)
        found[f"short, of {codec.name.lower()}"] = batch(1, value=b"v", compression=codec)
    found["idempotent, of lz4"] = batch(
        2, value=TEXT, compression=Compression.LZ4, producer_id=5_000_000, producer_epoch=0, base_sequence=0
    )
    words = [
        word.encode() for word in random.Random(1).choices(["log", "index", "offset", "leader", "epoch", "quorum", "replica"], k=40_000)
    ]
    values = [b" ".join(words[start : start + 40]) for start in range(0, len(words), 40)]
    found["much, uncompressed"] = bytes(encode_batch([(NOW + number, b"k", value, ()) for number, value in enumerate(values)]))
    found["of lz4 at another level"] = batch(2, value=TEXT, compression=Compression.LZ4, level=12)
    return found


def stamp_batches() -> dict[str, bytes]:
    """The same for both brokers; the windows are wide against the time that passes in between."""
    now = int(time.time() * 1000)
    minute = 60_000
    found: dict[str, bytes] = {}
    for codec in (Compression.NONE, Compression.GZIP):
        for name, stamps in {
            "now": (now, now),
            "none": (-1, -1),
            "none and now": (-1, now),
            "within": (now - HOUR_MS + minute, now + HOUR_MS - minute),
            "too old": (now - HOUR_MS - minute,),
            "too new": (now + HOUR_MS + minute,),
            "one too old": (now, now - HOUR_MS - minute, now),
            "one too new": (now, now + HOUR_MS + minute, now),
            "falling": (now, now - 5, now - 10),
            "zero": (0,),
            "negative": (-5,),
            "large": (1 << 62,),
        }.items():
            found[f"{name}, {codec.name.lower()}"] = bytes(encode_batch(rows(*stamps), compression=codec))
        by_broker = encode_batch(rows(now, now), compression=codec, timestamp_type=1)
        found[f"append time already, {codec.name.lower()}"] = bytes(by_broker)
    return found


def size_batches() -> dict[str, bytes]:
    """Around 700 bytes, before and after compression, and beyond a segment."""
    return {
        "just fits": batch(1, value=b"x" * 619),
        "one too many": batch(1, value=b"x" * 620),
        "two too many": batch(1, value=b"x" * 621),
        "large": batch(1, value=b"x" * 2000),
        "large, compressed": batch(1, value=b"x" * 2000, compression=Compression.ZSTD),
        "larger than a segment": batch(1, value=bytes(range(256)) * 6000),
        "larger than a segment, compressed": batch(1, value=b"x" * 1_200_000, compression=Compression.GZIP),
    }


def key_batches() -> dict[str, bytes]:
    """Keys missing here and there, tombstones, empty keys."""
    found: dict[str, bytes] = {}
    for codec in (Compression.NONE, Compression.SNAPPY):
        name = codec.name.lower()
        mixed = [*rows(NOW), *rows(NOW + 1, key=None), *rows(NOW + 2), *rows(NOW + 3, key=None)]
        found[f"all keys, {name}"] = bytes(encode_batch(rows(NOW, NOW + 1), compression=codec))
        found[f"some keys, {name}"] = bytes(encode_batch(mixed, compression=codec))
        found[f"no keys, {name}"] = bytes(encode_batch(rows(NOW, NOW, key=None), compression=codec))
        found[f"tombstones, {name}"] = bytes(encode_batch(rows(NOW, NOW, value=None), compression=codec))
        found[f"empty keys, {name}"] = bytes(encode_batch(rows(NOW, NOW, key=b""), compression=codec))
        found[f"null key and value, {name}"] = bytes(encode_batch(rows(NOW, key=None, value=None), compression=codec))
    return found


def produce(version: int) -> Iterator[Case]:
    """Every configuration of a group with every batch of it; then what is stored. Once: what is stored is the same in every version."""
    if version != API_INFO[ApiKey.PRODUCE].max_version:
        return
    groups = (
        ("compression", COMPRESSIONS, compression_batches()),
        ("stamps", STAMPS, stamp_batches()),
        ("sizes", SIZES, size_batches()),
        ("policy", POLICIES, key_batches()),
    )
    for group, configs, batches in groups:
        for number, (name, config) in enumerate(configs.items()):
            topic = f"{group}-{number}-{version}"

            create = partial(_create, topic, config)
            for index, (what, data) in enumerate(batches.items()):
                build = partial(_produced, version, topic, data)
                yield Case(ApiKey.PRODUCE, version, f"{group} {name}: {what}", build, before=None if index else create)
            yield Case(ApiKey.FETCH, 12, f"{group} {name}: what is stored", partial(_stored, topic))


def _create(topic: str, config: dict[str, str], peer: Peer) -> None:
    peer.create_topic(topic, 1, config)


def _produced(version: int, topic: str, data: bytes, peer: Peer) -> ProduceRequest:
    return produce_request(peer, version, topic, data)


def _stored(topic: str, peer: Peer) -> FetchRequest:
    return fetch_request(peer, 12, {topic: {0: 0}}, p_partition_max_bytes=16 << 20)
