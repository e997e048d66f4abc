"""Thousands of connections that request much and read nothing, with a check of the broker's memory and its other clients.

    python -m tests.campaigns.slow_readers --readers 5000 --seed 1 [--kind records|answers|mixed]

Each reader requests 50 MB of records (`records`), or a response of 400 KB that is made in memory (`answers`: metadata of unknown topics),
and reads no byte of the response. Some more (patient readers) request records and read them slowly, to the end. At the same time a fast
neighbour fetches records and API versions. Named checks:
  no-crash            the broker is alive at the end and stops in order;
  memory-bounded      its peak memory is below its memory before, its budget for responses, and a few KiB for each connection;
  memory-given-back   within 60 s after the end of the readers it uses at most 1.5 times its memory before;
  neighbour-unharmed  the neighbour gets the right bytes within the deadline, and keeps a good part of its speed;
  patience-rewarded   patient readers of records get all of their bytes, unchanged.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import OdradekBroker
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message

MIB = 1 << 20
TOPIC = "load"
RECORD = 500_000
RECORDS = 120
WANTED = 50_000_000
BUDGET = 64 * MIB
PER_READER = 12 * 1024
"""Bytes that an open connection may cost beyond the budget: its objects, the broker's state of its request, its last few bytes."""
DEADLINE_S = 10.0
GIVEN_BACK_S = 60.0


class Plan(NamedTuple):
    readers: int = 5000
    kind: str = "mixed"
    patient: int = 20
    hold_s: float = 10.0
    """Minimum seconds that all connections stay after the last request. They also stay until the neighbour has made `rounds` rounds."""
    rounds: int = 1
    least_speed: float = 0.2
    """Minimum share of the neighbour's speed without readers. 0 if other processes share the machine, as a speed means nothing then."""
    deadline_s: float = DEADLINE_S
    pause_s: float = 0.0
    """Seconds that the neighbour waits between two rounds."""


def request(message: Message, version: int) -> bytes:
    data = encode_request_header(message.API_KEY, version, 1, "slow") + message.encode(version)
    return struct.pack(">i", len(data)) + data


def fetch(size: int) -> bytes:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
    return request(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=size, topics=[topic]), 11)


def unknown_topics() -> bytes:
    """Return a request with a response about as long as the request."""
    topics = [MetadataRequest.MetadataRequestTopic(name=f"{number:04}".ljust(200, "x")) for number in range(2000)]
    return request(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 8)


def answer(connection: socket.socket, most: int = 1 << 18, pause_s: float = 0.0) -> bytes:
    """Return one response, read at most `most` bytes at a time. Raises ConnectionError when the response is cut off."""
    data = bytearray()
    size = 4
    while len(data) < size:
        piece = connection.recv(min(most, size - len(data)))
        if not piece:
            raise ConnectionError(f"closed after {len(data)} bytes")
        data += piece
        if len(data) == 4 == size:
            size += struct.unpack(">i", data)[0]
        if pause_s:
            time.sleep(pause_s)
    return bytes(data[4:])


class Neighbour(threading.Thread):
    """Thread that requests API versions and 8 MB of records in turn, and compares each response with the first."""

    def __init__(self, port: int, plan: Plan) -> None:
        super().__init__(name="neighbour")
        self.deadline_s, self.pause_s = plan.deadline_s, plan.pause_s
        self.stopping = threading.Event()
        self.port = port
        self.rounds = 0
        self.slowest_s = 0.0
        self.problems: list[str] = []
        self._spent_s = 0.0

    @property
    def rounds_per_second(self) -> float:
        return self.rounds / self._spent_s if self._spent_s else 0.0

    def start_anew(self) -> None:
        self.rounds, self._spent_s, self.slowest_s = 0, 0.0, 0.0

    def wait_for(self, rounds: int) -> None:
        """Wait until `rounds` rounds are done, or the thread has ended with a problem."""
        while self.rounds < rounds and self.is_alive():
            time.sleep(0.01)

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), self.deadline_s) as connection:
                first: dict[bytes, bytes] = {}
                requests = (struct.pack(">ihhih", 10, 18, 0, 7, -1), fetch(8_000_000))
                while not self.stopping.is_set():
                    for asked in requests:
                        begin = time.monotonic()
                        connection.sendall(asked)
                        data = answer(connection)
                        spent = time.monotonic() - begin
                        self.slowest_s = max(self.slowest_s, spent)
                        self._spent_s += spent
                        if first.setdefault(asked, data) != data:
                            self.problems.append("other bytes than before")
                            return
                    self.rounds += 1
                    self.stopping.wait(self.pause_s)
        except OSError as error:
            self.problems.append(str(error) or "not answered in time")


class Patient(threading.Thread):
    """Thread that reads 2 MB of records in chunks of 16 KiB, with pauses."""

    def __init__(self, port: int, expected: bytes, deadline_s: float) -> None:
        super().__init__(name="patient")
        self.deadline_s = deadline_s
        self.port = port
        self.expected = expected
        self.problem: str | None = None

    def run(self) -> None:
        try:
            with socket.socket() as connection:
                connection.settimeout(self.deadline_s)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", self.port))
                connection.sendall(fetch(2_000_000))
                if answer(connection, 16 * 1024, 0.05) != self.expected:
                    self.problem = "not the bytes that it asked for"
        except OSError as error:
            self.problem = str(error)


def prepare(broker: OdradekBroker, rng: random.Random) -> None:
    """Create a topic with 60 MB of incompressible records."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(RECORDS):
        producer.produce(TOPIC, rng.randbytes(RECORD), partition=0)
    if producer.flush(60):
        raise TimeoutError("the records could not be produced")


def crowd(plan: Plan, port: int, rng: random.Random) -> list[socket.socket]:
    """Open connections that have sent a request and never read."""
    kinds = {"records": fetch(WANTED), "answers": unknown_topics()}
    sockets = []
    for _ in range(plan.readers):
        asked = kinds[plan.kind] if plan.kind in kinds else rng.choice(list(kinds.values()))
        connection = socket.create_connection(("127.0.0.1", port), plan.deadline_s)
        connection.sendall(asked)
        sockets.append(connection)
    return sockets


def wait_until_below(broker: OdradekBroker, limit: float, within_s: float) -> tuple[int, float]:
    """Wait until the broker's memory is below `limit`. Return the memory, and the seconds of the wait (at most about `within_s`)."""
    begin = time.monotonic()
    while (now := broker.rss_bytes()) > limit and time.monotonic() - begin < within_s:
        time.sleep(0.25)
    return now, time.monotonic() - begin


def campaign(plan: Plan, seed: int, folder: Path) -> list[str]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = plan.readers + 2000
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))
    rng = random.Random(seed)
    broker = OdradekBroker(folder, {"socket.send.buffer.bytes": "102400"})
    broker.start()
    problems: list[str] = []
    sockets: list[socket.socket] = []
    neighbour = Neighbour(broker.port, plan)
    try:
        prepare(broker, rng)
        with socket.create_connection(("127.0.0.1", broker.port), plan.deadline_s) as connection:
            connection.sendall(fetch(2_000_000))
            expected = answer(connection)
        neighbour.start()
        if plan.least_speed:
            time.sleep(3)
        neighbour.wait_for(plan.rounds)
        alone, before = neighbour.rounds_per_second, broker.rss_bytes()
        neighbour.start_anew()
        patients = [Patient(broker.port, expected, plan.deadline_s) for _ in range(plan.patient)]
        for patient in patients[::2]:
            patient.start()
        begin = time.monotonic()
        sockets = crowd(plan, broker.port, rng)
        asked_s = time.monotonic() - begin
        for patient in patients[1::2]:
            patient.start()
        time.sleep(plan.hold_s)
        neighbour.wait_for(neighbour.rounds + plan.rounds)
        during, slowest_s = neighbour.rounds_per_second, neighbour.slowest_s
        for patient in patients:
            patient.join()
        for connection in sockets:
            connection.close()
        peak = broker.peak_rss_bytes()
        after, took_s = wait_until_below(broker, before * 1.5, GIVEN_BACK_S)
        neighbour.stopping.set()
        neighbour.join()
        print(
            f"{plan.readers} readers of {plan.kind} within {asked_s:.1f} s; memory {before >> 20} -> {peak >> 20} -> "
            f"{after >> 20} MiB in {took_s:.1f} s; neighbour {alone:.1f} -> {during:.1f} rounds/s, slowest {slowest_s * 1000:.0f} ms"
        )
        if peak > before + BUDGET * 1.5 + plan.readers * PER_READER:
            problems.append(f"memory-bounded: {peak >> 20} MiB at the peak, {before >> 20} before")
        if after > before * 1.5:
            problems.append(f"memory-given-back: {after >> 20} MiB of {peak >> 20} stay, {before >> 20} before")
        if during < alone * plan.least_speed:
            problems.append(f"neighbour-unharmed: {during:.1f} rounds/s where it made {alone:.1f}")
        problems += [f"neighbour-unharmed: {problem}" for problem in neighbour.problems]
        problems += [f"patience-rewarded: {patient.problem}" for patient in patients if patient.problem]
        if (status := broker.stop()) != 0:
            problems.append(f"no-crash: the shutdown ended with status {status}\n{broker.log_tail()}")
    finally:
        neighbour.stopping.set()
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.close()
        broker.kill()
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="connections that ask for much and read nothing")
    parser.add_argument("--readers", type=int, default=Plan().readers)
    parser.add_argument("--kind", choices=("records", "answers", "mixed"), default=Plan().kind)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-slow-readers-") as folder:
        problems = campaign(Plan(options.readers, options.kind), options.seed, Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
