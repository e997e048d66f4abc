"""What the compiled loops do with bare memory, as the interpreter does it with views.

The compiled loops take the twins of these functions from `_raw.pxd`: pointers, which cost no reference count, work without the GIL and
do not let the compiler fear that a byte written changes a buffer's descriptor. Whoever calls has proven that what is read and written
lies in the buffer.
"""

from __future__ import annotations


def octets(view: memoryview) -> memoryview:
    """The bytes of a buffer, for reading."""
    return view


def room(view: memoryview) -> memoryview:
    """The bytes of a buffer, for writing."""
    return view


def words(view: memoryview) -> memoryview:
    """The 64-bit words of a buffer, for reading and writing."""
    return view


def copy(target: memoryview, at: int, source: memoryview | bytes, start: int, size: int) -> None:
    """target[at : at + size] = source[start : start + size], which do not overlap."""
    target[at : at + size] = source[start : start + size]


def numbers(view: memoryview) -> memoryview:
    """The signed 64-bit numbers of a buffer, for reading and writing."""
    return view
