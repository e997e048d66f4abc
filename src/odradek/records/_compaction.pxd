# C types for _compaction.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _frames, _raw, _writer

cdef unsigned long long _MASK64
cdef unsigned long long _SIP_0
cdef unsigned long long _SIP_1
cdef unsigned long long _SIP_2
cdef unsigned long long _SIP_3
cdef long long _MAX64
cdef long long _MIN64

@cython.locals(byte="unsigned char")
cpdef bint is_compiled()

@cython.locals(byte="unsigned char")
cdef bint _probe() noexcept

@cython.locals(low="unsigned long long", high="unsigned long long")
cdef unsigned long long _word(const unsigned char* data, Py_ssize_t at) noexcept nogil

cdef (unsigned long long, unsigned long long, unsigned long long, unsigned long long) _round(
    unsigned long long v0, unsigned long long v1, unsigned long long v2, unsigned long long v3
) noexcept nogil

@cython.locals(
    v0="unsigned long long", v1="unsigned long long", v2="unsigned long long", v3="unsigned long long", word="unsigned long long",
    byte="unsigned long long", low="unsigned long long", index="Py_ssize_t", end="Py_ssize_t",
)
cdef (unsigned long long, unsigned long long) _siphash(
    unsigned long long k0, unsigned long long k1, const unsigned char* data, Py_ssize_t at, Py_ssize_t size
) noexcept nogil

@cython.locals(
    view="const unsigned char[::1]", k0="unsigned long long", k1="unsigned long long", low="unsigned long long", high="unsigned long long",
)
cpdef tuple siphash(tuple key, bytes source)

@cython.locals(slot="unsigned long long", at="Py_ssize_t")
cdef Py_ssize_t _find(
    const unsigned long long* words, unsigned long long slots, unsigned long long low, unsigned long long high
) noexcept nogil

cdef class OffsetTable:
    cdef readonly long long capacity
    cdef readonly long long size
    cdef public long long latest_offset
    cdef unsigned long long _most
    cdef unsigned long long _slots
    cdef unsigned long long _k0
    cdef unsigned long long _k1
    cdef unsigned long long[::1] _view

    @cython.locals(slots="unsigned long long")
    cpdef clear(self)

    @cython.locals(need="unsigned long long")
    cpdef room_for(self, long long keys)

    @cython.locals(need="unsigned long long")
    cdef bint has_room(self, long long keys) noexcept nogil

    cdef int put_records(
        self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset,
        long long start_offset
    ) noexcept nogil

    @cython.locals(
        slots="unsigned long long", view="unsigned long long[::1]", before="unsigned long long*", after="unsigned long long*"
    )
    cdef _grow(self)

    @cython.locals(view="const unsigned char[::1]", data="const unsigned char*")
    cpdef bint put(self, bytes key, long long offset) except -1

    @cython.locals(view="const unsigned char[::1]", data="const unsigned char*")
    cpdef long long get(self, bytes key) except -2

    @cython.locals(low="unsigned long long", high="unsigned long long", slot="Py_ssize_t")
    cdef void _put(
        self, unsigned long long* words, const unsigned char* data, Py_ssize_t at, Py_ssize_t size, long long offset
    ) noexcept nogil

    @cython.locals(low="unsigned long long", high="unsigned long long")
    cdef long long _get(self, const unsigned long long* words, const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil

    @cython.locals(data="const unsigned char*", status="int")
    cpdef int index(
        self, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset,
        long long start_offset
    ) except -1

    @cython.locals(
        index="long long", offset_delta="long long", key_at="Py_ssize_t", key_size="long long", offset="long long", _="long long",
    )
    cdef int _index(
        self, unsigned long long* words, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count,
        long long base_offset, long long start_offset
    ) noexcept nogil

    @cython.locals(
        words="unsigned long long*", latest_offset="long long", kept="long long", kept_bytes="long long", tombstones="long long",
        first_delta="long long", max_delta="long long", index="long long", start="Py_ssize_t", delta="long long", offset_delta="long long",
        key_at="Py_ssize_t", key_size="long long", value_size="long long", keep="bint", offset="long long", _="long long",
    )
    cdef (int, long long, long long, long long, long long, long long, long long) choose(
        self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, int mode,
        unsigned char* flags
    ) noexcept nogil

cdef unsigned long long[::1] _allocate(unsigned long long slots)

@cython.locals(at="unsigned long long", to="Py_ssize_t")
cdef void _move(
    const unsigned long long* before, unsigned long long slots_before, unsigned long long* after, unsigned long long slots
) noexcept nogil

@cython.locals(
    data="const unsigned char*", room="unsigned char*", status="int", read="long long", kept="long long", kept_bytes="long long",
    tombstones="long long", first_delta="long long", max_delta="long long",
)
cpdef tuple retain(
    OffsetTable table, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, long long base_offset, int mode,
    unsigned char[::1] flags
)

@cython.locals(data="const unsigned char*", room="unsigned char*", chosen="unsigned char*", most="Py_ssize_t")
cpdef Py_ssize_t rewrite(
    const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, long long count, unsigned char[::1] flags,
    unsigned char[::1] output, Py_ssize_t at, long long shift, bint fixed
) except -2

@cython.locals(
    index="long long", run="Py_ssize_t", start="Py_ssize_t", body="long long", head="Py_ssize_t", delta="long long", rest="Py_ssize_t",
    wanted="long long", zigzag="unsigned long long",
)
cdef Py_ssize_t put_kept(
    const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count, const unsigned char* flags, unsigned char* room,
    Py_ssize_t at, Py_ssize_t most, long long shift, bint fixed
) noexcept nogil
