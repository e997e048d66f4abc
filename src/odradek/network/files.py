"""Files that configurations name: stores, keytabs, sets of keys. The author of a configuration may be another person than the node's
operator.
"""

from __future__ import annotations

import os
import stat

_LARGEST = 16 << 20


def read_file(path: str, largest: int = _LARGEST) -> bytes:
    """Return the content of a regular file of at most `largest` bytes.

    Raises OSError for a larger file, and for a pipe or device, which would block for good or never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file", path)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    finally:
        os.close(descriptor)
    if len(content) > largest:
        raise OSError(0, f"it has more than {largest} bytes", path)
    return content
