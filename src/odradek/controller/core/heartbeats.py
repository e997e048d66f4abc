"""When brokers were last heard of (org.apache.kafka.controller.BrokerHeartbeatManager, BrokerHeartbeatTracker).

Soft state: a new active controller starts with every broker that is not fenced heard of just now. A session begins with the first heartbeat
of a registration, not with the registration.
"""

from __future__ import annotations

from enum import Enum

_NO_ONE = (1 << 63) - 1


class ControlState(Enum):
    """Where a broker stands with the controller."""

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
        """When it last sent a heartbeat; None while it has no session."""
        self.waited_for = False
        """Whether its session has been made longer since the last heartbeat."""
        self.metadata_offset = -1
        self.shutdown_offset = -1
        """The offset every active broker must have seen before this one may go; -1 while it is not shutting down."""


class Heartbeats:
    """Sessions of brokers; times are monotonic seconds."""

    __slots__ = ("_brokers", "session_timeout_s")

    def __init__(self, session_timeout_s: float) -> None:
        self.session_timeout_s = session_timeout_s
        self._brokers: dict[int, _Broker] = {}

    def clear(self) -> None:
        self._brokers.clear()

    def register(self, broker_id: int, *, fenced: bool) -> None:
        """Notes a registration, or the same one again: what was heard of the broker since the first time stays."""
        broker = self._brokers.setdefault(broker_id, _Broker())
        broker.fenced = fenced
        if fenced:
            broker.shutdown_offset = -1

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int, now_s: float) -> None:
        """Notes a heartbeat."""
        self.register(broker_id, fenced=fenced)
        broker = self._brokers[broker_id]
        broker.contact_s = now_s
        broker.waited_for = False
        broker.metadata_offset = metadata_offset

    def stood_still(self, seconds: float, now_s: float) -> None:
        """Nobody could be heard of for the last `seconds`: sessions get back what they lost, and as much again for brokers that have to
        connect anew. Once between two heartbeats: a controller that is late again and again does not keep the dead alive.
        """
        for broker in self._brokers.values():
            if broker.contact_s is not None and not broker.waited_for:
                broker.contact_s = min(broker.contact_s + 2 * seconds, now_s)
                broker.waited_for = True

    def remove(self, broker_id: int) -> None:
        self._brokers.pop(broker_id, None)

    def fence(self, broker_id: int) -> None:
        """Notes that the broker's session is over."""
        broker = self._brokers.get(broker_id)
        if broker is not None:
            broker.fenced = True
            broker.contact_s = None
            broker.shutdown_offset = -1

    def has_valid_session(self, broker_id: int, now_s: float) -> bool:
        """Whether the broker, fenced or not, has sent a heartbeat within the session timeout."""
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.contact_s is not None and broker.contact_s + self.session_timeout_s >= now_s

    def is_shutting_down(self, broker_id: int) -> bool:
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.shutdown_offset >= 0

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """Notes the offset that the others must reach before the broker may go; the first one counts."""
        broker = self._brokers.setdefault(broker_id, _Broker())
        if broker.shutdown_offset < 0:
            broker.shutdown_offset = offset

    def stale_brokers(self, now_s: float) -> list[int]:
        """Unfenced brokers not heard of for longer than the session timeout, the longest silent first."""
        stale = [
            (broker.contact_s, broker_id)
            for broker_id, broker in self._brokers.items()
            if not broker.fenced and broker.contact_s is not None and broker.contact_s + self.session_timeout_s < now_s
        ]
        return [broker_id for _, broker_id in sorted(stale)]

    def silent_for(self, now_s: float) -> dict[int, float]:
        """How long ago each broker that has a session was heard of, in seconds."""
        return {broker_id: now_s - broker.contact_s for broker_id, broker in self._brokers.items() if broker.contact_s is not None}

    def next_check_s(self) -> float | None:
        """When the first session may run out; None when no broker is unfenced."""
        contacts = [broker.contact_s for broker in self._brokers.values() if not broker.fenced and broker.contact_s is not None]
        return min(contacts) + self.session_timeout_s if contacts else None

    def state_of(self, broker_id: int) -> ControlState:
        broker = self._brokers.get(broker_id)
        if broker is not None and broker.shutdown_offset >= 0:
            return ControlState.CONTROLLED_SHUTDOWN
        return ControlState.FENCED if broker is None or broker.fenced else ControlState.UNFENCED

    def all_others_have_seen_shutdown(self, broker_id: int) -> bool:
        """Whether no active broker is behind the offset at which this one began to shut down."""
        lowest = min(
            (other.metadata_offset for other in self._brokers.values() if not other.fenced and other.shutdown_offset < 0),
            default=_NO_ONE,
        )
        return self._brokers[broker_id].shutdown_offset <= lowest
