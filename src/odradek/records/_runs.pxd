# C types for _runs.py (Cython's augmenting .pxd). Every name here stands in the .py too; the .py is complete without this file.

cimport cython

from odradek.records cimport _checksum, _compaction, _frames, _raw

cdef long long _MAX64
cdef long long _MAX_RELATIVE_OFFSET
cdef Py_ssize_t _HEADER

cpdef bint is_compiled()

@cython.locals(byte="unsigned char")
cdef bint _probe() noexcept

@cython.locals(size="Py_ssize_t", base_offset="long long", delta="long long")
cdef Py_ssize_t _plain(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t limit) noexcept nogil

cdef Py_ssize_t plain(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t limit) noexcept nogil

@cython.locals(data="const unsigned char*", keys="long long")
cpdef Py_ssize_t index_run(
    _compaction.OffsetTable table, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end, Py_ssize_t limit,
    long long start_offset
) except -1

@cython.locals(size="Py_ssize_t", count="long long", base_offset="long long", most="long long", last_offset="long long")
cdef (Py_ssize_t, long long) _index(
    _compaction.OffsetTable table, const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Py_ssize_t limit,
    long long start_offset
) noexcept nogil

cdef class RunFilter:
    cdef _compaction.OffsetTable _table
    cdef Py_ssize_t _limit
    cdef long long _now_ms
    cdef long long _horizon
    cdef const long long[::1] _held
    cdef unsigned char[::1] _flags
    cdef unsigned char[::1] _scratch
    cdef long long[::1] _marks
    cdef public long long base_offset
    cdef public long long interval
    cdef public long long since_entry
    cdef public long long max_timestamp
    cdef public long long max_timestamp_offset
    cdef readonly long long first_timestamp
    cdef readonly long long records_read
    cdef readonly long long records_kept
    cdef readonly long long entries
    cdef readonly Py_ssize_t copied
    cdef readonly Py_ssize_t tail

    @cython.locals(data="const unsigned char*")
    cpdef Py_ssize_t run(self, const unsigned char[::1] view, Py_ssize_t position, Py_ssize_t end) except -1

    @cython.locals(size="Py_ssize_t")
    cdef Py_ssize_t _run(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil

    @cython.locals(
        count="long long", base_offset="long long", base_timestamp="long long", has_horizon="bint", mode="int", status="int",
        read="long long", kept="long long", kept_bytes="long long", tombstones="long long", first_delta="long long",
        max_delta="long long", last_offset="long long",
    )
    cdef bint _filter(self, const unsigned char* data, Py_ssize_t position, Py_ssize_t size) noexcept nogil

    @cython.locals(low="Py_ssize_t", high="Py_ssize_t", middle="Py_ssize_t")
    cdef bint _is_held(self, long long offset) noexcept nogil

    cdef void _move(self, const unsigned char* data, Py_ssize_t position) noexcept nogil

    @cython.locals(entry="bint", at="Py_ssize_t")
    cdef bint _note(self, long long last_offset, long long timestamp, Py_ssize_t size, Py_ssize_t position) noexcept nogil

    @cython.locals(
        room="unsigned char*", at="Py_ssize_t", before="long long", max_timestamp="long long", fixed="bint", base_timestamp="long long",
        shift="long long", count="long long", end="Py_ssize_t",
    )
    cdef bint _rewrite(
        self, const unsigned char* data, Py_ssize_t position, Py_ssize_t size, long long last_offset, long long kept_bytes, long long kept,
        long long first_delta, long long max_delta, bint horizon
    ) noexcept nogil
