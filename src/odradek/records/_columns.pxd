# C types for _columns.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _frames, _raw

cdef long long _MAX64
cdef long long _MIN64
cdef long long _MAX_MICROSECONDS_AS_MS
cdef long long _MIN_MICROSECONDS_AS_MS

@cython.locals(byte="unsigned char")
cpdef bint is_compiled()

@cython.locals(
    data="const unsigned char*", rows="long long", key_bytes="long long", value_bytes="long long", headers="long long", header_key_bytes="long long",
    header_value_bytes="long long", index="long long", offset_delta="long long", key_size="long long", value_size="long long",
    headers_at="Py_ssize_t", header_count="long long", offset="long long", size="long long", _="long long",
)
cpdef tuple measure(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, long long min_offset,
    long long max_offset, bint with_headers
)

cdef inline long long _microseconds(long long timestamp) noexcept nogil

cdef class Columns:
    cdef readonly long long rows
    cdef readonly long long key_nulls
    cdef readonly long long value_nulls
    cdef readonly long long headers
    cdef readonly long long header_nulls
    cdef readonly list buffers
    cdef Py_ssize_t _key_at
    cdef Py_ssize_t _value_at
    cdef Py_ssize_t _header_key_at
    cdef Py_ssize_t _header_value_at
    cdef bint _with_headers
    cdef long long _capacity
    cdef long long _header_capacity
    cdef unsigned char[::1] _key_validity
    cdef int[::1] _key_ends
    cdef unsigned char[::1] _keys
    cdef unsigned char[::1] _value_validity
    cdef int[::1] _value_ends
    cdef unsigned char[::1] _values
    cdef long long[::1] _offsets
    cdef long long[::1] _timestamps
    cdef int[::1] _types
    cdef int[::1] _list_ends
    cdef int[::1] _header_key_ends
    cdef unsigned char[::1] _header_keys
    cdef unsigned char[::1] _header_validity
    cdef int[::1] _header_value_ends
    cdef unsigned char[::1] _header_values

    @cython.locals(
        data="const unsigned char*", offsets="long long[::1]", timestamps="long long[::1]", types="int[::1]", keys="unsigned char[::1]", values="unsigned char[::1]",
        key_ends="int[::1]", value_ends="int[::1]", key_validity="unsigned char[::1]", value_validity="unsigned char[::1]",
        row="Py_ssize_t", key_at="Py_ssize_t", value_at="Py_ssize_t", kind="int", index="long long", delta="long long",
        offset_delta="long long", key_start="Py_ssize_t", key_size="long long", value_start="Py_ssize_t", value_size="long long",
        headers_at="Py_ssize_t", header_count="long long", offset="long long",
    )
    cpdef int fill(
        self, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset,
        long long base_timestamp, bint log_append_time, long long min_offset, long long max_offset
    ) except -1

    @cython.locals(
        ends="int[::1]", value_ends="int[::1]", validity="unsigned char[::1]", at="Py_ssize_t", size="long long",
    )
    cdef int _fill_headers(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count, Py_ssize_t row) except -1
