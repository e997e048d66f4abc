"""Messages between a test and a broker in a process of its own: pickled values, each after its size, on a socket between the two."""

from __future__ import annotations

import pickle
import struct
from typing import Any, Final

_SIZE: Final = struct.Struct(">I")


def packed(value: object) -> bytes:
    """The bytes of a message."""
    data = pickle.dumps(value)
    return _SIZE.pack(len(data)) + data


def packed_error(error: BaseException) -> BaseException:
    """The error, or one that says the same, where it cannot be sent as it is."""
    try:
        if isinstance(pickle.loads(pickle.dumps(error)), type(error)):
            return error
    except Exception:
        pass
    from odradek.testing.node_agent import TestingError

    return TestingError(f"{type(error).__name__}: {error}")


class Unpacker:
    """Puts messages together again."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that these bytes complete."""
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
