"""Transaction coordinator with a log in memory, and partition leaders that answer its markers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.transaction.markers import NO_LEADER, MarkerSender
from odradek.coordinator.transaction.service import TOPIC, TransactionCoordinator, TransactionSettings
from odradek.coordinator.transaction.state import Transaction
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.schema import Message
from tests.clock import ManualClock
from tests.coordinator.support import MemoryLog

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


HOME = TopicPartition(TOPIC, 0)


Marker = tuple[int, int, bool, int]
"""Producer id, epoch, whether it commits, coordinator epoch."""


class Ids:
    def __init__(self) -> None:
        self.given = 999

        self.later: list[Deferred[int]] | None = None
        """When a list, whoever asks waits there for the test."""

    def next_id(self) -> Deferred[int]:
        if self.later is not None:
            self.later.append(Deferred())
            return self.later[-1]
        self.given += 1
        return Deferred.of(self.given)


class Leaders:
    """Every partition is led by broker 1, takes the markers sent to it, and fences older coordinators and producers."""

    def __init__(self) -> None:
        self.markers: dict[TopicPartition, list[Marker]] = {}
        self.missing: set[TopicPartition] = set()
        self.leaderless: set[TopicPartition] = set()
        self.answer: Callable[[], str] = lambda: "yes"
        self.requests = 0

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        if topic_partition in self.missing:
            return None
        return NO_LEADER if topic_partition in self.leaderless else 1

    def send(self, node: int, request: WriteTxnMarkersRequest) -> Deferred[Message]:
        self.requests += 1
        mood = self.answer()
        if mood == "lost":
            return Deferred.failed(KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost on the way"))
        if mood == "silent":
            return Deferred.of(WriteTxnMarkersResponse(markers=[]))
        results = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                codes = [(index, self.take(TopicPartition(topic.name, index), marker, mood)) for index in topic.partition_indexes]
                topics.append(
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index, code in codes
                        ],
                    )
                )
            results.append(WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        if mood == "answer lost":
            return Deferred.failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "lost on the way back"))
        return Deferred.of(WriteTxnMarkersResponse(markers=results))

    def take(self, partition: TopicPartition, marker: WriteTxnMarkersRequest.WritableTxnMarker, mood: str) -> ErrorCode:
        if mood == "no leader":
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if mood == "fenced":
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        taken = self.markers.setdefault(partition, [])
        for producer_id, epoch, _, coordinator_epoch in taken:
            if producer_id == marker.producer_id and epoch > marker.producer_epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if producer_id == marker.producer_id and coordinator_epoch > marker.coordinator_epoch:
                return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        taken.append((marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch))
        return ErrorCode.NONE


class TransactionsWorld:
    def __init__(self, *, version: int = 2, auto_commit: bool = True) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(auto_commit=auto_commit)
        self.leaders = Leaders()
        self.ids = Ids()
        self.epoch = 0
        self.version = version
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            clock=self.clock,
            options=RuntimeOptions(),
            settings=self.settings(),
            producer_ids=self.ids,
            markers=MarkerSender(self.clock, self.leaders, self.leaders.send),
            open_log=lambda _: self.log,
            image=lambda: cast(Any, None),
            server_version=lambda: self.version,
            partition_of=lambda _: 0,
        )

    def settings(self) -> TransactionSettings:
        return TransactionSettings(max_timeout_ms=900_000, expiration_ms=604_800_000, two_phase_commit=False)

    def load(self) -> TransactionsWorld:
        """As after a term of another broker."""
        self.epoch += 1
        self.coordinator.runtime.unload(HOME, None)
        self.coordinator.runtime.load(HOME, self.epoch)
        self.clock.run_due()
        return self

    def ask(self, deferred: Deferred[Any]) -> Any:
        self.clock.run_due()
        if not deferred.done:
            raise TimeoutError
        return deferred.result()

    def begin(self, name: str = "x", timeout_ms: int = 60_000) -> Transaction:
        return cast(Transaction, self.ask(self.coordinator.initialize(name, timeout_ms, None, two_phase=False, keep_prepared=False)))

    def add(self, who: Transaction, *partitions: TopicPartition, epoch: int | None = None) -> None:
        epoch = who.producer_epoch if epoch is None else epoch
        self.ask(self.coordinator.add_partitions(who.transactional_id, who.producer_id, epoch, partitions, self.version))

    def end(self, who: Transaction, *, commit: bool, epoch: int | None = None) -> tuple[int, int]:
        epoch = who.producer_epoch if epoch is None else epoch
        ended = self.coordinator.end(who.transactional_id, who.producer_id, epoch, commit=commit, client_version=self.version)
        return cast("tuple[int, int]", self.ask(ended))


def code_of(caught: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return caught.value.code
