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
    contiguous="bint", producers="bint", count="long long", left="Py_ssize_t", length="long long", magic="unsigned char",
    base_offset="long long", delta="long long", last_offset="long long", records="long long", producer_id="long long",
)
cdef (long long, Py_ssize_t, int, long long, long long, bint, bint) _scan(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long most, long long* columns, bint check_crcs,
    long long next_offset
) noexcept nogil
