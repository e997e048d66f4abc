"""Requests in flight: at most one per destination, with a back-off after a failure (org.apache.kafka.raft.RequestManager)."""

from __future__ import annotations

from odradek.consensus.messages import Request
from odradek.consensus.states import NEVER


class Connection:
    """State of one destination.

    `blocked_until_ms` is the end of the back-off, or the time at which the request in flight counts as lost.
    """

    __slots__ = ("blocked_until_ms", "correlation", "request")

    def __init__(self) -> None:
        self.blocked_until_ms = 0
        self.correlation: int | None = None
        self.request: Request | None = None


class RequestManager:
    """Requests in flight and back-offs of one replica, by destination."""

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
        """Return whether the last response was a failure or unusable, and the back-off after it has not ended."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.correlation is None and now_ms < connection.blocked_until_ms

    def timed_out(self, destination: int, now_ms: int) -> bool:
        """Return whether the request in flight to the destination has timed out."""
        connection = self._by_destination.get(destination)
        return connection is not None and connection.correlation is not None and now_ms >= connection.blocked_until_ms

    def sent(self, destination: int, request: Request, now_ms: int) -> int:
        """Note a request that is being sent, and return the correlation of its response."""
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
        """Return destination and request of a response, or None when the request is not in flight. A failure starts the back-off."""
        for destination, connection in self._by_destination.items():
            if connection.correlation == correlation and connection.request is not None:
                request = connection.request
                connection.correlation = None
                connection.request = None
                connection.blocked_until_ms = now_ms + self._retry_backoff_ms if failed else 0
                return destination, request
        return None

    def back_off(self, destination: int, now_ms: int) -> None:
        """Start the back-off of a destination after a missing or unusable response. A request in flight counts as lost."""
        connection = self._by_destination.setdefault(destination, Connection())
        connection.correlation = None
        connection.request = None
        connection.blocked_until_ms = now_ms + self._retry_backoff_ms

    def reset(self) -> None:
        """Forget all requests and back-offs. A new role sends new requests and ignores responses to old ones."""
        self._by_destination.clear()

    def next_free_ms(self, destinations: tuple[int, ...]) -> int:
        """Return the time in milliseconds at which the first of the destinations may get a request again."""
        return min((self.blocked_until(destination) for destination in destinations), default=NEVER)
