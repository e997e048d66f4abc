# C types for _produce.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _raw

cdef unsigned int _SEED
cdef unsigned int _M
cdef unsigned int _MASK
cdef long long _NS_PER_MS
cdef Py_ssize_t _OVERHEAD

@cython.locals(byte="unsigned char")
cpdef bint is_compiled()

@cython.locals(octets="const unsigned char*", length="Py_ssize_t", position="Py_ssize_t", h="unsigned int", k="unsigned int")
cpdef long long murmur2(bytes data) except? -1

cdef class Ticket:
    cdef public object _batch
    cdef public Py_ssize_t _first
    cdef public long long _timestamp
    cdef public Py_ssize_t _record_count

cdef class Gatherer:
    cdef readonly object batch
    cdef readonly list records
    cdef public Py_ssize_t room
    cdef public bint closed
    cdef object _ticket_class
    cdef object _time_ns

    @cython.locals(size="Py_ssize_t", records="list", record="tuple", stamp="long long")
    cpdef take(self, key, value, timestamp=*)

cdef void _fill(Ticket ticket, object batch, Py_ssize_t first, long long timestamp) noexcept
