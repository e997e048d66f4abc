# C types for _frames.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _raw

cdef unsigned long long _MASK32
cdef unsigned long long _MASK64
cdef long long _MAX64
cdef long long _MIN64

@cython.locals(byte="unsigned char")
cdef bint probe() noexcept

cpdef bint is_compiled()

cdef long long wrap64(long long value) noexcept nogil

@cython.locals(byte="unsigned long long", value="unsigned long long", shift="int")
cdef inline (long long, Py_ssize_t) _varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(byte="unsigned long long", value="unsigned long long", shift="int")
cdef inline (long long, Py_ssize_t) _varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

@cython.locals(
    body="long long", timestamp_delta="long long", offset_delta="long long", key_size="long long", key_at="Py_ssize_t",
    value_size="long long", value_at="Py_ssize_t", header_count="long long", headers_at="Py_ssize_t",
)
cdef inline (Py_ssize_t, long long, long long, Py_ssize_t, long long, Py_ssize_t, long long, Py_ssize_t, long long) _parse(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end
) noexcept nogil

cdef (long long, Py_ssize_t) varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

cdef (long long, Py_ssize_t) varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

cdef (Py_ssize_t, long long, long long, Py_ssize_t, long long, Py_ssize_t, long long, Py_ssize_t, long long) parse(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end
) noexcept nogil

@cython.locals(index="long long", size="long long")
cdef Py_ssize_t _skip_headers(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept nogil

@cython.locals(
    data="const unsigned char*", max_timestamp="long long", min_timestamp="long long", in_order="bint", null_keys="long long", index="long long",
    delta="long long", offset_delta="long long", key_size="long long", timestamp="long long", _="long long",
)
cpdef tuple walk(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_timestamp)

@cython.locals(
    view="const unsigned char[::1]", data="const unsigned char*", index="long long", delta="long long", offset_delta="long long", key_size="long long",
    timestamp="long long", _="long long", output="list",
)
cpdef list frames(bytes source, Py_ssize_t position, Py_ssize_t end, long long count, long long base_timestamp)

@cython.locals(octets="const unsigned char*", index="long long", size="long long", output="list", key="unicode")
cdef tuple _read_headers(bytes source, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count)

@cython.locals(
    view="const unsigned char[::1]", data="const unsigned char*", octets="const unsigned char*", fixed="bint", index="long long", delta="long long",
    offset_delta="long long", key_at="Py_ssize_t", key_size="long long", value_at="Py_ssize_t", value_size="long long",
    headers_at="Py_ssize_t", header_count="long long", timestamp="long long", offset="long long",
)
cpdef int decode(
    bytes source, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, long long base_timestamp,
    append_timestamp, record_class, list output, tuple place=*, long long least=*
) except -1
