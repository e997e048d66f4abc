"""File descriptors of this process: the limit on them, and the last ones, which connections may not have.

The operating system gives each new descriptor the lowest free number. A connection whose number is among the last below the limit is
refused, so that segments, indexes, checkpoints, modules and connections to other nodes find descriptors however many peers connect. Where
files come to use what is kept, clients that were idle for longest are closed. Connections of other brokers and controllers may have half
of what is kept from clients, and beyond that the place of a client. JVM Kafka keeps none, and takes a directory in which it cannot open a
file for one that failed.
"""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from typing import Final

from odradek.base.disk import out_of_descriptors

_LEAST_KEPT: Final = 64
_MOST_KEPT: Final = 4096
_PART_KEPT: Final = 8
_MAC_OS_LIMIT: Final = 10_240
"""OPEN_MAX of macOS, which takes no higher soft limit where the hard one is infinite."""


def limit() -> int:
    """Return how many descriptors this process may have open (the soft limit of RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def lowest_free() -> int:
    """Return the number that the next descriptor gets; the limit where none is free."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if not out_of_descriptors(error):
            raise
        return limit()
    os.close(descriptor)
    return descriptor


def is_open(number: int) -> bool:
    """Return whether this process has a descriptor of this number. Costs less than `lowest_free`."""
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as the JVM does. It stays as it is where the operating system refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, _MAC_OS_LIMIT) if hard == resource.RLIM_INFINITY and soft < _MAC_OS_LIMIT else (hard,):
        if soft == wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def kept_from_clients(most: int, backlog: int) -> int:
    """Return how many of `most` descriptors the connections of clients may not have.

    `backlog` connections are accepted before the first of them can be refused. At most half of the descriptors are kept.
    """
    return min(max(_LEAST_KEPT, min(most // _PART_KEPT, _MOST_KEPT)) + backlog, most // 2)


def kept_from_nodes(most: int, backlog: int) -> int:
    """Return how many of `most` descriptors the connections of brokers and controllers may not have."""
    return kept_from_clients(most, backlog) // 2
