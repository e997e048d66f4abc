"""Metrics of connections, of the memory of requests, and of the load of the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.metrics.rates import Rates

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.metrics.registry import Registry, Series
    from odradek.network.acceptor import Acceptor

_SOCKETS = ("listener", "networkProcessor")
_SHORTEST_S = 1.0


class Idleness:
    """Share of time in which the loop's thread was idle, measured between two readings at least a second apart."""

    def __init__(self, clock: Clock, cpu: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._cpu = cpu
        self._at = clock.monotonic()
        self._busy = cpu()
        self._share = 1.0

    def share(self) -> float:
        """Return the idle share, between 0 and 1 inclusive."""
        now = self._clock.monotonic()
        passed = now - self._at
        if passed >= _SHORTEST_S:
            busy = self._cpu()
            self._share = min(max(1.0 - (busy - self._busy) / passed, 0.0), 1.0)
            self._at, self._busy = now, busy
        return self._share


class LastMinute:
    """Rate of a count over the last minute, for Kafka metrics that are rates; measured when they are read."""

    def __init__(self, count: Callable[[], int], clock: Clock) -> None:
        self._count = count
        self._clock = clock
        self._rates = Rates(clock.monotonic(), count())

    def read(self) -> float:
        self._rates.update(self._count(), self._clock.monotonic())
        return self._rates.averages[0]


def add_network(registry: Registry, acceptor: Acceptor, idleness: Idleness) -> None:
    """Register the metrics of the acceptor and its connections."""

    def by_listener(counts: dict[str, int]) -> Iterator[Series]:
        for name, count in counts.items():
            yield _SOCKETS, (name, "0"), count

    def open_connections() -> Iterator[Series]:
        counts = {bound.name: 0 for bound in acceptor.listeners}
        for connection in acceptor.connections:
            counts[connection.listener.name] = counts.get(connection.listener.name, 0) + 1
        return by_listener(counts)

    def admitted() -> Iterator[Series]:
        return by_listener({bound.name: bound.listener.admitted for bound in acceptor.listeners})

    def busy() -> Iterator[Series]:
        count = sum(1 for connection in acceptor.connections if connection.busy)
        yield (), (), count
        yield ("processor",), ("0",), count

    channel = "kafka.network:type=RequestChannel,name="
    registry.add(channel + "RequestQueueSize", lambda: [((), (), 0)])
    registry.add(channel + "ResponseQueueSize", busy)
    server = "kafka.network:type=SocketServer,name="
    registry.add(server + "NetworkProcessorAvgIdlePercent", lambda: [((), (), idleness.share())])
    registry.add(server + "MemoryPoolAvailable", lambda: [((), (), max(acceptor.pool.budget - acceptor.pool.in_use, 0))])
    registry.add(server + "MemoryPoolUsed", lambda: [((), (), acceptor.pool.in_use)])
    registry.add(server + "ExpiredConnectionsKilledCount", lambda: [((), (), acceptor.idle_closed)])
    registry.add(
        "kafka.network:type=Acceptor,name=AcceptorBlockedPercent",
        lambda: [(("listener",), (bound.name,), 0) for bound in acceptor.listeners],
    )
    registry.add("kafka.network:type=Processor,name=IdlePercent", lambda: [(("networkProcessor",), ("0",), idleness.share())])
    for role in ("", "Broker", "Controller"):
        pool = f"kafka.server:type=KafkaRequestHandlerPool,name={role}RequestHandlerAvgIdlePercent"
        registry.add(pool, lambda: [((), (), idleness.share())])
    sockets = "kafka.server:type=socket-server-metrics.connection-"
    registry.add(sockets + "count", open_connections)
    registry.add(sockets + "creation-total", admitted)
