"""A cluster in a simulation: several whole nodes on one virtual clock, network and set of disks, and clients beside them.

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

Everything follows from the seeds: the same ones give the same story in every process.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition, random_uuid, uuid_to_string
from odradek.client.config import Setting
from odradek.config.broker import BrokerConfig
from odradek.controller.format import format_storage
from odradek.controller.kraft import KRaftNode
from odradek.metadata.image import MetadataImage
from odradek.testing.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.loop import EPOCH_MS, SimulatedClock, SimulatedLoop
from odradek.testing.network import on_host
from odradek.testing.node import BrokerDied, SimulatedNode
from odradek.testing.trace import Trace

DATA = "/data"
PORT, CONTROLLER_PORT = 9092, 9093
_EXIT_S = 60.0
"""Virtual seconds that a node which cannot go on may take to stop."""


class SimulatedCluster:
    """Nodes 1 to n, formatted and started together.

    With `separate_controllers` nodes 1 to `nodes` are brokers and the `controllers` nodes after them (default: three) controllers; else
    the first `controllers` nodes (default: three, or all of fewer) have both roles and the others are brokers. `static_voters`:
    controller.quorum.voters and kraft.version 0 in place of a voter set in the log. `settings` are Kafka's keys for every node,
    `release_version` and `feature_levels` what to format them with (default: as the newest release).
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
        """The right time, which clients have."""
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
        """Told of a start that ended in an error; without it `wait_for_starts` raises that."""
        self.nodes = {node: self._new_node(node, trace) for node in self.ids}

    def _new_node(self, node: int, trace: Trace | None) -> SimulatedNode:
        simulated = SimulatedNode(self.loop, self.host(node), lambda: self.config(node), seed=f"{self.seed} {node}", trace=trace)
        simulated.on_fatal = lambda _: self._exit(node)
        return simulated

    # -- what it is made of ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def host(node: int) -> str:
        """The name of a node's machine."""
        return f"node-{node}"

    @property
    def hosts(self) -> list[str]:
        return [self.host(node) for node in self.ids]

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given."""
        return ",".join(f"{self.host(node)}:{PORT}" for node in self.broker_ids)

    def config(self, node: int) -> BrokerConfig:
        """What the node is started with."""
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
        """Formats every node's disk, as `odradek storage format` does."""
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
        """Formats and starts all nodes; returns when every one of them serves. Raises what kept a node from starting."""
        self.format()
        for node in self.ids:
            self.begin(node)
        await self.wait_for_starts()

    def begin(self, node: int) -> None:
        """Starts a node and goes on meanwhile (alone it may have to wait for a quorum)."""
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
        """Returns when no node is starting any more. Raises what kept a node from starting."""
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
        """A node that cannot go on stops as far as it can, and then is gone."""
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
            # Not as part of the process that told of its end: nothing of that goes on.
            self._leaving[node] = self.loop.create_task(leave(), context=self._context.copy())

    async def stop(self, node: int | None = None) -> None:
        """An orderly shutdown of one node, or of all that are alive at the same time. BrokerDied when one was killed on the way."""
        chosen = [node] if node is not None else [each for each in self.ids if self.nodes[each].alive]
        await asyncio.gather(*(self.nodes[each].stop() for each in chosen))

    def kill(self, node: int) -> None:
        """See `SimulatedNode.kill`."""
        self.nodes[node].kill()

    def power_cut(self, *nodes: int) -> None:
        """The machines of these nodes (default: of all) lose power at the same moment, those that are down included."""
        for node in nodes or self.ids:
            if self.nodes[node].alive:
                self.nodes[node].power_cut()

    def pause(self, node: int) -> None:
        """See `SimulatedNode.pause`."""
        self.nodes[node].pause()

    def resume(self, node: int) -> None:
        """See `SimulatedNode.resume`."""
        self.nodes[node].resume()

    # -- what is wrong with it --------------------------------------------------------------------------------------------------------

    def cut(self, source: int | str, target: int | str) -> None:
        """What goes from one to the other (nodes, or hosts of clients) stops arriving."""
        self.loop.network.cut(self._host(source), self._host(target))

    def isolate(self, node: int, others: Iterable[int] | None = None) -> None:
        """Cuts a node off from the other nodes (all of them by default), both ways; clients still reach it."""
        for other in self.ids if others is None else others:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def slow_down(self, source: int | str, target: int | str, latency_s: tuple[float, float] | None) -> None:
        """Seconds (least, most) that bytes take from one to the other; None takes it back."""
        self.loop.network.slow_down(self._host(source), self._host(target), latency_s)

    def set_clock(self, node: int, ahead_ms: int) -> None:
        """A node's wall clock is wrong from now on, by so much; its monotonic clock is not."""
        self.nodes[node].clock.epoch_ms = EPOCH_MS + ahead_ms

    async def heal(self) -> None:
        """All is well from now on: links, clocks, disks; who is paused goes on, who is down is started. Returns when all serve.

        An end of a life that was armed (`SimulatedNode.end_at_step`) does not come any more.
        """
        self.loop.network.heal()
        for source in self.hosts:
            for target in self.hosts:
                self.loop.network.slow_down(source, target, None)
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
        """Clients made and used inside of this block are on a machine of that name."""
        return on_host(name)

    def producer(self, name: str, **settings: Setting) -> SimulatedProducer:
        """A producer; `name` seeds what it chooses."""
        return SimulatedProducer(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def consumer(self, name: str, **settings: Setting) -> SimulatedConsumer:
        """A consumer; `name` seeds what it chooses."""
        return SimulatedConsumer(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def admin(self, name: str, **settings: Setting) -> SimulatedAdmin:
        """An admin client; `name` seeds what it chooses."""
        return SimulatedAdmin(self.clock, self._rng_of(name), bootstrap_servers=self.bootstrap_servers, **settings)

    def _rng_of(self, name: str) -> random.Random:
        return random.Random(f"{name} {self.seed}")

    # -- what can be seen of it ------------------------------------------------------------------------------------------------------

    def kraft(self, node: int) -> KRaftNode | None:
        """The node's part in the quorum; None while it is down or has none yet."""
        simulated = self.nodes[node]
        if not simulated.alive or simulated.broker is None:
            return None
        return getattr(simulated.broker.services, "kraft", None)

    def active_controller(self) -> int | None:
        """The node whose controller is active, in the newest epoch if several think so; None without one."""
        active = [(kraft.leader_and_epoch.epoch, node) for node in self.ids if (kraft := self.kraft(node)) and kraft.is_active_controller]
        return max(active)[1] if active else None

    def image(self) -> MetadataImage | None:
        """The metadata as the active controller has committed it."""
        active = self.active_controller()
        kraft = None if active is None else self.kraft(active)
        return None if kraft is None else kraft.image

    def leader(self, partition: TopicPartition) -> int | None:
        """The leader of a partition by the committed metadata; None without one."""
        image = self.image()
        registration = None if image is None else image.topics.partition(*partition)
        return None if registration is None or registration.leader < 0 else registration.leader

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float, *, what: str = "", every_s: float = 0.1) -> None:
        """Returns when the condition holds; TimeoutError, naming `what`, when that takes longer than so many virtual seconds."""
        deadline = self.loop.time() + timeout_s
        while not condition():
            if self.loop.time() >= deadline:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}")
            await asyncio.sleep(every_s)


__all__ = ["CONTROLLER_PORT", "DATA", "PORT", "BrokerDied", "SimulatedCluster"]
