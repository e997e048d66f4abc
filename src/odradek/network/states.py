"""States of an accepted connection: one machine for its requests, one for its responses.

`network.inbound` has the first. "Read on" says whether the socket is read.

| state    | meaning                                                                     | read on       |
|----------|-----------------------------------------------------------------------------|---------------|
| DELAYED  | the connection exceeds a rate of new connections (`network.admission`)      | one read      |
| READING  | no request is ready to be served; the next read is served                   | yes, but for  |
|          |                                                                             | `starved`     |
| SERVING  | the loop over the received requests runs further up the stack               | one read      |
| WAITING  | requests wait: for responses that nothing may pass, for the peer to take    | one read      |
|          | responses, or for the end of a mute                                         |               |
| QUEUED   | requests wait for the connection's place in a queue (`network.fairness`)    | one read      |
| DEFERRED | the handler has left a request in the buffer (NotYetError); it will call    | one read      |
|          | `Connection.go_on`                                                          |               |
| CLOSED   | the transport is gone                                                       | no            |

"One read": reading pauses with the next read that arrives, or before when the buffer has no room.

        DELAYED             .--------------- WAITING <---.
           |                |    answered,      |        |
           |     no request |    blocked,       | next   | responses
           v     left       v    muted          v        | unsent
        SERVING --------> READING               QUEUED --'
           ^ | '---> WAITING | read, but the      ^ |
           | '-----> DEFERRED| time is used up    | | go_on
           |            |    '--------------------' |
           '------------+---------------------------'

`network.outbound` has the second machine. Each state says two things: whether chunks of a response are left, and whether the transport has
bytes that the kernel has not taken ("unsent").

| state           | chunks left            | unsent | left when                                               |
|-----------------|------------------------|--------|---------------------------------------------------------|
| OPEN            | no                     | no     | a response with files begins, or the kernel is full     |
| SENDING         | yes                    | no     | never rests: chunks are written until the state changes |
| READING_FILE    | an executor reads them | no     | they are read                                           |
| BLOCKED         | no                     | yes    | the kernel has taken all bytes                          |
| DRAINING        | yes                    | yes    | the kernel has taken all bytes                          |
| READING_BLOCKED | an executor reads them | yes    | the same; TLS may write alerts at any time              |
| CLOSED          | no                     | no     |                                                         |

The two meet in three rules:

1. A request is begun only in SERVING. While requests are in flight (their responses are pending), the first must be `Applied`, the outbound
   state OPEN, and the handler must let the request follow. A READING connection has such requests in flight, or none.
2. Outbound enters OPEN: pending responses that are ready leave, in order. When it is still OPEN, WAITING is left.
3. The peer takes no responses: a connection that serves goes to WAITING at once for a large response, and at the end of the loop iteration
   for short ones. A response to a request in flight may leave READING and BLOCKED together until then.

A mute is apart from these states. It keeps SERVING from the next request, and READING becomes WAITING when it begins; its end has the same
effect as rule 2. `Inbound.starved` is apart, too: memory for the rest of a request was refused in READING. A mute or unsent responses may
then make the connection WAITING, and it stays starved until the pool has memory.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class InboundState(Enum):
    """State of the requests of a connection; the module's docstring has the table."""

    DELAYED = "delayed"
    READING = "reading"
    SERVING = "serving"
    WAITING = "waiting"
    QUEUED = "queued"
    DEFERRED = "deferred"
    CLOSED = "closed"


DELAYED: Final = InboundState.DELAYED
READING: Final = InboundState.READING
SERVING: Final = InboundState.SERVING
WAITING: Final = InboundState.WAITING
QUEUED: Final = InboundState.QUEUED
DEFERRED: Final = InboundState.DEFERRED

INBOUND: Final[dict[InboundState, frozenset[InboundState]]] = {
    DELAYED: frozenset({SERVING, InboundState.CLOSED}),
    READING: frozenset({DELAYED, SERVING, WAITING, QUEUED, InboundState.CLOSED}),
    SERVING: frozenset({READING, WAITING, QUEUED, DEFERRED}),
    WAITING: frozenset({READING, QUEUED, InboundState.CLOSED}),
    QUEUED: frozenset({SERVING, WAITING, InboundState.CLOSED}),
    DEFERRED: frozenset({SERVING, WAITING, InboundState.CLOSED}),
    InboundState.CLOSED: frozenset(),
}
"""Allowed transitions. The code assigns states without a check, because it does so for each request; `tests/network` checks all of them."""


class OutboundState(IntEnum):
    """State of the responses of a connection; the module's docstring has the table. Numbers, because their hashes cost no Python frame."""

    OPEN = 0
    SENDING = 1
    READING_FILE = 2
    BLOCKED = 3
    DRAINING = 4
    READING_BLOCKED = 5
    CLOSED = 6


OPEN: Final = OutboundState.OPEN
SENDING: Final = OutboundState.SENDING
READING_FILE: Final = OutboundState.READING_FILE
BLOCKED: Final = OutboundState.BLOCKED
DRAINING: Final = OutboundState.DRAINING
READING_BLOCKED: Final = OutboundState.READING_BLOCKED

WITH_UNSENT: Final = {OPEN: BLOCKED, SENDING: DRAINING, READING_FILE: READING_BLOCKED}
"""State after the kernel's buffer has become full."""
WITHOUT_UNSENT: Final = {BLOCKED: OPEN, DRAINING: SENDING, READING_BLOCKED: READING_FILE}
"""State after the kernel has taken all bytes."""
WITH_CHUNKS: Final = {OPEN: SENDING, BLOCKED: DRAINING}
"""State after the beginning of a response with files."""
WITHOUT_CHUNKS: Final = {SENDING: OPEN, DRAINING: BLOCKED}
"""State after the last chunk of a response was written, or its chunks were dropped."""
FILE_READ: Final = {READING_FILE: SENDING, READING_BLOCKED: DRAINING}
"""State after the executor has read a chunk."""
UNSENT: Final = frozenset({BLOCKED, DRAINING, READING_BLOCKED})

OUTBOUND: Final[dict[OutboundState, frozenset[OutboundState]]] = {
    OPEN: frozenset({SENDING, BLOCKED, OutboundState.CLOSED}),
    SENDING: frozenset({OPEN, DRAINING, READING_FILE, OutboundState.CLOSED}),
    READING_FILE: frozenset({SENDING, READING_BLOCKED}),
    BLOCKED: frozenset({OPEN, DRAINING, OutboundState.CLOSED}),
    DRAINING: frozenset({SENDING, BLOCKED, OutboundState.CLOSED}),
    READING_BLOCKED: frozenset({READING_FILE, DRAINING}),
    OutboundState.CLOSED: frozenset(),
}
"""Allowed transitions, checked by `tests/network` as those of INBOUND."""
