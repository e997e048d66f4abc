"""Sender of ISR changes to the controller: one AlterPartition request at a time, with all changes that wait by then.

(kafka.server.DefaultAlterPartitionManager, KIP-497, KIP-903)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicIdPartition
from odradek.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 0.05
"""Seconds until a change is sent again, whether the request or only its partition failed."""


class IsrChange(NamedTuple):
    """ISR change that a leader proposes. `isr` holds pairs of broker id and broker epoch (-1: unknown)."""

    partition: TopicIdPartition
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]


class IsrAnswer(NamedTuple):
    """State of the partition after the controller has applied a change."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[int]


class IsrChannel(Protocol):
    """Receiver of a partition's ISR changes."""

    def submit(self, change: IsrChange) -> Deferred[IsrAnswer]:
        """Submit a change, and retry while the controller cannot be reached. Fails with `KafkaError` when the controller refuses."""
        ...


SendAlterPartition = Callable[[AlterPartitionRequest], Deferred[AlterPartitionResponse]]
"""Function that sends the request to the active controller, on this node or another; fails when no response comes."""


class AlterPartitionManager:
    """Batched ISR changes of one broker. A partition has at most one change in progress."""

    __slots__ = ("_broker_epoch", "_broker_id", "_clock", "_closed", "_in_flight", "_send", "_waiting")

    def __init__(self, send: SendAlterPartition, clock: Clock, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._send = send
        self._clock = clock
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[tuple[UUID, int], tuple[IsrChange, Deferred[IsrAnswer]]] = {}
        self._in_flight = False
        self._closed = False

    def submit(self, change: IsrChange) -> Deferred[IsrAnswer]:
        """Submit a change, see `IsrChannel.submit`.

        Fails with OPERATION_NOT_ATTEMPTED while an earlier change of the same partition is not answered.
        """
        key = (change.partition.topic_id, change.partition.partition)
        deferred: Deferred[IsrAnswer] = Deferred()
        if key in self._waiting:
            deferred.fail(KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"an ISR change of {change.partition} is already under way"))
            return deferred
        self._waiting[key] = (change, deferred)
        if not self._in_flight:
            # Wait for the next loop iteration: all changes of one sweep over the partitions go out together.
            self._in_flight = True
            self._clock.call_later(0, self._send_waiting)
        return deferred

    def close(self) -> None:
        """Stop sending. Waiting changes stay unanswered, as when a broker dies."""
        self._closed = True

    def _send_waiting(self) -> None:
        if self._closed or not self._waiting:
            self._in_flight = False
            return
        sent = list(self._waiting)
        changes = [self._waiting[key][0] for key in sent]
        try:
            answer = self._send(self._request(changes))
        except Exception as error:
            answer = Deferred[AlterPartitionResponse]()
            answer.fail(error)
        answer.add_callback(lambda deferred: self._answered(sent, deferred))

    def _request(self, changes: Sequence[IsrChange]) -> AlterPartitionRequest:
        topics: dict[UUID, AlterPartitionRequest.TopicData] = {}
        for change in changes:
            topic_id = change.partition.topic_id
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                AlterPartitionRequest.PartitionData(
                    partition_index=change.partition.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[AlterPartitionRequest.BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in change.isr],
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values()))

    def _answered(self, sent: Sequence[tuple[UUID, int]], deferred: Deferred[AlterPartitionResponse]) -> None:
        try:
            response = deferred.result()
        except Exception as error:
            logger.warning("AlterPartition got no response from the controller, retrying: %s", error)
            self._clock.call_later(RETRY_AFTER_S, self._send_waiting)
            return
        if response.error_code != ErrorCode.NONE:
            # The broker epoch is stale, or the controller has just lost its role: registration or channel will solve that.
            logger.warning("AlterPartition failed as a whole (%s), retrying", code_of(response.error_code).name)
            self._clock.call_later(RETRY_AFTER_S, self._send_waiting)
            return
        self._complete(sent, response)
        self._send_waiting()

    def _complete(self, sent: Sequence[tuple[UUID, int]], response: AlterPartitionResponse) -> None:
        answers = {(topic.topic_id, partition.partition_index): partition for topic in response.topics for partition in topic.partitions}
        for key in sent:
            _, waiting = self._waiting.pop(key)
            answer = answers.get(key)
            if answer is None:
                waiting.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller's response does not contain the partition"))
            elif answer.error_code != ErrorCode.NONE:
                waiting.fail(KafkaError(code_of(answer.error_code)))
            else:
                waiting.complete(IsrAnswer(answer.leader_id, answer.leader_epoch, answer.partition_epoch, frozenset(answer.isr)))
