"""File descriptors of this process: their limit, and the highest numbers, which connections may not use.

The operating system gives each new descriptor the lowest free number. A connection whose number is too close to the limit is refused. So
segments, indexes, checkpoints, modules and connections to other nodes find descriptors however many peers connect. When files use the
reserved numbers, the clients that were idle for longest are closed. Connections of other brokers and controllers may use half of the
numbers that are reserved from clients. Beyond that, such a connection may replace a client. JVM Kafka reserves none, and marks a directory
as failed when a file in it cannot be opened.
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
"""OPEN_MAX of macOS: the highest soft limit that macOS accepts when the hard limit is infinite."""


def limit() -> int:
    """Return how many descriptors this process may have open (the soft limit of RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def lowest_free() -> int:
    """Return the number that the next descriptor will get, or the limit when no number is free."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if not out_of_descriptors(error):
            raise
        return limit()
    os.close(descriptor)
    return descriptor


def is_open(number: int) -> bool:
    """Return whether this process has a descriptor with this number. The call costs less than `lowest_free`."""
    try:
        fcntl.fcntl(number, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, as the JVM does. Leave the limit unchanged when the operating system refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, _MAC_OS_LIMIT) if hard == resource.RLIM_INFINITY and soft < _MAC_OS_LIMIT else (hard,):
        if soft == wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def kept_from_clients(most: int, backlog: int) -> int:
    """Return how many of `most` descriptors are reserved from client connections: at most half.

    `backlog` connections are accepted before the first of them can be refused, so the number includes `backlog`.
    """
    return min(max(_LEAST_KEPT, min(most // _PART_KEPT, _MOST_KEPT)) + backlog, most // 2)


def kept_from_nodes(most: int, backlog: int) -> int:
    """Return how many of `most` descriptors are reserved from connections of brokers and controllers."""
    return kept_from_clients(most, backlog) // 2
