"""Failures of one file system call, at every call site of the broker, with a check of the partitions.

    python -m tests.campaigns.failing_sites --faults 2000 --seed 1
    python -m tests.campaigns.failing_sites --faults 800 --seed 1 --skip 10     continues after the first ten rounds
    python -m tests.campaigns.failing_sites --only '["recovery", 1, ...]'       plays one fault, as printed after a problem

The cluster is simulated: a controller and two brokers, each with two log directories and a metadata log directory. Each run plays one
scenario (creation, move, deletion, truncation of the start of logs, truncation as a follower, recovery) while clients write to partitions
with one and with two replicas. One call on broker 1 fails: the n-th call of its call site, with EIO, ENOSPC or EROFS, once or with all
later changes of that directory. A call site is the operation and the two innermost functions that led to the operation. Runs without a
fault find the call sites; each is struck equally often.

Then the broker is stopped, killed or loses power. In some runs it starts with the fault still active. At the end it starts without the
fault. Checks:
  start              each start without the fault succeeds, and each start with the fault if the metadata log directory works;
  leader             each partition has a leader within the session timeout: without the fault, and with it if a replica's directory works;
  writable           a partition with a leader accepts records, with and without the fault;
  once               no partition is in two log directories after the last start;
  acked              each acknowledged record is at its offset, and no record exists twice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count, islice
from multiprocessing import Pool
from typing import NamedTuple

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.replicas import TopicPartitionReplica
from odradek.client.types import NewTopic
from odradek.testing.simulation.cluster import BrokerDied, SimulatedCluster
from odradek.testing.simulation.disk import CHANGES, Failure
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.loop import run as run_simulation

A, B, METADATA = "/a", "/b", "/m"
SESSION_S = 9.0
VICTIM, OTHER = 1, 2
ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS)
ENDS = ("stop", "kill", "power cut")
SETTINGS = {
    "log.dirs": f"{A},{B}",
    "metadata.log.dir": METADATA,
    "log.flush.interval.messages": "1",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "min.insync.replicas": "1",
    "controlled.shutdown.enable": "false",
}
PATIENCE = {"retry_backoff_max_ms": 500, "request_timeout_ms": 3000, "default_api_timeout_ms": 8000}
FRAMES = 2
MOST_ROUNDS = 1000


class Site(NamedTuple):
    """Operation of the disk, and the functions that led to the operation, innermost first."""

    operation: str
    functions: str


class Fault(NamedTuple):
    """Fault of one run; without a `site` no call fails."""

    scenario: str
    seed: int
    site: Site | None = None
    occurrence: int = 0
    error: int = errno.EIO
    lasting: bool = False
    end: str = "stop"
    started_with_it: bool = False

    def __str__(self) -> str:
        """Return the fault as `--only` takes it."""
        scenario, seed, site, occurrence, error, *rest = self
        return json.dumps([scenario, seed, *(site or ()), occurrence, errno.errorcode[error], *rest])

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return the fault of a text written by `str`."""
        scenario, seed, operation, functions, occurrence, error, *rest = json.loads(text)
        return cls(scenario, seed, Site(operation, functions), occurrence, getattr(errno, error), *rest)


class SiteFailure(Failure):
    """Failure that counts the calls of each call site, and fails one call of the fault's site."""

    def __init__(self, fault: Fault) -> None:
        super().__init__("/", CHANGES, fault.error, 0, None)
        self.fault = fault
        self.reached: Counter[Site] = Counter()
        self.directory = ""
        """Log directory that was struck."""

    def strikes(self, operation: str, path: str, other: str) -> bool:
        if self.lifted or operation not in CHANGES:
            return False
        directory = "/" + path.split("/")[1]
        if self.directory:
            return self.fault.lasting and directory == self.directory
        site = Site(operation, " < ".join(_functions()))
        self.reached[site] += 1
        if site != self.fault.site or self.reached[site] != self.fault.occurrence:
            return False
        self.hits += 1
        self.directory = directory
        return True


def _functions() -> Iterator[str]:
    frame = sys._getframe(2)
    found = 0
    while frame is not None and found < FRAMES:
        code = frame.f_code
        if "/odradek/" in code.co_filename and "/odradek/testing/" not in code.co_filename:
            found += 1
            yield code.co_qualname.replace(".<locals>", "")
        frame = frame.f_back


class FailingSitesWorld:
    """Cluster with its clients, and the acknowledged records."""

    def __init__(self, loop: SimulatedLoop, fault: Fault) -> None:
        self.loop = loop
        loop.slow_jobs(f"jobs {fault.seed}", (0.000_1, 0.01))
        self.fault = fault
        self.rng = random.Random(f"{fault.seed} {fault.scenario}")
        self.cluster = SimulatedCluster(loop, seed=fault.seed, nodes=2, controllers=1, separate_controllers=True, settings=SETTINGS)
        self.failure = SiteFailure(fault)
        self.victim = self.cluster.nodes[VICTIM]
        self.acked: dict[TopicPartition, dict[int, bytes]] = {}
        self.problems: list[str] = []
        self.number = 0
        with self.cluster.client("client"):
            self.admin = self.cluster.admin("admin", **PATIENCE)
            self.producer = self.cluster.producer("producer", delivery_timeout_ms=8000, **PATIENCE)

    # -- clients -----------------------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        await self.cluster.start()
        with self.cluster.client("client"):
            for client in (self.admin, self.producer):
                await client.start()
        await self.create("solo", 4)
        await self.create("pair", 2, replicas=(VICTIM, OTHER))
        await self.write(3)

    async def attempt(self, work: Awaitable[object], seconds: float = 9.0) -> bool:
        """Return whether the work was done in time and without an error."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except (OdradekError, OSError, TimeoutError):
            return False
        return True

    async def create(self, topic: str, partitions: int, replicas: tuple[int, ...] = (VICTIM,), **configs: str) -> None:
        settings = {"segment.bytes": "1048576", **{key.replace("_", "."): value for key, value in configs.items()}}
        settings["internal.segment.bytes"] = settings.pop("segment.bytes") if "segment_bytes" in configs else "2000"
        assignments = dict.fromkeys(range(partitions), replicas)
        if await self.attempt(self.admin.create_topics([NewTopic(topic, configs=settings, assignments=assignments)])):
            for number in range(partitions):
                self.acked[TopicPartition(topic, number)] = {}

    async def delete(self, topic: str) -> None:
        for partition in list(self.acked):
            if partition.topic == topic:
                del self.acked[partition]
        await self.attempt(self.admin.delete_topics([topic]))

    async def send(self, partition: TopicPartition) -> bool:
        self.number += 1
        value = b"%d " % self.number + b"x" * 100

        async def acknowledged() -> None:
            record = await (await self.producer.send(partition.topic, value, partition=partition.partition))
            if partition in self.acked:
                self.acked[partition][record.offset] = value

        return await self.attempt(acknowledged())

    async def write(self, rounds: int, pause_s: float = 0.05) -> None:
        """Send `rounds` records to each partition, to all partitions at the same time."""
        for _ in range(rounds):
            await asyncio.gather(*[self.send(partition) for partition in list(self.acked)])
            await asyncio.sleep(pause_s)

    async def move(self, topic: str, directory: str) -> None:
        places = {TopicPartitionReplica(*each, VICTIM): directory for each in self.acked if each.topic == topic}
        await self.attempt(self.admin.alter_replica_log_dirs(places))

    # -- broker 1 ----------------------------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Activate the fault, on the disk of the current or next life."""
        self.victim.disk.fail_by(self.failure)

    @property
    def fatal(self) -> bool:
        return self.failure.directory == METADATA or not self.victim.alive or self.victim.fatal is not None

    async def end(self, how: str) -> None:
        if not self.victim.alive:
            return
        if how == "stop" and await self.attempt(self._stop(), 60):
            return
        if self.victim.alive:
            self.victim.power_cut() if how == "power cut" else self.victim.kill()

    async def _stop(self) -> None:
        try:
            await self.cluster.stop(VICTIM)
        except BrokerDied:
            return

    async def start(self, what: str, *, may_fail: Callable[[], bool] = lambda: False) -> bool:
        """Start broker 1 and return whether the start succeeded. `may_fail` is called after a failed start, and tells whether that is
        allowed.
        """
        self.cluster.begin(VICTIM)
        try:
            async with asyncio.timeout(60):
                await self.cluster.wait_for_starts()
        except (OdradekError, OSError, TimeoutError) as error:
            if not may_fail():
                self.problems.append(f"start: {what}: {type(error).__name__}: {error}")
            if self.victim.alive:
                await self.end("kill")
            return False
        return True

    # -- checks ------------------------------------------------------------------------------------------------------------------------

    def works(self, partition: TopicPartition) -> bool:
        """Return whether broker 1 has the log of a partition in an online directory."""
        broker = self.victim.broker
        return not self.fatal and broker is not None and broker.node.log_manager.get_log(partition) is not None

    async def check_leaders(
        self, partitions: Iterable[TopicPartition], what: str, required: Callable[[TopicPartition], bool] = lambda _: True
    ) -> list[TopicPartition]:
        """Wait up to a session timeout until the partitions have leaders. Return the partitions that have leaders."""
        wanted = list(partitions)
        with contextlib.suppress(TimeoutError):
            await self.cluster.wait_until(lambda: all(self.cluster.leader(each) is not None for each in wanted), SESSION_S)
        led = [each for each in wanted if self.cluster.leader(each) is not None]
        without = sorted(each for each in {*wanted} - {*led} if required(each) or each.topic == "pair")
        if without:
            self.problems.append(f"leader: {what}: {without} have none")
        return led

    async def check_writable(
        self, partitions: Iterable[TopicPartition], what: str, required: Callable[[TopicPartition], bool] = lambda _: True
    ) -> None:
        """Send a record to each partition. `required` is called afterwards, and tells whether a partition had to accept the record."""
        chosen = list(partitions)
        done = await asyncio.gather(*[self.send(each) for each in chosen])
        refused = [each for each, taken in zip(chosen, done, strict=True) if not taken and required(each)]
        if refused:
            self.problems.append(f"writable: {what}: {refused} take no records")

    async def check_with_the_fault(self) -> None:
        await asyncio.sleep(2)
        served = [each for each in self.acked if each.topic == "pair" or self.works(each)]
        led = await self.check_leaders(served, "with the fault", self.works)
        # A directory may fail under these records.
        await self.check_writable(led, "with the fault", lambda each: each.topic == "pair" or self.works(each))
        lost = [each for each in self.acked if each.topic != "pair" and not self.works(each) and self.cluster.leader(each) == VICTIM]
        if lost and not self.fatal:
            self.problems.append(f"leader: with the fault: {lost} are led by a broker that has no log of them")

    async def check_afterwards(self) -> None:
        await self.check_writable(await self.check_leaders(self.acked, "without the fault"), "without the fault")
        for partition in self.acked:
            name = f"{partition.topic}-{partition.partition}"
            if all(self.victim.disk.exists(f"{directory}/{name}") for directory in (A, B)):
                self.problems.append(f"once: {name} lies in both log directories")
        await self.check_records()

    async def check_records(self) -> None:
        found: dict[TopicPartition, dict[int, bytes | None]] = {partition: {} for partition in self.acked}
        with self.cluster.client("client"):
            async with self.cluster.consumer("reader", auto_offset_reset="earliest", **PATIENCE) as consumer:
                consumer.assign(list(found))
                while records := await consumer.poll(2000):
                    for record in records:
                        found[TopicPartition(record.topic, record.partition)][record.offset] = record.value
        for partition, acked in self.acked.items():
            there = found[partition]
            first = min(there, default=0) if partition.topic == "short" else 0
            missing = [offset for offset, value in acked.items() if there.get(offset) != value and offset >= first]
            if missing:
                self.problems.append(f"acked: {partition}: {missing[:5]} are not there")
            twice = [value[:8] for value, times in Counter(value for value in there.values() if value).items() if times > 1]
            if twice:
                self.problems.append(f"acked: {partition}: {twice[:5]} are there twice")

    async def close(self) -> None:
        for client in (self.admin, self.producer):
            await self.attempt(client.close(), 20)


# -- scenarios ---------------------------------------------------------------------------------------------------------------------------


async def creation(world: FailingSitesWorld) -> None:
    world.watch()
    await world.create("new", 4)
    await world.create("newpair", 2, replicas=(OTHER, VICTIM))
    await world.write(2)
    await world.create("late", 2)
    await world.write(1)


async def moves(world: FailingSitesWorld) -> None:
    await world.write(20, 0)
    world.watch()
    for directory in (B, A):
        await world.move("solo", directory)
        await world.write(10, 0.1)
    await world.move("pair", B)
    await world.write(5, 0.1)


async def deletion(world: FailingSitesWorld) -> None:
    await world.create("gone", 4)
    await world.write(8, 0)
    world.watch()
    await world.move("gone", B)
    await world.delete("gone")
    await world.create("gone", 4)
    await world.write(3)
    await asyncio.sleep(12)


async def shortening(world: FailingSitesWorld) -> None:
    """Truncate the start of logs, by DeleteRecords and by retention."""
    await world.create("short", 2, retention_bytes="3000")
    await world.write(40, 0)
    world.watch()
    for _ in range(3):
        offsets = {each: max(acked) // 2 for each, acked in world.acked.items() if each.topic == "short" and acked}
        await world.attempt(world.admin.delete_records(offsets))
        await world.write(10, 0)
    await asyncio.sleep(12)


async def following(world: FailingSitesWorld) -> None:
    """Truncate the end of logs: broker 1 has records that broker 2, the new leader, does not have."""
    await world.write(10, 0)
    cluster, pairs = world.cluster, [each for each in world.acked if each.topic == "pair"]
    cluster.cut(OTHER, VICTIM)
    # broker 2 stays in sync for replica.lag.time.max.ms
    with cluster.client("client"):
        async with cluster.producer("loose", acks=1, enable_idempotence=False, delivery_timeout_ms=8000, **PATIENCE) as producer:
            for number in range(30):
                for each in pairs:
                    await producer.send(each.topic, b"loose %d " % number + b"x" * 100, partition=each.partition)
            await world.attempt(producer.flush())
    world.victim.kill()
    await cluster.wait_until(lambda: all(cluster.leader(each) == OTHER for each in pairs), 30)
    cluster.loop.network.heal()
    await asyncio.gather(*[world.send(each) for each in pairs])
    world.watch()
    await world.start("after it was killed", may_fail=lambda: True)
    await world.write(5)


async def recovery(world: FailingSitesWorld) -> None:
    await world.write(20, 0)
    await world.move("solo", B)
    await world.write(1, 0)
    world.victim.power_cut()
    world.watch()
    await world.start("after a power cut", may_fail=lambda: True)
    await world.write(5)


SCENARIOS: dict[str, Callable[[FailingSitesWorld], Awaitable[None]]] = {
    "creation": creation,
    "moves": moves,
    "deletion": deletion,
    "shortening": shortening,
    "following": following,
    "recovery": recovery,
}


class Outcome(NamedTuple):
    """Result of a run. `struck`: whether the fault happened. `reached`: number of calls of each call site."""

    struck: bool
    problems: list[str]
    reached: Counter[Site]


def one(fault: Fault) -> Outcome:
    """Play one run."""
    outcomes: list[Outcome] = []

    async def main(loop: SimulatedLoop) -> None:
        world = FailingSitesWorld(loop, fault)
        await world.begin()
        await SCENARIOS[fault.scenario](world)
        if fault.site is not None:
            await judge(world)
        await world.close()
        await world.cluster.stop()
        outcomes.append(Outcome(world.failure.hits > 0, world.problems, world.failure.reached))

    run_simulation(main)
    return outcomes[0]


async def judge(world: FailingSitesWorld) -> None:
    fault = world.fault
    if not world.victim.alive and world.failure.directory != METADATA:
        world.problems.append("start: with the fault, in one of two log directories")
    if world.failure.hits:
        await world.check_with_the_fault()
    # Otherwise the end has to find the files as the scenario left them: the end may open files that the check would have opened.
    await world.end(fault.end)
    if fault.started_with_it:
        if fault.end != "stop":
            world.watch()
        if await world.start("with the fault", may_fail=lambda: world.failure.directory == METADATA):
            await world.check_with_the_fault()
        await world.end(fault.end)
    world.failure.lift()
    if await world.start("without the fault"):
        await world.check_afterwards()


# -- the campaign ------------------------------------------------------------------------------------------------------------------------


def sites_of(scenario: str, seed: int) -> Counter[Site]:
    """Return the number of calls of each call site in a run without a fault."""
    return one(Fault(scenario, seed)).reached


def plan(scenarios: Iterable[str], seed: int) -> dict[Site, list[tuple[str, int]]]:
    """Return the call sites, with the scenarios that reach them and the number of calls in each."""
    found: dict[Site, list[tuple[str, int]]] = {}
    for scenario in scenarios:
        for site, times in sites_of(scenario, seed).items():
            found.setdefault(site, []).append((scenario, times))
    return dict(sorted(found.items()))


def faults_at(site: Site, reached: list[tuple[str, int]], seed: int) -> Iterator[Fault]:
    """Yield faults at a call site without end, with all scenarios, errors, ends and moments."""
    rng = random.Random(f"{seed} {site}")
    for turn in count():
        scenario, times = reached[turn % len(reached)]
        yield Fault(
            scenario,
            seed,
            site,
            rng.randint(1, times),
            rng.choice(ERRORS),
            lasting=rng.random() < 0.6,
            end=rng.choice(ENDS),
            started_with_it=rng.random() < 0.3,
        )


def play(fault: Fault) -> Outcome:
    """Play a run; an exception is a problem. If the fault did not happen, repeat the run with an orderly end, which may reach the call
    site.
    """
    try:
        outcome = one(fault)
        if not outcome.struck and fault.end != "stop":
            fault = fault._replace(end="stop")
            outcome = one(fault)
    except Exception as error:
        outcome = Outcome(True, [f"{type(error).__name__}: {error}"], Counter())
    return outcome._replace(problems=[f"{problem} ({fault})" for problem in outcome.problems])


def campaign(faults: int, seed: int, scenarios: Iterable[str] = SCENARIOS, jobs: int = 1, skip: int = 0) -> tuple[Counter[Site], list[str]]:
    """Strike each call site equally often, until `faults` faults have happened. Return the number of faults per call site, and the
    problems.

    Faults of the first `skip` rounds are drawn and left out.
    """
    sites = plan(scenarios, seed)
    sources = {site: islice(faults_at(site, reached, seed), skip, None) for site, reached in sites.items()}
    struck = Counter(dict.fromkeys(sites, 0))
    problems: list[str] = []
    began = time.monotonic()
    with Pool(jobs) if jobs > 1 else contextlib.nullcontext() as pool:
        for number in range(skip + 1, skip + MOST_ROUNDS):
            chosen = [next(sources[site]) for site in sites][: faults - struck.total()]
            for site, outcome in zip(sites, map(play, chosen) if pool is None else pool.imap(play, chosen), strict=False):
                struck[site] += outcome.struck
                problems += outcome.problems
                for problem in outcome.problems:
                    print(problem, flush=True)
            taken_s = time.monotonic() - began
            print(f"round {number}: {struck.total()} faults at {len(sites)} sites, {len(problems)} problems, {taken_s:.0f} s", flush=True)
            if struck.total() >= faults:
                break
    return struck, problems


def main() -> None:
    parser = argparse.ArgumentParser(description="one failing call of the file system at each call site")
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--skip", type=int, default=0, help="rounds to leave out; a round strikes each call site once")
    parser.add_argument("--only", type=Fault.parse, help="one fault, as a problem names it, with what the brokers log")
    options = parser.parse_args()
    if options.only is not None:
        outcome = play(options.only)
        print("\n".join(outcome.problems) or ("no problem" if outcome.struck else "the call site was not reached so often"))
        sys.exit(1 if outcome.problems else 0)
    logging.disable(logging.CRITICAL)
    struck, problems = campaign(options.faults, options.seed, options.scenario or SCENARIOS, options.jobs, options.skip)
    for site, times in sorted(struck.items(), key=lambda each: each[1]):
        print(f"{times:4} {site.operation} in {site.functions}")
    least = min(struck.values(), default=0)
    print(
        f"{struck.total()} faults at {len(struck)} call sites, each {least} times or more; {len(problems)} problems (seed {options.seed})"
    )
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
