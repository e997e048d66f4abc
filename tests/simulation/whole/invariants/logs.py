"""Reading logs on virtual disks, without the help of the node that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from odradek.base.errors import KafkaError
from odradek.records.batch import BatchHeader, check_crc, iter_headers
from odradek.testing.history.logs import LoggedBatch
from odradek.testing.simulation.disk import VirtualDisk


class LogCursor:
    """A place in a partition's directory, from which its batches are read on. What has been read must not change any more."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = ""
        self._position = 0
        self.offset = 0
        """Everything below has been read, or was not there."""

    def read(self, disk: VirtualDisk, up_to: int) -> Iterator[BatchHeader]:
        """The headers of the next batches, those that end at `up_to` at the latest."""
        return self._read(disk.peek, disk, lambda header: header.next_offset <= up_to)

    def pass_durable(self, disk: VirtualDisk, wanted: Callable[[BatchHeader], bool]) -> None:
        """Reads on over what no power cut can take, up to the first batch that is not wanted, or the hole that a failed fsync has left."""
        with suppress(KafkaError):
            for _ in self._read(disk.peek_durable, disk, wanted):
                pass

    def _read(
        self, peek: Callable[[str], bytes | bytearray | None], disk: VirtualDisk, wanted: Callable[[BatchHeader], bool]
    ) -> Iterator[BatchHeader]:
        names = [name for name in disk.peek_names(self._directory) if name.endswith(".log")]
        if self._name not in names:
            below = [name for name in names if _base_offset(name) <= self.offset]
            if not names:
                return
            self._name, self._position = (below or names)[-1 if below else 0], 0
            self.offset = max(self.offset, _base_offset(self._name))
        while True:
            data = peek(f"{self._directory}/{self._name}")
            if data is None:
                return
            # A copy: whoever holds a view of a file keeps it from growing.
            rest = bytes(memoryview(data)[self._position :])
            done = 0
            for position, header in iter_headers(rest):
                if position + header.size > len(rest) or not wanted(header):
                    break
                done = position + header.size
                if header.base_offset >= self.offset:
                    self.offset = header.next_offset
                    yield header
            self._position += done
            following = [name for name in names if name > self._name]
            if done < len(rest) or not following or _base_offset(following[0]) > self.offset:
                return
            self._name, self._position = following[0], 0


def _base_offset(name: str) -> int:
    return int(name.removesuffix(".log"))


def batches_in(disk: VirtualDisk, directory: str) -> Iterator[LoggedBatch]:
    """The whole batches in the files of a partition's directory."""
    for name in disk.peek_names(directory):
        data = bytes(disk.peek(f"{directory}/{name}") or b"") if name.endswith(".log") else b""
        for position, header in iter_headers(data):
            if position + header.size > len(data):
                break
            yield LoggedBatch(header, data[position : position + header.size], check_crc(data, position, header))
