# cython: language_level=3
"""Counts what the interpreter asks its allocator for (PyMem_SetAllocator): calls, not bytes. Objects that come from free lists are not seen."""

cdef extern from "Python.h":
    ctypedef enum PyMemAllocatorDomain:
        PYMEM_DOMAIN_MEM
        PYMEM_DOMAIN_OBJ

    ctypedef struct PyMemAllocatorEx:
        void *ctx
        void *(*malloc)(void *ctx, size_t size) noexcept
        void *(*calloc)(void *ctx, size_t count, size_t size) noexcept
        void *(*realloc)(void *ctx, void *block, size_t size) noexcept
        void (*free)(void *ctx, void *block) noexcept

    void PyMem_GetAllocator(PyMemAllocatorDomain domain, PyMemAllocatorEx *allocator)
    void PyMem_SetAllocator(PyMemAllocatorDomain domain, PyMemAllocatorEx *allocator)

cdef PyMemAllocatorEx below[2]
cdef unsigned long long calls = 0


cdef void *counted_malloc(void *ctx, size_t size) noexcept:
    global calls
    calls += 1
    cdef PyMemAllocatorEx *allocator = <PyMemAllocatorEx *>ctx
    return allocator.malloc(allocator.ctx, size)


cdef void *counted_calloc(void *ctx, size_t count, size_t size) noexcept:
    global calls
    calls += 1
    cdef PyMemAllocatorEx *allocator = <PyMemAllocatorEx *>ctx
    return allocator.calloc(allocator.ctx, count, size)


cdef void *counted_realloc(void *ctx, void *block, size_t size) noexcept:
    global calls
    calls += block == NULL
    cdef PyMemAllocatorEx *allocator = <PyMemAllocatorEx *>ctx
    return allocator.realloc(allocator.ctx, block, size)


cdef void uncounted_free(void *ctx, void *block) noexcept:
    cdef PyMemAllocatorEx *allocator = <PyMemAllocatorEx *>ctx
    allocator.free(allocator.ctx, block)


cdef void wrap(PyMemAllocatorDomain domain, PyMemAllocatorEx *allocator):
    PyMem_GetAllocator(domain, allocator)
    cdef PyMemAllocatorEx counting
    counting.ctx = allocator
    counting.malloc = counted_malloc
    counting.calloc = counted_calloc
    counting.realloc = counted_realloc
    counting.free = uncounted_free
    PyMem_SetAllocator(domain, &counting)


def install():
    """Counts from now on, for as long as the process lives."""
    if below[0].malloc == NULL:
        wrap(PYMEM_DOMAIN_MEM, &below[0])
        wrap(PYMEM_DOMAIN_OBJ, &below[1])


def allocations():
    """Calls since `install`."""
    return calls
