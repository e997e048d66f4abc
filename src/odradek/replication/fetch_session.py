"""Incremental fetch sessions (KIP-227, KIP-516; kafka.server.FetchSession).

1. A full fetch (session epoch 0) names all partitions. The response may open a session with an id, whose next epoch is 1.
2. An incremental fetch names only changes: new positions, new partitions, forgotten partitions. The response covers all partitions of the
   session, except those without news.
3. Each request raises the session's epoch by one, so a repeated or lost request is noticed (INVALID_FETCH_SESSION_EPOCH).
4. Epoch -1 closes the session and fetches without one.

The cache is bounded (max.incremental.fetch.session.cache.slots). A new session evicts a session that was unused for two minutes. Otherwise
it evicts a session of at most its own worth: sessions of clients before those of followers, small before large. A session younger than two
minutes is evicted only for a follower. Without a free slot the request is answered without a session.

The session of a follower knows which of its partitions have changed (`subscriptions`), and only those are read. For a client's session all
partitions are read.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from odradek.base.clock import Clock
from odradek.base.errors import ErrorCode
from odradek.protocol.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, MAX_INT32, NO_SESSION, next_epoch
from odradek.replication.fetch_params import FetchPartition
from odradek.replication.subscriptions import NOBODY, Asker, Subscription, Subscriptions

EVICTION_S = 120.0

PartitionKey = tuple[int | str, int]
"""(topic id as an integer, or topic name before Fetch 13; partition)."""


class Answer(Protocol):
    """Fields of a partition's answer that a session compares."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    size: int
    preferred_read_replica: int

    @property
    def diverging(self) -> bool: ...


A = TypeVar("A", bound=Answer)


class FetchContext:
    """Fetch without a session."""

    __slots__ = ("_partitions",)

    error = ErrorCode.NONE
    """Error of the request as a whole."""
    subscription: Subscription | None = None
    """Subscription of a follower whose `partitions` are only those that have changed."""

    def __init__(self, partitions: Collection[FetchPartition]) -> None:
        self._partitions = partitions

    @property
    def partitions(self) -> Collection[FetchPartition]:
        """Partitions to answer, in the order in which to serve them."""
        return self._partitions

    def name(self, partition: FetchPartition, topic: str) -> None:
        """Set the topic name of a partition whose topic id has become known."""
        partition.resolve(topic)

    def respond(self, answers: Sequence[tuple[FetchPartition, A]]) -> tuple[ErrorCode, int, Sequence[tuple[FetchPartition, A]]]:
        """Return the request's error, the session id of the response, and the partitions to name in the response."""
        return ErrorCode.NONE, NO_SESSION, answers

    def would_tell(self, answers: Sequence[tuple[FetchPartition, A]]) -> Sequence[tuple[FetchPartition, A]]:
        """Return the partitions that `respond` would name, without changing any state."""
        return answers

    def postpone(self) -> tuple[ErrorCode, int]:
        """Return error and session id of a response without partitions, for a throttled client; the session's state does not change."""
        return ErrorCode.NONE, NO_SESSION


class SessionErrorContext(FetchContext):
    """Fetch whose session does not exist or has another epoch than the client thinks: no partition is served."""

    __slots__ = ("error",)

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(())
        self.error = error

    def would_tell(self, answers: Sequence[tuple[FetchPartition, A]]) -> Sequence[tuple[FetchPartition, A]]:
        return ()

    def respond(self, answers: Sequence[tuple[FetchPartition, A]]) -> tuple[ErrorCode, int, Sequence[tuple[FetchPartition, A]]]:
        return self.error, NO_SESSION, ()


class FullFetchContext(FetchContext):
    """Fetch that requests a new session."""

    __slots__ = ("_asker", "_cache", "_keyed", "_privileged", "_uses_topic_ids")

    def __init__(
        self,
        cache: FetchSessionCache,
        keyed: dict[PartitionKey, FetchPartition],
        *,
        uses_topic_ids: bool,
        privileged: bool,
        asker: Asker,
    ) -> None:
        super().__init__(keyed.values())
        self._cache = cache
        self._keyed = keyed
        self._uses_topic_ids = uses_topic_ids
        self._privileged = privileged
        self._asker = asker

    def respond(self, answers: Sequence[tuple[FetchPartition, A]]) -> tuple[ErrorCode, int, Sequence[tuple[FetchPartition, A]]]:
        session_id = self._cache.open(self._keyed, uses_topic_ids=self._uses_topic_ids, privileged=self._privileged, asker=self._asker)
        if session_id != NO_SESSION:
            for partition, answer in answers:
                partition.high_watermark = answer.high_watermark
                partition.local_log_start_offset = answer.log_start_offset
        return ErrorCode.NONE, session_id, answers


class IncrementalFetchContext(FetchContext):
    """Fetch within a session."""

    __slots__ = ("_epoch", "_session", "subscription")

    def __init__(self, session: FetchSession) -> None:
        subscription = session.subscription
        super().__init__(session.partitions.values() if subscription is None else subscription.dirty)
        self.subscription = subscription
        self._session = session
        self._epoch = session.epoch

    def name(self, partition: FetchPartition, topic: str) -> None:
        super().name(partition, topic)
        if self.subscription is not None:
            self.subscription.name(partition)

    def respond(self, answers: Sequence[tuple[FetchPartition, A]]) -> tuple[ErrorCode, int, Sequence[tuple[FetchPartition, A]]]:
        session = self._session
        if session.epoch != self._epoch:
            # Another request of the same session came while this fetch waited.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, ()
        told: list[tuple[FetchPartition, A]] = []
        for entry in answers:
            partition, answer = entry
            if _has_news(partition, answer):
                told.append(entry)
                if answer.size > 0:
                    # Served now, so last next time: a busy partition must not starve others when the response is full.
                    session.served(partition)
        return ErrorCode.NONE, session.id, told

    def would_tell(self, answers: Sequence[tuple[FetchPartition, A]]) -> Sequence[tuple[FetchPartition, A]]:
        if self._session.epoch != self._epoch:
            return ()
        return [(partition, answer) for partition, answer in answers if _is_news(partition, answer)]

    def postpone(self) -> tuple[ErrorCode, int]:
        moved = self._session.epoch != self._epoch
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH if moved else ErrorCode.NONE, self._session.id


def _is_news(partition: FetchPartition, answer: Answer) -> bool:
    """Return the same as `_has_news`, without remembering the answer."""
    known = partition.high_watermark == answer.high_watermark and partition.local_log_start_offset == answer.log_start_offset
    return not known or answer.size > 0 or answer.preferred_read_replica != -1 or answer.diverging or answer.error is not ErrorCode.NONE


def _has_news(partition: FetchPartition, answer: Answer) -> bool:
    """Return whether the client must hear of this partition, and remember what the client then knows."""
    news = answer.size > 0 or answer.preferred_read_replica != -1 or answer.diverging
    if partition.high_watermark != answer.high_watermark:
        partition.high_watermark = answer.high_watermark
        news = True
    if partition.local_log_start_offset != answer.log_start_offset:
        partition.local_log_start_offset = answer.log_start_offset
        news = True
    if answer.error is not ErrorCode.NONE:
        # Names the partition again when the error is over.
        partition.high_watermark = -1
        news = True
    return news


class FetchSession:
    """Set of partitions of a client or follower. `epoch` is the epoch that its next request must have.

    `subscription` is set for followers only.
    """

    __slots__ = (
        "cached_size",
        "created_s",
        "epoch",
        "evictable_by_all",
        "id",
        "last_used_s",
        "partitions",
        "privileged",
        "subscription",
        "uses_topic_ids",
    )

    def __init__(
        self,
        id_: int,
        partitions: dict[PartitionKey, FetchPartition],
        *,
        uses_topic_ids: bool,
        privileged: bool,
        now_s: float,
        subscription: Subscription | None = None,
    ) -> None:
        self.id = id_
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_s = now_s
        self.last_used_s = now_s
        self.cached_size = len(partitions)
        self.evictable_by_all = False
        self.subscription = subscription
        if subscription is not None:
            for partition in partitions.values():
                subscription.add(partition)

    def served(self, partition: FetchPartition) -> None:
        """Move the partition to the end of the order in which partitions are served."""
        if self.subscription is not None:
            self.subscription.served(partition)
            return
        key: PartitionKey
        key = (partition.topic_id.int, partition.partition) if self.uses_topic_ids else partition.topic_partition
        partitions = self.partitions
        if len(partitions) > 1 and partitions.pop(key, None) is not None:
            partitions[key] = partition

    def update(self, changed: dict[PartitionKey, FetchPartition], forgotten: Iterable[PartitionKey]) -> None:
        partitions = self.partitions
        for key, partition in changed.items():
            known = partitions.get(key)
            if known is None:
                known = partitions[key] = partition
            else:
                known.take(partition)
            if self.subscription is not None:
                self.subscription.add(known)
        for key in forgotten:
            gone = partitions.pop(key, None)
            if gone is not None and self.subscription is not None:
                self.subscription.forget(gone)

    def unsubscribe(self) -> None:
        """End the subscription: the session is closed, or continues as a client's."""
        if self.subscription is not None:
            self.subscription.close()
            self.subscription = None


class FetchSessionCache:
    """Fetch sessions of a broker, least recently used first."""

    __slots__ = ("_clock", "_followers", "_random", "_sessions", "evictions", "max_sessions")

    def __init__(self, clock: Clock, rng: random.Random, max_sessions: int, followers: Subscriptions) -> None:
        """Create the cache. `followers` registers the subscriptions of followers."""
        self._clock = clock
        self._random = rng
        self._followers = followers
        self._sessions: dict[int, FetchSession] = {}
        self.max_sessions = max_sessions
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        """Number of partitions in all sessions together."""
        return sum(session.cached_size for session in self._sessions.values())

    def context(
        self,
        session_id: int,
        epoch: int,
        partitions: dict[PartitionKey, FetchPartition],
        forgotten: Sequence[PartitionKey],
        *,
        uses_topic_ids: bool,
        privileged: bool,
        asker: Asker = NOBODY,
    ) -> FetchContext:
        """Return the context of a request with this session id and epoch.

        `privileged` is True for a follower's fetch; `asker` identifies the follower and its incarnation.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            closed = self._sessions.pop(session_id, None) if session_id != NO_SESSION else None
            if closed is not None:
                closed.unsubscribe()
            if epoch == FINAL_EPOCH:
                return FetchContext(partitions.values())
            return FullFetchContext(self, partitions, uses_topic_ids=uses_topic_ids, privileged=privileged, asker=asker)
        session = self._sessions.get(session_id)
        if session is None:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(partitions, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            session.unsubscribe()
            return FetchContext(partitions.values())
        self._touch(session)
        session.epoch = next_epoch(epoch)
        if session.subscription is not None:
            if privileged:
                session.subscription.begin(asker)
            else:
                session.unsubscribe()
        return IncrementalFetchContext(session)

    def open(self, partitions: dict[PartitionKey, FetchPartition], *, uses_topic_ids: bool, privileged: bool, asker: Asker = NOBODY) -> int:
        """Open a session over the partitions and return its id; return 0 when the cache has no slot for it."""
        now_s = self._clock.monotonic()
        if len(self._sessions) >= self.max_sessions and not self._evict_for(privileged, len(partitions), now_s):
            return NO_SESSION
        session_id = self._random.randrange(1, MAX_INT32)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, MAX_INT32)
        self._sessions[session_id] = FetchSession(
            session_id,
            partitions,
            uses_topic_ids=uses_topic_ids,
            privileged=privileged,
            now_s=now_s,
            subscription=Subscription(self._followers, asker) if privileged else None,
        )
        return session_id

    def _touch(self, session: FetchSession) -> None:
        now_s = self._clock.monotonic()
        session.last_used_s = now_s
        session.cached_size = len(session.partitions)
        session.evictable_by_all = now_s - session.created_s > EVICTION_S
        del self._sessions[session.id]
        self._sessions[session.id] = session

    def _evict_for(self, privileged: bool, size: int, now_s: float) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim: FetchSession | None
        if now_s - oldest.last_used_s > EVICTION_S:
            victim = oldest
        else:
            victim = min((session for session in self._sessions.values() if _may_evict(session, privileged)), key=_worth, default=None)
            if victim is None or (privileged, size, 0) < _worth(victim):
                return False
        del self._sessions[victim.id]
        victim.unsubscribe()
        self.evictions += 1
        return True


def _worth(session: FetchSession) -> tuple[bool, int, int]:
    return session.privileged, session.cached_size, session.id


def _may_evict(session: FetchSession, privileged: bool) -> bool:
    return session.evictable_by_all or (privileged and not session.privileged)
