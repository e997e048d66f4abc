"""Clients with quotas on Odradek and on JVM Kafka 4.3.1, in turns: at which rate they settle, how long they are told to wait, and what
another client notices.

    python -m bench.quotas [--rounds N] [--seconds S] [--without-jvm]

The same raw requests go to both brokers: a producer of 20 kB requests, a consumer that is given as much at once, an administrator that
creates topics of one partition, each with a client id and a quota of its own, and a client without one, alone first and then beside
them. Each waits as long as it is told, and is muted for it. What counts comes when the quota was felt, and a window has passed since.
Both have windows of five samples. Figures are medians of the rounds. Exit status 1 when a target is missed: the rates within a tenth of
the quotas, the waits within a fifth of the JVM's, the other's p99 no more than three milliseconds worse for the quotas of others.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.wire import Wire, connect, percentile
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.protocol.framing import frame
from odradek.protocol.headers import encode_request_header, response_header_version
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.registry import decode_response
from odradek.protocol.schema import Message
from odradek.records.batch import encode_batch

BYTES = 200_000
"""A second: of producer and consumer."""
MUTATIONS = 5
"""A second."""
SIZE = 20_000
TOPIC = "bench-quotas"
OVERRIDES = {"quota.window.num": "5", "controller.quota.window.num": "5", "num.partitions": "1"}
WINDOW_S = 6.0
"""What was used at once in the beginning is forgotten after that."""
_RECORDS = encode_batch([(int(time.time() * 1000), None, b"x" * SIZE, ())])
_PAUSE_S = 0.02


class Figures(NamedTuple):
    """What a client got: units a second, the mean of what it was told to wait, and the first such wait (ms)."""

    rate: float
    wait_ms: float
    first_ms: float


class Client:
    """A connection that names itself, and waits as it is told."""

    def __init__(self, wire: Wire, client_id: str) -> None:
        self._wire = wire
        self._client_id = client_id

    async def ask(self, request: Message, version: int) -> Message:
        header = encode_request_header(request.API_KEY, version, 0, self._client_id)
        data = await self._wire.send(frame(header, request.encode(version)))
        assert response_header_version(request.API_KEY, version) in (0, 1)
        return decode_response(bytes(data), request.API_KEY, version)

    def close(self) -> None:
        self._wire.close()


async def client(port: int, client_id: str) -> Client:
    return Client(await connect(port), client_id)


def produce() -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(_RECORDS))
    return ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])])


class Meter:
    """Counts what is asked for once the client has felt its quota, and what it had used before is forgotten."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._first: tuple[float, float] | None = None
        self._begin = 0.0
        self._count = 0
        self._waits: list[float] = []

    async def answered(self, wait_ms: float, *, counts: bool) -> bool:
        """Waits as told; whether it is enough."""
        now = time.monotonic()
        if self._first is None:
            if wait_ms > 0:
                self._first = (now, wait_ms)
        elif self._begin:
            self._count += counts
            if wait_ms > 0:
                self._waits.append(wait_ms)
        elif now - self._first[0] >= WINDOW_S:
            self._begin = now
        await asyncio.sleep(wait_ms / 1000)
        return bool(self._begin) and time.monotonic() - self._begin >= self._seconds

    def figures(self, units: float) -> Figures:
        assert self._first is not None
        return Figures(self._count * units / (time.monotonic() - self._begin), statistics.fmean(self._waits), self._first[1])


async def throttled(of: Client, request: Message, version: int, units: float, seconds: float) -> Figures:
    """Asks the same again and again."""
    meter = Meter(seconds)
    while True:
        answer = await of.ask(request, version)
        wait_ms: int = getattr(answer, "throttle_time_ms")  # noqa: B009 (of several kinds of answers)
        # A throttled fetch has brought nothing.
        if await meter.answered(wait_ms, counts=wait_ms == 0 or not isinstance(answer, FetchResponse)):
            return meter.figures(units)


async def build(of: Client, seconds: float) -> Figures:
    """Creates topics, by requests that are never refused."""
    meter, number = Meter(seconds), 0
    while True:
        number += 1
        topic = CreateTopicsRequest.CreatableTopic(name=f"built-{number}", num_partitions=1, replication_factor=1)
        answer = await of.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        if await meter.answered(answer.throttle_time_ms, counts=True):
            return meter.figures(1)


async def latencies(of: Client, seconds: float) -> float:
    """The 99th percentile of a small produce request now and then, in ms."""
    found: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        answer = await of.ask(produce(), 9)
        assert isinstance(answer, ProduceResponse)
        assert answer.throttle_time_ms == 0
        found.append((time.monotonic() - begin) * 1000)
        await asyncio.sleep(_PAUSE_S)
    return percentile(found, 0.99)


async def prepare(port: int) -> None:
    """The topic, with something to read, and the quotas."""
    admin = await client(port, "admin")
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    await admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    while True:
        answer = await admin.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]), 9)
        assert isinstance(answer, MetadataResponse)
        if answer.topics[0].error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
            break
        await asyncio.sleep(0.05)
    for _ in range(2):
        await admin.ask(produce(), 9)
    quotas = {
        "producer": ("producer_byte_rate", BYTES),
        "consumer": ("consumer_byte_rate", BYTES),
        "builder": ("controller_mutation_rate", MUTATIONS),
    }
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[AlterClientQuotasRequest.EntityData(entity_type="client-id", entity_name=name)],
            ops=[AlterClientQuotasRequest.OpData(key=key, value=float(value), remove=False)],
        )
        for name, (key, value) in quotas.items()
    ]
    altered = await admin.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert isinstance(altered, AlterClientQuotasResponse)
    assert all(entry.error_code == 0 for entry in altered.entries), altered
    await asyncio.sleep(1)
    admin.close()


async def measure(port: int, seconds: float) -> dict[str, float]:
    await prepare(port)
    producer, consumer, builder, other = [await client(port, name) for name in ("producer", "consumer", "builder", "other")]
    await latencies(other, 1)
    alone = await latencies(other, seconds / 2)
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=SIZE)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    sizes = len(produce().encode(9)) + len(encode_request_header(ProduceRequest.API_KEY, 9, 0, "producer"))
    answer = await other.ask(fetch, 12)
    assert isinstance(answer, FetchResponse)
    produced, fetched, built, beside = await asyncio.gather(
        throttled(producer, produce(), 9, sizes, seconds),
        throttled(consumer, fetch, 12, len(answer.encode(12)) + 4, seconds),
        build(builder, seconds),
        latencies(other, seconds),
    )
    for each in (producer, consumer, builder, other):
        each.close()
    named = {"produce": produced, "fetch": fetched, "create": built}
    figures = {f"{name} {field}": value for name, of in named.items() for field, value in of._asdict().items()}
    return {**figures, "other p99 alone ms": alone, "other p99 beside ms": beside}


def run(kind: type[BrokerProcess], seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        broker = kind(Path(folder), OVERRIDES)
        broker.format()
        broker.start()
        try:
            return asyncio.run(measure(broker.port, seconds))
        finally:
            broker.stop()


QUOTAS = {"produce": BYTES, "fetch": BYTES, "create": MUTATIONS}


def missed(ours: Mapping[str, float], theirs: Mapping[str, float] | None) -> Sequence[str]:
    """The targets that are not met, in words."""
    found = [
        f"{name}: {ours[f'{name} rate']:.0f} a second, with a quota of {quota}"
        for name, quota in QUOTAS.items()
        if abs(ours[f"{name} rate"] / quota - 1) > 0.1
    ]
    if ours["other p99 beside ms"] > ours["other p99 alone ms"] + 3:
        found.append(f"another client: {ours['other p99 beside ms']:.1f} ms instead of {ours['other p99 alone ms']:.1f}")
    if theirs is not None:
        for name in QUOTAS:
            mine, other = ours[f"{name} wait_ms"], theirs[f"{name} wait_ms"]
            if abs(mine - other) > 0.2 * other:
                found.append(f"{name}: waits of {mine:.0f} ms, the JVM's are of {other:.0f}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.quotas", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--without-jvm", action="store_true")
    given = parser.parse_args()
    kinds: dict[str, type[BrokerProcess]] = (
        {"odradek": OdradekBroker} if given.without_jvm else {"odradek": OdradekBroker, "jvm": JvmBroker}
    )
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for number in range(given.rounds):
        for name in sorted(kinds, reverse=number % 2 == 0):
            rounds[name].append(run(kinds[name], given.seconds))
    medians = {name: {key: statistics.median(each[key] for each in found) for key in found[0]} for name, found in rounds.items()}
    print("".ljust(24) + "".join(name.rjust(12) for name in medians))
    for key in medians["odradek"]:
        print(key.ljust(24) + "".join(f"{of[key]:12.1f}" for of in medians.values()))
    problems = missed(medians["odradek"], medians.get("jvm"))
    for problem in problems:
        print(f"missed: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
