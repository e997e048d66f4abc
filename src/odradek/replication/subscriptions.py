"""Incremental sessions of followers as subscriptions: what a fetch costs goes by what has changed, not by how many partitions there are.

A follower has one session with each leader, over all partitions that it follows there: thousands, of which few have anything new.

1. A partition of the session is *clean* while the follower has all of the log, is in the ISR, and knows high watermark and log start; else
   it is *dirty*. A fetch is about the dirty ones, in the order in which they became so or were served last, and finds out which are clean.
2. Whatever happens to a partition marks it in the sessions that have it (`Subscriptions.changed`): an append, a new high watermark or log
   start, a change of roles or of the ISR, the loss of its log. What cannot be read as asked stays dirty, and is answered each time.
3. A fetch that finds nothing to send is parked: one entry in its session. What is marked meanwhile is looked at when the loop's turn is
   over, after the requests of all connections: the appends of a turn make one answer.
4. An answer is held up, by at most about a millisecond, while there is little to send, the last one has only just left, and several produce
   requests wait: a follower that fetches once for many batches costs both sides a fraction. With one request waiting nobody gains by that.
5. A partition that this broker begins to lead is not in its followers' sessions yet, and acks=all waits for them. So a fetch that such a
   follower has parked is answered at once, and the next ones soon, until the follower has fetched the partition, for a second at most.
   (With Kafka it waits for replica.fetch.wait.max.ms.)

To have fetched without a word about a clean partition counts as having fetched from its end, as it would in Kafka, which visits them all:
the replica is told so when the partition becomes dirty (`Replica.was_caught_up`).

(kafka.server.IncrementalFetchContext, kafka.server.DelayedFetch; the rest is our own.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from odradek.base.clock import Clock, TimerHandle
from odradek.base.ids import TopicPartition
from odradek.replication.fetch_params import FetchPartition

if TYPE_CHECKING:
    from odradek.replication.delayed_fetch import SessionFetch
    from odradek.replication.replica import Replica

HOLD_S = 0.0005
"""An answer waits for more while the last one is younger than this..."""
HOLD_BYTES = 64 * 1024
"""... and less than this is there to send."""
EXPECTED_S = 1.0
"""How long a follower is expected to fetch a partition for the first time..."""
EXPECTED_WAIT_MS = 5
"""... and how long its fetches wait until then."""
Asker = tuple[int, int, int | None]
"""Which follower a request is from, in which incarnation: broker id, the epoch it names, the one it is registered with."""
NOBODY: Asker = (-1, -1, None)
_FINEST_TIMER_S = 0.001
"""Event loops count in milliseconds: with less they would call back at once."""


class Subscriptions:
    """The sessions of all followers of a broker, by partition."""

    __slots__ = ("_due", "_expected", "_expiry", "_waiting", "_woken", "by_follower", "by_partition", "clock")

    def __init__(self, clock: Clock, waiting: Callable[[], int]) -> None:
        """`waiting` says how many produce requests wait for replicas."""
        self.clock = clock
        self.by_partition: dict[TopicPartition, dict[FetchPartition, Subscription]] = {}
        """For others to look at only."""
        self.by_follower: dict[int, dict[Subscription, None]] = {}
        """Broker id -> its sessions; for others to look at only."""
        self._expected: dict[int, list[tuple[Replica, float]]] = {}
        """Broker id -> what it is to fetch for the first time, and until when, the oldest first."""
        self._expiry: TimerHandle | None = None
        self._waiting = waiting
        self._woken: list[Subscription] = []
        self._due = False

    def changed(self, partition: TopicPartition, size: int = 0) -> None:
        """The partition has something new, `size` bytes of records among it."""
        subscribed = self.by_partition.get(partition)
        if subscribed is not None:
            for entry, subscription in subscribed.items():
                subscription.mark(entry, size)

    def expect(self, replicas: Iterable[Replica]) -> None:
        """This broker begins to lead a partition with these followers. What they have parked is answered when the loop's turn is over."""
        until_s = self.clock.monotonic() + EXPECTED_S
        for replica in replicas:
            if replica.has_fetched:
                continue
            self._expected.setdefault(replica.broker_id, []).append((replica, until_s))
            for subscription in self.by_follower.get(replica.broker_id, ()):
                subscription.release()
        if self._expected and self._expiry is None:
            self._expiry = self.clock.call_later(EXPECTED_S, self._expire)

    def wait_ms(self, follower: int, most: int) -> int:
        """How long a fetch of the follower may wait that finds nothing."""
        expected = self._expected.get(follower)
        if expected is None:
            return most
        self._expected[follower] = left = [each for each in expected if not each[0].has_fetched]
        if left:
            return min(most, EXPECTED_WAIT_MS)
        del self._expected[follower]
        return most

    def _expire(self) -> None:
        self._expiry = None
        now_s = self.clock.monotonic()
        for follower, expected in list(self._expected.items()):
            left = [each for each in expected if each[1] > now_s and not each[0].has_fetched]
            if left:
                self._expected[follower] = left
            else:
                del self._expected[follower]
        if self._expected:
            first_s = min(expected[0][1] for expected in self._expected.values())
            self._expiry = self.clock.call_later(max(first_s - now_s, _FINEST_TIMER_S), self._expire)

    def few_wait(self) -> bool:
        """Whether so few produce requests wait for replicas that none of them gains by waiting for others."""
        return self._waiting() <= 1

    def wake(self, subscription: Subscription) -> None:
        """Has `Subscription.turn_over` called when the loop's turn is over."""
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
    """One follower's session. Everything of it is dirty at first."""

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
        """`asker` as for `begin`."""
        self._registry = registry
        registry.by_follower.setdefault(asker[0], {})[self] = None
        self._dirty: dict[FetchPartition, None] = {}
        self._clean: dict[FetchPartition, Replica] = {}
        self._asker = asker
        self._fetched_at_s = self._answered_at_s = float("-inf")
        self._fresh: dict[FetchPartition, None] = {}
        """Marked since the last fetch was read: what a parked one has to look at."""
        self._unsent = 0
        """Bytes appended to its partitions since the last answer."""
        self._parked: SessionFetch | None = None
        self._ready = False
        """The parked fetch has something to answer, and is held up."""
        self._hold: TimerHandle | None = None
        self._woken = False

    @property
    def dirty(self) -> list[FetchPartition]:
        """What a fetch has to look at, in the order in which to serve it."""
        return list(self._dirty)

    @property
    def has_clean(self) -> bool:
        """Whether there are partitions that a fetch need not look at."""
        return bool(self._clean)

    # -- what belongs to the session ---------------------------------------------------------------------------------------------------

    def add(self, entry: FetchPartition) -> None:
        """A partition of the session, new, or named in a request because something about it is new to the follower."""
        self._soil(entry)
        if entry.topic is not None:
            self.name(entry)

    def name(self, entry: FetchPartition) -> None:
        """The name of the entry's topic is known: from now on it is told of changes."""
        self._registry.by_partition.setdefault(entry.topic_partition, {})[entry] = self

    def forget(self, entry: FetchPartition) -> None:
        """The follower fetches the partition no more."""
        self._soil(entry)
        del self._dirty[entry]
        self._fresh.pop(entry, None)
        subscribed = self._registry.by_partition.get(entry.topic_partition)
        if subscribed is not None:
            subscribed.pop(entry, None)
            if not subscribed:
                del self._registry.by_partition[entry.topic_partition]

    def close(self) -> None:
        """The session is gone; its parked fetch is answered, so that the follower learns it at once."""
        self.supersede()
        for entry in (*self._dirty, *self._clean):
            self.forget(entry)
        self._unregister()

    # -- requests ------------------------------------------------------------------------------------------------------------------------

    def begin(self, asker: Asker) -> None:
        """A request of the session has come. Another `asker` than before is unknown everywhere."""
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
        """The dirty partitions have just been read: what was marked until then has been seen."""
        self._fresh.clear()

    def settle(self, entry: FetchPartition, replica: Replica) -> None:
        """The follower has and knows everything of the partition."""
        del self._dirty[entry]
        self._clean[entry] = replica

    def served(self, entry: FetchPartition) -> None:
        """Its records are on their way: last in line next time, so that a busy partition cannot starve others when answers are full."""
        if entry in self._dirty:
            del self._dirty[entry]
            self._dirty[entry] = None

    def answered(self) -> None:
        """An answer leaves."""
        self._answered_at_s = self._registry.clock.monotonic()
        self._unsent = 0

    # -- waiting -------------------------------------------------------------------------------------------------------------------------

    def park(self, fetch: SessionFetch, *, ready: bool = False) -> None:
        """The request waits until something is marked; with `ready` there is something, which is held up."""
        self._parked = fetch
        self._ready = ready
        if ready:
            self._hold_up()
        elif self._fresh:
            self._wake()

    def wait_ms(self, most: int) -> int:
        """How long a request that finds nothing may wait."""
        return self._registry.wait_ms(self._asker[0], most)

    def release(self) -> None:
        """The follower should come again: the parked request is answered when the loop's turn is over, with whatever there is."""
        if self._parked is not None:
            self._ready = True
            self._wake()

    def unpark(self) -> None:
        """The parked request is being answered."""
        self._parked = None
        self._ready = False
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None

    def supersede(self) -> None:
        """Another request has come, or none will: the parked one is out of date."""
        if self._parked is not None:
            self._parked.supersede()

    def holds(self, size: int) -> bool:
        """Whether an answer of `size` bytes of records is to wait for more."""
        return size < HOLD_BYTES and self._registry.clock.monotonic() - self._answered_at_s < HOLD_S and not self._registry.few_wait()

    def mark(self, entry: FetchPartition, size: int) -> None:
        """Something of the partition is new, `size` bytes of records among it."""
        if entry in self._clean:
            self._soil(entry)
        self._unsent += size
        self._fresh[entry] = None
        if self._parked is not None:
            self._wake()

    def turn_over(self) -> None:
        """The loop's turn is over: looks whether what was marked ends the wait of the parked fetch."""
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
        if self._hold is None:
            self._hold = self._registry.clock.call_later(_FINEST_TIMER_S, self._hold_over)

    def _hold_over(self) -> None:
        self._hold = None
        if self._parked is not None:
            self._parked.force_complete()
