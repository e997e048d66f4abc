# C types for _scan.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _checksum, _frames, _raw

cdef long long _MAX64
cdef long long _MIN64

cpdef bint is_compiled()

@cython.locals(byte="unsigned char")
cdef bint _probe() noexcept

@cython.locals(view="const unsigned char[::1]")
cpdef long long crc32c(bytes source) except -1

@cython.locals(
    data="const unsigned char*", output="long long*", count="long long", reason="int", needed="long long", contiguous="bint",
    producers="bint",
)
cpdef tuple scan(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long most, long long[::1] columns, bint check_crcs,
    long long next_offset
)

@cython.locals(
    place="long long*", size="long long*", last="long long*", newest="long long*", to_offsets="unsigned char*", to_times="unsigned char*",
    offset_entries="Py_ssize_t", time_entries="Py_ssize_t", last_time_offset="long long", index="Py_ssize_t", count="Py_ssize_t",
)
cpdef tuple index_entries(
    long long[::1] positions, long long[::1] sizes, long long[::1] last_offsets, long long[::1] max_timestamps, long long begin,
    long long base_offset, long long interval, unsigned char[::1] offsets, unsigned char[::1] times, long long largest,
    long long largest_offset, long long since, long long last_time
)

@cython.locals(
    contiguous="bint", producers="bint", count="long long", left="Py_ssize_t", length="long long", magic="unsigned char",
    base_offset="long long", delta="long long", last_offset="long long", records="long long", producer_id="long long",
)
cdef (long long, Py_ssize_t, int, long long, long long, bint, bint) _scan(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long most, long long* columns, bint check_crcs,
    long long next_offset
) noexcept nogil
