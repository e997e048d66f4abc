"""Times of brokers' last heartbeats (org.apache.kafka.controller.BrokerHeartbeatManager, BrokerHeartbeatTracker).

The times are not stored. A new active controller assumes a heartbeat now from each broker that is not fenced. A session begins with the
first heartbeat of a registration, not with the registration.
"""

from __future__ import annotations

from enum import Enum

_NO_ONE = (1 << 63) - 1


class ControlState(Enum):
    """State of a broker in its life cycle."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def fenced(self) -> bool:
        return self in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)


class _Broker:
    __slots__ = ("contact_s", "fenced", "metadata_offset", "shutdown_offset", "waited_for")

    def __init__(self) -> None:
        self.fenced = True
        self.contact_s: float | None = None
        """Time of the last heartbeat in seconds; None without a session."""
        self.waited_for = False
        """Whether `stood_still` has extended the session since the last heartbeat."""
        self.metadata_offset = -1
        self.shutdown_offset = -1
        """Offset that every active broker must have read before this one may stop; -1 unless it is shutting down."""


class Heartbeats:
    """Sessions of brokers. Times are monotonic seconds."""

    __slots__ = ("_brokers", "session_timeout_s")

    def __init__(self, session_timeout_s: float) -> None:
        self.session_timeout_s = session_timeout_s
        self._brokers: dict[int, _Broker] = {}

    def clear(self) -> None:
        self._brokers.clear()

    def register(self, broker_id: int, *, fenced: bool) -> None:
        """Note a registration. Heartbeats and offsets of an earlier registration that was not removed are kept."""
        broker = self._brokers.setdefault(broker_id, _Broker())
        broker.fenced = fenced
        if fenced:
            broker.shutdown_offset = -1

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int, now_s: float) -> None:
        """Note a heartbeat, and start or extend the broker's session."""
        self.register(broker_id, fenced=fenced)
        broker = self._brokers[broker_id]
        broker.contact_s = now_s
        broker.waited_for = False
        broker.metadata_offset = metadata_offset

    def stood_still(self, seconds: float, now_s: float) -> None:
        """Extend all sessions after `seconds` in which this process received no heartbeats.

        A session gets twice that time, because brokers may have to connect again, but ends at most one session timeout from now. A session
        is extended once between two heartbeats, so that a controller that stands still repeatedly does not keep dead brokers unfenced.
        """
        for broker in self._brokers.values():
            if broker.contact_s is not None and not broker.waited_for:
                broker.contact_s = min(broker.contact_s + 2 * seconds, now_s)
                broker.waited_for = True

    def remove(self, broker_id: int) -> None:
        self._brokers.pop(broker_id, None)

    def fence(self, broker_id: int) -> None:
        """Note that the broker is fenced, and end its session."""
        broker = self._brokers.get(broker_id)
        if broker is not None:
            broker.fenced = True
            broker.contact_s = None
            broker.shutdown_offset = -1

    def has_valid_session(self, broker_id: int, now_s: float) -> bool:
        """Return whether the broker, fenced or not, has sent a heartbeat within the session timeout."""
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.contact_s is not None and broker.contact_s + self.session_timeout_s >= now_s

    def is_shutting_down(self, broker_id: int) -> bool:
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.shutdown_offset >= 0

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """Note the offset that the other brokers must reach before this one may stop. Only the first call counts."""
        broker = self._brokers.setdefault(broker_id, _Broker())
        if broker.shutdown_offset < 0:
            broker.shutdown_offset = offset

    def stale_brokers(self, now_s: float) -> list[int]:
        """Return the unfenced brokers whose session has expired, the one with the oldest heartbeat first."""
        stale = [
            (broker.contact_s, broker_id)
            for broker_id, broker in self._brokers.items()
            if not broker.fenced and broker.contact_s is not None and broker.contact_s + self.session_timeout_s < now_s
        ]
        return [broker_id for _, broker_id in sorted(stale)]

    def silent_for(self, now_s: float) -> dict[int, float]:
        """Return the seconds since the last heartbeat of each broker with a session."""
        return {broker_id: now_s - broker.contact_s for broker_id, broker in self._brokers.items() if broker.contact_s is not None}

    def next_check_s(self) -> float | None:
        """Return the time in seconds at which the first session of an unfenced broker may expire, or None without one."""
        contacts = [broker.contact_s for broker in self._brokers.values() if not broker.fenced and broker.contact_s is not None]
        return min(contacts) + self.session_timeout_s if contacts else None

    def state_of(self, broker_id: int) -> ControlState:
        broker = self._brokers.get(broker_id)
        if broker is not None and broker.shutdown_offset >= 0:
            return ControlState.CONTROLLED_SHUTDOWN
        return ControlState.FENCED if broker is None or broker.fenced else ControlState.UNFENCED

    def all_others_have_seen_shutdown(self, broker_id: int) -> bool:
        """Return whether every active broker has reached the offset at which this one began to shut down."""
        lowest = min(
            (other.metadata_offset for other in self._brokers.values() if not other.fenced and other.shutdown_offset < 0),
            default=_NO_ONE,
        )
        return self._brokers[broker_id].shutdown_offset <= lowest
