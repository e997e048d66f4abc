"""Tools of code that waits: one timer, grace before a judgement, pauses between attempts, and one request to a node at a time.

They are pure: the clock and the random generator are arguments. Results that come later are `base.deferred`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from odradek.base.clock import READING_TURNS
from odradek.base.deferred import Deferred

if TYPE_CHECKING:
    import random

    from odradek.base.clock import Clock, TimerHandle

_MOST_DOUBLINGS: Final = 30
"""Doublings of a pause after which it only stays long; more of them would make numbers that no float holds."""

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class Alarm:
    """Timer that is set, moved and cancelled: it calls `ring` once, at the time that was set last.

    Moving an alarm to a later time is cheap: the clock's timer stays, and is set again when it fires too early. Within `ring` the alarm is
    not set, so that `ring` may set it again. An alarm that rings a method of its owner is closed with the owner: otherwise both would stay
    in memory until the garbage collector finds them.
    """

    __slots__ = ("_armed_s", "_clock", "_ring", "_timer", "due_s", "is_set")

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._ring: Callable[[], object] | None = ring
        self._timer: TimerHandle | None = None
        self._armed_s = inf
        """Monotonic seconds at which the clock's timer fires; at or before `due_s`."""
        self.due_s = inf
        """Monotonic seconds at which the alarm rings; infinite when it is not set. Read-only for others, like `is_set`."""
        self.is_set = False

    def __repr__(self) -> str:
        return f"Alarm({self._ring!r})"

    def set(self, delay_s: float) -> None:
        """Ring in `delay_s` seconds (in the next loop iteration when <= 0) instead of at the time that was set before."""
        due_s = self._clock.monotonic() + delay_s
        if self.is_set or self._ring is None:
            self._move(due_s, delay_s)
        else:
            # The frequent case, as in `_move`, but without another call.
            self.is_set = True
            self.due_s = self._armed_s = due_s
            self._timer = self._clock.call_later(delay_s if delay_s > 0 else 0.0, self._fire)

    def set_at(self, due_s: float) -> None:
        """Ring at `due_s`, in the clock's monotonic seconds, instead of at the time that was set before. Infinity cancels the alarm."""
        if due_s == inf:
            self.cancel()
        elif due_s != self.due_s:
            self._move(due_s, due_s - self._clock.monotonic())

    def cancel(self) -> None:
        """Do not ring until the alarm is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.due_s = inf
            self.is_set = False

    def close(self) -> None:
        """Cancel the alarm for good: setting it has no effect any more."""
        self.cancel()
        self._ring = None

    def _move(self, due_s: float, delay_s: float) -> None:
        if self._ring is None:
            return
        self.due_s = due_s
        if self._timer is not None:
            if due_s >= self._armed_s:
                return
            self._timer.cancel()
        self.is_set = True
        self._armed_s = due_s
        self._timer = self._clock.call_later(max(delay_s, 0.0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        due_s = self.due_s
        if due_s > self._armed_s:
            self._move(due_s, due_s - self._clock.monotonic())
        elif self._ring is not None:
            # Timers of a loop may fire a millisecond early, so the clock is not asked whether it is time.
            self.due_s = inf
            self.is_set = False
            self._ring()


class Grace:
    """Loop iterations that pass between the ringing of an alarm and the judgement that a peer was silent.

    After a stall of the loop or of the process, what peers sent in time is still in the sockets, and loops run timers before they read.
    """

    __slots__ = ("_alarm", "_left")

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._left = READING_TURNS

    def restart(self) -> None:
        """Wait the full number of iterations when the alarm rings next."""
        self._left = READING_TURNS

    def waits(self) -> bool:
        """Ring the alarm again in the next loop iteration, and return True; return False after READING_TURNS iterations."""
        if not self._left:
            return False
        self._left -= 1
        self._alarm.set(0)
        return True


class Backoff:
    """Pauses between attempts: `base_ms` after the first failure in a row, twice as long after each further one, at most `max_ms`.

    With `rng` each pause is multiplied by a random number of `spread`, so that peers that failed together do not try again together. The
    default is that of Kafka's clients (KIP-580, ExponentialBackoff).
    """

    __slots__ = ("_rng", "_spread", "base_ms", "failures", "max_ms")

    def __init__(
        self, base_ms: float, max_ms: float, rng: random.Random | None = None, *, spread: tuple[float, float] = (0.8, 1.2)
    ) -> None:
        self.base_ms = min(base_ms, max_ms)
        self.max_ms = max_ms
        self.failures = 0
        """Failures in a row that `next_s` has counted."""
        self._rng = rng
        self._spread = spread

    def delay_ms(self, failures: int) -> int:
        """Return the pause after `failures` failures in a row, in whole milliseconds, rounded down; 0 when nothing has failed."""
        return int(self._exact_ms(failures))

    def delay_s(self, failures: int) -> float:
        """Return the pause after `failures` failures in a row in seconds; 0 when nothing has failed."""
        return self._exact_ms(failures) / 1000

    def next_s(self) -> float:
        """Count a failure, and return the pause after it in seconds."""
        self.failures += 1
        return self.delay_s(self.failures)

    def reset(self) -> None:
        """Forget the failures that `next_s` has counted, after a success."""
        self.failures = 0

    def _exact_ms(self, failures: int) -> float:
        if failures <= 0:
            return 0
        pause_ms = min(self.base_ms * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.max_ms)
        return pause_ms if self._rng is None else min(pause_ms * self._rng.uniform(*self._spread), self.max_ms)


class PerNode(Generic[K, V, R]):
    """Queues of entries for other nodes, with at most one request to each node under way.

    Entries that come while a request to their node is under way wait for the next request to the node, which takes up to `most` of them.
    The first request of a node is sent in the next loop iteration, with all entries of this iteration. Each key has at most one waiting
    entry, so the callers bound the queues by their keys.
    """

    __slots__ = ("_answered", "_busy", "_clock", "_most", "_queues", "_send")

    def __init__(
        self,
        clock: Clock,
        send: Callable[[int, dict[K, V]], Deferred[R] | None],
        answered: Callable[[int, dict[K, V], Deferred[R]], object],
        *,
        most: int,
    ) -> None:
        """Create empty queues.

        `send(node, entries)` sends a request, or serves the entries without a request and returns None. `answered(node, entries, result)`
        gets the outcome of a request, or an error that `send` raised. It may put further entries into the queues.
        """
        self._clock = clock
        self._send = send
        self._answered = answered
        self._most = most
        self._queues: dict[int, dict[K, V]] = {}
        self._busy: set[int] = set()

    @property
    def under_way(self) -> int:
        """Number of nodes with entries, or with a request that is not answered yet."""
        return len(self._busy)

    def waiting(self, node: int) -> dict[K, V]:
        """Return the entries that no request has taken yet, in their order. The caller may remove or change entries."""
        return self._queues.get(node, {})

    def put(self, node: int, key: K, value: V) -> None:
        """Add an entry to the node's next request, or replace the waiting entry of the same key at its place."""
        self._queues.setdefault(node, {})[key] = value
        if node not in self._busy:
            self._busy.add(node)
            self._clock.call_later(0, self._next, node)

    def _next(self, node: int) -> None:
        queue = self._queues.pop(node, {})
        if not queue:
            self._busy.discard(node)
            return
        if len(queue) <= self._most:
            entries = queue
        else:
            entries = {key: queue.pop(key) for key in list(queue)[: self._most]}
            self._queues[node] = queue
        try:
            result = self._send(node, entries)
        except Exception as error:
            result = Deferred.failed(error)
        if result is None:
            self._go_on(node)
        else:
            result.add_callback(lambda done: self._done(node, entries, done))

    def _done(self, node: int, entries: dict[K, V], result: Deferred[R]) -> None:
        try:
            self._answered(node, entries, result)
        finally:
            # An error of the caller must not keep later entries of the node from being sent.
            self._go_on(node)

    def _go_on(self, node: int) -> None:
        if self._queues.get(node):
            # A direct call would recurse.
            self._clock.call_later(0, self._next, node)
        else:
            self._queues.pop(node, None)
            self._busy.discard(node)
