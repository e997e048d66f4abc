# The compiled twins of _raw.py.

from libc.string cimport memcpy

cdef inline const unsigned char* octets(const unsigned char[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL

cdef inline unsigned char* room(unsigned char[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL

cdef inline unsigned long long* words(unsigned long long[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL

cdef inline void copy(
    unsigned char* target, Py_ssize_t at, const unsigned char* source, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    if size > 0:
        memcpy(target + at, source + start, size)

cdef inline long long* numbers(long long[::1] view) noexcept nogil:
    return &view[0] if view.shape[0] > 0 else NULL
