"""Replicas of a broker: they serve Produce and Fetch from the loaded logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.config.keys.replication import NUM_REPLICA_FETCHERS
from odradek.handlers.scopes import BROKER
from odradek.replication.fetchers import ReplicaFetchers
from odradek.replication.replica_manager import ReplicaManager
from odradek.server.cluster.assignments import AssignmentsManager
from odradek.server.cluster.senders import alter_partition_sender, fetch_sender
from odradek.server.step import Step
from odradek.server.upkeep.reconfiguration import follow_producer_settings
from odradek.server.upkeep.replication_throttles import ReplicationThrottles

if TYPE_CHECKING:
    from odradek.network.acceptor import Acceptor
    from odradek.server.cluster.internal_channel import Links
    from odradek.server.cluster.registration import BrokerRegistrar
    from odradek.server.start.node import Node
    from odradek.server.upkeep.log_directories import LogDirectories


class Replicas(NamedTuple):
    """Replicas of a broker, and their quotas."""

    manager: ReplicaManager
    throttles: ReplicationThrottles


class MakeReplicas(Step[Replicas]):
    """Step that makes the replica manager and the fetchers. Its stop answers waiting requests and writes the high watermarks."""

    name = "replicas"
    stop_timeout_s = 30.0

    def __init__(self, node: Node, directories: LogDirectories, acceptor: Acceptor, links: Links, registrar: BrokerRegistrar) -> None:
        services = node.services
        self._node = node
        self._directories = directories
        self._acceptor = acceptor
        self._links = links
        self._registrar = registrar
        self._assignments = AssignmentsManager(
            links.channel, node.clock, node.config.node_id, lambda: registrar.broker_epoch, lambda: services.metadata.image
        )
        self._replica_manager: ReplicaManager | None = None
        self._fetchers: ReplicaFetchers | None = None

    async def start(self) -> Replicas:
        node, services = self._node, self._node.services
        manager = self._replica_manager = node.replica_manager = ReplicaManager(
            node.config,
            clock=node.clock,
            disk=node.disk,
            rng=node.random,
            log_manager=self._directories.log_manager,
            metadata=services.metadata,
            send_alter_partition=alter_partition_sender(self._links.channel),
            broker_epoch=lambda: self._registrar.broker_epoch,
            run_job=node.jobs.run,
            dynamic_config=services.dynamic_config,
            assign=self._assignments.assign,
        )
        self._directories.replica_manager = manager
        manager.changes.on_leadership.append(self._assignments.replicas_changed)
        follow_producer_settings(services.dynamic_config, self._directories.log_manager, manager)
        self._fetchers = manager.changes.fetchers = ReplicaFetchers(
            local_id=node.config.node_id,
            clock=node.clock,
            config=services.dynamic_config,
            send=fetch_sender(self._links.peers, services.metadata, node.config.inter_broker_listener_name),
            broker_epoch=lambda: self._registrar.broker_epoch,
            hosted=manager.partitions,
            log_manager=self._directories.log_manager,
            run_job=node.jobs.run,
            flush=manager.flusher.flush,
            drain=manager.delayed.drain,
        )
        services.dynamic_config.subscribe((NUM_REPLICA_FETCHERS,), self._fetchers.resize)
        return Replicas(manager, ReplicationThrottles(services.dynamic_config, node.clock, manager, self._fetchers))

    async def stop(self) -> None:
        self._assignments.close()
        if self._fetchers is not None:
            self._fetchers.close()
        if self._replica_manager is not None:
            self._replica_manager.close()
        # The responses completed by this must be sent before the logs close.
        await self._acceptor.close(BROKER)
