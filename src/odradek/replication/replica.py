"""State of one follower, as its leader knows it."""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NEVER = float("-inf")
"""Time of an event that has not happened."""


class Replica:
    """State of a remote replica, from its fetch requests (kafka.cluster.Replica, KIP-903).

    `last_caught_up_s` is the latest time t at which the leader's log ended at or before the follower's current fetch offset. So a follower
    that always fetches a little behind a busy leader is still in sync.

    Times are seconds of the monotonic clock. (Kafka uses the wall clock. When that jumps ahead by more than replica.lag.time.max.ms, every
    follower that is not at the log end at that moment leaves the ISR.)
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_s",
        "last_fetch_leader_end_offset",
        "last_fetch_s",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_s = NEVER
        self.last_caught_up_s = NEVER
        self.broker_epoch: int | None = None
        """Broker epoch of the last fetch; -1 for a fetch without an epoch, None before the first fetch."""

    @property
    def has_fetched(self) -> bool:
        """Whether the follower has fetched since this broker became leader of the partition."""
        return self.broker_epoch is not None

    def record_fetch(self, *, fetch_offset: int, log_start_offset: int, now_s: float, leader_end_offset: int, broker_epoch: int) -> None:
        """Record a fetch that was read when the leader's log ended at `leader_end_offset`."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_s = max(self.last_caught_up_s, now_s)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_s = max(self.last_caught_up_s, self.last_fetch_s)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_s = now_s
        self.broker_epoch = broker_epoch

    def was_caught_up(self, at_s: float) -> None:
        """Record that the follower fetched from the log end until `at_s`; the log end has not moved since its last recorded fetch."""
        self.last_caught_up_s = max(self.last_caught_up_s, at_s)
        self.last_fetch_s = max(self.last_fetch_s, at_s)

    def begin_epoch(self, *, now_s: float, leader_end_offset: int, in_sync: bool) -> None:
        """Start a leader epoch: an ISR member gets a full lag period, another follower must first catch up."""
        self.last_caught_up_s = self.last_fetch_s = now_s if in_sync else NEVER
        self.last_fetch_leader_end_offset = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_s: float, max_lag_s: float) -> bool:
        """Return whether the follower has the leader's whole log, or had it within the last `max_lag_s` seconds."""
        return self.log_end_offset == leader_end_offset or now_s - self.last_caught_up_s <= max_lag_s

    def __repr__(self) -> str:
        return f"Replica({self.broker_id}, log_end_offset={self.log_end_offset}, last_caught_up_s={self.last_caught_up_s})"
