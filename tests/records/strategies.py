"""Hypothesis strategies and mutations for the tests and campaigns of records."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from odradek.records.batch import ATTRIBUTES_OFFSET, HEADER_SIZE, encode_batch
from odradek.records.compression import Compression
from odradek.records.patch import seal

RawRecord = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

int64 = st.integers(-(2**63), 2**63 - 1)
octets = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 400).map(lambda size: b"v" * size))
header = st.tuples(
    st.text(max_size=8).filter(lambda text: text.encode("utf-8", "surrogatepass") == text.encode("utf-8", "replace")), octets
)
timestamps = st.one_of(st.just(-1), st.integers(0, 2**41))
records = st.lists(st.tuples(timestamps, octets, octets, st.lists(header, max_size=3)), min_size=1, max_size=20)
compressions = st.sampled_from(list(Compression))


def random_records(rng: random.Random, most: int = 12) -> list[RawRecord]:
    """Records of all shapes from a seeded source."""
    output: list[RawRecord] = []
    for _ in range(rng.randint(1, most)):
        key = rng.choice([None, b"", rng.randbytes(rng.randint(0, 20))])
        value = rng.choice([None, b"", b"abc" * rng.randint(0, 100), rng.randbytes(rng.randint(0, 90))])
        headers: list[tuple[str, bytes | None]] = [
            (rng.choice(["", "h", "naïve"]), rng.choice([None, b"", rng.randbytes(5)])) for _ in range(rng.choice([0, 0, 1, 3]))
        ]
        output.append((rng.choice([-1, 0, 1_700_000_000_000 + rng.randint(-1000, 1000)]), key, value, headers))
    return output


def mutated(rng: random.Random, reseal: float = 0.8) -> tuple[bytes, str]:
    """A batch with bytes flipped, cut out, put in or lied about; mostly with a right CRC again. Returns it and what was done to it."""
    compression = rng.choice([Compression.NONE, Compression.NONE, Compression.NONE, *Compression])
    batch = bytearray(encode_batch(random_records(rng), compression=compression, base_offset=rng.choice([0, 0, 5])))
    did: list[str] = [compression.name]
    mutate(rng, batch, did, reseal)
    return bytes(batch), " ".join(did)


def mutate(rng: random.Random, batch: bytearray, did: list[str], reseal: float) -> None:
    """Does one to three such things to the batch, says so in `did`, and mostly makes length and CRC right again."""
    for _ in range(rng.randint(1, 3)):
        if not batch:
            return
        kind = rng.choice(["flip", "set", "cut", "insert", "extend", "header", "varint"])
        low = rng.choice([0, ATTRIBUTES_OFFSET, HEADER_SIZE, HEADER_SIZE])
        at = rng.randrange(min(low, len(batch) - 1), len(batch))
        did.append(f"{kind}@{at}")
        if kind == "flip":
            batch[at] ^= 1 << rng.randrange(8)
        elif kind == "set":
            batch[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
        elif kind == "cut":
            del batch[at : at + rng.randint(1, 9)]
        elif kind == "insert":
            batch[at:at] = rng.randbytes(rng.randint(1, 6))
        elif kind == "extend":
            batch += rng.randbytes(rng.randint(1, 9))
        elif kind == "varint":
            batch[at : at + 1] = rng.choice([b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80" * 11])
        else:
            field, size = rng.choice([(8, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (53, 4), (57, 4)])
            batch[field : field + size] = rng.choice([b"\xff" * size, b"\x7f" + b"\xff" * (size - 1), bytes(size), rng.randbytes(size)])
    if len(batch) >= HEADER_SIZE and rng.random() < reseal:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        seal(batch)
