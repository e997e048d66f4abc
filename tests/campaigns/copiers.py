"""Copiers for the exactly-once campaign: read with a group, transform, produce, and commit the offsets in the same transaction.

    python -m tests.campaigns.copiers '{"client": "librdkafka", ...}'     (the fields of `Options`, as JSON)

Every copier is a separate process, so that it can be killed. A copier records its history: before the end of a transaction the values that
it read and sent, afterwards the outcome. The value of an output record names its transaction, so that the check can tell apart the records
of two transactions with the same input.

Signals: SIGTERM ends the copier after the current transaction. After SIGUSR1 the copier kills itself at a random point of its next
transaction. After SIGUSR2 the copier kills the broker (its pid is in `broker_pid`) a few milliseconds after its next commit request. Exit
statuses: 0 stopped by a signal; 3 the producer cannot continue (fenced, or a fatal error), and the history's last line has the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from odradek.testing.history import Recorder

PATIENCE_S = 30.0
CLIENT = {
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
    # librdkafka 2.16 gives its brokers up when it bootstraps again, but still sends TxnOffsetCommit through a broker that it gave up. Such
    # a producer waits without end in send_offsets_to_transaction.
    "metadata.recovery.strategy": "none",
}
DEBUG = os.environ.get("ODRADEK_COPIER_DEBUG")
"""Contexts of librdkafka's debug log for the copiers."""
_FOR_OFFSETS = ("AddOffsetsToTxn", "FindCoordinator", "TxnOffsetCommit")
"""Requests as librdkafka's statistics name them."""
PHASES = ("begun", "produced", "flushed", "offsets", "ending")


class Options(NamedTuple):
    """Settings of a copier. `name` is the transactional id; `life` counts its starts."""

    client: str
    bootstrap: str
    name: str
    life: int
    group: str
    source: str
    target: str
    partitions: list[int]
    """Partitions to read, for copiers that are not members of a group."""
    seed: int
    history: str
    broker_pid: str
    group_protocol: str = "classic"
    transaction_timeout_ms: int = 10_000
    session_timeout_ms: int = 3_000
    batch: int = 500
    aborts: float = 0.05
    """Share of transactions that are aborted without an error."""


class Fatal(Exception):
    """Error after which the producer cannot continue."""


class Doom:
    """Requests of the signals."""

    def __init__(self, options: Options) -> None:
        self.rng = random.Random(f"{options.seed} {options.name} {options.life}")
        self.broker_pid = options.broker_pid
        self.stopping = False
        self.own: str | None = None
        self.broker = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGUSR1, self._die)
        signal.signal(signal.SIGUSR2, self._kill_broker)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _die(self, *_: object) -> None:
        self.own = self.rng.choice(PHASES)

    def _kill_broker(self, *_: object) -> None:
        self.broker = True

    def reached(self, phase: str) -> None:
        """Kill the process, or the broker, if a signal has asked for a kill at this phase."""
        if self.own == phase:
            if phase != "ending":
                os.kill(os.getpid(), signal.SIGKILL)
            _kill_soon(os.getpid(), self.rng.uniform(0, 0.02))
        if self.broker and phase == "ending":
            self.broker = False
            with contextlib.suppress(OSError, ValueError):
                _kill_soon(int(Path(self.broker_pid).read_text()), self.rng.uniform(0, 0.02))


def _kill_soon(pid: int, seconds: float) -> None:
    def kill() -> None:
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def _passed_over(error: KafkaError) -> None:
    """Ignore an error, which the next call raises again. Without this callback the client would raise the error within other callbacks."""


class Work(NamedTuple):
    """Input of one transaction."""

    name: str
    read: list[tuple[int, int, str]]
    """(partition, offset, value)."""

    def operations(self, options: Options, offsets: dict[str, int] | None = None) -> list[list[object]]:
        """Return the micro-operations, with the known offsets of the output."""
        known = offsets or {}
        done: list[list[object]] = [["poll", options.source, partition, offset, value] for partition, offset, value in self.read]
        for partition, _, value in self.read:
            written = transformed(value, self.name)
            done.append(["send", options.target, partition, known.get(written), written])
        return done + [["commit", options.group, options.source, partition, offset] for partition, offset in self.ends().items()]

    def ends(self) -> dict[int, int]:
        """Return the offsets to commit."""
        return {partition: offset + 1 for partition, offset, _ in self.read}


def transformed(value: str, transaction: str) -> str:
    """Return the output value of an input value."""
    return f"{value}@{transaction}"


class LibrdkafkaCopier:
    """Copier with librdkafka and a group of either protocol. After a rebalance or an abort it continues at the committed offsets."""

    def __init__(self, options: Options, recorder: Recorder, doom: Doom) -> None:
        self.options = options
        self.recorder = recorder
        self.doom = doom
        self.rebalanced = False
        self.owned: dict[int, int] = {}
        """Partition -> generation in which it was assigned."""
        self.offsets: dict[str, int] = {}
        self.count = 0
        self.asked = 0
        """Number of requests for send_offsets_to_transaction that the producer has sent, according to its statistics."""
        self.unanswered = 0
        """Number of the producer's requests of any kind without a response, according to its last statistics."""
        settings: dict[str, Any] = {
            **CLIENT,
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "group.protocol": options.group_protocol,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "queued.max.messages.kbytes": 4096,
            **({"debug": DEBUG, "log_level": 7} if DEBUG else {}),
        }
        if options.group_protocol == "classic":
            settings |= {
                "session.timeout.ms": options.session_timeout_ms,
                "heartbeat.interval.ms": options.session_timeout_ms // 6,
                "partition.assignment.strategy": "cooperative-sticky" if options.seed % 2 else "range,roundrobin",
            }
        self.consumer = Consumer(settings)
        self.producer = Producer(
            {
                **CLIENT,
                **({"debug": DEBUG, "log_level": 7} if DEBUG else {}),
                "error_cb": _passed_over,
                "stats_cb": self._counted,
                "statistics.interval.ms": 1000,
                "bootstrap.servers": options.bootstrap,
                "transactional.id": options.name,
                "transaction.timeout.ms": options.transaction_timeout_ms,
                "message.timeout.ms": options.transaction_timeout_ms,
                "retry.backoff.ms": 20,
                # librdkafka 2.16 gives up a broker that the metadata no longer contains, but does not look up the group's coordinator again
                # while it remembers that broker as the coordinator. Then send_offsets_to_transaction never returns
                # (confluentinc/librdkafka#5511), with brokers of either kind. librdkafka remembers the coordinator for the maximum age of
                # its metadata; see also `_send_offsets`.
                "metadata.max.age.ms": 1000,
                "topic.metadata.refresh.interval.ms": 500,
                "linger.ms": 2,
                "compression.type": ("none", "lz4", "zstd", "gzip")[options.life % 4],
            }
        )

    # -- the group -----------------------------------------------------------------------------------------------------------------------

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalanced = True
        generation = self.generation()[0]
        self.owned |= {each.partition: generation for each in partitions}
        group, topic = self.options.group, self.options.source
        self.recorder.ok("assign", [["assigned", group, topic, each.partition, generation] for each in partitions])

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalanced = True
        group, topic = self.options.group, self.options.source
        gone = [(each.partition, self.owned.pop(each.partition, None)) for each in partitions]
        self.recorder.ok("rebalance", [["revoked", group, topic, partition, generation] for partition, generation in gone])

    def generation(self) -> tuple[int, str]:
        """Return generation and member id, from the bytes that librdkafka writes for the producer."""
        data: bytes = self.consumer.consumer_group_metadata()
        assert data.startswith(b"CGMDv2:")
        return int.from_bytes(data[7:11], sys.byteorder, signed=True), data[11:].split(b"\0")[1].decode(errors="replace")

    def rewind(self) -> None:
        """Seek to the committed offsets of the group."""
        while not self.doom.stopping:
            self.rebalanced = False
            try:
                assigned = self.consumer.assignment()
                for each in self.consumer.committed(assigned, PATIENCE_S) if assigned else ():
                    self.consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
                return
            except KafkaException:
                # The broker is away, an open transaction has pending offsets, or fetching has not begun yet.
                self.consumer.consume(1, 0.05)

    def poll(self) -> list[tuple[int, int, str]]:
        """Return (partition, offset, value) of records of owned partitions. Empty without records, or after a rebalance."""
        messages = self.consumer.consume(self.options.batch, 0.1)
        if self.rebalanced:
            # Some records may be from before the rebalance, of partitions that now belong to another member.
            self.rewind()
            return []
        return [(m.partition(), m.offset(), m.value().decode()) for m in messages if m.error() is None]

    # -- the transaction -----------------------------------------------------------------------------------------------------------------

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.offsets[message.value().decode()] = message.offset()

    def run(self) -> None:
        self.consumer.subscribe([self.options.source], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._retry(lambda: self.producer.init_transactions(PATIENCE_S))
        while not self.doom.stopping:
            read = self.poll()
            generation, member = self.generation()
            if not read:
                continue
            if generation < 0 or not member:
                # The member was removed from the group since; a commit without a member id would count as a commit from outside the group.
                self.rewind()
                continue
            self.count += 1
            self.copy(Work(f"{self.options.name}.{self.options.life}.{self.count}", read))
        with contextlib.suppress(SystemError):  # the client raises it for a signal that came during the close
            self.consumer.close()

    def copy(self, work: Work) -> None:
        """Copy one transaction."""
        voluntary = self.doom.rng.random() < self.options.aborts
        self.offsets = {}
        self.recorder.invoke("txn", work.operations(self.options), id=work.name)
        try:
            self._send(work)
            if voluntary:
                self._abort(work, "of its own will")
                return
            self.doom.reached("ending")
            self._retry(lambda: self.producer.commit_transaction(PATIENCE_S))
        except KafkaException as error:
            self._failed(work, error.args[0])
        except SystemError as error:
            # A fatal error during a delivery report: the client raises both errors at once.
            self.recorder.info("txn", work.operations(self.options, self.offsets), id=work.name, error=str(error.__context__), fatal=True)
            raise Fatal(str(error.__context__)) from error
        else:
            self.producer.poll(0)
            self.recorder.ok("txn", work.operations(self.options, self.offsets), id=work.name)

    def _send(self, work: Work) -> None:
        metadata = self.consumer.consumer_group_metadata()
        self.producer.begin_transaction()
        self.doom.reached("begun")
        for partition, _, value in work.read:
            written = transformed(value, work.name).encode()
            while True:
                try:
                    self.producer.produce(
                        self.options.target, written, key=value.encode(), partition=partition, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self.producer.poll(0.05)
        self.doom.reached("produced")
        self.producer.flush(PATIENCE_S)
        self.doom.reached("flushed")
        ends = [TopicPartition(self.options.source, partition, offset) for partition, offset in work.ends().items()]
        self._send_offsets(ends, metadata)
        self.doom.reached("offsets")

    def _send_offsets(self, ends: list[TopicPartition], metadata: object) -> None:
        """Commit offsets in the transaction. End the copier when the producer waits without sending a request or awaiting a response.

        Such a producer waits for a broker that it has given up, and does not return after its timeout either.
        """
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watch.start()
        try:
            self._retry(lambda: self.producer.send_offsets_to_transaction(ends, metadata, PATIENCE_S))
        finally:
            done.set()
            watch.join()

    def _watch(self, done: threading.Event) -> None:
        asked, since = self.asked, time.monotonic()
        while not done.wait(1.0):
            self.producer.poll(0)
            if self.asked != asked or self.unanswered:
                asked, since = self.asked, time.monotonic()
            elif time.monotonic() - since > PATIENCE_S:
                end(self.recorder, f"the producer has asked nobody to commit its offsets for {PATIENCE_S:.0f} s")

    def _counted(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.unanswered = sum(broker["waitresp_cnt"] for broker in brokers)
        self.asked = sum(broker["req"].get(name, 0) for broker in brokers for name in _FOR_OFFSETS)

    def _failed(self, work: Work, error: KafkaError) -> None:
        if error.fatal() or not error.txn_requires_abort():
            self.recorder.info("txn", work.operations(self.options, self.offsets), id=work.name, error=str(error), fatal=True)
            raise Fatal(str(error))
        self._abort(work, str(error))

    def _abort(self, work: Work, why: str) -> None:
        self.doom.reached("ending")
        try:
            self._retry(lambda: self.producer.abort_transaction(PATIENCE_S))
        except KafkaException as error:
            self.recorder.info("txn", work.operations(self.options, self.offsets), id=work.name, error=str(error), aborting=why, fatal=True)
            raise Fatal(str(error)) from error
        self.recorder.fail("txn", work.operations(self.options, self.offsets), id=work.name, error=why)
        self.rewind()

    def _retry(self, action: Any) -> None:
        """Repeat the action until it succeeds. Raise errors that are not retriable."""
        while True:
            try:
                action()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


def end(recorder: Recorder, why: str) -> NoReturn:
    """End the process at once with status 3: a producer that cannot continue has nothing to close in order."""
    recorder.info("crash", [], error=why)
    recorder.close()
    os._exit(3)


def main() -> NoReturn:
    options = Options(**json.loads(sys.argv[1]))
    doom = Doom(options)
    recorder = Recorder(Path(options.history), f"{options.name}.{options.life}")
    recorder.info("subscribe", [], pid=os.getpid(), options=options._asdict())
    try:
        if options.client == "aiokafka":
            from tests.campaigns.aiokafka_copier import AiokafkaCopier

            asyncio.run(AiokafkaCopier(options, recorder, doom).run())
        elif options.client == "odradek":
            from tests.campaigns.odradek_copier import OdradekCopier

            OdradekCopier(options, recorder, doom).run()
        else:
            LibrdkafkaCopier(options, recorder, doom).run()
    except Fatal as error:
        end(recorder, str(error))
    recorder.close()
    sys.exit(0)


if __name__ == "__main__":
    main()
