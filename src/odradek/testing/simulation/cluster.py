"""Cluster in a simulation: several whole nodes and their clients on one virtual clock and network, each node with a virtual disk.

    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=7, nodes=3)
        await cluster.start()
        with cluster.client("writer"):
            async with cluster.producer("writer") as producer:
                await producer.send_and_wait("topic", b"value")
        cluster.pause(2)         # or kill, power_cut, cut, slow_jobs, set_clock, ...
        await asyncio.sleep(12)
        await cluster.heal()

    run(main, VirtualNetwork(seed=7))

The seeds decide everything: the same seeds give the same run in every process.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition, random_uuid, uuid_to_string
from odradek.client.settings.config import Setting
from odradek.config.broker import BrokerConfig
from odradek.controller.format import format_storage
from odradek.controller.kraft import KRaftNode
from odradek.metadata.image import MetadataImage
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import EPOCH_MS, SimulatedClock, SimulatedLoop
from odradek.testing.simulation.network import on_host
from odradek.testing.simulation.node import BrokerDied, SimulatedNode
from odradek.testing.simulation.trace import Trace

DATA = "/data"
PORT, CONTROLLER_PORT = 9092, 9093
_EXIT_S = 60.0
"""Virtual seconds that a node may take to stop after a fatal error."""


class SimulatedCluster:
    """Simulated nodes 1 to n, formatted and started together.

    With `separate_controllers`, nodes 1 to `nodes` are brokers and the next `controllers` nodes (default: 3) are controllers. Otherwise the
    first `controllers` nodes (default: 3, or all when there are fewer) have both roles, and the other nodes are brokers. With
    `static_voters`, controller.quorum.voters and kraft.version 0 replace the voter set in the log. `settings` are Kafka's keys for every
    node. The nodes are formatted with `release_version` and `feature_levels` (default: the newest release).
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        seed: int = 0,
        nodes: int = 3,
        controllers: int | None = None,
        separate_controllers: bool = False,
        static_voters: bool = False,
        settings: Mapping[str, str] | None = None,
        release_version: str | None = None,
        feature_levels: Mapping[str, int] | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.clock = SimulatedClock(loop)
        """Clock of the clients, which `set_clock` does not change."""
        self.broker_ids = tuple(range(1, nodes + 1))
        count = min(3, nodes) if controllers is None else controllers
        self.controller_ids = tuple(range(nodes + 1, nodes + 1 + (controllers or 3)) if separate_controllers else self.broker_ids[:count])
        self.ids = tuple(sorted({*self.broker_ids, *self.controller_ids}))
        self._static_voters = static_voters
        self._settings = dict(settings or {})
        self._release_version = release_version
        self._feature_levels = dict(feature_levels or {})
        self._rng = random.Random(f"cluster {seed}")
        self._starting: dict[int, asyncio.Task[None]] = {}
        self._context = contextvars.copy_context()
        self._leaving: dict[int, asyncio.Task[None]] = {}
        self.on_start_failed: Callable[[int, OdradekError], object] | None = None
        """Called as (node, error) when a start fails. Without this callback, `wait_for_starts` raises the error."""
        self.nodes = {node: self._new_node(node, trace) for node in self.ids}

    def _new_node(self, node: int, trace: Trace | None) -> SimulatedNode:
        simulated = SimulatedNode(self.loop, self.host(node), lambda: self.config(node), seed=f"{self.seed} {node}", trace=trace)
        simulated.on_fatal = lambda _: self._exit(node)
        return simulated

    # -- configuration ---------------------------------------------------------------------------------------------------------------

    @staticmethod
    def host(node: int) -> str:
        """Return the host name of a node."""
        return f"node-{node}"

    @property
    def hosts(self) -> list[str]:
        return [self.host(node) for node in self.ids]

    @property
    def bootstrap_servers(self) -> str:
        """Value of `bootstrap.servers` for clients: all brokers."""
        return ",".join(f"{self.host(node)}:{PORT}" for node in self.broker_ids)

    def config(self, node: int) -> BrokerConfig:
        """Return the configuration that the node starts with."""
        roles = [name for name, ids in (("broker", self.broker_ids), ("controller", self.controller_ids)) if node in ids]
        host = self.host(node)
        listeners = [f"PLAINTEXT://{host}:{PORT}"] if "broker" in roles else []
        listeners += [f"CONTROLLER://{host}:{CONTROLLER_PORT}"] if "controller" in roles else []
        copies = str(min(3, len(self.broker_ids)))
        quorum = {"controller.quorum.bootstrap.servers": ",".join(f"{self.host(each)}:{CONTROLLER_PORT}" for each in self.controller_ids)}
        if self._static_voters:
            quorum = {"controller.quorum.voters": ",".join(f"{each}@{self.host(each)}:{CONTROLLER_PORT}" for each in self.controller_ids)}
        return BrokerConfig(
            {
                "process.roles": ",".join(roles),
                "node.id": str(node),
                "controller.listener.names": "CONTROLLER",
                "listeners": ",".join(listeners),
                **({"inter.broker.listener.name": "PLAINTEXT"} if "broker" in roles else {}),
                **quorum,
                "log.dirs": DATA,
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "transaction.state.log.min.isr": str(max(1, int(copies) - 1)),
                **self._settings,
            }
        )

    def format(self) -> None:
        """Format every node's disk, as `odradek storage format` does."""
        cluster_id = uuid_to_string(random_uuid(self._rng))
        directories = {node: uuid_to_string(random_uuid(self._rng)) for node in self.controller_ids}
        voters = ",".join(f"{node}@{self.host(node)}:{CONTROLLER_PORT}:{directories[node]}" for node in self.controller_ids)
        for node in self.ids:
            is_voter = node in self.controller_ids and not self._static_voters
            format_storage(
                self.nodes[node].disk,
                self.config(node),
                cluster_id=cluster_id,
                rng=self._rng,
                now_ms=self.clock.time_ms(),
                initial_controllers=voters if is_voter else None,
                release_version=self._release_version,
                feature_levels=self._feature_levels,
            )

    # -- lives of nodes --------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Format and start all nodes, and wait until every node serves clients. Raise the error of a node that failed to start."""
        self.format()
        for node in self.ids:
            self.begin(node)
        await self.wait_for_starts()

    def begin(self, node: int) -> None:
        """Begin to start a node without waiting for the end of the start. A node that is started alone may have to wait for a quorum."""
        with on_host(self.host(node)):
            self._starting[node] = self.loop.create_task(self._start(node))

    async def _start(self, node: int) -> None:
        simulated = self.nodes[node]
        try:
            await simulated.start()
        except BrokerDied:
            return
        except OdradekError as error:
            simulated.note(f"did not start: {error}")
            self._exit(node)
            if self.on_start_failed is None:
                raise
            self.on_start_failed(node, error)

    async def wait_for_starts(self) -> None:
        """Wait until no node is starting. Raise the error of a node that failed to start."""
        while self._starting:
            node, task = next(iter(self._starting.items()))
            await asyncio.wait((task,))
            if self._starting.get(node) is task:
                del self._starting[node]
            task.result()

    def is_starting(self, node: int) -> bool:
        task = self._starting.get(node)
        return task is not None and not task.done()

    def _exit(self, node: int) -> None:
        """Stop a node after a fatal error. Kill the node when the stop takes longer than 60 virtual seconds."""
        simulated = self.nodes[node]
        life = simulated.lives

        async def leave() -> None:
            try:
                async with asyncio.timeout(_EXIT_S):
                    await simulated.stop()
            except BrokerDied:
                return
            except TimeoutError:
                if simulated.alive and simulated.lives == life:
                    simulated.kill()

        if simulated.alive:
            # Run outside the failed process: tasks of that process may never run again.
            self._leaving[node] = self.loop.create_task(leave(), context=self._context.copy())

    async def stop(self, node: int | None = None) -> None:
        """Shut down one node in order, or all live nodes at the same time. Raises BrokerDied when a node was killed during the shutdown."""
        chosen = [node] if node is not None else [each for each in self.ids if self.nodes[each].alive]
        await asyncio.gather(*(self.nodes[each].stop() for each in chosen))

    def kill(self, node: int) -> None:
        """See `SimulatedNode.kill`."""
        self.nodes[node].kill()

    def power_cut(self, *nodes: int) -> None:
        """Cut the power of the named nodes (default: all) at the same moment; see `SimulatedNode.power_cut`."""
        for node in nodes or self.ids:
            self.nodes[node].power_cut()

    def pause(self, node: int) -> None:
        """See `SimulatedNode.pause`."""
        self.nodes[node].pause()

    def resume(self, node: int) -> None:
        """See `SimulatedNode.resume`."""
        self.nodes[node].resume()

    # -- faults -----------------------------------------------------------------------------------------------------------------------

    def cut(self, source: int | str, target: int | str) -> None:
        """Stop the delivery of bytes from `source` to `target`. Each is a node id or the host name of a client."""
        self.loop.network.cut(self._host(source), self._host(target))

    def isolate(self, node: int, others: Iterable[int] | None = None) -> None:
        """Cut a node off from `others` (default: all other nodes), in both directions. Clients still reach the node."""
        for other in self.ids if others is None else others:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def slow_down(self, source: int | str, target: int | str, latency_s: tuple[float, float] | None) -> None:
        """Set the latency from `source` to `target` (least, most, in seconds). None restores the default latency."""
        self.loop.network.slow_down(self._host(source), self._host(target), latency_s)

    def set_clock(self, node: int, ahead_ms: int) -> None:
        """Set a node's wall clock `ahead_ms` milliseconds ahead of the right time. The node's monotonic clock does not change."""
        self.nodes[node].clock.epoch_ms = EPOCH_MS + ahead_ms

    async def heal(self) -> None:
        """End all faults of nodes: cuts, latencies between nodes, clocks, slow executors, disk failures. Resume paused nodes and start
        nodes that are down.

        Wait until all nodes serve clients. An end of life that `SimulatedNode.end_at_step` armed is disarmed. Raise the error of a node
        that failed to start.
        """
        self.loop.network.heal()
        self.loop.network.restore_latencies()
        for node, simulated in self.nodes.items():
            self.set_clock(node, 0)
            simulated.slow_jobs(None)
            simulated.disarm()
            simulated.disk.lift_failures()
            if simulated.paused:
                simulated.resume()
        for leaving in list(self._leaving.values()):
            await asyncio.wait((leaving,))
        while down := [node for node in self.ids if not self.nodes[node].alive]:
            for node in down:
                self.begin(node)
            await self.wait_for_starts()
        await self.wait_for_starts()

    @classmethod
    def _host(cls, place: int | str) -> str:
        return cls.host(place) if isinstance(place, int) else place

    # -- clients ---------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def client(name: str) -> AbstractContextManager[None]:
        """Return a context manager: clients that are made and used inside its block run on the host `name`."""
        return on_host(name)

    def producer(self, name: str, **settings: Setting) -> SimulatedProducer:
        """Return a producer whose random choices are seeded by `name` and the cluster's seed."""
        return SimulatedProducer(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def consumer(self, name: str, **settings: Setting) -> SimulatedConsumer:
        """Return a consumer whose random choices are seeded by `name` and the cluster's seed."""
        return SimulatedConsumer(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def admin(self, name: str, **settings: Setting) -> SimulatedAdmin:
        """Return an admin client whose random choices are seeded by `name` and the cluster's seed."""
        return SimulatedAdmin(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def _rng_of(self, name: str) -> random.Random:
        return random.Random(f"{name} {self.seed}")

    # -- observation -----------------------------------------------------------------------------------------------------------------

    def kraft(self, node: int) -> KRaftNode | None:
        """Return the node's `KRaftNode`, or None while the node is down or has not made its `KRaftNode` yet."""
        simulated = self.nodes[node]
        if not simulated.alive or simulated.broker is None:
            return None
        return simulated.broker.node.kraft

    def active_controller(self) -> int | None:
        """Return the node with the active controller, or None. If several nodes claim to be active, take the highest epoch."""
        active = [(kraft.leader_and_epoch.epoch, node) for node in self.ids if (kraft := self.kraft(node)) and kraft.is_active_controller]
        return max(active)[1] if active else None

    def image(self) -> MetadataImage | None:
        """Return the metadata image that the active controller has committed, or None without an active controller."""
        active = self.active_controller()
        kraft = None if active is None else self.kraft(active)
        return None if kraft is None else kraft.image

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the leader of a partition according to the committed metadata, or None without a leader."""
        image = self.image()
        registration = None if image is None else image.topics.partition(*partition)
        return None if registration is None or registration.leader < 0 else registration.leader

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float, *, what: str = "", every_s: float = 0.1) -> None:
        """Wait until the condition holds; check every `every_s` virtual seconds. Raises TimeoutError, which names `what`, after
        `timeout_s`.
        """
        deadline = self.loop.time() + timeout_s
        while not condition():
            if self.loop.time() >= deadline:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}")
            await asyncio.sleep(every_s)


__all__ = ["CONTROLLER_PORT", "DATA", "PORT", "BrokerDied", "SimulatedCluster"]
