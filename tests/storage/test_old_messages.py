"""Messages of magic 0 and 1 in a segment written long ago."""

from __future__ import annotations

import struct
import zlib

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import iter_headers
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import DIRECTORY, NOW_MS, batch, open_log, read_all, read_bytes, topic_config

CONFIG = topic_config(index_interval_bytes=60)


def message(offset: int, magic: int, value: bytes = b"v", timestamp: int = NOW_MS) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"") + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def old_disk(*pieces: bytes) -> VirtualDisk:
    disk = VirtualDisk()
    disk.makedirs(DIRECTORY)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log", create=True)
    file.pwritev(pieces, 0)
    file.fsync()
    return disk


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("last", [b"", b"v"])
def test_they_are_recovered_and_read(clean: bool, last: bytes) -> None:
    """Even the shortest one at the end, which has fewer bytes than the header of a batch."""
    disk = old_disk(*(message(offset, offset // 4, timestamp=NOW_MS + offset) for offset in range(7)), message(7, 0, last))
    log = open_log(disk, ManualClock(), CONFIG, clean=clean)
    assert (log.log_end_offset, log.latest_epoch) == (8, -1)
    assert [record.offset for record in read_all(log)] == list(range(8))
    assert [header.magic for _, header in iter_headers(read_bytes(log, 3))] == [0, 1, 1, 1, 0]
    assert read_bytes(log, 2, max_offset=5) == message(2, 0) + message(3, 0) + message(4, 1, timestamp=NOW_MS + 4)
    found = log.offset_for_timestamp(NOW_MS + 5)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (5, NOW_MS + 5, -1)
    log.append_as_leader(batch(2), 1)
    assert [record.offset for record in read_all(log)] == list(range(10))
    assert log.truncate_to(6)
    assert [record.offset for record in read_all(open_log(disk.kill(), ManualClock(), CONFIG))] == list(range(6))


def test_a_damaged_one_ends_the_log() -> None:
    third = bytearray(message(2, 1))
    third[-1] ^= 1
    log = open_log(old_disk(message(0, 0), message(1, 1), bytes(third), message(3, 1)), ManualClock(), CONFIG)
    assert (log.log_end_offset, len(read_all(log))) == (2, 2)


def test_an_unknown_magic_is_no_message() -> None:
    log = open_log(old_disk(message(0, 0), message(1, 1)), ManualClock(), CONFIG)
    log.active.file.pwritev([b"\x03"], 16)
    with pytest.raises(KafkaError) as caught:
        read_bytes(log, 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
