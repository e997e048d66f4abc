"""One seed, one story: a whole broker, its clients and everything that can go wrong for them, on virtual time, network and disk.

A seed chooses the settings (flush policy, segment size, latencies), the load (producers, readers, admin work) and the faults: kills, power
cuts and orderly restarts, between callbacks or before a given disk operation, also while booting; resets, cuts and slow links. At the end
everything heals, producers flush, the logs are read back from the disk and `odradek.testing.simulation.simulated_history.check` judges.
Everything that happens goes into a trace: network deliveries, disk operations, log lines and what the actors saw.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.producer.futures import RecordFuture
from odradek.client.types import NewTopic
from odradek.network.transport import ConnectionLost, dial
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.testing.simulation import simulated_history as h
from odradek.testing.simulation.broker import DATA, PORT, BrokerDied, SimulatedBroker
from odradek.testing.simulation.clients import SimulatedAdmin, SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.disk import PowerCut, VirtualDisk
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork, on_host
from odradek.testing.simulation.trace import Trace, TraceLogHandler

KILLS, FLUSHED, UNFLUSHED = "kills", "flushed", "unflushed"
"""What ends the broker: kills only; power cuts too, with flush.messages=1; power cuts too, with Kafka's default of not flushing."""

_PATIENCE = {"retry_backoff_max_ms": 1000, "request_timeout_ms": 5000, "default_api_timeout_ms": 120_000}
_END_S = 900.0
"""Virtual seconds within which everything must come together after the last fault."""


class Outcome:
    """What a story left behind."""

    def __init__(self, seed: int, mode: str) -> None:
        self.seed = seed
        self.mode = mode
        self.problems: list[str] = []
        self.history = h.History()
        self.trace_hash = ""
        self.trace_lines: list[str] = []
        self.events = 0
        self.virtual_s = 0.0
        self.acked = 0
        self.ends: dict[str, int] = {}

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in sorted(self.ends.items()))
        return (
            f"seed {self.seed} ({self.mode}): {self.virtual_s:.0f} virtual s, {self.events} events, {self.acked} acked, "
            f"{ends or 'no end'}, {len(self.problems)} problems, trace {self.trace_hash[:16]}"
        )


def play(seed: int, *, mode: str | None = None, virtual_s: float = 60.0, keep_trace: bool = True) -> Outcome:
    """Plays the story of the seed."""
    plan = random.Random(f"plan {seed}")
    chosen = mode or plan.choice((KILLS, FLUSHED, UNFLUSHED))
    outcome = Outcome(seed, chosen)
    network = VirtualNetwork(seed, latency_s=plan.choice(((0.000_05, 0.000_5), (0.001, 0.02), (0.000_05, 0.1))))
    stories: list[Story] = []

    async def main(loop: SimulatedLoop) -> None:
        story = Story(loop, outcome, plan, keep_trace=keep_trace)
        stories.append(story)
        await story.play(virtual_s)

    try:
        run(main, network)
    except Exception as error:
        outcome.problems.append(f"the story broke off: {type(error).__name__}: {error}")
        outcome.problems += [f"  {line}" for line in _traceback(error)]
    for story in stories:
        story.conclude()
    return outcome


def _traceback(error: BaseException) -> list[str]:
    import traceback

    return "".join(traceback.format_exception(error)).splitlines()[-12:]


class Story:
    """The actors and the stage."""

    def __init__(self, loop: SimulatedLoop, outcome: Outcome, plan: random.Random, *, keep_trace: bool) -> None:
        self.loop = loop
        self.outcome = outcome
        self.plan = plan
        self.history = outcome.history
        self.clock = SimulatedClock(loop)
        self.trace = Trace(loop.time, keep=keep_trace)
        self.errors: list[str] = []
        self.over = False
        seed = outcome.seed
        loop.network.on_delivery = self.trace.delivery
        loop.slow_jobs(f"jobs {seed}", plan.choice(((0.0, 0.0), (0.000_1, 0.01), (0.001, 0.2))))
        loop.set_exception_handler(self._loop_error)
        settings = {
            "log.flush.interval.messages": "1" if outcome.mode == FLUSHED else str(2**63 - 1),
            "replica.high.watermark.checkpoint.interval.ms": str(plan.choice((200, 5000))),
            "log.flush.offset.checkpoint.interval.ms": str(plan.choice((1000, 60_000))),
            "log.initial.task.delay.ms": "500",
        }
        self.broker = SimulatedBroker(loop, seed=seed, settings=settings, trace=self.trace)
        segment = plan.choice((20_000, 60_000, 1 << 30))
        self.topics = {f"main-{number}": plan.randint(1, 3) for number in range(plan.randint(1, 2))}
        self.topic_configs = {"internal.segment.bytes": str(segment)}
        self.partitions = [TopicPartition(name, index) for name, count in self.topics.items() for index in range(count)]
        self.producers = [f"producer-{number}" for number in range(plan.randint(1, 3))]
        self.readers = [f"reader-{number}" for number in range(plan.randint(1, 2))]

    def rng(self, actor: str) -> random.Random:
        return random.Random(f"{actor} {self.outcome.seed}")

    def note(self, actor: str, event: h.Event) -> None:
        self.history.add(event)
        self.trace.record(actor, str(event)[:200])

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, PowerCut):
            return
        text = f"{context.get('message')}: {type(error).__name__}: {error}"
        self.trace.record("loop", text)
        self.errors.append(text)
        if error is not None:
            self.errors += [f"  {line}" for line in _traceback(error)]

    # -- the story -------------------------------------------------------------------------------------------------------------

    async def play(self, virtual_s: float) -> None:
        with self._logging():
            await self._start()
            await self._main_topics()
            actors = [
                *(self._on(name, self._produce) for name in self.producers),
                *(self._on(name, self._read) for name in self.readers),
                self._on("watcher", self._watch_ends),
                self._on("asker", self._ask_producer_ids),
                self._on("admin", self._administrate),
            ]
            faults = asyncio.create_task(self._faults(virtual_s))
            await faults
            self.over = True
            async with asyncio.timeout(_END_S):
                await asyncio.gather(*actors)
                await self._read_back()
                await self.broker.stop()

    def conclude(self) -> None:
        outcome = self.outcome
        outcome.problems += [f"no-errors-logged: {line}" for line in self.errors]
        if self.broker.fatal is not None:
            outcome.problems.append(f"no-errors-logged: fatal: {self.broker.fatal}")
        outcome.problems += h.check(self.history)
        outcome.trace_hash, outcome.trace_lines, outcome.events = self.trace.hash(), self.trace.lines, self.trace.events
        outcome.virtual_s = self.loop.time()
        outcome.acked = sum(1 for _ in self.history.of(h.Acked))

    @contextmanager
    def _logging(self) -> Iterator[None]:
        with TraceLogHandler(self.trace).attached(logging.INFO) as handler:
            try:
                yield
            finally:
                self.errors += handler.errors

    def _on(self, name: str, actor: Callable[[str, random.Random], Awaitable[None]]) -> asyncio.Task[None]:
        async def act() -> None:
            await actor(name, self.rng(name))

        with on_host(name):
            return asyncio.create_task(act())

    # -- the broker ------------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Boots, again and again if it is killed while booting."""
        while True:
            try:
                await self.broker.start()
                return
            except BrokerDied as death:
                self._ended(str(death))

    def _ended(self, how: str) -> None:
        self.outcome.ends[how] = self.outcome.ends.get(how, 0) + 1

    def _logs(self, disk: VirtualDisk) -> Mapping[TopicPartition, list[h.LogEntry]]:
        return {partition: h.read_log(disk, f"{DATA}/{partition}") for partition in self.partitions}

    async def _end_and_restart(self, power: bool, steps: int | None, boot_steps: int | None) -> None:
        """Ends the broker (now, or before a disk operation to come) and starts it, perhaps ending it in its boot, too."""
        if steps is not None:
            self.broker.end_at_step(steps, power=power)
            await asyncio.wait((self.broker.death,), timeout=30)
        if not self.broker.death.done():
            self.broker.power_cut() if power else self.broker.kill()
        self._ended(self.broker.death.result())
        before = self._logs(self.broker.page_cache)
        await asyncio.sleep(self.plan.choice((0.0, 0.1, 3.0)))
        if boot_steps is not None:
            self.broker.end_at_step(boot_steps, power=power)
        await self._start()
        self.broker.disarm()
        if power:
            self.note("disk", h.PowerLoss(before, self._logs(self.broker.disk), self.outcome.mode == UNFLUSHED))
        await self._list_topics()

    # -- faults ----------------------------------------------------------------------------------------------------------------

    async def _faults(self, virtual_s: float) -> None:
        plan, end = self.plan, self.loop.time() + virtual_s
        while self.loop.time() < end:
            await asyncio.sleep(plan.uniform(0.5, 8))
            kind = plan.choices(("end", "end at step", "stop", "reset", "cut", "slow"), (3, 4, 1, 1, 2, 1))[0]
            if kind in ("end", "end at step"):
                power = self.outcome.mode != KILLS and plan.random() < 0.7
                steps = plan.randint(0, 60) if kind == "end at step" else None
                boot_steps = plan.randint(0, 150) if plan.random() < 0.3 else None
                await self._end_and_restart(power, steps, boot_steps)
            elif kind == "stop":
                await self.broker.stop()
                self._ended("stopped")
                await self._start()
                await self._list_topics()
            else:
                await self._network_fault(kind)
        self.loop.network.heal()

    async def _network_fault(self, kind: str) -> None:
        plan, network = self.plan, self.loop.network
        host = plan.choice([*self.producers, *self.readers, "admin", "watcher"])
        pairs = plan.choice(([(host, "broker")], [("broker", host)], [(host, "broker"), ("broker", host)]))
        self.trace.record("fault", f"{kind} {pairs}")
        if kind == "reset":
            network.reset_connections(host)
        elif kind == "cut":
            for pair in pairs:
                network.cut(*pair)
            await asyncio.sleep(plan.uniform(0.1, 12))
            network.heal(pairs)
        else:
            for pair in pairs:
                network.slow_down(*pair, (0.05, 1.5))
            await asyncio.sleep(plan.uniform(0.1, 8))
            for pair in pairs:
                network.slow_down(*pair, None)

    # -- actors ----------------------------------------------------------------------------------------------------------------

    async def _main_topics(self) -> None:
        with on_host("admin"):
            async with SimulatedAdmin(self.clock, self.rng("setup"), bootstrap_servers=self.broker.bootstrap_servers) as admin:
                for name, count in self.topics.items():
                    for topic in (await admin.create_topics([NewTopic(name, count, 1, self.topic_configs)])).values():
                        self.note("admin", h.TopicCreated(topic.name, topic.topic_id, topic.num_partitions))

    async def _produce(self, name: str, rng: random.Random) -> None:
        settings = {**_PATIENCE, "delivery_timeout_ms": 1_000_000, "max_block_ms": 600_000, "client_id": name}
        settings["compression_type"] = rng.choice(("none", "gzip", "lz4"))  # type: ignore[assignment]
        settings["batch_size"] = rng.choice((200, 16384))
        numbers = dict.fromkeys(self.partitions, 0)
        async with SimulatedProducer(self.clock, rng, bootstrap_servers=self.broker.bootstrap_servers, **settings) as producer:
            while not self.over:
                partition = rng.choice(self.partitions)
                for _ in range(rng.choice((1, 1, 5, 20))):
                    value = h.value_of(name, partition.partition, numbers[partition], rng.choice((0, 30, 400)))
                    numbers[partition] += 1
                    future = await producer.send(partition.topic, value, partition=partition.partition)
                    future.add_done_callback(self._acknowledgement(name, partition, value))
                await asyncio.sleep(rng.expovariate(1 / 0.4))
            await producer.flush()

    def _acknowledgement(self, name: str, partition: TopicPartition, value: bytes) -> Callable[[RecordFuture], None]:
        def acknowledged(future: RecordFuture) -> None:
            error = future.exception()
            if error is not None:
                self.note(name, h.Refused(name, partition, value, str(error)))
            else:
                self.note(name, h.Acked(name, partition, value, future.result(0).offset))

        return acknowledged

    def _consumer(self, rng: random.Random) -> SimulatedConsumer:
        return SimulatedConsumer(
            self.clock,
            rng,
            bootstrap_servers=self.broker.bootstrap_servers,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=5000,
            **_PATIENCE,
        )

    async def _read(self, name: str, rng: random.Random) -> None:
        session = 0
        while not self.over:
            session += 1
            async with self._consumer(rng) as consumer:
                consumer.assign(self.partitions)
                until = self.loop.time() + rng.uniform(5, 60)
                while not self.over and self.loop.time() < until:
                    try:
                        records = await consumer.poll(500)
                    except (KafkaError, ConnectionLost) as error:
                        self.trace.record(name, f"poll: {error}")
                        continue
                    for record in records:
                        self.note(
                            name, h.Read(name, session, TopicPartition(record.topic, record.partition), record.offset, record.value or b"")
                        )

    async def _watch_ends(self, name: str, rng: random.Random) -> None:
        async with self._consumer(rng) as consumer:
            while not self.over:
                try:
                    ends = await consumer.end_offsets(self.partitions)
                except (KafkaError, ConnectionLost) as error:
                    self.trace.record(name, f"end offsets: {error}")
                else:
                    for partition, offset in ends.items():
                        self.note(name, h.HighWatermark(name, partition, offset))
                await asyncio.sleep(rng.uniform(0.1, 1))

    async def _ask_producer_ids(self, name: str, rng: random.Random) -> None:
        while not self.over:
            try:
                connection = await dial("broker", PORT, clock=self.clock, client_id=name, timeout_s=5)
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                for _ in range(rng.choice((1, 10, 400))):
                    answer = await connection.request(request, InitProducerIdResponse, 5, timeout_s=5)
                    if answer.error_code == 0:
                        self.note(name, h.ProducerIdGiven(name, answer.producer_id))
                connection.close()
            except ConnectionLost as error:
                self.trace.record(name, str(error))
            await asyncio.sleep(rng.uniform(0.1, 3))

    async def _administrate(self, name: str, rng: random.Random) -> None:
        """Topics come, grow and go. After a call that failed nothing is known of its topic, and the name is not used again."""
        settings = {**_PATIENCE, "default_api_timeout_ms": 6000}
        known: dict[str, h.TopicCreated] = {}
        number = 0
        async with SimulatedAdmin(self.clock, rng, bootstrap_servers=self.broker.bootstrap_servers, **settings) as admin:
            while not self.over:
                action = rng.choice(("create", "create", "grow", "delete"))
                topic = rng.choice(list(known)) if known and action != "create" else ""
                try:
                    if topic == "":
                        number += 1
                        [created] = (await admin.create_topics([NewTopic(f"side-{number}", rng.randint(1, 3), 1)])).values()
                        known[created.name] = h.TopicCreated(created.name, created.topic_id, created.num_partitions)
                        self.note(name, known[created.name])
                    elif action == "grow":
                        await admin.create_partitions({topic: known[topic].partitions + 1})
                        known[topic] = known[topic]._replace(partitions=known[topic].partitions + 1)
                        self.note(name, known[topic])
                    else:
                        del known[topic]
                        self.note(name, h.TopicDeletion(topic, False))
                        await admin.delete_topics([topic])
                        self.note(name, h.TopicDeletion(topic, True))
                except (KafkaError, ConnectionLost) as error:
                    known.pop(topic, None)
                    self.trace.record(name, f"{action} {topic}: {error}")
                await asyncio.sleep(rng.uniform(0.2, 4))

    # -- what is there ---------------------------------------------------------------------------------------------------------

    async def _list_topics(self) -> None:
        """The first listing after a start, while nothing is being deleted."""
        name = f"lister {self.broker.lives}"
        with on_host("lister"):
            async with SimulatedAdmin(self.clock, self.rng(name), bootstrap_servers=self.broker.bootstrap_servers) as admin:
                while True:
                    position = len(self.history.events)
                    topics = [topic for topic in await admin.list_topics() if topic.error is ErrorCode.NONE]
                    if not any(isinstance(event, h.TopicDeletion) for event in self.history.events[position:]):
                        break
        # What was confirmed while the answer was under way is not judged by it: the listing stands before that.
        self.history.events.insert(position, h.Listing({topic.name: (topic.topic_id, len(topic.partitions)) for topic in topics}))
        self.trace.record("lister", ", ".join(topic.name for topic in topics))

    async def _read_back(self) -> None:
        """The logs as they stand on the disk, which must be what a last reader reads to the end."""
        logs = self._logs(self.broker.disk)
        self.note("disk", h.FinalLogs(logs))
        found: dict[TopicPartition, list[tuple[int, bytes]]] = {partition: [] for partition in self.partitions}
        with on_host("last-reader"):
            async with self._consumer(self.rng("last-reader")) as consumer:
                consumer.assign(self.partitions)
                while any(len(found[partition]) < len(logs[partition]) for partition in self.partitions):
                    for record in await consumer.poll(5000):
                        found[TopicPartition(record.topic, record.partition)].append((record.offset, record.value or b""))
        for partition, entries in logs.items():
            if [(entry.offset, entry.value) for entry in entries] != found[partition]:
                raise OdradekError(f"{partition}: what a reader gets is not what stands in the log")
