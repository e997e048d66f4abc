"""Incremental sessions of followers as subscriptions: the cost of a fetch depends on the partitions that changed, not on all partitions.

A follower has one session with each leader, over all partitions that it follows there: thousands, few of which have news.

1. A partition of the session is *clean* while the follower has the whole log, is in the ISR, and knows high watermark and log start.
   Otherwise it is *dirty*. A fetch reads the dirty partitions, in the order in which they became dirty or were last served, and finds the
   clean ones.
2. Every change of a partition marks it in its sessions (`Subscriptions.changed`). Changes are appends, new high watermarks or log starts,
   changes of role or ISR, and the loss of the log. A partition that cannot be read as requested stays dirty, and is answered each time.
3. A fetch without records to send is parked: one entry in its session. Marked partitions are checked at the end of the loop iteration,
   after the requests of all connections. So all appends of an iteration make one response.
4. A response is delayed while few bytes are to be sent, the last response has just left, and several produce requests wait. The delay is
   at most about a millisecond. One fetch for many batches costs both sides a fraction. A single waiting request would gain nothing.
5. A partition that this broker begins to lead is not in its followers' sessions yet, and acks=all waits for them. So a fetch that such a
   follower has parked is answered at once. Its next fetches are answered soon, until the follower has fetched the partition, for a second
   at most. (With Kafka the partition waits for replica.fetch.wait.max.ms.)

A fetch that does not name a clean partition counts as a fetch from its end, as in Kafka, which visits all partitions. The replica records
this when the partition becomes dirty (`Replica.was_caught_up`).

(kafka.server.IncrementalFetchContext, kafka.server.DelayedFetch; the rest is Odradek's.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.ids import TopicPartition
from odradek.base.timing import Alarm
from odradek.replication.fetch_params import FetchPartition

if TYPE_CHECKING:
    from odradek.replication.delayed_fetch import SessionFetch
    from odradek.replication.replica import Replica

HOLD_S = 0.0005
"""Seconds after a response during which the next response may be delayed."""
HOLD_BYTES = 64 * 1024
"""Bytes of records below which a response may be delayed."""
EXPECTED_S = 1.0
"""Seconds during which a follower is expected to fetch a new partition for the first time."""
EXPECTED_WAIT_MS = 5
"""Milliseconds that the follower's fetches may wait during that time."""
Asker = tuple[int, int, int | None]
"""Follower of a request, in its incarnation: broker id, the epoch in the request, the registered epoch."""
NOBODY: Asker = (-1, -1, None)
_FINEST_TIMER_S = 0.001
"""Shortest timer in seconds: event loops count in milliseconds, and would call back at once after less."""


class Subscriptions:
    """Sessions of all followers of a broker, by partition."""

    __slots__ = ("_due", "_expected", "_expiry", "_waiting", "_woken", "by_follower", "by_partition", "clock")

    def __init__(self, clock: Clock, waiting: Callable[[], int]) -> None:
        """Create the registry. `waiting` returns how many produce requests wait for replicas."""
        self.clock = clock
        self.by_partition: dict[TopicPartition, dict[FetchPartition, Subscription]] = {}
        """Entries and their sessions by partition; read-only for other classes."""
        self.by_follower: dict[int, dict[Subscription, None]] = {}
        """Sessions by broker id; read-only for other classes."""
        self._expected: dict[int, list[tuple[Replica, float]]] = {}
        """Replicas that a follower (broker id) has to fetch for the first time, with the end of the wait, oldest first."""
        self._expiry = Alarm(clock, self._expire)
        self._waiting = waiting
        self._woken: list[Subscription] = []
        self._due = False

    def changed(self, partition: TopicPartition, size: int = 0) -> None:
        """Mark the partition in its sessions. `size` is how many bytes of records were appended with the change."""
        subscribed = self.by_partition.get(partition)
        if subscribed is not None:
            for entry, subscription in subscribed.items():
                subscription.mark(entry, size)

    def expect(self, replicas: Iterable[Replica]) -> None:
        """Expect first fetches from the followers of a partition that this broker begins to lead.

        Their parked fetches are answered at the end of the loop iteration.
        """
        until_s = self.clock.monotonic() + EXPECTED_S
        for replica in replicas:
            if replica.has_fetched:
                continue
            self._expected.setdefault(replica.broker_id, []).append((replica, until_s))
            for subscription in self.by_follower.get(replica.broker_id, ()):
                subscription.release()
        if self._expected and not self._expiry.is_set:
            self._expiry.set(EXPECTED_S)

    def wait_ms(self, follower: int, most: int) -> int:
        """Return how many milliseconds a fetch of the follower without records may wait, at most `most`."""
        expected = self._expected.get(follower)
        if expected is None:
            return most
        self._expected[follower] = left = [each for each in expected if not each[0].has_fetched]
        if left:
            return min(most, EXPECTED_WAIT_MS)
        del self._expected[follower]
        return most

    def _expire(self) -> None:
        now_s = self.clock.monotonic()
        for follower, expected in list(self._expected.items()):
            left = [each for each in expected if each[1] > now_s and not each[0].has_fetched]
            if left:
                self._expected[follower] = left
            else:
                del self._expected[follower]
        if self._expected:
            first_s = min(expected[0][1] for expected in self._expected.values())
            self._expiry.set(max(first_s - now_s, _FINEST_TIMER_S))

    def few_wait(self) -> bool:
        """Return whether too few produce requests wait for replicas to gain by waiting for each other."""
        return self._waiting() <= 1

    def wake(self, subscription: Subscription) -> None:
        """Schedule `Subscription.turn_over` for the end of the loop iteration."""
        self._woken.append(subscription)
        if not self._due:
            self._due = True
            self.clock.call_later(0, self._turn_over)

    def _turn_over(self) -> None:
        self._due = False
        woken, self._woken = self._woken, []
        for subscription in woken:
            subscription.turn_over()


class Subscription:
    """Session of one follower. All its partitions are dirty at first."""

    __slots__ = (
        "_answered_at_s",
        "_asker",
        "_clean",
        "_dirty",
        "_fetched_at_s",
        "_fresh",
        "_hold",
        "_parked",
        "_ready",
        "_registry",
        "_unsent",
        "_woken",
    )

    def __init__(self, registry: Subscriptions, asker: Asker) -> None:
        """Create the session of a follower. `asker` has the meaning of `begin`."""
        self._registry = registry
        registry.by_follower.setdefault(asker[0], {})[self] = None
        self._dirty: dict[FetchPartition, None] = {}
        self._clean: dict[FetchPartition, Replica] = {}
        self._asker = asker
        self._fetched_at_s = self._answered_at_s = float("-inf")
        self._fresh: dict[FetchPartition, None] = {}
        """Partitions marked since the last fetch was read, which a parked fetch has to check."""
        self._unsent = 0
        """Bytes appended to the session's partitions since the last response."""
        self._parked: SessionFetch | None = None
        self._ready = False
        """Whether the parked fetch has news and is only delayed."""
        self._hold = Alarm(registry.clock, self._hold_over)
        self._woken = False

    @property
    def dirty(self) -> list[FetchPartition]:
        """Partitions that a fetch has to read, in the order in which to serve them."""
        return list(self._dirty)

    @property
    def has_clean(self) -> bool:
        """Whether some partitions need not be read by a fetch."""
        return bool(self._clean)

    # -- partitions of the session -----------------------------------------------------------------------------------------------------

    def add(self, entry: FetchPartition) -> None:
        """Add a partition to the session, or note that a request names it again. The partition becomes dirty."""
        self._soil(entry)
        if entry.topic is not None:
            self.name(entry)

    def name(self, entry: FetchPartition) -> None:
        """Register the entry for changes of its partition: its topic name is known now."""
        self._registry.by_partition.setdefault(entry.topic_partition, {})[entry] = self

    def forget(self, entry: FetchPartition) -> None:
        """Remove a partition that the follower does not fetch any longer."""
        self._soil(entry)
        del self._dirty[entry]
        self._fresh.pop(entry, None)
        subscribed = self._registry.by_partition.get(entry.topic_partition)
        if subscribed is not None:
            subscribed.pop(entry, None)
            if not subscribed:
                del self._registry.by_partition[entry.topic_partition]

    def close(self) -> None:
        """Close the session. Its parked fetch is answered, so that the follower learns of the end at once."""
        self.supersede()
        for entry in (*self._dirty, *self._clean):
            self.forget(entry)
        self._unregister()

    # -- requests ------------------------------------------------------------------------------------------------------------------------

    def begin(self, asker: Asker) -> None:
        """Begin a request of the session. All partitions become dirty when the `asker` has changed."""
        self.supersede()
        if asker != self._asker:
            self._unregister()
            self._asker = asker
            self._registry.by_follower.setdefault(asker[0], {})[self] = None
            for entry in list(self._clean):
                self._soil(entry)
        self._fetched_at_s = self._registry.clock.monotonic()

    def _unregister(self) -> None:
        follower = self._asker[0]
        subscriptions = self._registry.by_follower.get(follower)
        if subscriptions is not None:
            subscriptions.pop(self, None)
            if not subscriptions:
                del self._registry.by_follower[follower]

    def looked(self) -> None:
        """Note that the dirty partitions have just been read, with all marks until now."""
        self._fresh.clear()

    def settle(self, entry: FetchPartition, replica: Replica) -> None:
        """Make the partition clean: the follower has and knows all of it."""
        del self._dirty[entry]
        self._clean[entry] = replica

    def served(self, entry: FetchPartition) -> None:
        """Move a partition whose records are sent to the end: a busy partition must not starve others when responses are full."""
        if entry in self._dirty:
            del self._dirty[entry]
            self._dirty[entry] = None

    def answered(self) -> None:
        """Note that a response leaves."""
        self._answered_at_s = self._registry.clock.monotonic()
        self._unsent = 0

    # -- waiting -------------------------------------------------------------------------------------------------------------------------

    def park(self, fetch: SessionFetch, *, ready: bool = False) -> None:
        """Park the request until a partition is marked. With `ready` there is news already, and the response is only delayed."""
        self._parked = fetch
        self._ready = ready
        if ready:
            self._hold_up()
        elif self._fresh:
            self._wake()

    def wait_ms(self, most: int) -> int:
        """Return how many milliseconds a request without records may wait, at most `most`."""
        return self._registry.wait_ms(self._asker[0], most)

    def release(self) -> None:
        """Answer the parked request at the end of the loop iteration, with or without news, so that the follower fetches again."""
        if self._parked is not None:
            self._ready = True
            self._wake()

    def unpark(self) -> None:
        """Forget the parked request, which is being answered."""
        self._parked = None
        self._ready = False
        if self._hold.is_set:
            self._hold.cancel()

    def supersede(self) -> None:
        """Complete the parked request without reading: another request has come, or none will."""
        if self._parked is not None:
            self._parked.supersede()

    def holds(self, size: int) -> bool:
        """Return whether to delay a response of `size` bytes of records."""
        return size < HOLD_BYTES and self._registry.clock.monotonic() - self._answered_at_s < HOLD_S and not self._registry.few_wait()

    def mark(self, entry: FetchPartition, size: int) -> None:
        """Mark a partition that has changed. `size` is how many bytes of records were appended."""
        if entry in self._clean:
            self._soil(entry)
        self._unsent += size
        self._fresh[entry] = None
        if self._parked is not None:
            self._wake()

    def turn_over(self) -> None:
        """Check, at the end of the loop iteration, whether the marked partitions end the wait of the parked fetch."""
        self._woken = False
        parked = self._parked
        if parked is None:
            return
        fresh, self._fresh = self._fresh, {}
        if not self._ready:
            self._ready = any(parked.is_over_by(entry) for entry in fresh)
        if not self._ready:
            return
        if self.holds(self._unsent):
            self._hold_up()
        else:
            parked.force_complete()

    def _soil(self, entry: FetchPartition) -> None:
        replica = self._clean.pop(entry, None)
        if replica is not None:
            replica.was_caught_up(self._fetched_at_s)
        self._dirty.setdefault(entry)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._registry.wake(self)

    def _hold_up(self) -> None:
        if not self._hold.is_set:
            self._hold.set(_FINEST_TIMER_S)

    def _hold_over(self) -> None:
        if self._parked is not None:
            self._parked.force_complete()
