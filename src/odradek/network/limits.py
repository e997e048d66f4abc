"""Limits of an acceptor; every resource that peers use has one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from odradek.base.clock import Clock

UNLIMITED = 2**31 - 1


class AcceptorLimits:
    """Limits of an acceptor. Sizes are in bytes, times in seconds. Names in brackets are Kafka's configuration keys.

    These limits are finite where Kafka has no limit:

    - `request_memory`: queued.max.request.bytes.
    - `login_memory`: for requests of connections that have not logged in; not part of `request_memory`.
    - `frame_grace_s` and `frame_min_rate`: a frame must be complete within the grace period plus size / rate.
    - `response_memory`: for responses that peers have not received yet, over all connections (`network.unsent_bytes`). The broker sets
      an eighth of queued.max.request.bytes.
    - `handshake_s`: from the admission of a connection to the end of its TLS handshake.
    - `handshakes_at_once`: handshake steps that run in threads at the same time.

    `pipelined_requests` and `pipelined_bytes` bound the requests in flight on a connection that may send a request before the last is
    answered. Kafka serves one request at a time.
    """

    __slots__ = (
        "frame_grace_s",
        "frame_min_rate",
        "handshake_s",
        "handshakes_at_once",
        "idle_s",
        "login_memory",
        "max_connections",
        "max_connections_of",
        "max_connections_per_ip",
        "per_ip_overrides",
        "pipelined_bytes",
        "pipelined_requests",
        "protected",
        "receive_buffer",
        "request_memory",
        "request_size",
        "response_memory",
        "send_buffer",
    )

    def __init__(
        self,
        *,
        request_size: int = 100 * 1024 * 1024,
        request_memory: int = 256 * 1024 * 1024,
        response_memory: int = 64 * 1024 * 1024,
        login_memory: int = 8 * 1024 * 1024,
        idle_s: float = 600.0,
        max_connections: int = UNLIMITED,
        max_connections_of: Mapping[str, int] | None = None,
        protected: Collection[str] = (),
        max_connections_per_ip: int = UNLIMITED,
        per_ip_overrides: Mapping[str, int] | None = None,
        frame_grace_s: float = 30.0,
        frame_min_rate: int = 16 * 1024,
        handshake_s: float = 30.0,
        handshakes_at_once: int = 1,
        receive_buffer: int = -1,
        send_buffer: int = -1,
        pipelined_requests: int = 16,
        pipelined_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        self.request_size = request_size  # socket.request.max.bytes
        self.request_memory = request_memory  # queued.max.request.bytes
        self.response_memory = response_memory
        self.login_memory = login_memory
        self.idle_s = idle_s  # connections.max.idle.ms
        self.max_connections = max_connections  # max.connections
        self.max_connections_of = dict(max_connections_of or {})  # listener.name.NAME.max.connections, by listener name
        # names of the listeners of nodes; clients are evicted for nodes when max.connections are open
        self.protected = frozenset(protected)
        self.max_connections_per_ip = max_connections_per_ip  # max.connections.per.ip
        self.per_ip_overrides = dict(per_ip_overrides or {})  # max.connections.per.ip.overrides
        self.frame_grace_s = frame_grace_s
        self.frame_min_rate = frame_min_rate
        self.handshake_s = handshake_s
        self.handshakes_at_once = handshakes_at_once
        self.receive_buffer = receive_buffer  # socket.receive.buffer.bytes; -1: the system's default
        self.send_buffer = send_buffer  # socket.send.buffer.bytes; -1: the system's default
        self.pipelined_requests = pipelined_requests
        self.pipelined_bytes = pipelined_bytes  # bytes of the requests, or of their responses where those are larger

    def for_ip(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.max_connections_per_ip)


class QuietLog:
    """Log of warnings about peers: at most `burst` in every `interval_s` seconds. The next warning says how many were suppressed."""

    __slots__ = ("_burst", "_clock", "_interval_s", "_left", "_logger", "_suppressed", "_until")

    def __init__(self, logger: logging.Logger, clock: Clock, *, burst: int = 10, interval_s: float = 10.0) -> None:
        self._logger = logger
        self._clock = clock
        self._burst = burst
        self._interval_s = interval_s
        self._left = burst
        self._until = 0.0
        self._suppressed = 0

    def warning(self, message: str, *args: object) -> None:
        now = self._clock.monotonic()
        if now >= self._until:
            self._until = now + self._interval_s
            self._left = self._burst
        if self._left <= 0:
            self._suppressed += 1
            return
        self._left -= 1
        if self._suppressed:
            message += " (and %d more such messages suppressed)"
            args = (*args, self._suppressed)
            self._suppressed = 0
        self._logger.warning(message, *args)
