"""Which request is on its way to whom: at most one per destination, a back-off after a failure (org.apache.kafka.raft.RequestManager)."""

from __future__ import annotations

from odradek.consensus.messages import Request
from odradek.consensus.states import NEVER


class Connection:
    """One destination. `blocked_until_ms` is the back-off's end, or when the request in flight counts as lost."""

    __slots__ = ("blocked_until_ms", "correlation", "request")

    def __init__(self) -> None:
        self.blocked_until_ms = 0
        self.correlation: int | None = None
        self.request: Request | None = None


class RequestManager:
    """All destinations of one replica."""

    __slots__ = ("_by_destination", "_next_correlation", "_retry_backoff_ms", "_timeout_ms")

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._by_destination: dict[int, Connection] = {}
        self._timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._next_correlation = 0

    def ready(self, destination: int, now_ms: int) -> bool:
        connection = self._by_destination.get(destination)
        return connection is None or now_ms >= connection.blocked_until_ms

    def blocked_until(self, destination: int) -> int:
        connection = self._by_destination.get(destination)
        return 0 if connection is None else connection.blocked_until_ms

    def backing_off(self, destination: int, now_ms: int) -> bool:
        """Whether the last answer was a failure or no help, so recently that the destination is not asked again yet."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.correlation is None and now_ms < connection.blocked_until_ms

    def timed_out(self, destination: int, now_ms: int) -> bool:
        """Whether a request was sent there and no answer came in time."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.correlation is not None and now_ms >= connection.blocked_until_ms

    def sent(self, destination: int, request: Request, now_ms: int) -> int:
        """Notes the request; its correlation, under which the answer must come."""
        connection = self._by_destination.setdefault(destination, Connection())
        self._next_correlation += 1
        connection.correlation = self._next_correlation
        connection.request = request
        connection.blocked_until_ms = now_ms + self._timeout_ms
        return self._next_correlation

    def in_flight(self, destination: int) -> Request | None:
        connection = self._by_destination.get(destination)
        return connection.request if connection is not None and connection.correlation is not None else None

    def answered(self, correlation: int, now_ms: int, *, failed: bool) -> tuple[int, Request] | None:
        """Destination and request of an answer; None when nobody waits for it any more. A failure starts the back-off."""
        for destination, connection in self._by_destination.items():
            if connection.correlation == correlation and connection.request is not None:
                request = connection.request
                connection.correlation = None
                connection.request = None
                connection.blocked_until_ms = now_ms + self._retry_backoff_ms if failed else 0
                return destination, request
        return None

    def back_off(self, destination: int, now_ms: int) -> None:
        """There was no answer, or it was no help: wait before asking this one again, and for no answer any more."""
        connection = self._by_destination.setdefault(destination, Connection())
        connection.correlation = None
        connection.request = None
        connection.blocked_until_ms = now_ms + self._retry_backoff_ms

    def reset(self) -> None:
        """Forgets all: a new role asks new questions, and answers to the old ones are ignored."""
        self._by_destination.clear()

    def next_free_ms(self, destinations: tuple[int, ...]) -> int:
        """When the first of the destinations may be asked again."""
        return min((self.blocked_until(destination) for destination in destinations), default=NEVER)
