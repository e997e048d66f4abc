# C types for _writer.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _checksum, _frames, _raw

cdef unsigned long long _MASK64
cdef long long _MAX64
cdef long long _MIN64
cdef Py_ssize_t _HEADER
cdef Py_ssize_t _LENGTH_ENDS
cdef Py_ssize_t _CRC_ENDS

@cython.locals(byte="unsigned char")
cpdef bint is_compiled()

cdef unsigned long long zigzag(long long value) noexcept nogil

@cython.locals(size="int")
cdef int varint_size(unsigned long long value) noexcept nogil

cdef Py_ssize_t put_varint(unsigned char* room, Py_ssize_t position, unsigned long long value) noexcept nogil

@cython.locals(size="Py_ssize_t", octets="const unsigned char*")
cdef Py_ssize_t _put_bytes(unsigned char* room, Py_ssize_t position, bytes source) except -1

@cython.locals(buffer="bytearray", view="unsigned char[::1]")
cdef bytes _varint_bytes(long long value)

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
        position="Py_ssize_t", room="unsigned char*",
    )
    cpdef bint append(self, long long timestamp, key, value, headers=*) except -1

    cpdef bint append_all(self, long long timestamp, records) except -1

    @cython.locals(timestamp="long long")
    cpdef bint append_records(self, records) except -1

    @cython.locals(
        key_bit="Py_ssize_t", value_bit="Py_ssize_t", bit="Py_ssize_t", key_size="Py_ssize_t", value_size="Py_ssize_t", key_at="Py_ssize_t",
        value_at="Py_ssize_t", timestamp="long long", key_data="const unsigned char*", value_data="const unsigned char*",
        position="Py_ssize_t", room="unsigned char*",
    )
    cpdef Py_ssize_t append_rows(
        self, Py_ssize_t row, Py_ssize_t rows, const long long[::1] timestamps, long long default_timestamp,
        const int[::1] key_offsets, const unsigned char[::1] keys, const unsigned char[::1] key_validity,
        const int[::1] value_offsets, const unsigned char[::1] values, const unsigned char[::1] value_validity, tuple bit_offsets
    ) except -1

    @cython.locals(
        base_timestamp="long long", difference="long long", delta="unsigned long long", offset_delta="unsigned long long", body="Py_ssize_t",
        need="Py_ssize_t", position="Py_ssize_t", room="unsigned char*",
    )
    cdef Py_ssize_t _begin(self, long long timestamp, Py_ssize_t key_size, Py_ssize_t value_size, Py_ssize_t headers_size) except -2

    @cython.locals(size="Py_ssize_t", grown="bytearray")
    cdef int _grow(self, Py_ssize_t need) except -1

    cpdef bytes seal(
        self, long long base_offset, long long leader_epoch, long long attributes, long long producer_id, long long producer_epoch,
        long long base_sequence
    )

    cpdef object seal_in_place(
        self, long long base_offset, long long leader_epoch, long long attributes, long long producer_id, long long producer_epoch,
        long long base_sequence
    )

    cpdef object body(self)

    @cython.locals(end="Py_ssize_t", count="long long", last="long long", room="unsigned char*", octets="const unsigned char*")
    cdef int _put_header(
        self, long long base_offset, long long leader_epoch, long long attributes, long long producer_id, long long producer_epoch,
        long long base_sequence
    ) except -1
