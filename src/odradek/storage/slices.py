"""Slices of segments that are sent to a socket."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.disk import File
from odradek.base.errors import StorageError


class Pin:
    """Count of the readers of an open file; the file is closed when it is retired and its last reader is done."""

    __slots__ = ("_on_free", "_readers", "_retired")

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._readers = 0
        self._retired = False
        self._on_free = on_free

    def take(self) -> None:
        self._readers += 1

    def drop(self) -> None:
        self._readers -= 1
        if self._retired and self._readers == 0:
            self._on_free()

    def retire(self) -> None:
        """Close the file now, or when its last reader is done."""
        if not self._retired:
            self._retired = True
            if self._readers == 0:
                self._on_free()

    @property
    def readers(self) -> int:
        return self._readers


class FileSlice:
    """`size` bytes of a segment from `position` on. Pins the segment until `release`, which may be called twice.

    `read` may run in any thread; creation and release belong to the loop's thread.
    """

    __slots__ = ("_pin", "file", "position", "size")

    def __init__(self, file: File, position: int, size: int, pin: Pin) -> None:
        self.file = file
        self.position = position
        self.size = size
        self._pin: Pin | None = pin
        pin.take()

    def __len__(self) -> int:
        return self.size

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` within the slice.

        Raises StorageError when the log was truncated there since, OSError from the disk.
        """
        data = self.file.pread(size, self.position + offset)
        if len(data) != size:
            raise self._cut_away()
        return data

    def read_cached(self, offset: int, size: int) -> bytes | bytearray | None:
        """Read as `read` does, but return None when the bytes are not in the page cache: then `read` belongs in an executor."""
        data = self.file.pread_cached(size, self.position + offset)
        if data is not None and len(data) != size:
            raise self._cut_away()
        return data

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        """Send bytes as `File.send_cached` does. Raises StorageError when the log was truncated there since."""
        try:
            return self.file.send_cached(socket, self.position + offset, size)
        except EOFError:
            raise self._cut_away() from None

    def _cut_away(self) -> StorageError:
        return StorageError(f"{self.file.path} was truncated below {self.position + self.size} while it was being read")

    def release(self) -> None:
        pin, self._pin = self._pin, None
        if pin is not None:
            pin.drop()
