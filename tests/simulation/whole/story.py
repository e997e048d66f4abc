"""One seed, one story of a whole cluster: it is played, healed, watched while nothing happens, read to the end, and judged.

    outcome = play(17)
    outcome.problems      # lines of the form "family: what was wrong"

Nodes, clients, faults and everything they choose follow from the seed. With a trace all that happens is written down: what arrives over the
network, what is done to disks, log lines, and what the actors saw.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from odradek.base.errors import OdradekError
from odradek.client.types import NewTopic
from odradek.testing.history import Event, MemoryRecorder
from odradek.testing.simulation.cluster import SimulatedCluster
from odradek.testing.simulation.disk import PowerCut
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork, on_host
from odradek.testing.simulation.trace import Trace, TraceLogHandler
from odradek.testing.simulation.wiretap import WireTap
from tests.simulation.whole import clients, groups, transactions
from tests.simulation.whole.faults import Faults
from tests.simulation.whole.invariants.controller import ControllerPromises
from tests.simulation.whole.invariants.coordinators import CoordinatorPromises
from tests.simulation.whole.invariants.liveness import LivenessPromises
from tests.simulation.whole.invariants.raft import RaftPromises
from tests.simulation.whole.invariants.replication import ReplicationPromises
from tests.simulation.whole.invariants.traffic import TrafficPromises
from tests.simulation.whole.plan import Plan

if TYPE_CHECKING:
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.controller.kraft import KRaftNode
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

Actor = Callable[["Story", str, random.Random], Awaitable[None]]

_LOOK_S = 0.1
"""How often invariants that need to see the nodes at work look at them."""
_END_S = 700.0
"""Virtual seconds within which everything must come together after the last fault."""
_IDLE_S = 8.0
_ENOUGH = 200
_HARMLESS = ("the leader responds with FENCED_LEADER_EPOCH",)
"""In lines at ERROR that a leader election brings along."""


class _Reader:
    """Shows the invariants each image of the metadata, as a node publishes it."""

    def __init__(self, story: Story, kraft: KRaftNode) -> None:
        self._story = story
        self._kraft = kraft

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        node = self._kraft.node_id
        self._story.metadata.published(node, image)
        self._story.coordinators.published(node, image)
        if self._kraft.is_active_controller:
            self._story.replication.committed(image)


class Outcome:
    """What a story left behind."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.problems: list[str] = []
        self.trace_hash = ""
        self.trace_lines: list[str] = []
        self.virtual_s = 0.0
        self.acked = 0
        self.faults: dict[str, int] = {}
        self.metadata_offset = 0

    @property
    def families(self) -> set[str]:
        """Those whose promises were broken."""
        return {problem.partition(":")[0] for problem in self.problems}

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        layout = self.plan.layout
        return (
            f"seed {self.seed} ({self.plan.mode}, {layout.nodes} nodes{', controllers apart' if layout.separate_controllers else ''}, "
            f"RF {self.plan.replication_factor}): {self.virtual_s:.0f} virtual s, {self.acked} acked, "
            f"{self.metadata_offset} metadata records, {faults or 'no fault'}, {len(self.problems)} problems"
            + (f", trace {self.trace_hash[:16]}" if self.trace_hash else "")
        )


def play(
    seed: int,
    *,
    virtual_s: float = 60.0,
    trace: bool = False,
    keep_trace: bool = False,
    plan: Plan | None = None,
    faults: tuple[str, ...] = (),
    until: str | None = None,
) -> Outcome:
    """Plays the story of the seed: `virtual_s` seconds of faults. `trace`: for its hash, with `keep_trace` also for its lines.

    `plan` instead of the seed's own; `faults`: only of these kinds; `until`: the story ends with the first problem of that family.
    """
    plan = plan or Plan(seed)
    outcome = Outcome(plan)
    network = VirtualNetwork(seed, latency_s=plan.latency_s)
    stories: list[Story] = []

    async def main(loop: SimulatedLoop) -> None:
        story = Story(loop, outcome, plan, trace=Trace(loop.time, keep=keep_trace) if trace or keep_trace else None)
        stories.append(story)
        if faults:
            story.faults.only(*faults)
        story.until = until
        playing = asyncio.create_task(story.play(virtual_s))
        await asyncio.wait((playing, story.broken), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing

    collecting = gc.isenabled()
    gc.disable()  # thousands of short-lived objects a virtual second, and collections would look at all of the cluster again and again
    try:
        run(main, network)
    except Exception as error:
        outcome.problems.append(f"story: broke off: {type(error).__name__}: {error}")
        outcome.problems += [f"story:   {line}" for line in traceback.format_exc().splitlines()[-14:]]
    finally:
        if collecting:
            gc.enable()
    for story in stories:
        story.conclude()
    return outcome


class Story:
    """The actors and the stage."""

    def __init__(self, loop: SimulatedLoop, outcome: Outcome, plan: Plan, *, trace: Trace | None) -> None:
        self.loop = loop
        self.outcome = outcome
        self.plan = plan
        self.clock = SimulatedClock(loop)
        self.trace = trace
        self.events: list[Event] = []
        """The history of the clients, in order of time."""
        self.calm = False
        """Whether there are no more faults."""
        self.over = False
        """Whether clients are to come to an end."""
        self.sources_are_done = False
        """Whether nothing more is written to what copiers read."""
        self.acked = 0
        self.until: str | None = None
        self.broken: asyncio.Future[None] = loop.create_future()
        """Done when a promise of the family `until` is broken."""
        self.errors_expected = False
        """Something was done that must make nodes complain: errors in logs are no problem."""
        self._handler: TraceLogHandler | None = None
        self.tap = WireTap(loop.network, None if trace is None else trace.delivery)
        loop.slow_jobs(f"jobs {plan.seed}", plan.job_latency_s)
        loop.set_exception_handler(self._loop_error)
        self.cluster = SimulatedCluster(
            loop,
            seed=plan.seed,
            nodes=plan.layout.nodes,
            separate_controllers=plan.layout.separate_controllers,
            static_voters=plan.layout.static_voters,
            settings=plan.settings,
            release_version=plan.release_version,
            feature_levels=plan.feature_levels,
            trace=trace,
        )
        self.cluster.on_start_failed = self._start_failed
        self.faults = Faults(self, self.rng("faults"))
        self.raft = RaftPromises(self)
        self.metadata = ControllerPromises(self)
        self.replication = ReplicationPromises(self)
        self.coordinators = CoordinatorPromises(self)
        self.liveness = LivenessPromises(self)
        self.traffic = TrafficPromises(self)
        self._read_from: dict[int, KRaftNode] = {}
        self._actors: dict[str, Actor] = {
            **{f"producer-{number}": clients.produce for number in range(plan.producers)},
            **{f"reader-{number}": clients.read for number in range(plan.readers)},
            "watcher": clients.watch_ends,
            **{f"asker-{number}": clients.ask_producer_ids for number in range(plan.askers)},
            **{f"elector-{number}": clients.ask_for_elections for number in range(plan.electors)},
            "admin": clients.administrate,
            **groups.actors(plan),
            **transactions.actors(plan),
        }

    @property
    def client_hosts(self) -> list[str]:
        return list(self._actors)

    def rng(self, actor: str) -> random.Random:
        """The randomness of an actor, by its name."""
        return random.Random(f"{actor} {self.plan.seed}")

    def recorder(self, process: str) -> MemoryRecorder:
        """Where a client writes its history."""
        return MemoryRecorder(self.events, process, self.loop.time)

    def note(self, actor: str, text: str) -> None:
        """Writes something into the trace."""
        if self.trace is not None:
            self.trace.record(actor, text[:300])

    def problem(self, family: str, text: str) -> None:
        """A promise was broken."""
        line = f"{family}: at {self.loop.time():.3f} s: {text}"
        self.note("problem", line)
        if len(self.outcome.problems) < _ENOUGH and line not in self.outcome.problems:
            self.outcome.problems.append(line)
        if family == self.until and not self.broken.done():
            self.broken.set_result(None)

    def may_log_errors(self) -> None:
        """From now on errors in logs are no problem: something was done that must make nodes complain."""
        self.errors_expected = True

    def is_safe_to_lose_one(self) -> bool:
        """Whether all that was acknowledged stands on two nodes at least: all are up and every partition's ISR is full."""
        image = self.cluster.image()
        if image is None or not all(self.cluster.kraft(node) for node in self.cluster.ids):
            return False
        if any(simulated.paused for simulated in self.cluster.nodes.values()):
            return False
        return all(
            len(partition.isr) == len(partition.replicas)
            for topic in image.topics.by_name.values()
            for partition in topic.partitions.values()
        )

    def has_leaderless_partitions(self) -> bool:
        image = self.cluster.image()
        return image is not None and any(
            partition.leader < 0 for topic in image.topics.by_name.values() for partition in topic.partitions.values()
        )

    def look(self) -> None:
        """Shows the nodes, as they are now, to the invariants."""
        for node in self.cluster.ids:
            kraft = self.cluster.kraft(node)
            if kraft is not None and self._read_from.get(node) is not kraft:
                self._read_from[node] = kraft
                kraft.add_publisher(_Reader(self, kraft))
        self.raft.look()
        self.replication.look()
        self.coordinators.look()

    # -- the story -------------------------------------------------------------------------------------------------------------------

    async def play(self, virtual_s: float) -> None:
        with self._logging():
            await self.cluster.start()
            await self._create_topics()
            watching = asyncio.create_task(self._keep_looking())
            copiers = [self._on(name, actor) for name, actor in self._actors.items() if actor is transactions.copy]
            others = [self._on(name, actor) for name, actor in self._actors.items() if actor is not transactions.copy]
            await self.faults.go_on_for(virtual_s)
            self.note("story", "heals")
            self.calm = True
            async with self._patience("the cluster is healed"):
                await self.cluster.heal()
            async with self._patience("all has come together"):
                await self.liveness.wait(60.0)
            self.over = True
            async with self._patience("clients have come to an end"):
                await asyncio.gather(*others)
            self.sources_are_done = True
            async with self._patience("all is copied"):
                await asyncio.gather(*copiers)
            await self.traffic.watch_idle(_IDLE_S)
            async with self._patience("all has been read"):
                with on_host("final"):
                    await clients.final_read(self, sorted(self.plan.topics))
                await self.metadata.compare_at_the_end()
            watching.cancel()
            self.look()
            await self.replication.compare_at_the_end()
            async with self._patience("all nodes have stopped"):
                await self.cluster.stop()
            self.outcome.virtual_s = self.loop.time()

    @asynccontextmanager
    async def _patience(self, what: str) -> AsyncIterator[None]:
        """TimeoutError when it takes too long until `what`."""
        try:
            async with asyncio.timeout(_END_S):
                yield
        except TimeoutError:
            self.problem("liveness", f"not within {_END_S:.0f} s: {what}")
            raise
        self.note("story", what)

    def conclude(self) -> None:
        """Judges what was written down."""
        outcome = self.outcome
        if not self.errors_expected:
            errors = self._handler.errors if self._handler is not None else []
            unexpected = [line for line in errors if not any(words in line for words in _HARMLESS)]
            outcome.problems += [f"logs: {line}" for line in unexpected[:_ENOUGH]]
        self.coordinators.judge_history()
        outcome.virtual_s = outcome.virtual_s or self.loop.time()
        outcome.acked = self.acked
        outcome.faults = self.faults.counts
        outcome.metadata_offset = self.raft.committed_offset
        if self.trace is not None:
            outcome.trace_hash, outcome.trace_lines = self.trace.hash(), self.trace.lines

    async def _create_topics(self) -> None:
        with on_host("setup"):
            async with self.cluster.admin("setup") as admin:
                factor, configs = self.plan.replication_factor, dict(self.plan.topic_configs)
                # One at a time: each has to fit into one batch of the metadata log.
                for name, count in self.plan.topics.items():
                    (topic,) = (await admin.create_topics([NewTopic(name, count, factor, configs)])).values()
                    self.metadata.topic_created(topic.name, topic.topic_id, topic.num_partitions)

    def _on(self, name: str, actor: Actor) -> asyncio.Task[None]:
        async def act() -> None:
            await actor(self, name, self.rng(name))

        with on_host(name):
            return asyncio.create_task(act())

    async def _keep_looking(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_LOOK_S)

    # -- what nobody expects ---------------------------------------------------------------------------------------------------------

    def _start_failed(self, node: int, error: OdradekError) -> None:
        self.note("story", f"node {node} did not start: {error}")
        controllers = self.cluster.controller_ids
        if sum(self.cluster.nodes[each].alive for each in controllers) <= len(controllers) // 2:
            return  # Nobody could register it.
        if not self.errors_expected:
            self.problem("story", f"node {node} did not start: {error}")

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, PowerCut):
            return
        self.problem("logs", f"{context.get('message')}: {type(error).__name__}: {error}")
        if error is not None:
            for line in traceback.format_exception(error)[-4:]:
                self.outcome.problems.append(f"logs:   {line.rstrip()}")

    def _logging(self) -> AbstractContextManager[TraceLogHandler]:
        self._handler = TraceLogHandler(self.trace or Trace(self.loop.time, keep=False))
        return self._handler.attached(logging.INFO if self.trace is not None else logging.ERROR)


__all__ = ["Outcome", "Story", "play"]
