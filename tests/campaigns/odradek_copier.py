"""Copier with Odradek's clients, as a member of a group of either protocol."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client import Consumer, Producer, RebalanceListener, TransactionError
from odradek.testing.history import Recorder
from tests.campaigns.copiers import PATIENCE_S, Doom, Fatal, Options, Work, transformed

_PATIENCE_MS = int(PATIENCE_S * 1000)


class OdradekCopier(RebalanceListener):
    """Copier with Odradek's clients. After a rebalance or an abort it continues at the committed offsets."""

    def __init__(self, options: Options, recorder: Recorder, doom: Doom) -> None:
        self.options = options
        self.recorder = recorder
        self.doom = doom
        self.rebalanced = False
        self.owned: dict[int, int] = {}
        """Partition -> generation in which it was assigned."""
        self.count = 0
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "group.protocol": options.group_protocol,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 100,
            "max.poll.records": options.batch,
            "retry.backoff.ms": 20,
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
                "bootstrap.servers": options.bootstrap,
                "transactional.id": options.name,
                "transaction.timeout.ms": options.transaction_timeout_ms,
                "delivery.timeout.ms": options.transaction_timeout_ms,
                "request.timeout.ms": options.transaction_timeout_ms // 2,
                "max.block.ms": _PATIENCE_MS,
                "retry.backoff.ms": 20,
                "linger.ms": 2,
                "compression.type": ("none", "lz4", "zstd", "gzip")[options.life % 4],
            }
        )

    # -- the group ------------------------------------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.rebalanced = True
        generation = self.consumer.group_metadata().generation_id
        self.owned |= {each.partition: generation for each in partitions}
        group, topic = self.options.group, self.options.source
        self.recorder.ok("assign", [["assigned", group, topic, each.partition, generation] for each in partitions])

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.rebalanced = True
        group, topic = self.options.group, self.options.source
        gone = [(each.partition, self.owned.pop(each.partition, None)) for each in partitions]
        self.recorder.ok("rebalance", [["revoked", group, topic, partition, generation] for partition, generation in gone])

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)

    def rewind(self) -> None:
        """Seek to the committed offsets of the group."""
        while not self.doom.stopping:
            self.rebalanced = False
            try:
                for partition, found in self.consumer.committed(self.consumer.assignment()).items():
                    self.consumer.seek(partition, 0 if found is None else found.offset)
                return
            except OdradekError:
                # The broker is away, or the group is about to rebalance, which happens in a poll.
                self.consumer.poll(50, 1)

    def poll(self) -> list[tuple[int, int, str]]:
        """Return (partition, offset, value) of records of owned partitions. Empty without records, or after a rebalance."""
        try:
            records = self.consumer.poll(100)
        except KafkaError as error:
            if not error.retriable:
                raise Fatal(str(error)) from error
            return []
        if self.rebalanced:
            # Some records may be from before the rebalance, of partitions that now belong to another member.
            self.rewind()
            return []
        return [(each.partition, each.offset, (each.value or b"").decode()) for each in records]

    # -- the transaction ------------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.consumer.subscribe([self.options.source], self)
        try:
            self.producer.init_transactions()
        except KafkaError as error:
            raise Fatal(str(error)) from error
        while not self.doom.stopping:
            read = self.poll()
            if not read:
                continue
            self.count += 1
            self.copy(Work(f"{self.options.name}.{self.options.life}.{self.count}", read))
        self.consumer.close()
        self.producer.close()

    def copy(self, work: Work) -> None:
        """Copy one transaction."""
        voluntary = self.doom.rng.random() < self.options.aborts
        offsets: dict[str, int] = {}
        operations = work.operations
        self.recorder.invoke("txn", operations(self.options), id=work.name)
        try:
            self._send(work, offsets)
            if voluntary:
                self._abort(work, offsets, "of its own will")
                return
            self.doom.reached("ending")
            self.producer.commit_transaction()
        except TransactionError as error:
            if not error.abortable:
                self.recorder.info("txn", operations(self.options, offsets), id=work.name, error=str(error), fatal=True)
                raise Fatal(str(error)) from error
            self._abort(work, offsets, str(error))
        except KafkaError as error:
            # Either a refused record, or a call that did not end in time, after which the outcome is unknown.
            if error.retriable:
                self.recorder.info("txn", operations(self.options, offsets), id=work.name, error=str(error), fatal=True)
                raise Fatal(str(error)) from error
            self._abort(work, offsets, str(error))
        else:
            self.recorder.ok("txn", operations(self.options, offsets), id=work.name)

    def _send(self, work: Work, offsets: dict[str, int]) -> None:
        member = self.consumer.group_metadata()
        self.producer.begin_transaction()
        self.doom.reached("begun")
        sent = []
        for partition, _, value in work.read:
            written = transformed(value, work.name)
            sent.append((written, self.producer.send(self.options.target, written, key=value, partition=partition)))
        self.doom.reached("produced")
        self.producer.flush()
        for written, future in sent:
            if future.exception() is None:
                offsets[written] = future.result().offset
        self.doom.reached("flushed")
        ends = {TopicPartition(self.options.source, partition): offset for partition, offset in work.ends().items()}
        self.producer.send_offsets_to_transaction(ends, member)
        self.doom.reached("offsets")

    def _abort(self, work: Work, offsets: dict[str, int], why: str) -> None:
        self.doom.reached("ending")
        try:
            self.producer.abort_transaction()
        except OdradekError as error:
            self.recorder.info("txn", work.operations(self.options, offsets), id=work.name, error=str(error), aborting=why, fatal=True)
            raise Fatal(str(error)) from error
        self.recorder.fail("txn", work.operations(self.options, offsets), id=work.name, error=why)
        self.rewind()
