"""Rolling restarts or swaps of the nodes of a cluster of three, under load.

    python -m tests.campaigns.rolling --what restart --seed 1 --rounds 5
    python -m tests.campaigns.rolling --what swap --seed 1 --rounds 2

Three nodes, each broker and controller, serve topics with three replicas and min.insync.replicas=2. A node is stopped by SIGTERM and
started again. The next node follows when all brokers report that all replicas are in sync. A round of
  restart   takes every node of ours once;
  swap      begins with JVM Kafka's nodes, replaces each by one of ours, with the same directory and addresses, and then by JVM Kafka's
            again; with odd seeds the voters are in the log, with even seeds in the configuration.
The clients are confluent-kafka and aiokafka with their default settings, each with a producer and a group member, at a steady rate. By
default neither producer is idempotent, and aiokafka's waits for the leader only. During swaps confluent-kafka's producer is idempotent, and
there is a copier with transactions as well (tests/campaigns/copiers.py). Named checks:
  no-errors        no client gets an error, and every record is acknowledged;
  latency          restart: the 99th percentile from a produce to its acknowledgement is below 2 s, for each client;
  history          findings of the history checker for confluent-kafka's records: lost; swap: also duplicated or out of order, and a
                   partition without a successful write for more than 15 s;
  all-read         the group of confluent-kafka reads each of its acknowledged records;
  exactly-once, aborted-invisible, committed-there, not-torn, replicas-differ, no-complaints   as in tests/campaigns/mixed_brokers.py.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import aiokafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from interop.waiting import eventually
from odradek.testing.history import Recorder, iterate_history
from odradek.testing.history.anomalies import ALLOWED
from odradek.testing.history.checker import examine
from odradek.testing.history.final_read import final_read
from tests.campaigns.exactly_once_judging import Stuck
from tests.campaigns.mixed_brokers import Copier, judge_copies
from tests.campaigns.mixed_cluster import BROKERS, PATIENCE_S, MixedBrokers
from tests.campaigns.mixed_quorum import no_complaints

PARTITIONS = len(BROKERS)
RATE = 100
"""Records per second of each client."""
SLOWEST_S = 2.0
UNAVAILABLE_S = 15.0
REPEATED = frozenset({"duplicate", "nonmonotonic-send", "int-nonmonotonic-send", "acked-offset-regression"})
"""Anomalies that a producer without idempotence may cause, when it sends records again that were not acknowledged."""
LAST_S = 20.0
"""Seconds that a reader waits for a missing record."""
COPIED = "confluent"
"""Topic that is copied."""


class Client(ABC):
    """Producer and consumer of one library, which write and read a topic with the library's name."""

    topic: str

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.stopping = threading.Event()
        self.latencies: list[float] = []
        self.errors: list[str] = []
        self.sent = 0
        self.read: set[str] = set()
        self.acked: set[str] = set()
        self._counted, self._deadline = -1, 0.0
        self.threads = [threading.Thread(target=self._guarded, args=(run,), daemon=True) for run in (self.produce, self.consume)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Stop the producer, and the consumer when it has read all acknowledged records."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def next(self) -> tuple[int, str]:
        """Return the partition and the value of the next record."""
        self.sent += 1
        return self.sent % PARTITIONS, f"{self.topic}:{self.sent}"

    def acknowledged(self, value: str, began: float) -> None:
        self.latencies.append(time.monotonic() - began)
        self.acked.add(value)

    @property
    def reading(self) -> bool:
        """True while there is more to read. A record that is missing for `LAST_S` seconds counts as lost."""
        count, writing = len(self.read), not self.stopping.is_set() or self.threads[0].is_alive()
        if writing or count > self._counted:
            self._counted, self._deadline = count, time.monotonic() + LAST_S
        return writing or (not self.read >= self.acked and time.monotonic() < self._deadline)

    @abstractmethod
    def produce(self) -> None: ...

    @abstractmethod
    def consume(self) -> None: ...


class Confluent(Client):
    topic = COPIED

    def __init__(self, bootstrap: str, history: Path, *, idempotent: bool) -> None:
        super().__init__(bootstrap)
        self.settings = {"bootstrap.servers": bootstrap, "log_level": 0, **({"enable.idempotence": True} if idempotent else {})}
        self.recorder = Recorder(history / "confluent.jsonl", "confluent")

    def produce(self) -> None:
        producer = Producer(self.settings)
        due = time.monotonic()
        while not self.stopping.is_set():
            self._send(producer, *self.next())
            due += 1 / RATE
            producer.poll(max(0.0, due - time.monotonic()))
        producer.flush()
        self.recorder.close()

    def _send(self, producer: Producer, partition: int, value: str) -> None:
        began = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged(value, began)
                self.recorder.ok("send", [["send", self.topic, partition, message.offset(), value]], id=value)
            else:
                self.errors.append(f"{value}: {error}")
                self.recorder.info("send", [["send", self.topic, partition, None, value]], id=value)

        self.recorder.invoke("send", [["send", self.topic, partition, None, value]], id=value)
        producer.produce(self.topic, value.encode(), partition=partition, on_delivery=delivered)

    def consume(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "confluent", "auto.offset.reset": "earliest", "log_level": 0})
        consumer.subscribe([self.topic])
        while self.reading:
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is not None:
                    self.errors.append(f"reading, with {len(self.read)} read: {error}")
                else:
                    self.read.add((message.value() or b"").decode())
        consumer.close()


class Aiokafka(Client):
    topic = "aiokafka"

    def produce(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            due = time.monotonic()
            sending: set[asyncio.Task[None]] = set()
            while not self.stopping.is_set():
                sending.add(task := asyncio.create_task(self._send(producer, *self.next())))
                task.add_done_callback(sending.discard)
                due += 1 / RATE
                await asyncio.sleep(due - time.monotonic())
            await asyncio.gather(*sending)

    async def _send(self, producer: aiokafka.AIOKafkaProducer, partition: int, value: str) -> None:
        began = time.monotonic()
        try:
            await producer.send_and_wait(self.topic, value.encode(), partition=partition)
        except Exception as error:
            self.errors.append(f"{value}: {error!r}")
        else:
            self.acknowledged(value, began)

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        settings = {"group_id": "aiokafka", "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(self.topic, bootstrap_servers=self.bootstrap, **settings) as consumer:
            while self.reading:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    self.read |= {(record.value or b"").decode() for record in records}


class Roll:
    """One run of the campaign."""

    def __init__(self, what: str, seed: int, rounds: int, folder: Path) -> None:
        self.what = what
        self.rng = random.Random(f"rolling {what} {seed}")
        self.rounds = rounds
        self.history = folder / "history"
        self.history.mkdir()
        first = "odradek" if what == "restart" else "jvm"
        self.cluster = MixedBrokers(folder / "nodes", [first] * len(BROKERS), dynamic=seed % 2 == 1)
        self.seed = seed
        self.clients: list[Client] = []
        self.copier: Copier | None = None
        self.begun = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s, {sum(len(each.acked) for each in self.clients):>6} acked: {text}", flush=True)

    def run(self) -> list[str]:
        """Run the campaign and return one line per violation."""
        try:
            self._open()
            for number in range(self.rounds):
                for kind in ("odradek",) if self.what == "restart" else ("odradek", "jvm"):
                    self._roll(number, kind)
            return self._judge()
        except (AssertionError, TimeoutError, RuntimeError, KafkaException, Stuck) as error:
            logs = [f"node {node} ({process.name}):\n{process.log_tail(10)}" for node, process in self.cluster.nodes.items()]
            return [f"stopped: {type(error).__name__}: {error}", *logs]
        finally:
            if self.copier is not None:
                self.copier.kill()
            self.cluster.kill()

    def _open(self) -> None:
        self.cluster.open()
        self.clients = [Confluent(self.cluster.bootstrap, self.history, idempotent=self.what == "swap"), Aiokafka(self.cluster.bootstrap)]
        for client in self.clients:
            self.cluster.create_spread(client.topic, {"segment.bytes": "1048576"})
        if self.what == "swap":
            self.cluster.create_spread("copied-classic")
            self.copier = Copier(self.cluster.bootstrap, COPIED, "classic", self.seed, self.history)
        self.cluster.wait_for_isr()
        for client in self.clients:
            client.start()
        self._progress()

    def _progress(self) -> None:
        """Wait until every client has had a new acknowledgement and a new read."""
        before = [(len(client.acked), len(client.read)) for client in self.clients]

        def more() -> bool | None:
            now = [(len(client.acked), len(client.read)) for client in self.clients]
            return all(a[0] > b[0] and a[1] > b[1] for a, b in zip(now, before, strict=True)) or None

        eventually(more, f"progress of all clients, errors so far: {[client.errors[:3] for client in self.clients]}", PATIENCE_S)

    def _roll(self, number: int, kind: str) -> None:
        for node in self.rng.sample(BROKERS, len(BROKERS)):
            process = self.cluster.nodes[node]
            begin = time.monotonic()
            assert process.stop() in (0, 143), process.log_tail()
            stopped = time.monotonic()
            if self.what == "swap":
                self.cluster.swap(node, kind)
            self.cluster.start(node)
            started = time.monotonic()
            self.cluster.wait_for_isr()
            whole = time.monotonic()
            self._progress()
            if self.copier is not None:
                self.copier.look_after()
            times = f"stopped in {stopped - begin:.1f} s, started in {started - stopped:.1f} s, in sync {whole - started:.1f} s later"
            self.say(f"round {number + 1} of {self.rounds}, node {node} is {kind}: {times}")

    def _judge(self) -> list[str]:
        for client in self.clients:
            client.stop()
        problems = [problem for client in self.clients for problem in self.judge_client(client)]
        if self.copier is not None:
            problems += judge_copies(self.cluster.bootstrap, COPIED, [self.copier], self.history, self.say)
        with Recorder(self.history / "final.jsonl", "final") as recorder:
            count = final_read(self.cluster.bootstrap, [COPIED], recorder, decode=bytes.decode)
        unavailable_after, allowed = (UNAVAILABLE_S, ALLOWED) if self.what == "swap" else (None, ALLOWED | REPEATED)
        files = [self.history / "confluent.jsonl", self.history / "final.jsonl"]
        report = examine(iterate_history(files), allow=allowed, unavailable_after=unavailable_after)
        problems += [f"history: {anomaly}" for anomaly in report.anomalies]
        longest = max((seconds for seconds, _ in report.unavailable.values()), default=0.0)
        self.say(f"{count} records of {COPIED} read, {report.operations}, the longest that a partition took no record: {longest:.2f} s")
        self.cluster.wait_for_isr()
        return problems + self.cluster.differing() + no_complaints(self.cluster)

    def judge_client(self, client: Client) -> list[str]:
        problems = [f"no-errors: {client.topic}: {error}" for error in client.errors[:5]]
        if len(client.acked) < client.sent:
            problems.append(f"no-errors: {client.topic}: {client.sent - len(client.acked)} of {client.sent} records are not acknowledged")
        missing = client.acked - client.read
        if missing and client.topic == COPIED:
            problems.append(f"all-read: {client.topic}: {len(missing)} of {len(client.acked)} are not read, first {min(missing)}")
        ordered = sorted(client.latencies) or [0.0]
        p50, p99, slowest = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99, 1.0))
        if self.what == "restart" and p99 >= SLOWEST_S:
            problems.append(f"latency: {client.topic}: the 99th percentile of a produce is {p99:.2f} s")
        times = f"{p50 * 1000:.1f} ms (median), {p99 * 1000:.0f} ms (99th percentile), {slowest * 1000:.0f} ms (slowest)"
        counts = f"{client.sent} sent, {len(client.acked)} acknowledged, {len(client.errors)} errors, {len(missing)} not read"
        self.say(f"{client.topic}: {counts}; from produce to acknowledgement {times}")
        return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("restart", "swap"), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-rolling-") as folder:
        problems = Roll(arguments.what, arguments.seed, arguments.rounds, Path(folder)).run()
    for problem in problems:
        print(problem)
    print(f"{arguments.what}, seed {arguments.seed}, {arguments.rounds} rounds: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
