"""Record batches, right and wrong, the same bytes for both brokers."""

from __future__ import annotations

import struct

import crc32c

from odradek.records.batch import encode_batch
from odradek.records.compression import Compression

NOW = 1_790_000_000_000


def batch(count: int = 3, *, value: bytes = b"value", key: bytes | None = b"key", timestamp: int = NOW, **options: object) -> bytes:
    """A valid batch of `count` records; options are those of `encode_batch`."""
    rows = [(timestamp + number, key, value + str(number).encode(), (("h", b"1"),) if number == 0 else ()) for number in range(count)]
    return bytes(encode_batch(rows, **options))  # type: ignore[arg-type]


def patched(data: bytes, offset: int, form: str, value: int, *, fix_crc: bool = True) -> bytes:
    """The batch with one header field overwritten, and its CRC made right again unless told otherwise."""
    changed = bytearray(data)
    struct.pack_into(form, changed, offset, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def message_set(magic: int) -> bytes:
    """One message in one of the two formats before batches."""
    import zlib

    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"") + struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def variants() -> dict[str, bytes | None]:
    """Everything that is produced in every version of Produce, by name."""
    good = batch()
    plain = {f"valid {codec.name.lower()}": batch(compression=codec) for codec in Compression}
    return {
        **plain,
        "valid one record": batch(1),
        "null key": batch(2, key=None),
        "two batches": good + good,
        "null records": None,
        "empty records": b"",
        "wrong crc": patched(good, 17, ">I", 1, fix_crc=False),
        "flipped payload": good[:-1] + bytes([good[-1] ^ 1]),
        "count too high": patched(good, 57, ">i", 4),
        "count too low": patched(good, 57, ">i", 2),
        "count negative": patched(good, 57, ">i", -1),
        "count zero": patched(good, 57, ">i", 0),
        "count huge": patched(good, 57, ">i", 2_000_000_000),
        "last delta wrong": patched(good, 23, ">i", 7),
        "last delta negative": patched(good, 23, ">i", -1),
        "base offset not zero": patched(good, 0, ">q", 5),
        "max timestamp wrong": patched(good, 35, ">q", NOW - 1000),
        "control batch": patched(good, 21, ">h", 32),
        "transactional without id": patched(good, 21, ">h", 16),
        "log append time bit": patched(good, 21, ">h", 8),
        "unknown compression": patched(good, 21, ">h", 5),
        "compression bits lie": patched(good, 21, ">h", 1),
        "unused attribute bits": patched(good, 21, ">h", 0x1000),
        "magic 0": message_set(0),
        "magic 1": message_set(1),
        "magic 3": patched(good, 16, ">b", 3),
        "magic negative": patched(good, 16, ">b", -1),
        "length short": patched(good, 8, ">i", 20, fix_crc=False),
        "length long": patched(good, 8, ">i", len(good), fix_crc=False),
        "length negative": patched(good, 8, ">i", -5, fix_crc=False),
        "truncated": good[:-3],
        "header only": good[:61],
        "less than a header": good[:30],
        "trailing bytes": good + b"\x00" * 5,
        "garbage": bytes(range(1, 120)),
        "too large": batch(1, value=b"x" * 1_100_000),
        "too large compressed": batch(1, value=b"x" * 1_100_000, compression=Compression.GZIP),
        "timestamp -1": batch(1, timestamp=-1),
        "epoch without sequence": patched(good, 43, ">q", 77),
        "bad record framing": patched(good, 61, ">b", 2),
    }
