"""Messages between a test and a broker in a separate process: pickled values on a socket, each after its size in 4 bytes."""

from __future__ import annotations

import pickle
import struct
from typing import Any, Final

_SIZE: Final = struct.Struct(">I")


def packed(value: object) -> bytes:
    """Return the bytes of a message."""
    data = pickle.dumps(value)
    return _SIZE.pack(len(data)) + data


def packed_error(error: BaseException) -> BaseException:
    """Return the error, or a TestingError with the same text when the error cannot be pickled."""
    try:
        if isinstance(pickle.loads(pickle.dumps(error)), type(error)):
            return error
    except Exception:
        pass
    from odradek.testing.kit.node_agent import TestingError

    return TestingError(f"{type(error).__name__}: {error}")


class Unpacker:
    """Decoder of a stream of messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Add received bytes, and return the messages that are complete now."""
        pending = self._pending
        pending += data
        found: list[Any] = []
        while len(pending) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(pending)
            if len(pending) < _SIZE.size + size:
                break
            found.append(pickle.loads(bytes(pending[_SIZE.size : _SIZE.size + size])))
            del pending[: _SIZE.size + size]
        return found
