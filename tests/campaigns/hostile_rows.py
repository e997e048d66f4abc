"""Requests and connections that cost their sender little, one row each, with their cost for the broker and a neighbour.

    python -m tests.campaigns.hostile_rows [--rows NAME ...] [--times 5000] [--connections 100] [--longest 1] [--jvm]

`repeats`: requests that name one thing thousands of times. `beginnings`: the first bytes of large requests, which never end, on many
connections, on a listener without a login and on a listener before the login. `metrics`: silent connections to the metrics port (only
Odradek has one). At the same time a neighbour produces records. Named checks:
  no-crash             the broker is alive and stops in order;
  memory-bounded       its resident memory grows by less than `MOST_GROWN` in a row;
  neighbour-unharmed   each record of the neighbour is acknowledged within `--longest` seconds.
With `--jvm` JVM Kafka 4.3.1 is measured, and its problems do not fail the campaign.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port
from interop.waiting import eventually
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message
from tests.campaigns.hostile import DEADLINE, Neighbour

MOST_GROWN: Final = 200 << 20
PAUSE_S: Final = 0.005
AT_ONCE: Final = 4
"""Number of connections that send the same repeats."""
ROUNDS: Final = 3
FRAME: Final = 100 << 20
"""Bytes that a beginning announces on a listener without a login."""
LOGIN_FRAME: Final = 500_000
"""Bytes that a beginning announces before a login, where sasl.server.max.receive.size allows 512 KiB."""
SENT: Final = 400_000
HELD_S: Final = 5.0
SILENT: Final = 200
TOPIC, GROUP = "t", "g"
QUIET: Final = {"log_level": "0"}
"""Settings against log output: a client of a broker that ends logs many lines a second."""
JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


class Row(NamedTuple):
    """Figures of one row."""

    name: str
    asked: int
    answered: int
    closed: int
    took_s: float
    grown: int
    longest_s: float
    problems: list[str]


def _of(api_key: ApiKey) -> Any:
    return request_class(api_key)


def _topic(message: Any, struct_name: str, times: int, **partition: Any) -> Any:
    """Return a topic struct of a request, in which one partition struct is repeated `times` times."""
    inner = {"ListOffsetsTopic": "ListOffsetsPartition", "OffsetForLeaderTopic": "OffsetForLeaderPartition"}[struct_name]
    name = {"topic" if struct_name == "OffsetForLeaderTopic" else "name": TOPIC}
    return getattr(message, struct_name)(**name, partitions=[getattr(message, inner)(**partition)] * times)


def repeats(times: int) -> Iterator[tuple[ApiKey, int, Message]]:
    """Yield requests that name one thing `times` times: (API, version, request)."""
    make = _of(ApiKey.DESCRIBE_CONFIGS)
    for kind, name in ((2, TOPIC), (4, "1")):
        resource = make.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        yield ApiKey.DESCRIBE_CONFIGS, 4, make(resources=[resource] * times, include_synonyms=True, include_documentation=True)
    make = _of(ApiKey.OFFSET_FETCH)
    yield ApiKey.OFFSET_FETCH, 9, make(groups=[make.OffsetFetchRequestGroup(group_id=GROUP, topics=None)] * times)
    topic = make.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0] * times)
    yield ApiKey.OFFSET_FETCH, 9, make(groups=[make.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
    yield ApiKey.DESCRIBE_GROUPS, 5, _of(ApiKey.DESCRIBE_GROUPS)(groups=[GROUP] * times)
    yield ApiKey.CONSUMER_GROUP_DESCRIBE, 0, _of(ApiKey.CONSUMER_GROUP_DESCRIBE)(group_ids=[GROUP] * times)
    make = _of(ApiKey.DESCRIBE_PRODUCERS)
    yield ApiKey.DESCRIBE_PRODUCERS, 0, make(topics=[make.TopicRequest(name="neighbour", partition_indexes=[0] * times)])
    yield ApiKey.DESCRIBE_TRANSACTIONS, 0, _of(ApiKey.DESCRIBE_TRANSACTIONS)(transactional_ids=["x"] * times)
    make = _of(ApiKey.LIST_OFFSETS)
    repeated = _topic(make, "ListOffsetsTopic", times, partition_index=0, timestamp=-1)
    yield ApiKey.LIST_OFFSETS, 7, make(replica_id=-1, topics=[repeated])
    make = _of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    repeated = _topic(make, "OffsetForLeaderTopic", times, partition=0, leader_epoch=0)
    yield ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, make(replica_id=-1, topics=[repeated])
    yield ApiKey.FIND_COORDINATOR, 4, _of(ApiKey.FIND_COORDINATOR)(coordinator_keys=[GROUP] * times)
    make = _of(ApiKey.METADATA)
    yield ApiKey.METADATA, 12, make(topics=[make.MetadataRequestTopic(name=TOPIC)] * times)
    make = _of(ApiKey.DESCRIBE_LOG_DIRS)
    yield ApiKey.DESCRIBE_LOG_DIRS, 4, make(topics=[make.DescribableLogDirTopic(topic=TOPIC, partitions=[0] * times)])
    make = _of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, make(topics=[make.TopicRequest(name=TOPIC)] * times)


def framed(api_key: ApiKey, version: int, request: Message) -> bytes:
    """Return the request as it is sent over a connection."""
    body = encode_request_header(api_key, version, 1, "hostile") + request.encode(version)
    return struct.pack(">i", len(body)) + body


def ask(port: int, data: bytes) -> int:
    """Send a request. Return the number of bytes of the response, or -1 when the connection was closed instead."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(data)
            size = left = 4 + struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
            left -= 4
            while left:
                piece = connection.recv(min(left, 1 << 20))
                if not piece:
                    return -1
                left -= len(piece)
        except (OSError, struct.error):
            return -1
    return size


class Campaign:
    """Broker with its neighbour, and the rows so far."""

    def __init__(self, folder: Path, *, jvm: bool, longest_s: float) -> None:
        self.jvm = jvm
        self.longest_s = longest_s
        self.broker: BrokerProcess = JvmBroker(folder, heap="1g") if jvm else OdradekBroker(folder)
        self.sasl_port, self.metrics_port = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{self.broker.port},SASL://127.0.0.1:{self.sasl_port}"
        self.broker.overrides = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.broker.controller_port}",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": JAAS,
            **({} if jvm else {"odradek.metrics.listener": str(self.metrics_port)}),
        }
        self.rows: list[Row] = []
        self.neighbour: Neighbour

    def __enter__(self) -> Campaign:
        try:
            self.broker.start(120)
            self._fill()
        except BaseException:
            self.broker.kill()
            raise
        self.neighbour = Neighbour(self.broker.bootstrap, "neighbour", QUIET, pause_s=PAUSE_S)
        self.neighbour.start()
        self.neighbour.meanwhile(1.0)
        return self

    def _fill(self) -> None:
        """Create the topics and the group that the requests name."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic("neighbour", 1, 1), NewTopic(TOPIC, 1, 1)]).values():
            future.result(30)
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": GROUP})

        def committed() -> bool | None:
            # JVM Kafka answers NOT_COORDINATOR at first.
            try:
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0, "m" * 4000)], asynchronous=False)
            except KafkaException:
                return None
            return True

        eventually(committed, "an offset to be committed", 30)
        consumer.close()

    def __exit__(self, *_: object) -> None:
        self.part()
        self.broker.kill()

    def part(self) -> None:
        """Stop the neighbour."""
        self.neighbour.stopping.set()
        self.neighbour.join()
        self.neighbour.producer.purge()
        self.neighbour.producer.flush(1)

    def row(self, name: str, asked: int, act: Callable[[], tuple[int, int, list[str]]]) -> None:
        """Run `act`, which returns the bytes answered, the number of closed connections, and problems. Check the cost."""
        before, first = self.broker.rss_bytes(), len(self.neighbour.latencies)
        begin = time.monotonic()
        answered, closed, problems = act()
        took_s = time.monotonic() - begin
        if self.broker.running:
            grown = self.broker.rss_bytes() - before
            self.neighbour.meanwhile(0.2)
        else:
            grown = 0
            problems.append(f"no-crash: {self.broker.log_tail(10)}")
        longest_s = max(self.neighbour.latencies[first:], default=DEADLINE)
        if grown > MOST_GROWN:
            problems.append(f"memory-bounded: {grown >> 20} MiB more")
        if longest_s > self.longest_s or self.neighbour.errors:
            problems.append(f"neighbour-unharmed: {longest_s:.2f} s for a record {self.neighbour.errors[:2]}")
        row = Row(name, asked, answered, closed, took_s, grown, longest_s, problems)
        print(
            f"{name:45} {asked:>11,} bytes asked, {answered:>11,} answered, {closed:>3} closed, {took_s:6.2f} s, "
            f"{grown / (1 << 20):+7.1f} MiB, neighbour {longest_s * 1000:6.0f} ms {'; '.join(problems)}",
            flush=True,
        )
        self.rows.append(row)

    # -- rows ------------------------------------------------------------------------------------------------------------------

    def repeats(self, times: int) -> None:
        """Send requests with repeated names, on several connections at once."""
        for api_key, version, request in repeats(times):
            data = framed(api_key, version, request)

            def act(data: bytes = data) -> tuple[int, int, list[str]]:
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    sizes = list(pool.map(lambda _: ask(self.broker.port, data), range(AT_ONCE * ROUNDS)))
                return sum(size for size in sizes if size > 0), sizes.count(-1), []

            self.row(f"repeats: {api_key.name} x {times}", len(data) * AT_ONCE * ROUNDS, act)
            if not self.broker.running:
                return

    def beginnings(self, connections: int) -> None:
        """Send beginnings of requests without their ends."""
        for name, port, announced in (
            ("without a login", self.broker.port, FRAME),
            ("before a login", self.sasl_port, LOGIN_FRAME),
            ("too large before a login", self.sasl_port, FRAME),
        ):

            def act(port: int = port, announced: int = announced) -> tuple[int, int, list[str]]:
                with contextlib.ExitStack() as stack:
                    held = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(connections)]
                    for each in held:
                        each.settimeout(2)
                        with contextlib.suppress(OSError):
                            each.sendall(struct.pack(">i", announced) + b"\0\x12\0\0" + b"\0" * SENT)
                    self.neighbour.meanwhile(HELD_S)
                    closed = 0
                    for each in held:
                        each.setblocking(False)
                        try:
                            closed += each.recv(1) == b""
                        except BlockingIOError:
                            pass
                        except OSError:
                            closed += 1
                    return 0, closed, []

            self.row(f"beginnings {name} x {connections}", SENT * connections, act)
            if not self.broker.running:
                return

    def metrics(self) -> None:
        """Open silent connections to the metrics port."""
        if self.jvm:
            return

        def act() -> tuple[int, int, list[str]]:
            problems: list[str] = []
            answered = 0
            with contextlib.ExitStack() as stack:
                for _ in range(SILENT):
                    stack.enter_context(socket.create_connection(("127.0.0.1", self.metrics_port), 10))
                for path in ("/health/ready", "/metrics"):
                    begin = time.monotonic()
                    answered += (size := self._get(path))
                    took_s = time.monotonic() - begin
                    if not size or took_s > self.longest_s:
                        problems.append(f"metrics-answered: {size} bytes of {path} after {took_s:.2f} s")
            return answered, 0, problems

        self.row(f"metrics: {SILENT} silent connections", 0, act)

    def _get(self, path: str) -> int:
        received = b""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.metrics_port), 10) as connection:
            connection.settimeout(10)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            while piece := connection.recv(1 << 16):
                received += piece
        return len(received) if received.startswith(b"HTTP/1.1 200") else 0


ROWS: Final[Mapping[str, Callable[[Campaign, argparse.Namespace], None]]] = {
    "repeats": lambda campaign, options: campaign.repeats(options.times),
    "beginnings": lambda campaign, options: campaign.beginnings(options.connections),
    "metrics": lambda campaign, options: campaign.metrics(),
}


def run(options: argparse.Namespace, folder: Path) -> list[str]:
    """Run the rows, each kind on a new broker, and return the problems."""
    problems: list[str] = []
    for name in options.rows:
        with Campaign(folder / name, jvm=options.jvm, longest_s=options.longest) as campaign:
            ROWS[name](campaign, options)
            problems += [f"{row.name}: {problem}" for row in campaign.rows for problem in row.problems]
            campaign.part()
            if campaign.broker.running and (status := campaign.broker.stop()) not in (0, 143):
                problems.append(f"{name}: no-crash: the broker ended with status {status}")
    return problems


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="requests and connections that cost their sender little")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--times", type=int, default=5000)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--longest", type=float, default=1.0)
    parser.add_argument("--jvm", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="odradek-hostile-rows-") as folder:
        problems = run(options, Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(bool(problems) and not options.jvm)


if __name__ == "__main__":
    main()
