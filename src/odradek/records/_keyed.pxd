# C types for _keyed.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _frames, _raw, _runs

cdef Py_ssize_t _HEADER
cdef Py_ssize_t _OFFSET
cdef Py_ssize_t _LONGEST
cdef Py_ssize_t _LEAST_KEY
cdef Py_ssize_t _MAX_BATCH
cdef int _END
cdef int _MORE
cdef int _OTHER
cdef int _BATCH
cdef int _MALFORMED

@cython.locals(byte="unsigned char")
cpdef bint is_compiled()

@cython.locals(size="Py_ssize_t", key="bytes", value="bytes")
cpdef Py_ssize_t total_size(records) except -1

@cython.locals(
    view="unsigned char[::1]", room="unsigned char*", key="bytes", value="bytes", size="Py_ssize_t", longest="Py_ssize_t",
    octets="const unsigned char*", source="const unsigned char*",
)
cpdef dict numbered(records, long long offset)

cdef class KeyedRun:
    cdef bytes _source
    cdef const unsigned char[::1] _view
    cdef unsigned char[::1] _room
    cdef long long _below
    cdef Py_ssize_t _least
    cdef int _highest
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end
    cdef long long _left
    cdef long long _base_offset
    cdef readonly Py_ssize_t batch_end
    cdef readonly long long next_offset
    cdef readonly long long count
    cdef readonly long long offset
    cdef readonly object key
    cdef readonly object value

    @cython.locals(
        data="const unsigned char*", octets="const unsigned char*", room="unsigned char*",
        position="Py_ssize_t", _="long long", delta="long long", key_at="Py_ssize_t", key_size="long long", value_at="Py_ssize_t",
        value_size="long long", number_at="Py_ssize_t", offset="long long", table="dict",
    )
    cpdef int put(self, dict tables, long long limit) except -1

    @cython.locals(position="Py_ssize_t", size="Py_ssize_t", count="long long", base_offset="long long", next_offset="long long")
    cdef bint _begin(self, const unsigned char* data) noexcept

    cpdef skip(self, Py_ssize_t position)
