"""Repeated kills of the broker under an idempotent load with acks=all, with a check of the log.

    python -m tests.campaigns.kills --kills 50 --seed 1

Three producers (confluent-kafka, idempotent) write numbered values to three partitions, while the broker process is killed with SIGKILL at
random times and started again. At the end everything is read back. Named checks:
  acked-is-there   every acknowledged value is in the log, at its acknowledged offset;
  no-duplicates    no value is in the log twice;
  order-kept       the values of one producer are in the order in which they were sent.
The seed decides the times of the kills; the load runs in real time.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import OdradekBroker
from tests.campaigns.reading import read_to_end

TOPIC = "kills"
PARTITIONS = 3
CLIENT = {"socket.connection.setup.timeout.ms": 2000, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}


class Load(threading.Thread):
    """Producer thread of one partition, which remembers acknowledged values and their offsets."""

    def __init__(self, bootstrap: str, partition: int, rate: int, topic: str = TOPIC) -> None:
        super().__init__(name=f"producer-{partition}")
        self.topic = topic
        self.partition = partition
        self.rate = rate
        self.acked: dict[int, int] = {}
        self.refused: list[str] = []
        self.sent = 0
        self.stopping = threading.Event()
        self.producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "retries": 2_147_483_647,
                "delivery.timeout.ms": 300_000,
                "retry.backoff.ms": 20,
            }
        )

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is not None:
            self.refused.append(str(error))
        else:
            # Without an offset: a repeated batch was in the log already, and the broker no longer knows its offset.
            offset = message.offset()
            self.acked[int(value.split(b":")[1])] = -1 if offset is None else offset

    def run(self) -> None:
        while not self.stopping.is_set():
            value = f"{self.partition}:{self.sent}:".encode() + b"x" * (self.sent * 37 % 400)
            try:
                self.producer.produce(self.topic, value, partition=self.partition, on_delivery=self.delivered)
                self.sent += 1
            except BufferError:
                self.producer.poll(0.01)
            self.producer.poll(0)
            self.stopping.wait(1 / self.rate)
        self.producer.flush(120)


def read_back(bootstrap: str, topic: str = TOPIC) -> dict[int, list[tuple[int, int]]]:
    """Return partition -> (offset, number) of every record, in log order."""
    found = read_to_end(bootstrap, topic, range(PARTITIONS))
    return {partition: [(row.offset, int(row.value.split(b":")[1])) for row in rows] for partition, rows in found.items()}


def check(loads: list[Load], found: dict[int, list[tuple[int, int]]]) -> list[str]:
    """Run the named checks, and return one line per violation."""
    problems = []
    for load in loads:
        log = found[load.partition]
        numbers = [number for _, number in log]
        at = {number: offset for offset, number in log}
        missing = [number for number in load.acked if number not in at]
        if missing:
            problems.append(f"acked-is-there: partition {load.partition} lacks {len(missing)} acked values, first {missing[:5]}")
        moved = [n for n, offset in load.acked.items() if n in at and offset >= 0 and at[n] != offset]
        if moved:
            problems.append(
                f"acked-is-there: partition {load.partition} has {len(moved)} acked values at another offset, first {moved[:5]}"
            )
        if len(set(numbers)) != len(numbers):
            problems.append(f"no-duplicates: partition {load.partition} has {len(numbers) - len(set(numbers))} values twice")
        if numbers != sorted(numbers):
            problems.append(f"order-kept: partition {load.partition} is out of order")
        if load.refused:
            problems.append(f"acked-is-there: partition {load.partition} had {len(load.refused)} refused sends: {load.refused[0]}")
    return problems


def wait_for_acks(loads: list[Load], count: int) -> None:
    """Wait until `count` values have been acknowledged in total. Raises TimeoutError after 30 s."""
    deadline = time.monotonic() + 30
    while sum(len(load.acked) for load in loads) < count:
        if time.monotonic() > deadline:
            raise TimeoutError("no acknowledgement in 30 s")
        time.sleep(0.01)


def campaign(kills: int, seed: int, folder: Path, rate: int) -> list[str]:
    rng = random.Random(seed)
    broker = OdradekBroker(folder, {"log.segment.bytes": "1048576"})
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    loads = [Load(broker.bootstrap, partition, rate) for partition in range(PARTITIONS)]
    for load in loads:
        load.start()
    acked = 0
    try:
        for number in range(kills):
            # Each life of the broker must have acknowledged a value, or its kill would prove nothing.
            wait_for_acks(loads, acked + 1)
            time.sleep(rng.uniform(0, 0.6))
            broker.kill()
            start = time.monotonic()
            broker.start()
            acked = sum(len(load.acked) for load in loads)
            print(f"kill {number + 1} of {kills}: back in {time.monotonic() - start:.2f} s, {acked} acked so far", flush=True)
    finally:
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join()
    problems = check(loads, read_back(broker.bootstrap))
    status = broker.stop()
    if status != 0:
        problems.append(f"the last shutdown ended with status {status}")
    print(
        f"{kills} kills, {sum(load.sent for load in loads)} sent, {sum(len(load.acked) for load in loads)} acked, {len(problems)} problems"
    )
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="kill -9 under an idempotent load")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=300, help="records a second and producer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-kills-") as folder:
        problems = campaign(options.kills, options.seed, Path(folder), options.rate)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
