"""Mutated frames over sockets, with a check that the broker and a neighbour are unharmed.

    python -m tests.campaigns.hostile --count 10000 --seed 1

Frames are valid requests of every advertised API and version with bytes flipped, deleted, inserted or overwritten with hostile lengths. At
the same time a neighbour produces numbered records on another connection, and reads them back. Named checks:
  no-crash         the broker is alive at the end and stops in order;
  no-hang          every frame is answered, refused by closing, or proves to be incomplete (a mutated size) within the deadline;
  memory-bounded   the broker's peak memory stays below the limit;
  neighbour-unharmed   every record of the neighbour was acknowledged in time, is in the log once, and reads back equal.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import OdradekBroker
from odradek.handlers.scopes import BROKER
from odradek.handlers.table import APIS
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import request_class
from tests.protocol.generate import Generator

DEADLINE = 10.0
MEMORY_LIMIT = 250 << 20
HOSTILE_NUMBERS = (-1, -2, 0, 1, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 0x7FFFFFF0, 100_000_000)


def valid_frames(seed: int) -> list[bytes]:
    """Return requests of every API and version in the table, without their size: one with defaults, and four with random fields for broker
    listeners.

    Controller APIs get no random fields: a random but valid vote or registration may depose a leader, and should.
    """
    frames = []
    for api in APIS:
        for version in range(api.min_version, api.max_version + 1):
            request = request_class(api.api_key)
            messages = [request()]
            if api.is_served_on(BROKER):
                messages += [Generator((seed, api.api_key, version, number), version).message(request) for number in range(4)]
            for message in messages:
                with contextlib.suppress(UnsupportedVersionError):
                    frames.append(encode_request_header(api.api_key, version, 1, "hostile") + message.encode(version))
    return frames


def mutate(rng: random.Random, frame: bytes) -> bytes:
    """Return the frame, with its size, after one to four mutations. Sometimes the size is wrong as well."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0 if data:
                data[position] ^= 1 << rng.randrange(8)
            case 1:
                del data[position:]
            case 2:
                data[position:position] = rng.randbytes(rng.choice((1, 2, 4, 8, 100, 5000)))
            case 3:
                data[position : position + 4] = struct.pack(">i", rng.choice(HOSTILE_NUMBERS))
            case _:
                data[position : position + 5] = b"\xff\xff\xff\xff\x7f"
    size = len(data)
    if rng.random() < 0.05:
        size = rng.choice((*HOSTILE_NUMBERS, size + 1, max(0, size - 1)))
    return struct.pack(">i", size) + data


def attack(port: int, frame: bytes) -> str:
    """Send the frame on a new connection, end the sending side, and return "answered", "closed" or "hung"."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as connection:
        connection.settimeout(DEADLINE)
        try:
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
            return "answered" if answer else "closed"
        except TimeoutError:
            return "hung"
        except OSError:
            return "closed"


def read_from_start(consumer: Consumer, topic: str, partition: int, count: int) -> list[bytes]:
    """Return the values of the first records of a partition: `count`, or fewer when the next does not come within `DEADLINE` seconds."""
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    until = time.monotonic() + DEADLINE
    while len(values) < count and time.monotonic() < until:
        # librdkafka goes on after an error, which comes in the place of a record.
        for message in consumer.consume(min(1000, count - len(values)), 1.0):
            if message.error() is None:
                values.append(bytes(message.value() or b""))
                until = time.monotonic() + DEADLINE
    return values


class Neighbour(threading.Thread):
    """Producer thread that sends numbered records, one at a time, and remembers their latencies."""

    def __init__(self, bootstrap: str, topic: str, settings: Mapping[str, str] | None = None, pause_s: float = 0.0) -> None:
        """Make a neighbour. `settings`: more settings of its client. `pause_s`: seconds from an acknowledgement to the next record."""
        super().__init__(name="neighbour")
        self.topic = topic
        self._pause_s = pause_s
        self.stopping = threading.Event()
        self.acked = 0
        self.slowest = 0.0
        self.latencies: list[float] = []
        """Seconds from each record to its acknowledgement."""
        self.settings = dict(settings or {})
        self.errors: list[str] = []
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True, **self.settings})

    def run(self) -> None:
        while not self.stopping.is_set():
            start = time.monotonic()
            self.producer.produce(
                self.topic, str(self.acked).encode(), partition=0, on_delivery=lambda error, _: error and self.errors.append(str(error))
            )
            if self.producer.flush(DEADLINE):
                self.errors.append("not acknowledged in time")
                return
            self.latencies.append(time.monotonic() - start)
            self.slowest = max(self.slowest, self.latencies[-1])
            self.acked += 1
            if self._pause_s:
                self.stopping.wait(self._pause_s)

    def meanwhile(self, seconds: float, least: int = 20) -> list[float]:
        """Return the latencies of the next `seconds` seconds, and of at least `least` records. Fewer when the neighbour has given up."""
        first, until = len(self.latencies), time.monotonic() + seconds
        while self.is_alive() and (time.monotonic() < until or len(self.latencies) < first + least):
            time.sleep(0.01)
        return self.latencies[first:]

    def read_back(self, bootstrap: str) -> list[bytes]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "neighbour", "enable.auto.commit": False, **self.settings})
        try:
            high = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), 10)[1]
            return read_from_start(consumer, self.topic, 0, high)
        finally:
            consumer.close()


def campaign(count: int, seed: int, folder: Path) -> list[str]:
    rng = random.Random(seed)
    frames = valid_frames(seed)
    broker = OdradekBroker(folder)
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("neighbour", 1, 1)])["neighbour"].result(30)
    neighbour = Neighbour(broker.bootstrap, "neighbour")
    neighbour.start()
    outcomes: dict[str, int] = {}
    problems: list[str] = []
    try:
        for number in range(count):
            frame = rng.choice(frames)
            frame = mutate(rng, frame) if rng.random() < 0.9 else struct.pack(">i", len(frame)) + frame
            port = broker.port if rng.random() < 0.8 else broker.controller_port
            outcome = attack(port, frame)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if outcome == "hung":
                problems.append(f"no-hang: frame {number} of seed {seed}: {frame[:60].hex()}")
            if broker.process is None or broker.process.poll() is not None:
                problems.append(f"no-crash: dead after frame {number} of seed {seed}: {frame[:200].hex()}\n{broker.log_tail()}")
                return problems
    finally:
        neighbour.stopping.set()
        neighbour.join()
    peak = broker.peak_rss_bytes()
    if peak > MEMORY_LIMIT:
        problems.append(f"memory-bounded: {peak >> 20} MiB at the peak")
    problems += [f"neighbour-unharmed: {error}" for error in neighbour.errors[:5]]
    if neighbour.read_back(broker.bootstrap) != [str(number).encode() for number in range(neighbour.acked)]:
        problems.append("neighbour-unharmed: what was read back differs")
    if (status := broker.stop()) != 0:
        problems.append(f"no-crash: the shutdown ended with status {status}")
    print(f"{count} frames, {outcomes}, peak {peak >> 20} MiB, {len(problems)} problems")
    print(f"neighbour: {neighbour.acked} acked, slowest {neighbour.slowest * 1000:.0f} ms")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="mutated frames over sockets")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-hostile-") as folder:
        problems = campaign(options.count, options.seed, Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
