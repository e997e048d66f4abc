"""What one operation costs the broker: CPU, Python frames, calls of built-in functions, allocations.

    python -m bench.profile [--only WORD ...] [--count FACTOR] [--functions N] [--keep]

Each operation is asked for by raw requests over few connections, several under way. CPU is the kernel's account of the broker's process,
over some thousand operations; the counts are those of another process (`bench.subject`), and repeat to within a few per cent.
They are compared with those kept in bench/results/profile.json; `--keep` writes them there. The broker's data are in memory (/dev/shm)
where there is such a thing, so that no disk is measured. With `--functions` those that an operation enters most are listed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.commits import commit
from bench.comparison import OVERRIDES, RESULTS, machine
from bench.comparison import commit as checked_out
from bench.subject import build
from bench.transacting import Transactor
from bench.wire import TRANSACTION, Wire, await_coordinator, connect, connect_many, request_frame, until
from interop.peers import OdradekBroker
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.records.batch import encode_batch

FIGURES = ("CPU us", "frames", "built-in", "allocations")
KEPT = RESULTS / "profile.json"
_RECORD = (1_700_000_000_000, None, b"x" * 1000, ())
Work = Callable[[int], Awaitable[None]]
"""Does so many operations."""


class Operation(NamedTuple):
    """Something that a client asks for. `prepare` is given the broker's port and what to call topics and groups."""

    name: str
    times: int
    """How many are measured."""
    prepare: Callable[[int, str], Awaitable[Work]]


class CountingBroker(OdradekBroker):
    """One that tells what it counts."""

    @property
    def counts_path(self) -> Path:
        return self.folder / "counts.json"

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.subject", str(self.counts_path), "start", str(self.properties_path)]

    def begin(self) -> None:
        """Counts calls from now on."""
        os.kill(self.pid, signal.SIGUSR1)

    def counted(self) -> dict[str, Any]:
        """Calls since `begin`, which are counted no more, and allocations since the start."""
        self.counts_path.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        deadline = time.monotonic() + 10
        while not self.counts_path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker does not tell what it has counted: {self.log_tail()}")
            time.sleep(0.001)
        counts: dict[str, Any] = json.loads(self.counts_path.read_text())
        return counts


# -- operations ------------------------------------------------------------------------------------------------------------------------


async def _create(wire: Wire, *names: str, partitions: int = 1) -> None:
    topics = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    answer = await wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7, CreateTopicsResponse)
    assert all(each.error_code == 0 for each in answer.topics), answer.topics[0]

    async def led() -> bool:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        found = await wire.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12, MetadataResponse)
        return all(topic.error_code == 0 and all(each.leader_id >= 0 for each in topic.partitions) for topic in found.topics)

    await until(led)


def _repeated(wires: Sequence[Wire], requests: Sequence[bytes], under_way: int) -> Work:
    """The requests over the connections, in turns, each with so many under way."""

    async def work(count: int) -> None:
        left = count

        async def keep_on(wire: Wire, request: bytes) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await wire.send(request)

        await asyncio.gather(*[keep_on(*each) for each in zip(wires, requests, strict=True) for _ in range(under_way)])

    return work


def produce(records: int) -> Callable[[int, str], Awaitable[Work]]:
    async def prepare(port: int, label: str) -> Work:
        wire = await connect(port)
        await _create(wire, label)
        data = [ProduceRequest.PartitionProduceData(index=0, records=encode_batch([_RECORD] * records))]
        topic = ProduceRequest.TopicProduceData(name=label, partition_data=data)
        return _repeated([wire], [request_frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 11)], 5)

    return prepare


async def fetch(port: int, label: str) -> Work:
    """16 KB at a time, in batches of 1 KB."""
    wire = await connect(port)
    await _create(wire, label)
    batch = encode_batch([_RECORD])
    data = [ProduceRequest.PartitionProduceData(index=0, records=batch)]
    topic = ProduceRequest.TopicProduceData(name=label, partition_data=data)
    for _ in range(100):
        await wire.send(request_frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 11))
    named = [MetadataRequest.MetadataRequestTopic(name=label)]
    described = await wire.ask(MetadataRequest(topics=named), 12, MetadataResponse)
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=16_384)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=described.topics[0].topic_id, partitions=[partition])],
    )
    answer = await wire.ask(request, 16, FetchResponse)
    assert answer.responses[0].partitions[0].error_code == 0
    return _repeated([wire], [request_frame(request, 16)], 5)


def commits(partitions: int) -> Callable[[int, str], Awaitable[Work]]:
    async def prepare(port: int, label: str) -> Work:
        wires = await connect_many(port, 5)
        await _create(wires[0], label, partitions=partitions)
        groups = [f"{label}-{number}" for number in range(len(wires))]
        await await_coordinator(wires[0], groups)
        return _repeated(wires, [commit(group, label, partitions) for group in groups], 1)

    return prepare


def transactions(records: int, version: int) -> Callable[[int, str], Awaitable[Work]]:
    async def prepare(port: int, label: str) -> Work:
        wires = await connect_many(port, 5)
        await _create(wires[0], label, partitions=len(wires))
        names = [f"{label}-{number}" for number in range(len(wires))]
        await await_coordinator(wires[0], names, TRANSACTION)
        transactors = [
            Transactor(wire, name, label, number, records, version) for number, (wire, name) in enumerate(zip(wires, names, strict=True))
        ]
        for each in transactors:
            await each.begin()

        async def work(count: int) -> None:
            left = count

            async def keep_on(transactor: Transactor) -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    await transactor.transact()

            await asyncio.gather(*[keep_on(each) for each in transactors])

        return work

    return prepare


async def heartbeats(port: int, label: str) -> Work:
    wire = await connect(port)
    await await_coordinator(wire, [label])
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")]
    join = JoinGroupRequest(
        group_id=label, session_timeout_ms=300_000, rebalance_timeout_ms=300_000, protocol_type="consumer", protocols=protocols
    )
    joined = await wire.ask(join, 5, JoinGroupResponse)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        join.member_id = joined.member_id
        joined = await wire.ask(join, 5, JoinGroupResponse)
    sync = SyncGroupRequest(
        group_id=label,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    synced = await wire.ask(sync, 3, SyncGroupResponse)
    assert synced.error_code == 0, synced
    heartbeat = HeartbeatRequest(group_id=label, generation_id=joined.generation_id, member_id=joined.member_id)
    return _repeated([wire], [request_frame(heartbeat, 4)], 5)


async def metadata(port: int, label: str) -> Work:
    wire = await connect(port)
    names = [f"{label}-{number}" for number in range(1000)]
    for first in range(0, len(names), 100):
        await _create(wire, *names[first : first + 100])
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return _repeated([wire], [request_frame(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)], 2)


OPERATIONS = (
    Operation("transaction v2, 1 record", 2_000, transactions(1, 2)),
    Operation("transaction v2, 100 records", 2_000, transactions(100, 2)),
    Operation("transaction v1, 1 record", 2_000, transactions(1, 1)),
    Operation("commit of 1 partition", 5_000, commits(1)),
    Operation("commit of 10 partitions", 5_000, commits(10)),
    Operation("produce of a 16 KB batch", 10_000, produce(16)),
    Operation("produce of a 1 MB batch", 300, produce(1000)),
    Operation("fetch of 16 KB in 1 KB batches", 10_000, fetch),
    Operation("heartbeat", 10_000, heartbeats),
    Operation("metadata of 1,000 topics", 100, metadata),
)


# -- measuring ---------------------------------------------------------------------------------------------------------------------------


async def _ready(broker: OdradekBroker, operation: Operation, factor: float) -> tuple[Work, int]:
    """What does the operation, warm, and how often to do it."""
    work = await operation.prepare(broker.port, operation.name.replace(" ", "-").replace(",", ""))
    count = max(10, int(operation.times * factor))
    await work(count // 4)
    return work, count


async def measure_cpu(broker: OdradekBroker, operation: Operation, factor: float) -> dict[str, float]:
    work, count = await _ready(broker, operation, factor)
    cpu = broker.cpu_seconds()
    await work(count)
    return {"CPU us": (broker.cpu_seconds() - cpu) / count * 1e6}


async def measure_counts(broker: CountingBroker, operation: Operation, factor: float) -> tuple[dict[str, float], dict[str, float]]:
    """What an operation takes, and how often it enters each function."""
    work, count = await _ready(broker, operation, factor / 10)
    before = broker.counted()
    await work(count)
    after = broker.counted()
    broker.begin()
    await work(count)
    calls = broker.counted()
    figures = {
        "frames": calls["frames"] / count,
        "built-in": calls["built-in"] / count,
        "allocations": (after["allocations"] - before["allocations"]) / count,
    }
    return figures, {name: entered / count for name, entered in calls["functions"].items()}


def measure(operations: Sequence[Operation], factor: float, functions: int) -> dict[str, dict[str, float]]:
    """Figures by operation. CPU is that of a broker of its own, in which nothing is counted. Lists so many functions of each."""
    found: dict[str, dict[str, float]] = {each.name: {} for each in operations}
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="odradek-bench-") as folder:
        plain, counting = OdradekBroker(Path(folder) / "plain", OVERRIDES), CountingBroker(Path(folder) / "counting", OVERRIDES)
        with plain:
            for operation in operations:
                found[operation.name] |= asyncio.run(measure_cpu(plain, operation, factor))
        with counting:
            for operation in operations:
                figures, entered = asyncio.run(measure_counts(counting, operation, factor))
                found[operation.name] |= figures
                if functions:
                    print(operation.name)
                for name, often in sorted(entered.items(), key=lambda each: -each[1])[:functions]:
                    print(f"{often:9.2f} {name}")
    return found


def show(name: str, figures: Mapping[str, float], kept: Mapping[str, float] | None) -> None:
    columns = [f"{figures[each]:9.1f}" + (f" {figures[each] / kept[each]:5.2f}x" if kept else " " * 7) for each in FIGURES]
    print(f"{name:32} {' '.join(columns)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="operations whose name contains one of these words")
    parser.add_argument("--count", type=float, default=1.0, metavar="FACTOR", help="multiplies the number of operations")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="lists so many functions of each operation")
    parser.add_argument("--keep", action="store_true", help=f"writes the results to {KEPT.relative_to(RESULTS.parent.parent)}")
    options = parser.parse_args()
    wanted = [each for each in OPERATIONS if not options.only or any(word in each.name for word in options.only)]
    if not wanted or (options.keep and wanted != list(OPERATIONS)):
        parser.error("--keep is for all operations together" if wanted else "no such operation")
    kept = json.loads(KEPT.read_text())["operations"] if KEPT.exists() else {}
    build()
    found = measure(wanted, options.count, options.functions)
    print(f"{'':32} {' '.join(f'{each:>16}' for each in FIGURES)}")
    for name, figures in found.items():
        show(name, figures, kept.get(name))
    if options.keep:
        rounded = {name: {each: float(f"{value:.4g}") for each, value in figures.items()} for name, figures in found.items()}
        KEPT.write_text(json.dumps({"machine": machine(), "commit": checked_out(), "operations": rounded}, indent=1) + "\n")
        print(f"kept in {KEPT}", file=sys.stderr)


if __name__ == "__main__":
    main()
