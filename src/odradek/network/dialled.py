"""States of a connection that is dialled when a request needs it, made ready, kept, and given up; without IO.

| state       | meaning                                                          | a request          | left when                        |
|-------------|------------------------------------------------------------------|--------------------|----------------------------------|
| IDLE        | no connection: none was needed, or it ended without harm         | begins to dial     | a request comes                  |
| DIALLING    | the back-off passes, names are resolved, a connection is made    | waits              | connected, or failed             |
| GREETING    | connected; asks ApiVersions and authenticates                    | waits              | authenticated, or failed         |
| READY       | open; the versions of the other side are known                   | is sent            | the session nears its end; ended |
| RENEWING    | authenticates again (KIP-368); the connection is paused          | queues there       | authenticated, or ended          |
| BACKING_OFF | an attempt failed, or a connection ended with harm               | see below          | a request comes                  |
| CLOSED      | closed by its owner                                              | fails              | never                            |

Kafka's clients and the connections between Kafka's nodes differ in three rules. Clients are `patient`:

1. A request during the back-off waits for its end and dials then. Without patience it fails at once.
2. An open connection that fails, or is lost while requests are in flight, needs no back-off. Without patience the end does harm.
3. The time limit of an attempt to connect, which doubles after each failure, starts again once a server has accepted a connection. Without
   patience the limit is one for everything up to READY, and grows until then.

Times are seconds of one monotonic clock. `network.dialling` performs the decisions.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    import random

    from odradek.base.timing import Backoff

W = TypeVar("W")


class DialState(Enum):
    """State of a dialled connection; the module's docstring has the table."""

    IDLE = "idle"
    DIALLING = "dialling"
    GREETING = "greeting"
    READY = "ready"
    RENEWING = "renewing"
    BACKING_OFF = "backing off"
    CLOSED = "closed"


TRANSITIONS: Final[dict[DialState, frozenset[DialState]]] = {
    DialState.IDLE: frozenset({DialState.DIALLING, DialState.CLOSED}),
    DialState.DIALLING: frozenset({DialState.GREETING, DialState.BACKING_OFF, DialState.CLOSED}),
    DialState.GREETING: frozenset({DialState.READY, DialState.BACKING_OFF, DialState.CLOSED}),
    DialState.READY: frozenset({DialState.RENEWING, DialState.IDLE, DialState.BACKING_OFF, DialState.CLOSED}),
    DialState.RENEWING: frozenset({DialState.READY, DialState.IDLE, DialState.BACKING_OFF, DialState.CLOSED}),
    DialState.BACKING_OFF: frozenset({DialState.DIALLING, DialState.CLOSED}),
    DialState.CLOSED: frozenset(),
}
"""Allowed transitions; `tests/network/test_dialled.py` checks all of them."""

_OPENING: Final = frozenset({DialState.DIALLING, DialState.GREETING})
_OPEN: Final = frozenset({DialState.READY, DialState.RENEWING})

_RENEWED_FROM, _RENEWED_TO = 0.85, 0.95
"""Parts of a session's lifetime between which it is renewed, so that clients do not come all at once (SaslClientAuthenticator)."""


class Verdict(Enum):
    """Decision about a request."""

    SEND = "send"
    WAIT = "wait"
    DIAL = "dial, and wait"
    REFUSE = "refuse"


class Attempts:
    """Failed attempts in a row to reach a node. Several connections to the node may share the object.

    `reconnect` is the pause before the next attempt, `setup` the time limit of an attempt (KIP-601).
    """

    __slots__ = ("_failures", "_reconnect", "_retry_s", "_setup", "_setup_failures")

    def __init__(self, reconnect: Backoff, setup: Backoff) -> None:
        self._reconnect = reconnect
        self._setup = setup
        self.succeeded()

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self._failures = self._setup_failures = 0
        self._retry_s = -inf

    def failed(self, now_s: float, *, reached: bool = False) -> None:
        """Start the back-off. `reached`: a connection was made, so the time limit to connect starts again."""
        self._failures += 1
        self._setup_failures = 0 if reached else self._setup_failures + 1
        self._retry_s = now_s + self._reconnect.delay_ms(self._failures) / 1000

    def pause_s(self, now_s: float) -> float:
        """Return the rest of the back-off; 0 when the node may be dialled."""
        return max(self._retry_s - now_s, 0.0)

    def timeout_s(self) -> float:
        """Return the time limit of the next attempt."""
        return self._setup.delay_ms(self._setup_failures + 1) / 1000


class Dialled(Generic[W]):
    """State of one connection, and the requests that wait for it. After `close`, nothing has an effect."""

    __slots__ = ("_most_waiting", "_patient", "_waiting", "attempts", "idle_s", "state")

    def __init__(self, attempts: Attempts, *, patient: bool, idle_s: float = inf, most_waiting: float = inf) -> None:
        """Create an idle connection. An open one that is unused for `idle_s` is closed. At most `most_waiting` requests wait for it."""
        self.attempts = attempts
        self.idle_s = idle_s
        self.state = DialState.IDLE
        self._patient = patient
        self._most_waiting = most_waiting
        self._waiting: dict[W, None] = {}

    def ask(self, request: W, now_s: float) -> Verdict:
        """Return how to treat a request. After WAIT or DIAL it waits; DIAL changes the state to DIALLING."""
        if self.state in _OPEN:
            return Verdict.SEND
        verdict = Verdict.REFUSE
        if self.state in _OPENING:
            if len(self._waiting) < self._most_waiting:
                verdict = Verdict.WAIT
        elif (self._patient or not self.attempts.pause_s(now_s)) and self.enter(DialState.DIALLING):
            verdict = Verdict.DIAL
        if verdict is not Verdict.REFUSE:
            self._waiting[request] = None
        return verdict

    def give_up(self, request: W) -> bool:
        """Forget a request that waited. Return whether an attempt to connect is useless, because no other request waits."""
        self._waiting.pop(request, None)
        return self.state in _OPENING and not self._waiting

    def enter(self, state: DialState) -> bool:
        """Change the state. Return False, without effect, if the table does not allow it."""
        if state not in TRANSITIONS[self.state]:
            return False
        self.state = state
        return True

    def ready(self) -> list[W]:
        """Note that the connection is authenticated, for the first time or again. Return the requests that waited, oldest first."""
        if self.enter(DialState.READY):
            self.attempts.succeeded()
        return self._released()

    def ended(self, now_s: float, *, harm: bool) -> list[W]:
        """Note that the connection or the attempt to make it is over. Return the requests that fail with it.

        `harm`: an open connection failed, or was lost while requests were in flight. An attempt that is over has always failed.
        """
        reached = self._patient and self.state is DialState.GREETING
        if self.state in _OPENING or (harm and not self._patient):
            if self.enter(DialState.BACKING_OFF):
                self.attempts.failed(now_s, reached=reached)
        else:
            self.enter(DialState.IDLE)
        return self._released()

    def close(self) -> list[W]:
        """Close for good. Return the requests that fail."""
        self.state = DialState.CLOSED
        return self._released()

    def idle_in_s(self, now_s: float, used_s: float, in_flight: int) -> float:
        """Return in how many seconds to look again whether the open connection is idle; <= 0 if it is idle, and has to be closed.

        `used_s` is the time of the last use. A connection with requests in flight is in use.
        """
        return self.idle_s if in_flight else used_s + self.idle_s - now_s

    def _released(self) -> list[W]:
        waiting, self._waiting = self._waiting, {}
        return list(waiting)


def renewal_in_s(lifetime_ms: int, rng: random.Random | None) -> float:
    """Return when to renew a session of `lifetime_ms`, in seconds after its begin."""
    part = _RENEWED_FROM if rng is None else rng.uniform(_RENEWED_FROM, _RENEWED_TO)
    return lifetime_ms * part / 1000
