"""What goes wrong in a story: nodes end, stand still, are cut off; links, clocks and disks are bad for a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.testing.simulation.cluster import DATA
from odradek.testing.simulation.node import BrokerDied
from tests.simulation.whole.plan import FLUSHED, KILLS, UNFLUSHED

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

HOUR_MS = 3_600_000


class _Lost(NamedTuple):
    """A node whose power was cut, as the metadata knew it then: up, and in every ISR."""

    epoch: int
    offset: int
    """Of the metadata."""
    ended: set[int]
    """Other nodes that have ended by force since."""
    replicas: list[tuple[int, ...]]
    """Of each partition."""


class Faults:
    """Chooses and performs them. Each takes back what it has done, but for nodes that are down: those are started again."""

    def __init__(self, story: Story, rng: random.Random) -> None:
        self.story = story
        self.cluster = story.cluster
        self.rng = rng
        self.counts: dict[str, int] = {}
        """How often each kind of fault has happened."""
        self._busy: set[int] = set()
        """Nodes that something is done to which cannot be mixed with other things."""
        self._ending: set[int] = set()
        """Nodes that may end by force because they do not stop, or for their disk."""
        self._lost: dict[int, _Lost] = {}
        """Nodes whose power was cut without that the metadata knows it yet."""
        self._kinds: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "kill": (6, self._kill),
            "kill all": (1, self._kill_all),
            "end at a disk step": (4, self._end_at_step),
            "stop": (2, self._stop),
            "pause": (6, self._pause),
            "isolate": (4, self._isolate),
            "cut": (4, self._cut),
            "bridge": (1, self._bridge),
            "slow link": (3, self._slow_link),
            "reset": (2, self._reset),
            "clock": (2, self._clock),
            "slow jobs": (2, self._slow_jobs),
            "bad disk": (1, self._bad_disk),
        }
        if story.plan.mode == FLUSHED:
            self._kinds["power cut of all"] = (1, self._power_cut_of_all)

    def only(self, *kinds: str) -> None:
        """No others than these, for stories that are about something."""
        self._kinds = {kind: self._kinds[kind] for kind in kinds}

    async def go_on_for(self, virtual_s: float) -> None:
        """One fault after the other, or several at once, until so many virtual seconds have passed and the last is over."""
        end = self.story.loop.time() + virtual_s
        slots = asyncio.Semaphore(self.story.plan.faults_at_once)
        async with asyncio.TaskGroup() as group:
            while self.story.loop.time() < end:
                await asyncio.sleep(self.rng.uniform(*self.story.plan.pause_between_faults_s))
                await slots.acquire()
                kind = self.rng.choices(list(self._kinds), [weight for weight, _ in self._kinds.values()])[0]
                group.create_task(self._perform(kind, slots))

    async def _perform(self, kind: str, slots: asyncio.Semaphore) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        try:
            await self._kinds[kind][1]()
        finally:
            slots.release()

    # -- whom ------------------------------------------------------------------------------------------------------------------------

    def _victim(self) -> int | None:
        """A node that is up and that nothing is done to: the active controller more often than others."""
        up = [node for node in self.cluster.ids if self.cluster.nodes[node].alive and node not in self._busy]
        if not up:
            return None
        active = self.cluster.active_controller()
        if active in up and self.rng.random() < 0.4:
            return active
        return self.rng.choice(up)

    def _note(self, text: str) -> None:
        self.story.note("fault", text)

    def _before_an_end(self) -> None:
        self.story.look()

    async def _sleep(self, least: float, most: float) -> None:
        await asyncio.sleep(self.rng.uniform(least, most))

    def _power(self) -> bool:
        """Whether what ends a node now may be a power cut."""
        mode = self.story.plan.mode
        if mode == KILLS or self.rng.random() < 0.3:
            return False
        self._look_for_the_lost()
        return mode == FLUSHED or (not self._lost and not self._is_an_end_ahead() and self.story.is_safe_to_lose_one())

    def _is_an_end_ahead(self) -> bool:
        """Whether a node may end by force at any moment."""
        return bool(self._ending) or any(simulated.armed for simulated in self.cluster.nodes.values())

    def _look_for_the_lost(self) -> None:
        """Forgets those that the metadata knows of: they were fenced, which takes them out of every ISR, or are registered anew."""
        image = self.cluster.image()
        if image is None:
            return
        for node, lost in list(self._lost.items()):
            broker = image.cluster.brokers.get(node)
            if image.provenance.last_contained_offset > lost.offset and (broker is None or broker.fenced or broker.epoch > lost.epoch):
                del self._lost[node]

    def _may_end(self, node: int) -> bool:
        """Whether the node may end by force.

        To the controller a kill is as unclean as a power cut. While it takes a node whose power was cut for alive, and all other replicas
        end by force, it elects the one that has lost its records (the last known leader, KIP-966).
        """
        self._look_for_the_lost()
        return not any(
            {power_cut, node, *lost.ended}.issuperset(replicas) for power_cut, lost in self._lost.items() for replicas in lost.replicas
        )

    # -- ends ------------------------------------------------------------------------------------------------------------------------

    async def _kill(self) -> None:
        node = self._victim()
        if node is not None and self._may_end(node):
            self._busy.add(node)
            self._end(node, power=self._power())
            await self._come_back(node)

    def _ends_by_force(self, node: int, *, power: bool) -> None:
        for lost in self._lost.values():
            lost.ended.add(node)
        if power and self.story.plan.mode == UNFLUSHED:
            image = self.cluster.image()
            assert image is not None  # or it would not have been safe
            broker = image.cluster.brokers.get(node)
            if broker is not None:
                replicas = [each.replicas for topic in image.topics.by_name.values() for each in topic.partitions.values()]
                self._lost[node] = _Lost(broker.epoch, image.provenance.last_contained_offset, set(), replicas)

    def _end(self, node: int, *, power: bool) -> None:
        self._before_an_end()
        self._ends_by_force(node, power=power)
        self._note(f"{'power cut' if power else 'kill'} of node {node}")
        simulated = self.cluster.nodes[node]
        if power:
            simulated.power_cut()
        else:
            simulated.kill()

    async def _come_back(self, node: int) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.1, 1.0, 3.0, 12.0)))
        simulated = self.cluster.nodes[node]
        if not simulated.alive:
            if self.rng.random() < 0.2:
                simulated.end_at_step(self.rng.randint(0, 200), power=self.story.plan.mode == FLUSHED)
            self.cluster.begin(node)
        self._busy.discard(node)

    async def _kill_all(self) -> None:
        nodes = [node for node in self.cluster.ids if self.cluster.nodes[node].alive and node not in self._busy]
        self._look_for_the_lost()
        if self._lost:
            return
        self._busy.update(nodes)
        for node in nodes:
            self._end(node, power=False)
        for node in nodes:
            await self._come_back(node)

    async def _power_cut_of_all(self) -> None:
        self._before_an_end()
        nodes = [node for node in self.cluster.ids if self.cluster.nodes[node].alive and node not in self._busy]
        self._busy.update(nodes)
        self._note("power cut of all")
        # Nodes that are down lose what is not on their disks yet; others bring them back.
        self.cluster.power_cut(*nodes, *(node for node in self.cluster.ids if not self.cluster.nodes[node].alive))
        for node in nodes:
            await self._come_back(node)

    async def _end_at_step(self) -> None:
        node = self._victim()
        if node is None or not self._may_end(node):
            return
        self._busy.add(node)
        self._ends_by_force(node, power=False)
        simulated = self.cluster.nodes[node]
        # Whether one may be lost can be said for now only.
        power = self.story.plan.mode == FLUSHED and self.rng.random() < 0.5
        steps = self.rng.randint(0, 60)
        self._note(f"{'power cut' if power else 'kill'} of node {node} before disk step {steps}")
        simulated.end_at_step(steps, power=power)
        await asyncio.wait((simulated.death,), timeout=20)
        if simulated.death.done():
            await self._come_back(node)
        else:
            simulated.disarm()
            self._busy.discard(node)

    async def _stop(self) -> None:
        node = self._victim()
        if node is None or self.cluster.is_starting(node) or not self._may_end(node):
            return
        self._busy.add(node)
        self._ending.add(node)
        self._ends_by_force(node, power=False)
        self._note(f"stop of node {node}")
        life = self.cluster.nodes[node].lives
        try:
            async with asyncio.timeout(self.rng.uniform(10, 60)):
                await self.cluster.stop(node)
        except BrokerDied:
            pass
        except TimeoutError:
            # Without a controller nobody lets it go; an operator loses patience.
            if self.cluster.nodes[node].alive and self.cluster.nodes[node].lives == life:
                self._end(node, power=False)
        self._ending.discard(node)
        await self._come_back(node)

    async def _pause(self) -> None:
        node = self._victim()
        if node is None:
            return
        self._busy.add(node)
        longest = self.rng.choice((0.5, 3.0, 12.0, 30.0))
        simulated = self.cluster.nodes[node]
        self._before_an_end()
        self._note(f"pause of node {node}")
        simulated.pause()
        life = simulated.lives
        await self._sleep(0.1, longest)
        if simulated.alive and simulated.lives == life:
            simulated.resume()
        self._busy.discard(node)

    async def _bad_disk(self) -> None:
        node = self._victim()
        if node is None or not self._may_end(node):
            return
        self._ending.add(node)
        self._ends_by_force(node, power=False)
        simulated = self.cluster.nodes[node]
        operations = self.rng.choice((("fsync",), ("write",), ("fsync", "fsync_dir", "write", "create", "rename")))
        path = self.rng.choice((DATA, f"{DATA}/__cluster_metadata-0"))
        self._note(f"bad disk of node {node}: {operations} on {path}")
        self.story.may_log_errors()
        failure = simulated.disk.fail(path, operations, after=self.rng.randint(0, 20))
        await self._sleep(0.5, 10)
        failure.lift()
        await asyncio.sleep(1)
        self._ending.discard(node)
        if not simulated.alive:
            self._busy.add(node)
            await self._come_back(node)

    # -- links -----------------------------------------------------------------------------------------------------------------------

    async def _while(self, pairs: list[tuple[str, str]], longest_s: float) -> None:
        network = self.story.loop.network
        for pair in pairs:
            network.cut(*pair)
        await self._sleep(0.1, longest_s)
        network.heal(pairs)

    async def _isolate(self) -> None:
        node = self._victim()
        if node is None:
            return
        others = [other for other in self.cluster.ids if other != node]
        if self.rng.random() < 0.3:
            others = [other for other in others if other in self.cluster.controller_ids] or others
        outward, inward = self.rng.choice(((True, True), (True, False), (False, True)))
        host = self.cluster.host
        pairs = [(host(node), host(other)) for other in others if outward] + [(host(other), host(node)) for other in others if inward]
        self._note(f"node {node} is cut off from {others}, outward {outward}, inward {inward}")
        await self._while(pairs, self.rng.choice((2.0, 8.0, 25.0)))

    async def _cut(self) -> None:
        one, two = self.rng.sample([*self.cluster.hosts, *self.cluster.hosts, *self.story.client_hosts], 2)
        pairs = self.rng.choice(([(one, two)], [(two, one)], [(one, two), (two, one)]))
        self._note(f"cut {pairs}")
        await self._while(pairs, self.rng.choice((1.0, 6.0, 15.0)))

    async def _bridge(self) -> None:
        """Two halves that see each other only through one node."""
        ids = list(self.cluster.ids)
        self.rng.shuffle(ids)
        half = len(ids) // 2
        left, right = ids[:half], ids[half + 1 :]
        host = self.cluster.host
        pairs = [(host(one), host(two)) for one in left for two in right] + [(host(two), host(one)) for one in left for two in right]
        self._note(f"{left} and {right} see each other only through node {ids[half]}")
        await self._while(pairs, 15.0)

    async def _slow_link(self) -> None:
        one, two = self.rng.sample([*self.cluster.hosts, *self.cluster.hosts, *self.story.client_hosts], 2)
        latency_s = self.rng.choice(((0.05, 0.3), (0.3, 1.5)))
        self._note(f"slow link {one} to {two}")
        self.cluster.slow_down(one, two, latency_s)
        await self._sleep(0.5, 15)
        self.cluster.slow_down(one, two, None)

    async def _reset(self) -> None:
        host = self.rng.choice([*self.cluster.hosts, *self.story.client_hosts])
        self._note(f"connections of {host} are reset")
        self.story.loop.network.reset_connections(host)

    # -- clocks and disks ------------------------------------------------------------------------------------------------------------

    async def _clock(self) -> None:
        node = self.rng.choice(self.cluster.ids)
        ahead_ms = self.rng.choice((-HOUR_MS, -5_000, -200, 0, 200, 5_000, HOUR_MS))
        self._note(f"the clock of node {node} is {ahead_ms} ms ahead")
        self.cluster.set_clock(node, ahead_ms)

    async def _slow_jobs(self) -> None:
        node = self.rng.choice(self.cluster.ids)
        latency_s = self.rng.choice(((0.01, 0.1), (0.1, 1.0), (0.5, 3.0)))
        self._note(f"jobs of node {node} take {latency_s} s")
        self.cluster.nodes[node].slow_jobs(latency_s)
        await self._sleep(1, 15)
        self.cluster.nodes[node].slow_jobs(None)
