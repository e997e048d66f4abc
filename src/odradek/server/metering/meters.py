"""Registry of all metrics of a node, and the periodic sampling of their rates."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from odradek.metrics.catalogue import CATALOGUE
from odradek.metrics.rates import TICK_S
from odradek.metrics.registry import Registry
from odradek.server.cluster.lifecycle import BrokerState
from odradek.server.metering.exporter import Exporter
from odradek.server.metering.groups import add_groups
from odradek.server.metering.network import Idleness, add_network
from odradek.server.metering.process import add_clients, add_process, add_state
from odradek.server.metering.quorum import ClusterSource, add_metadata, add_raft, add_rules
from odradek.server.metering.replicas import ReplicaSource, add_fetchers, add_logs, add_waits
from odradek.server.metering.traffic import RequestSource, add_forwarding, add_quotas, add_traffic

if TYPE_CHECKING:
    from odradek.controller.kraft.node import KRaftNode
    from odradek.network.acceptor import Acceptor
    from odradek.replication.fetchers import ReplicaFetchers
    from odradek.server.start.node import Node

logger = logging.getLogger(__name__)

_SLICE_S = 0.001


class Meters:
    """Metrics of a node. Parts that are made later are looked up when a metric is read."""

    def __init__(self, node: Node, acceptor: Acceptor) -> None:
        self._node = node
        self._kraft: KRaftNode | None = None
        self.registry = registry = Registry(CATALOGUE)
        services, clock = node.services, node.clock
        self.exporter = Exporter(registry, clock, self.problems)
        self._looking: asyncio.Task[None] | None = None

        if node.config.is_broker:
            add_traffic(registry, lambda: None if node.replica_manager is None else node.replica_manager.traffic)
        RequestSource(node.dispatcher.requests, clock).add_to(registry)
        self._idleness = Idleness(clock)
        add_network(registry, acceptor, self._idleness)
        if node.config.is_broker:
            ReplicaSource(lambda: node.replica_manager, clock).add_to(registry)
            add_fetchers(registry, self._fetchers)
            add_logs(
                registry,
                lambda: node.log_manager,
                lambda: node.replica_manager,
                lambda: node.recovery,
                clock,
            )
            add_waits(registry, lambda: node.replica_manager, lambda: node.coordinators, clock)
            add_groups(registry, lambda: node.coordinators, clock)
            add_state(registry, node.states, services)
            add_forwarding(registry, lambda: None if node.links is None else node.links.forwarder, clock)
            add_quotas(registry)
            add_clients(registry, node.telemetry)
        add_process(registry, clock)
        registry.add("odradek:type=Exporter,name=ScrapesRefused", lambda: [((), (), self.exporter.refused)])

    def _fetchers(self) -> ReplicaFetchers | None:
        manager = self._node.replica_manager
        found = None if manager is None else manager.changes.fetchers
        from odradek.replication.fetchers import ReplicaFetchers

        return found if isinstance(found, ReplicaFetchers) else None

    def follow(self, kraft: KRaftNode) -> None:
        """Add the metrics of the quorum, and consider it in `problems`."""
        self._kraft = kraft
        config = self._node.config
        add_raft(self.registry, kraft, self._node.clock, self._idleness)
        add_metadata(self.registry, kraft, self._node.clock, broker=config.is_broker, controller=config.is_controller)
        add_rules(self.registry, kraft)
        if config.is_controller:
            cluster = ClusterSource(kraft, self._node.clock)
            cluster.add_to(self.registry)
            kraft.add_publisher(cluster)

    def problems(self) -> list[str]:
        """Return the reasons why the node is not ready.

        A broker is ready while it is unfenced, serves clients and is not shutting down. A controller is ready while it knows a leader of
        the quorum.
        """
        config = self._node.config
        found: list[str] = []
        state = self._node.states.state
        if config.is_broker and state is not BrokerState.RUNNING:
            found.append(f"the broker is {state.name}")
        if config.is_controller and (self._kraft is None or self._kraft.leader_and_epoch.leader_id < 0):
            found.append("the controller does not know a leader of the quorum")
        return found

    async def start(self, host: str, port: int) -> None:
        await self.exporter.start(host, port)
        self._looking = asyncio.ensure_future(self._look())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self.exporter.close()

    async def _look(self) -> None:
        clock = self._node.clock
        while True:
            await asyncio.sleep(TICK_S)
            try:
                begun = clock.monotonic()
                for _ in self.registry.update(begun):
                    if clock.monotonic() - begun >= _SLICE_S:
                        await asyncio.sleep(0)
                        begun = clock.monotonic()
            except Exception:
                logger.exception("computing the rates of metrics failed")
