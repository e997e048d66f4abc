"""Consumer groups, Odradek and JVM Kafka 4.3.1 side by side on this machine.

    python -m bench.groups [--rounds N] [--only ROW ...] [--scale FACTOR] [--json FILE]

How it is measured: bench/comparison.py.
- 1,000 members: of one group over a topic with as many partitions, by raw requests over a thousand connections from one process; seconds
  from the first request until all members are in one generation and each has its partition, heartbeats every half second (and group.
  initial.rebalance.delay.ms=0). "CPU s" is the broker's, "client CPU s" the generator's.
- offset commits: by raw requests over a hundred connections, a group each; one request under way on every connection. The generator
  takes part of the machine from both brokers alike; "CPU us" is the broker's for one commit, "client CPU us" the generator's.
- loading: one partition of `__consumer_offsets` with a million live offsets of ten thousand groups, ten in a batch, the same bytes for
  both. "load s" is what the broker's own log says, "served s" runs from the start of the process until the offsets of a group are
  answered, "RSS MB" is what the broker then holds.
- subscribe: milliseconds from a new consumer's first step until its first record; "raw" with nothing but the requests that it takes.
  librdkafka waits for timers of its own besides, whatever the broker: up to 50 ms until it connects to the leader, and 100 ms before it
  asks for the first offset (`debug=cgrp,broker,topic` shows both); the broker's part of it is the raw figure.
- start with groups: of a broker that has both internal topics and nothing else, until the broker answers ApiVersions.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from confluent_kafka import Consumer, Producer

from bench.brokers import create_topic, delete_topic
from bench.clock import WallClock
from bench.comparison import MB, AnyRow, ColdRow, Figures, Row, at_least, at_most, below, run
from bench.recovery import share
from bench.wire import GROUP, TRANSACTION, await_coordinator, connect, generate, until
from interop.peers import BrokerProcess, OdradekBroker
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.coordinator.group.records import offset_commits
from odradek.coordinator.partitioning import partition_of
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.records.batch import encode_batch
from odradek.storage.disk import OsDisk
from odradek.storage.loader import load_log

PROTOCOLS = ("classic", "consumer")
OVERRIDES = {"group.consumer.heartbeat.interval.ms": "500", "group.consumer.min.heartbeat.interval.ms": "500"}
_OFFSETS_PARTITION = 7
_GROUP_OFFSETS = 100
_BATCH_RECORDS = 10


def members(broker: BrokerProcess, protocol: str, count: int, label: str) -> Figures:
    topic = f"members-{protocol}-{label}"
    create_topic(broker, topic, partitions=count)
    cpu = broker.cpu_seconds()
    figures = generate("bench.members", broker.port, protocol=protocol, topic=topic, members=count)
    used = broker.cpu_seconds() - cpu
    delete_topic(broker, topic)
    return {"s": figures["s"], "CPU s": used, "client CPU s": figures["client CPU s"]}


def commits(broker: BrokerProcess, partitions: int, seconds: float, label: str) -> Figures:
    topic = f"commits-{partitions}-{label}"
    create_topic(broker, topic, partitions=10)
    cpu = broker.cpu_seconds()
    figures = generate("bench.commits", broker.port, topic=topic, connections=100, partitions=partitions, seconds=seconds)
    used = broker.cpu_seconds() - cpu
    delete_topic(broker, topic)
    return {
        "commits/s": figures["commits/s"],
        "p99 ms": figures["p99 ms"],
        # The warm-up takes a quarter of that time in addition.
        "CPU us": used / 1.25 / (figures["commits/s"] * figures["elapsed"]) * 1e6,
        "client CPU us": figures["client CPU us"],
    }


# -- loading ---------------------------------------------------------------------------------------------------------------------


@cache
def group_names() -> list[str]:
    """Return the names of 10,000 groups that all belong to one partition of fifty."""
    names: list[str] = []
    number = 0
    while len(names) < 10_000:
        name = f"application-{number}"
        if partition_of(name, 50) == _OFFSETS_PARTITION:
            names.append(name)
        number += 1
    return names


async def use_coordinator(port: int, keys: list[str], kind: int) -> None:
    """Waits until the broker coordinates them."""
    wire = await connect(port)
    await await_coordinator(wire, keys, kind)
    wire.close()


def make_offsets(home: Path, count: int) -> None:
    """A cleanly shut down directory whose `__consumer_offsets` holds `count` offsets in one partition."""
    broker = OdradekBroker(home, OVERRIDES)
    broker.start()
    try:
        asyncio.run(use_coordinator(broker.port, ["first"], GROUP))
        if broker.stop():
            raise RuntimeError(broker.log_tail())
    finally:
        broker.kill()
    name = TopicPartition("__consumer_offsets", _OFFSETS_PARTITION)
    folder = broker.data / f"{name.topic}-{name.partition}"
    log = load_log(OsDisk(), WallClock(), name, str(folder), TopicConfig.build(None, {}), clean=True)
    now_ms = time.time_ns() // 1_000_000
    gathered = []
    for number in range(count):
        if number % _GROUP_OFFSETS == 0:
            group = group_names()[number // _GROUP_OFFSETS]
        topic, partition = divmod(number % _GROUP_OFFSETS, _BATCH_RECORDS)
        commit = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=number, committed_leader_epoch=0, committed_metadata=""
        )
        (record,) = offset_commits(group, f"events-{topic}", [commit], commit_timestamp=now_ms)
        gathered.append((now_ms, *record, ()))
        if len(gathered) == _BATCH_RECORDS:
            log.append_as_follower(memoryview(encode_batch(gathered, base_offset=log.log_end_offset, partition_leader_epoch=0)), 0)
            gathered = []
    log.close()
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        path = broker.data / checkpoint
        version, _, *entries = path.read_text().splitlines()
        kept = [entry for entry in entries if not entry.startswith(f"{name.topic} {name.partition} ")]
        kept.append(f"{name.topic} {name.partition} {log.log_end_offset}")
        path.write_text("".join(f"{line}\n" for line in (version, len(kept), *kept)))


_LOADED = re.compile(
    rf"(?:Finished loading of metadata from|loaded \d+ records of) __consumer_offsets-{_OFFSETS_PARTITION} .*?in (\d+) ?ms"
)


async def _served(port: int, group: str) -> None:
    wire = await connect(port)
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="events-0", partition_indexes=list(range(_BATCH_RECORDS)))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)])

    async def served() -> bool:
        (answer,) = (await wire.ask(request, 8, OffsetFetchResponse)).groups
        return answer.error_code == ErrorCode.NONE and all(each.committed_offset >= 0 for each in answer.topics[0].partitions)

    await until(served)
    wire.close()


_RUNTIME = "org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime"


def loading(broker: BrokerProcess, source: Path, count: int) -> Figures:
    share(source / "offsets" / "data", broker.data)
    for path in (broker.data / f"__consumer_offsets-{_OFFSETS_PARTITION}").iterdir():
        path.read_bytes()
    begin = time.perf_counter()
    broker.start(timeout=120)
    started = broker.cpu_seconds()
    asyncio.run(_served(broker.port, group_names()[count // _GROUP_OFFSETS - 1]))
    elapsed = time.perf_counter() - begin
    cpu = broker.cpu_seconds()
    found = _LOADED.search(broker.log_path.read_text(errors="replace"))
    if found is None:
        raise RuntimeError(f"{broker.name} does not say how long it loaded: {broker.log_tail()}")
    return {
        "load s": int(found[1]) / 1000,
        "served s": elapsed,
        "CPU s": cpu,
        "CPU s after start": cpu - started,
        "RSS MB": broker.rss_bytes() / MB,
    }


# -- subscribing -----------------------------------------------------------------------------------------------------------------


def fill(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"first", partition=0)
    if producer.flush(30):
        raise RuntimeError("a record was not acknowledged")


def subscribe_librdkafka(protocol: str, count: int, broker: BrokerProcess, label: str) -> Figures:
    topic = f"librdkafka-{protocol}-{label}"
    fill(broker, topic)
    times: list[float] = []
    for number in range(count):
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{topic}-{number}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        begin = time.perf_counter()
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        message = consumer.poll(30)
        times.append((time.perf_counter() - begin) * 1000)
        if message is None or message.error():
            raise RuntimeError(f"no record came: {message and message.error()}")
        consumer.close()
    delete_topic(broker, topic)
    return {"p50 ms": statistics.median(times), "max ms": max(times)}


def subscribe_raw(protocol: str, count: int, broker: BrokerProcess, label: str) -> Figures:
    topic = f"raw-{protocol}-{label}"
    fill(broker, topic)
    figures = generate("bench.subscribing", broker.port, protocol=protocol, topic=topic, count=count)
    delete_topic(broker, topic)
    return figures


def start_with_groups(broker: BrokerProcess, _: Path) -> Figures:
    broker.start(180)
    for kind in (GROUP, TRANSACTION):
        asyncio.run(use_coordinator(broker.port, ["first"], kind))
    broker.stop()
    begin = time.perf_counter()
    broker.start(180)
    elapsed = time.perf_counter() - begin
    cpu = broker.cpu_seconds()
    time.sleep(2)
    return {"start s": elapsed, "CPU s": cpu, "RSS idle MB": broker.rss_bytes() / MB}


def rows(scale: float) -> Sequence[AnyRow]:
    offsets, seconds, size = int(1_000_000 * scale), 5 * scale, int(1000 * scale)
    made: list[AnyRow] = [
        ColdRow(
            "loading 1,000,000 offsets",
            lambda broker, source: loading(broker, source, offsets),
            {"load s": at_most(1), "served s": at_most(1), "RSS MB": at_most(0.5)},
            prepare=lambda source: make_offsets(source / "offsets", offsets),
            talking=_RUNTIME,
        ),
        ColdRow("start with groups", start_with_groups, {"start s": below(0.35, "s")}),
    ]
    for protocol in PROTOCOLS:
        raw = partial(subscribe_raw, protocol, 20)
        client = partial(subscribe_librdkafka, protocol, 5)
        made.append(Row(f"subscribe, {protocol}, raw", raw, "p50 ms", {"p50 ms": at_most(1)}))
        made.append(Row(f"subscribe, {protocol}, librdkafka", client, "p50 ms", {"p50 ms": at_most(1)}))
    for partitions, text, least in ((1, "offset commits", 1.5), (10, "offset commits of 10 partitions", 1)):

        def commit(broker: BrokerProcess, label: str, partitions: int = partitions) -> Figures:
            return commits(broker, partitions, seconds, label)

        made.append(Row(text, commit, "CPU us", {"commits/s": at_least(least), "CPU us": at_most(1)}))
    for protocol in PROTOCOLS:

        def join(broker: BrokerProcess, label: str, protocol: str = protocol) -> Figures:
            return members(broker, protocol, size, label)

        made.append(Row(f"1,000 members, {protocol} protocol", join, "s", {"s": at_most(1), "CPU s": at_most(0.5)}))
    return made


if __name__ == "__main__":
    run(__doc__, "groups", rows, overrides=OVERRIDES)
