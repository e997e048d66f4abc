"""Kills of the processes of a Spark query that copies a topic exactly once.

    python -m tests.campaigns.spark_kills --kill driver --count 50 --seed 1 [--into table] [--jvm]

A producer writes numbered values to a topic. A streaming query (`spark_query`) copies them with Odradek's source and its exactly-once sink,
or into a table of Parquet files, which Spark itself writes exactly once. One kind of process is killed with SIGKILL, again and again, at
times that the seed chooses, in the middle of micro-batches:

- worker: a Python process that runs tasks;
- daemon: the Python process that makes the workers, together with its workers, which would go on otherwise without being missed;
- executor: the JVM of an executor, in a cluster of two on this machine;
- driver: the whole query, which is then started again from its checkpoint;
- broker: the node, which is started again on its directory.

JVM Kafka that is killed between the decision of a transaction and its marker sometimes reports the transaction as complete after its
restart, without a marker in __consumer_offsets. If no micro-batch ends for that reason, the campaign does what an operator would do
(kafka-transactions.sh abort) and counts the case. With Odradek such a case is a problem.

A query that fails is started again, too. At the end the query reads the rest. A reader of committed records, or of the table, must then
find every acknowledged value exactly once, and no transaction may be open.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.base.ids import TopicPartition
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.client.admin.types.transactions import AbortTransactionSpec, TransactionState
from tests.campaigns.spark_query import Options, start_query, values_of

KINDS = ("worker", "daemon", "executor", "driver", "broker")
_SOURCE, _SINK, _PARTITIONS = "input", "output", 4
_PATIENCE_S = 120.0
_RATE = 1_000
"""Records per second: enough for a copy at any time, and not too many for the rest at the end."""
_SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class Run(NamedTuple):
    """Results of a campaign."""

    problems: list[str]
    counts: Counter[str]


class Query:
    """Process of the query, which is started again whenever it has ended."""

    def __init__(self, options: Options, log: Path, counts: Counter[str]) -> None:
        self._options = options
        self._log = log
        self._counts = counts
        self._lines: queue.Queue[str] = queue.Queue()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            process = start_query(self._options, log)
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()
        self._counts["starts"] += 1
        return process

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line.strip())

    def await_batches(self, wanted: int) -> None:
        """Wait for `wanted` more micro-batches, and start the query as often as necessary. Raises TimeoutError."""
        deadline = time.monotonic() + _PATIENCE_S
        while wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no micro-batch has ended within {_PATIENCE_S:.0f} s; see {self._log}")
            try:
                line = self._lines.get(timeout=0.2)
            except queue.Empty:
                if self.process.poll() is not None:
                    self.kill()
                    self.process = self._start()
                continue
            if line.startswith("batch "):
                self._counts["batches"] += 1
                wanted -= 1
            elif line.startswith("error "):
                self._counts["failures of the query"] += 1

    def finish(self) -> None:
        """End the query, and copy the rest. Raises TimeoutError when the query makes no progress."""
        self.kill()
        self._options = self._options._replace(to_the_end=True, rows=100_000)
        for _ in range(5):
            self.process = self._start()
            if self._ended() == 0:
                return
        raise TimeoutError(f"the query does not come to its end; see {self._log}")

    def _ended(self) -> int:
        """Wait for the end of the process and return its exit status. Raises TimeoutError."""
        deadline = time.monotonic() + _PATIENCE_S
        while (status := self.process.poll()) is None:
            with contextlib.suppress(queue.Empty):
                self._lines.get(timeout=0.2)
                deadline = time.monotonic() + _PATIENCE_S
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing has happened for {_PATIENCE_S:.0f} s at the end; see {self._log}")
        return status

    def kill(self) -> None:
        """Kill the driver, its JVM and its executors with SIGKILL. Python workers notice by themselves, and may go on for a while."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """Start the query again after `kill`."""
        self.process = self._start()


def below(pid: int) -> Iterator[int]:
    """Yield the descendants of a process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                yield int(entry.name)
                yield from below(int(entry.name))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _victims(kind: str, driver: int) -> list[int]:
    family = list(below(driver))
    if kind == "executor":
        return [pid for pid in family if "CoarseGrainedExecutorBackend" in command_of(pid)]
    daemons = [pid for pid in family if "pyspark.daemon" in command_of(pid)]
    # A worker is a fork of the daemon, and has the daemon's command line.
    workers = [pid for pid in daemons if any(pid in set(below(other)) for other in daemons)]
    return workers if kind == "worker" else [*(pid for pid in daemons if pid not in workers), *workers]


class Load(threading.Thread):
    """Thread that writes numbers to the topic, at a rate per second, until it is stopped. `acked` of them are acknowledged."""

    def __init__(self, bootstrap: str, rate: int = _RATE, sizes: random.Random | None = None) -> None:
        """Make a load. With `sizes`, up to 200 blanks follow each number."""
        super().__init__(daemon=True)
        self._sizes = sizes
        self._servers = bootstrap
        self._rate = rate
        self._ending = threading.Event()
        self.acked = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._servers, delivery_timeout_ms=600_000) as producer:
                while not self._ending.wait(0.1):
                    numbers = range(self.acked, self.acked + self._rate // 10)
                    futures = [producer.send(_SOURCE, self._value(number), partition=number % _PARTITIONS) for number in numbers]
                    producer.flush()
                    for future in futures:
                        future.result()
                    self.acked += len(futures)
        except Exception as error:
            self.error = error

    def _value(self, number: int) -> bytes:
        return b"%d" % number + b" " * (0 if self._sizes is None else self._sizes.randrange(200))

    def end(self) -> None:
        self._ending.set()
        self.join()


def campaign(
    kind: str,
    count: int,
    seed: int,
    folder: Path,
    *,
    into: str = "topic",
    broker_kind: type[BrokerProcess] = OdradekBroker,
    say: Callable[[str], object] = lambda _: None,
) -> Run:
    """Kill `count` times, and check the copies."""
    rng = random.Random(seed)
    run = Run([], Counter())
    broker = broker_kind(folder / "broker", _SETTINGS)
    broker.start()
    query = None
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(_SOURCE, _PARTITIONS, 1), NewTopic(_SINK, _PARTITIONS, 1)])
        load = Load(broker.bootstrap)
        load.start()
        master = "local-cluster[2,1,768]" if kind == "executor" else "local[2,4]"
        sink = _SINK if into == "topic" else str(folder / "table")
        options = Options(broker.bootstrap, _SOURCE, sink, str(folder / "checkpoint"), master, into=into)
        query = Query(options, folder / "query.log", run.counts)
        query.await_batches(2)
        while run.counts["kills"] < count:
            time.sleep(rng.uniform(0, 1.5))  # anywhere within a micro-batch
            if kind == "broker":
                broker.kill()
                time.sleep(rng.uniform(0, 1))
                broker.start()
            elif kind == "driver":
                query.kill()
                query.restart()
            else:
                victims = _victims(kind, query.process.pid)
                if not victims:
                    query.await_batches(1)
                    continue
                for victim in victims if kind == "daemon" else [rng.choice(victims)]:
                    _kill(victim)
            run.counts["kills"] += 1
            go_on(query, broker, run.counts)
            if run.counts["kills"] % 10 == 0:
                say(f"{run.counts['kills']} of {count}: {dict(run.counts)}, {load.acked} written")
        load.end()
        if load.error is not None:
            run.problems.append(f"the producer failed: {load.error!r}")
        query.finish()
        if into == "topic":
            run.problems.extend(open_transactions(broker.bootstrap))
            found = values_in_topic(broker.bootstrap)
        else:
            found = Counter(map(int, values_of(sink).read_text().split()))
        run.problems.extend(judge(found, load.acked))
        run.counts["records"] = load.acked
    except TimeoutError as error:
        run.problems.append(str(error))
    finally:
        if query is not None:
            query.kill()
        broker.stop()
    return run


def open_transactions(bootstrap: str) -> list[str]:
    """Return a problem if a transaction is open."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        left = admin.list_transactions(states=[TransactionState.ONGOING])
    return [f"transactions are open: {[each.transactional_id for each in left]}"] if left else []


def go_on(query: Query, broker: BrokerProcess, counts: Counter[str]) -> None:
    """Wait for the next micro-batch. Raises TimeoutError, unless JVM Kafka had lost a marker."""
    try:
        query.await_batches(1)
    except TimeoutError:
        lost = end_hanging(broker.bootstrap) if isinstance(broker, JvmBroker) else 0
        if not lost:
            raise
        counts["markers that JVM Kafka lost"] += lost
        query.await_batches(1)


def end_hanging(bootstrap: str) -> int:
    """Abort the transactions that are open in __consumer_offsets but unknown to their coordinator. Return their number."""
    going = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    ended = 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        known = {each.producer_id for each in admin.list_transactions(states=going)}
        offsets = [TopicPartition("__consumer_offsets", number) for number in range(int(_SETTINGS["offsets.topic.num.partitions"]))]
        for partition, producers in admin.describe_producers(offsets).items():
            for each in producers:
                if each.current_transaction_start_offset is not None and each.producer_id not in known:
                    epoch = each.coordinator_epoch or 0
                    admin.abort_transaction(AbortTransactionSpec(partition, each.producer_id, each.producer_epoch, epoch))
                    ended += 1
    return ended


def values_in_topic(bootstrap: str) -> Counter[int]:
    """Return the committed copies."""
    found: Counter[int] = Counter()
    partitions = [TopicPartition(_SINK, number) for number in range(_PARTITIONS)]
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        deadline = time.monotonic() + _PATIENCE_S
        while any(consumer.position(each) < ends[each] for each in partitions) and time.monotonic() < deadline:
            found.update(int(record.value) for record in consumer.poll(1000) if record.value is not None)
    return found


def judge(found: Counter[int], written: int) -> list[str]:
    """Return the problems of the copies of the numbers below `written`."""
    problems = []
    missing = [number for number in range(written) if number not in found]
    doubled = [number for number, times in found.items() if times > 1]
    if missing:
        problems.append(f"{len(missing)} of {written} are missing, such as {missing[:5]}")
    if doubled:
        problems.append(f"{len(doubled)} are doubled, such as {doubled[:5]}")
    if strange := [number for number in found if number >= written]:
        problems.append(f"{len(strange)} were never acknowledged, such as {strange[:5]}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="kills the parts of a Spark query that copies exactly once")
    parser.add_argument("--kill", choices=KINDS, required=True)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", choices=("topic", "table"), default="topic")
    parser.add_argument("--jvm", action="store_true", help="with JVM Kafka as the broker")
    arguments = parser.parse_args()
    # Ending the campaign also ends its query and its broker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="odradek-spark-kills-"))
    begin = time.monotonic()
    kind = JvmBroker if arguments.jvm else OdradekBroker
    run = campaign(
        arguments.kill,
        arguments.count,
        arguments.seed,
        folder,
        into=arguments.into,
        broker_kind=kind,
        say=lambda line: print(line, flush=True),
    )
    for problem in run.problems:
        print(problem)
    taken_s = time.monotonic() - begin
    name = f"{arguments.kill}, into a {arguments.into}, seed {arguments.seed}"
    print(f"{name}, {taken_s:.0f} s: {dict(run.counts)}, {len(run.problems)} problems")
    if run.problems:
        print(f"the data are kept in {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
