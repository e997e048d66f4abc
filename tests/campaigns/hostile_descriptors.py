"""Idle connections until the broker has no file descriptor left for clients, beside a client that works.

    python -m tests.campaigns.hostile_descriptors [--limit 256 --limit 1024] [--rounds 3] [--jvm]

The broker's limit of descriptors is lowered to `--limit` while it runs. Each round opens more idle connections than that. During the flood
a topic is created and every partition of the topic gets records for several segments, the controller's listener answers a new connection,
and the neighbour, which connected before, produces one record after the other. Then the idle connections close. Checks:
  no-crash            the broker runs, no log directory fails, and its log contains no traceback;
  topic-created       each partition of the new topic accepts all of its records and returns them in order;
  nodes-come-in       a new connection to the controller's listener is answered during the flood;
  neighbour-in-time   no record of the neighbour waits for longer than `--longest` seconds;
  memory-bounded      the peak of the broker's memory stays below the limit;
  served-again        a new connection of a client is answered within ten seconds of the end of the flood.
"""

from __future__ import annotations

import argparse
import resource
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from tests.campaigns.hostile import Neighbour, read_from_start
from tests.campaigns.hostile_flood import MEMORY_LIMIT, PAUSE_S, REQUEST_MEMORY

BEYOND: Final = 100
"""Number of idle connections that are tried beyond the limit."""
RECORDS: Final = 40
VALUE: Final = b"x" * 100_000
SEGMENT: Final = 1 << 20
"""segment.bytes in bytes: each partition rolls three times."""
DEADLINE_S: Final = 60.0
VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class Plan(NamedTuple):
    """Settings of a run. `limit`: descriptors of the broker. `longest_s`: maximum seconds for a record of the neighbour."""

    limit: int
    rounds: int = 3
    partitions: int = 4
    longest_s: float = 1.0
    jvm: bool = False


def answered(port: int, timeout_s: float = 5.0) -> bool:
    """Return whether a new connection is answered."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.sendall(VERSIONS)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def idle(port: int, count: int) -> list[socket.socket]:
    """Open up to `count` connections that send nothing."""
    found: list[socket.socket] = []
    for _ in range(count):
        try:
            found.append(socket.create_connection(("127.0.0.1", port), 2))
        except OSError:
            break
    return found


def write_and_read(producer: Producer, consumer: Consumer, topic: str, partitions: int) -> list[str]:
    """Write to all partitions, and compare their end offsets with the number of records. Return the problems."""
    problems: list[str] = []
    wanted = [b"%d:%s" % (number, VALUE) for number in range(RECORDS)]
    for value in wanted:
        for partition in range(partitions):
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: error and problems.append(str(error)))
        producer.flush(DEADLINE_S)
    if left := len(producer):
        return [f"{left} records not acknowledged"]
    for partition in range(partitions):
        try:
            high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1]
        except KafkaException as error:
            problems.append(str(error))
            continue
        if high != RECORDS:
            problems.append(f"partition {partition} holds {high} of {RECORDS} records")
        elif (values := read_from_start(consumer, topic, partition, high)) != wanted:
            problems.append(f"partition {partition} returns {len(values)} records of {RECORDS}, not those that were written")
    return list(dict.fromkeys(problems))[:5]


def one_round(plan: Plan, number: int, broker: BrokerProcess, clients: tuple[AdminClient, Producer, Consumer]) -> list[str]:
    """Run one round and return its problems."""
    admin, producer, consumer = clients
    flood = idle(broker.port, plan.limit + BEYOND)
    problems: list[str] = []
    try:
        topic = f"flooded-{number}"
        try:
            admin.create_topics([NewTopic(topic, plan.partitions, 1, config={"segment.bytes": str(SEGMENT)})])[topic].result(DEADLINE_S)
            problems += [f"topic-created: {each}" for each in write_and_read(producer, consumer, topic, plan.partitions)]
        except KafkaException as error:
            problems.append(f"topic-created: {error}")
        if not answered(broker.controller_port):
            problems.append("nodes-come-in: the controller's listener does not answer")
    finally:
        for each in flood:
            each.close()
    until = time.monotonic() + 10
    while broker.running and not answered(broker.port, 1.0):
        if time.monotonic() > until:
            problems.append("served-again: no answer to a new client")
            break
        time.sleep(0.1)
    return problems


def campaign(plan: Plan, folder: Path) -> list[str]:
    """Run all rounds on one broker and return the problems."""
    broker: BrokerProcess = JvmBroker(folder / "broker") if plan.jvm else OdradekBroker(folder / "broker")
    broker.overrides["queued.max.request.bytes"] = str(REQUEST_MEMORY)
    broker.start(60)
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**settings, "linger.ms": 0, "delivery.timeout.ms": int(DEADLINE_S * 1000)})
    consumer = Consumer({**settings, "group.id": "reader"})
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(30)
    neighbour = Neighbour(broker.bootstrap, "neighbour", pause_s=PAUSE_S)
    neighbour.start()
    neighbour.meanwhile(1.0)
    neighbour.latencies.clear()
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (plan.limit, plan.limit))
    problems: list[str] = []
    slowest: list[float] = []
    for number in range(plan.rounds):
        first = len(neighbour.latencies)
        problems += [f"{problem}, round {number}" for problem in one_round(plan, number, broker, (admin, producer, consumer))]
        slowest.append(max(neighbour.latencies[first:], default=0.0))
        if not broker.running:
            problems.append(f"no-crash: dead in round {number}\n{broker.log_tail()}")
            break
    neighbour.stopping.set()
    neighbour.join()
    consumer.close()
    if max(slowest) > plan.longest_s:
        problems.append(f"neighbour-in-time: {max(slowest) * 1000:.0f} ms")
    problems += [f"neighbour-in-time: {error}" for error in neighbour.errors[:3]]
    log = broker.log_path.read_text(errors="replace")
    for bad in ("Traceback", "goes offline"):
        if bad in log:
            problems.append(f"no-crash: {bad} in the log: {log[log.find(bad) - 300 :][:2000]}")
    peak = broker.peak_rss_bytes() if broker.running else 0
    if not plan.jvm and peak > MEMORY_LIMIT + REQUEST_MEMORY:
        problems.append(f"memory-bounded: {peak >> 20} MiB at the peak")
    if broker.running:
        if plan.jvm:
            broker.kill()
        elif status := broker.stop():
            problems.append(f"no-crash: the shutdown ended with status {status}")
    waits = ", ".join(f"{each * 1000:.0f}" for each in slowest)
    print(f"limit {plan.limit}: slowest record of each round {waits} ms, peak {peak >> 20} MiB, {len(problems)} problems", flush=True)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="idle connections up to the limit on descriptors, and what still works")
    parser.add_argument("--limit", type=int, action="append", help="descriptors of the broker (default: 256 and 1024)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, help="of each round's topic (default: one for 64 descriptors)")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds that a record of the neighbour may take")
    parser.add_argument("--jvm", action="store_true", help="the same to JVM Kafka, for comparison: its memory is not judged")
    options = parser.parse_args()
    limits = options.limit or [256, 1024]
    with suppress(ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    problems: list[str] = []
    for limit in limits:
        with tempfile.TemporaryDirectory(prefix="odradek-descriptors-") as folder:
            problems += campaign(Plan(limit, options.rounds, options.partitions or limit // 64, options.longest, options.jvm), Path(folder))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
