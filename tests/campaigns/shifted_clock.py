"""Runs a Python program with a wall clock that is off by as many seconds as stand in a file, also when they change.

    python -m tests.campaigns.shifted_clock FILE PROGRAM ARGUMENTS...

The file holds one double in the machine's byte order. The monotonic clock is as it is.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time


def shift(path: str) -> None:
    """From now on `time.time` and `time.time_ns` are off; before the modules are imported that take them over by name."""
    with open(path, "rb") as file:
        seconds = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + float(struct.unpack("d", seconds)[0])
    time.time_ns = lambda: right_ns() + int(struct.unpack("d", seconds)[0] * 1e9)


if __name__ == "__main__":
    shift(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
