# C types for _codec.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

cdef unsigned long long _MASK32
cdef unsigned long long _MASK64
cdef long long _MAX64
cdef long long _MIN64
cdef long long _MAX_MICROSECONDS_AS_MS
cdef long long _MIN_MICROSECONDS_AS_MS

@cython.locals(byte="unsigned char")
cdef bint _probe() noexcept

cpdef bint is_compiled()

cdef long long _wrap64(long long value) noexcept

@cython.locals(byte="unsigned long long", value="unsigned long long", shift="int")
cdef (long long, Py_ssize_t) _varint(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(byte="unsigned long long", value="unsigned long long", shift="int")
cdef (long long, Py_ssize_t) _varlong(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(
    body="long long", timestamp_delta="long long", offset_delta="long long", key_size="long long", key_at="Py_ssize_t",
    value_size="long long", value_at="Py_ssize_t", header_count="long long", headers_at="Py_ssize_t",
)
cdef (Py_ssize_t, long long, long long, Py_ssize_t, long long, Py_ssize_t, long long, Py_ssize_t, long long) _parse(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end
) noexcept

@cython.locals(index="long long", size="long long")
cdef Py_ssize_t _skip_headers(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count) noexcept

@cython.locals(
    max_timestamp="long long", min_timestamp="long long", in_order="bint", null_keys="long long", index="long long",
    delta="long long", offset_delta="long long", key_size="long long", timestamp="long long", _="long long",
)
cpdef tuple walk(const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_timestamp)

@cython.locals(
    view="const unsigned char[::1]", index="long long", delta="long long", offset_delta="long long", key_size="long long",
    timestamp="long long", _="long long", output="list",
)
cpdef list frames(bytes source, Py_ssize_t position, Py_ssize_t end, long long count, long long base_timestamp)

@cython.locals(octets="const unsigned char*", index="long long", size="long long", output="list", key="unicode")
cdef tuple _read_headers(bytes source, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count)

@cython.locals(
    view="const unsigned char[::1]", octets="const unsigned char*", fixed="bint", index="long long", delta="long long",
    offset_delta="long long", key_at="Py_ssize_t", key_size="long long", value_at="Py_ssize_t", value_size="long long",
    headers_at="Py_ssize_t", header_count="long long", timestamp="long long", offset="long long",
)
cpdef int decode(
    bytes source, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, long long base_timestamp,
    append_timestamp, record_class, list output
) except -1

cdef unsigned long long _zigzag(long long value) noexcept

@cython.locals(size="int")
cdef int _varint_size(unsigned long long value) noexcept

cdef Py_ssize_t _put_varint(unsigned char[::1] view, Py_ssize_t position, unsigned long long value) noexcept

@cython.locals(index="Py_ssize_t", to="unsigned char*", of="const unsigned char*")
cdef int _copy(unsigned char[::1] target, Py_ssize_t at, const unsigned char[::1] source, Py_ssize_t start, Py_ssize_t size) except -1

@cython.locals(index="Py_ssize_t", size="Py_ssize_t", octets="const unsigned char*", to="unsigned char*")
cdef Py_ssize_t _put_bytes(unsigned char[::1] view, Py_ssize_t position, bytes source) except -1

cdef bytes _encode_headers(headers)

cdef class RecordWriter:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t reserve
    cdef readonly Py_ssize_t position
    cdef readonly long long count
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef bytearray _buffer
    cdef unsigned char[::1] _view

    @cython.locals(
        key_octets="bytes", value_octets="bytes", encoded_headers="bytes", key_size="Py_ssize_t", value_size="Py_ssize_t",
        position="Py_ssize_t", view="unsigned char[::1]",
    )
    cpdef bint append(self, long long timestamp, key, value, headers=*) except -1

    @cython.locals(
        key_bit="Py_ssize_t", value_bit="Py_ssize_t", bit="Py_ssize_t", key_size="Py_ssize_t", value_size="Py_ssize_t", key_at="Py_ssize_t",
        value_at="Py_ssize_t", timestamp="long long", position="Py_ssize_t", view="unsigned char[::1]",
    )
    cpdef Py_ssize_t append_rows(
        self, Py_ssize_t row, Py_ssize_t rows, const long long[::1] timestamps, long long default_timestamp,
        const int[::1] key_offsets, const unsigned char[::1] keys, const unsigned char[::1] key_validity,
        const int[::1] value_offsets, const unsigned char[::1] values, const unsigned char[::1] value_validity, tuple bit_offsets
    ) except -1

    @cython.locals(
        base_timestamp="long long", difference="long long", delta="unsigned long long", offset_delta="unsigned long long", body="Py_ssize_t",
        need="Py_ssize_t", position="Py_ssize_t", view="unsigned char[::1]",
    )
    cdef Py_ssize_t _begin(self, long long timestamp, Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t headers_size) except -2

    @cython.locals(size="Py_ssize_t", grown="bytearray")
    cdef int _grow(self, Py_ssize_t need) except -1

    cpdef bytearray take(self)

@cython.locals(
    rows="long long", key_bytes="long long", value_bytes="long long", headers="long long", header_key_bytes="long long",
    header_value_bytes="long long", index="long long", offset_delta="long long", key_size="long long", value_size="long long",
    headers_at="Py_ssize_t", header_count="long long", offset="long long", size="long long", _="long long",
)
cpdef tuple measure(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, long long min_offset,
    long long max_offset, bint with_headers
)

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
        offsets="long long[::1]", timestamps="long long[::1]", types="int[::1]", keys="unsigned char[::1]", values="unsigned char[::1]",
        key_ends="int[::1]", value_ends="int[::1]", key_validity="unsigned char[::1]", value_validity="unsigned char[::1]",
        row="Py_ssize_t", key_at="Py_ssize_t", value_at="Py_ssize_t", kind="int", index="long long", delta="long long",
        offset_delta="long long", key_start="Py_ssize_t", key_size="long long", value_start="Py_ssize_t", value_size="long long",
        headers_at="Py_ssize_t", header_count="long long", offset="long long", timestamp="long long",
    )
    cpdef int fill(
        self, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset,
        long long base_timestamp, bint log_append_time, long long min_offset, long long max_offset
    ) except -1

    @cython.locals(
        ends="int[::1]", value_ends="int[::1]", validity="unsigned char[::1]", at="Py_ssize_t", size="long long",
    )
    cdef int _fill_headers(self, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, Py_ssize_t row) except -1
