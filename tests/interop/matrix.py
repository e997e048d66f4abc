"""What every client must carry to the broker and back unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from odradek.records.batch import iter_headers
from odradek.records.compression import Compression

CODECS = {
    "none": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class Sample(NamedTuple):
    """A record as a client sends it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


SAMPLES = (
    Sample(b"key", b"v"),
    Sample(None, b"value without a key"),
    Sample(b"tombstone", None),
    Sample(b"", b""),
    Sample(b"headers", b"value", (("one", b"1"), ("empty", b""), ("one", b"again"), ("\N{SNOWMAN}", bytes(range(256))))),
    Sample(b"k" * 1000, b"v" * 100_000),
    Sample(b"big", b"0123456789abcdef" * (5 * 1024 * 1024 // 16)),
)


def codecs_on_disk(folder: Path) -> set[Compression]:
    """The compression of every batch in the partition's segments."""
    found = set()
    for segment in sorted(folder.glob("*.log")):
        for _, header in iter_headers(segment.read_bytes()):
            found.add(Compression(header.compression))
    return found
