"""Cluster of several nodes on a simulated loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable
from typing import Any
from uuid import UUID

from odradek.base.ids import uuid_to_string
from odradek.config.broker import standalone_config
from odradek.controller.format import format_storage
from odradek.network.transport import dial
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.broker import DATA, SimulatedBroker
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.network import on_host

CLUSTER = "T2RyYWRla1NldmVyYWxOb2Q"


BOTH, BROKER, CONTROLLER = "broker,controller", "broker", "controller"


def directory_id(node: int) -> UUID:
    return UUID(int=(node << 64) + 0xABCDEF)


class Cluster:
    """`roles` by node id. The voters are those with the role of a controller: static, or in the log (`dynamic`) of which `joining` know
    nothing yet.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        roles: dict[int, str],
        *,
        dynamic: bool = False,
        joining: Iterable[int] = (),
        release: str | None = None,
        **settings: str,
    ) -> None:
        self.loop = loop
        self.release = release
        self.nodes: dict[int, SimulatedBroker] = {}
        self.joining = set(joining)
        voters = {node: f"n{node}:9093" for node, role in roles.items() if CONTROLLER in role and node not in self.joining}
        for node, role in roles.items():
            listeners = [f"PLAINTEXT://n{node}:9092"] if BROKER in role else []
            listeners += [f"CONTROLLER://n{node}:9093"] if CONTROLLER in role else []
            config = {
                "node.id": str(node),
                "process.roles": role,
                "listeners": ",".join(listeners),
                "controller.quorum.bootstrap.servers": ",".join(voters.values()),
                "server.max.startup.time.ms": "60000",
                **({} if dynamic else {"controller.quorum.voters": ",".join(f"{voter}@{at}" for voter, at in voters.items())}),
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
            initial = ",".join(f"{voter}@{at}:{uuid_to_string(directory_id(voter))}" for voter, at in voters.items())
            disk = VirtualDisk()
            self._format(disk, config, initial if dynamic and node not in self.joining else None, dynamic)
            self.nodes[node] = SimulatedBroker(loop, seed=node, host=f"n{node}", settings=config, disk=disk)

    def _format(self, disk: VirtualDisk, settings: dict[str, str], initial: str | None, dynamic: bool) -> None:
        config = standalone_config({"log.dirs": DATA, **settings})
        format_storage(
            disk,
            config,
            cluster_id=CLUSTER,
            rng=random.Random(config.node_id),
            now_ms=0,
            release_version=self.release,
            initial_controllers=initial if config.is_controller else None,
            no_initial_controllers=dynamic and initial is None and config.is_controller,
        )

    async def start(self, *nodes: int) -> None:
        await asyncio.gather(*(self.nodes[node].start() for node in nodes or self.nodes))

    def kraft(self, node: int) -> Any:
        broker = self.nodes[node].broker
        assert broker is not None
        return broker.node.kraft

    def active(self) -> int:
        """The active controller; there must be one, as all alive see it."""
        (leader,) = {self.kraft(node).leader_and_epoch.leader_id for node, broker in self.nodes.items() if broker.alive}
        assert self.kraft(leader).is_active_controller
        return int(leader)

    async def ask(self, node: int, request: Message, response: type[Any], version: int, port: int = 9092) -> Any:
        with on_host("client"):
            connection = await dial(f"n{node}", port, clock=self.nodes[node].clock, client_id="test", loop=self.loop)
        future = self.loop.create_future()
        connection.request(request, response, version).add_callback(
            lambda done: future.set_exception(done.error) if done.error else future.set_result(done.result())
        )
        try:
            return await future
        finally:
            connection.close()

    async def create(self, node: int, *names: str, replicas: int = 1) -> list[int]:
        topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=3, replication_factor=replicas) for name in names]
        response = await self.ask(node, CreateTopicsRequest(topics=topics, timeout_ms=5000), CreateTopicsResponse, 7)
        return [topic.error_code for topic in response.topics]

    async def topics(self, node: int) -> list[str]:
        response: MetadataResponse = await self.ask(node, MetadataRequest(topics=None), MetadataResponse, 12)
        return sorted(topic.name for topic in response.topics if topic.name is not None)

    def known(self, node: int) -> Collection[str]:
        """The topics that the broker has been told of."""
        broker = self.nodes[node].broker
        assert broker is not None
        return broker.services.metadata.image.topics.by_name.keys()

    async def until(self, condition: Callable[[], bool], seconds: float = 30) -> float:
        """The virtual seconds until the condition holds."""
        begin = self.loop.time()
        while not condition():
            assert self.loop.time() - begin < seconds, "too late"
            await asyncio.sleep(0.01)
        return self.loop.time() - begin

    def registered(self, node: int) -> dict[int, bool]:
        """Broker id -> whether it is fenced, as the node's image says."""
        return {broker.broker_id: broker.fenced for broker in self.kraft(node).image.cluster.brokers.values()}

    def has_leader(self, but: int = -1) -> bool:
        alive = [node for node, broker in self.nodes.items() if broker.alive]
        leaders = {self.kraft(node).leader_and_epoch.leader_id for node in alive}
        return len(leaders) == 1 and leaders != {-1} and leaders != {but} and self.kraft(min(leaders)).is_active_controller


MAP = "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"


def ready(cluster: Cluster, node: int, listener: str) -> set[int]:
    """The nodes that this one has a working connection to, at the listener."""
    broker = cluster.nodes[node].broker
    assert broker is not None
    assert broker.node.links is not None
    peers = broker.node.links.peers
    return {line.node.node_id for line, link in peers.lines.items() if link.is_open and line.node.listener == listener}
