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

cdef inline long long unsigned32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return (<long long>data[at]) << 24 | (<long long>data[at + 1]) << 16 | (<long long>data[at + 2]) << 8 | <long long>data[at + 3]

cdef inline long long signed16(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <short>((<unsigned int>data[at]) << 8 | <unsigned int>data[at + 1])

cdef inline long long signed32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <int>unsigned32(data, at)

cdef inline long long signed64(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <long long>((<unsigned long long>unsigned32(data, at)) << 32 | <unsigned long long>unsigned32(data, at + 4))

cdef inline void put32(unsigned char* target, Py_ssize_t at, long long value) noexcept nogil:
    target[at] = <unsigned char>(value >> 24)
    target[at + 1] = <unsigned char>(value >> 16)
    target[at + 2] = <unsigned char>(value >> 8)
    target[at + 3] = <unsigned char>value

cdef inline void put64(unsigned char* target, Py_ssize_t at, long long value) noexcept nogil:
    put32(target, at, value >> 32)
    put32(target, at + 4, value)

from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef extern from * nogil:
    """
    static inline PyObject *odradek_new_tuple(PyObject *kind, Py_ssize_t size) {
        return ((PyTypeObject *)kind)->tp_alloc((PyTypeObject *)kind, size);
    }
    """
    object new_tuple "odradek_new_tuple"(object kind, Py_ssize_t size)

cdef inline void _fill(object target, Py_ssize_t at, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(target, at, item)

cdef inline object record(object kind, long long offset, long long timestamp, object key, object value, object headers):
    # All items are created before the tuple, because the garbage collector may visit the tuple once it exists.
    cdef object offset_object = offset
    cdef object timestamp_object = timestamp
    cdef object made = new_tuple(kind, 5)
    _fill(made, 0, offset_object)
    _fill(made, 1, timestamp_object)
    _fill(made, 2, key)
    _fill(made, 3, value)
    _fill(made, 4, headers)
    return made

cdef inline object placed_record(
    object kind, object topic, object partition, long long offset, long long timestamp, object timestamp_type, object key, object value,
    object headers
):
    cdef object offset_object = offset
    cdef object timestamp_object = timestamp
    cdef object made = new_tuple(kind, 8)
    _fill(made, 0, topic)
    _fill(made, 1, partition)
    _fill(made, 2, offset_object)
    _fill(made, 3, timestamp_object)
    _fill(made, 4, timestamp_type)
    _fill(made, 5, key)
    _fill(made, 6, value)
    _fill(made, 7, headers)
    return made

cdef inline long long wrapped32(unsigned int value) noexcept nogil:
    return <int>value

cdef extern from * nogil:
    """
    static inline PyObject *odradek_bare(PyObject *kind) {
        PyObject *nothing = PyTuple_New(0), *made;
        if (nothing == NULL) return NULL;
        made = ((PyTypeObject *)kind)->tp_new((PyTypeObject *)kind, nothing, NULL);
        Py_DECREF(nothing);
        return made;
    }
    """
    object bare "odradek_bare"(object kind)
