"""Python program with a shifted wall clock. A file contains the shift in seconds, and may change while the program runs.

    python -m tests.campaigns.shifted_clock FILE PROGRAM ARGUMENTS...

The file contains one double in the machine's byte order. The monotonic clock is not shifted.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time


def shift(path: str) -> None:
    """Shift `time.time` and `time.time_ns`. Call this function before modules are imported that import these functions by name."""
    with open(path, "rb") as file:
        seconds = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + float(struct.unpack("d", seconds)[0])
    time.time_ns = lambda: right_ns() + int(struct.unpack("d", seconds)[0] * 1e9)


if __name__ == "__main__":
    shift(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
