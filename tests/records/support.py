"""Records as text, and messages of old formats."""

from __future__ import annotations

import struct
import zlib

from odradek.records.batch import (
    Record,
)

from .strategies import RawRecord


def octets(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def text(records: list[RawRecord] | list[Record], fields: slice) -> str:
    """Records in the oracle's spelling."""
    lines = []
    for record in records:
        *numbers, key, value, headers = record[fields]
        pairs = [f"{name.encode().hex()}={octets(content)}" for name, content in headers]  # type: ignore[union-attr]
        lines.append(",".join([*map(str, numbers), octets(key), octets(value), *pairs]))  # type: ignore[arg-type]
    return ";".join(lines)


def message(offset: int, magic: int, value: bytes | None, *, attributes: int = 0, timestamp: int = 7, key: bytes | None = None) -> bytes:
    def sized(octets: bytes | None) -> bytes:
        return struct.pack(">i", -1) if octets is None else struct.pack(">i", len(octets)) + octets

    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + sized(key) + sized(value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
