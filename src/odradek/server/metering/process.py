"""Metrics of the process, of the node's state, and of client telemetry."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.metrics.registry import read_one

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.handlers.services import Services
    from odradek.metrics.registry import Registry, Series
    from odradek.metrics.telemetry import Telemetry
    from odradek.server.cluster.lifecycle import BrokerStateMachine
    from odradek.server.metering.telemetry import ClientTelemetry

_PAGE = os.sysconf("SC_PAGE_SIZE")


def add_process(registry: Registry, clock: Clock) -> None:
    """Register uptime, CPU, memory and descriptors; memory and open descriptors only where the system has /proc."""
    begun = clock.monotonic()

    def add(name: str, of: Callable[[], float | None]) -> None:
        registry.add(f"odradek:type=Process,name={name}", read_one(of, lambda value: value))

    add("UptimeSeconds", lambda: clock.monotonic() - begun)
    add("CpuSeconds", time.process_time)
    add("ResidentBytes", _resident)
    add("OpenFiles", _open_files)
    add("MaxFiles", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def add_clients(registry: Registry, own: ClientTelemetry | None) -> None:
    """Register client-metrics; they have no values unless clients are asked for metrics."""

    def add(name: str, of: Callable[[Telemetry], int]) -> None:
        registry.add(f"kafka.server:type=client-metrics.{name}", read_one(lambda: own, lambda found: of(found.telemetry)))

    add("instance-count", len)
    add("unknown-subscription-request-count", lambda found: found.counts.unknown)
    add("throttle-count", lambda found: found.counts.throttled)
    add("plugin-export-count", lambda found: found.counts.exported)
    add("plugin-error-count", lambda found: found.counts.errors)


def _disk(field: str) -> Callable[[], Iterator[Series]]:
    def read() -> Iterator[Series]:
        try:
            with open("/proc/self/io", encoding="ascii") as file:
                for line in file:
                    if line.startswith(field):
                        yield (), (), int(line.split()[1])
        except (OSError, ValueError):
            return

    return read


def add_state(registry: Registry, states: BrokerStateMachine, services: Services) -> None:
    """Register BrokerState and the other metrics of KafkaServer."""
    server = "kafka.server:type=KafkaServer,name="
    registry.add(server + "ClusterId", lambda: [((), (), services.cluster_id)])
    registry.add(server + "linux-disk-read-bytes", _disk("read_bytes:"))
    registry.add(server + "linux-disk-write-bytes", _disk("write_bytes:"))
    registry.add(server + "BrokerState", lambda: [((), (), int(states.state))])


def _resident() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
