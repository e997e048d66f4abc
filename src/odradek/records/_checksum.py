"""CRC-32C for the loops that check many batches: the library's, as in `crc32c`.

The compiled loops take the function from `_checksum.pxd` instead, which needs no Python object and no GIL.
"""

from __future__ import annotations

from odradek.records.crc32c import crc32c


def prepare() -> None:
    """Set up the tables of the compiled twin; call before `checksum`."""


def checksum(data: memoryview, at: int, size: int) -> int:
    """Return the CRC-32C of data[at : at + size]."""
    return crc32c(data[at : at + size])
