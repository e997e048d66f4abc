"""Markers of decided transactions, sent to the leader of each partition until all partitions have them.

While a request to a broker is under way, markers for the same broker are collected, so that many transactions share a request. Partitions
that this broker leads need no request. A marker that a leader cannot write is sent again after a pause, to the leader of that time. Deleted
partitions need no marker.

(kafka.coordinator.transaction.TransactionMarkerChannelManager)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import Alarm, PerNode
from odradek.coordinator.transaction.state import Transaction
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

if TYPE_CHECKING:
    from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
    from odradek.protocol.schema import Message

logger = logging.getLogger(__name__)

_RETRY_S = 0.1
_PER_REQUEST = 1_000
"""Most markers of one request."""
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.PRODUCER_FENCED})
"""Errors which say that another coordinator is responsible for the transaction now."""
_NOT_NEEDED = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a partition that cannot contain transactional records, and therefore needs no marker."""

NO_LEADER = -1


class MarkerDestinations(Protocol):
    """Leaders of partitions."""

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader's node id; NO_LEADER when the partition has no leader now, None when the partition does not exist."""
        ...


Send = Callable[[int, WriteTxnMarkersRequest], "Deferred[Message]"]
Codes = Mapping[TopicPartition, ErrorCode]


class PartitionsHere(Protocol):
    """Partitions that this broker leads."""

    node_id: int

    def write_markers(
        self, transaction: Transaction, coordinator_epoch: int, partitions: Iterable[TopicPartition]
    ) -> Sequence[Deferred[Codes]]:
        """Append the transaction's marker to each partition; the results together have a code for each partition."""
        ...


class _Job:
    """Transaction whose markers are being written."""

    __slots__ = ("coordinator", "coordinator_epoch", "done", "pending", "transaction")

    def __init__(self, coordinator: TopicPartition, coordinator_epoch: int, transaction: Transaction) -> None:
        self.coordinator = coordinator
        self.coordinator_epoch = coordinator_epoch
        self.transaction = transaction
        self.pending = set(transaction.partitions)
        self.done: Deferred[bool] = Deferred()


class MarkerSender:
    """Sender of all markers of one broker."""

    def __init__(self, clock: Clock, destinations: MarkerDestinations, send: Send, here: PartitionsHere | None = None) -> None:
        """`send(node, request)` uses the inter-broker channel. Without `here` this broker's own partitions get requests, too."""
        self._destinations = destinations
        self._send = send
        self._here = here
        self._jobs: dict[tuple[TopicPartition, str], _Job] = {}
        self._requests: PerNode[_Job, set[TopicPartition], Message] = PerNode(clock, self._request, self._answered, most=_PER_REQUEST)
        self._without_leader: list[tuple[_Job, set[TopicPartition]]] = []
        self._retry_alarm = Alarm(clock, self._retry)

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def asked(self) -> int:
        """Return the number of nodes with an unanswered request."""
        return self._requests.under_way

    @property
    def without_leader(self) -> int:
        """Return the number of waiting entries for partitions without a leader, or with markers to be sent again."""
        return len(self._without_leader)

    def start(self, coordinator: TopicPartition, coordinator_epoch: int, transaction: Transaction) -> Deferred[bool]:
        """Write the markers of a prepared transaction. The result is True when all are written, False when another coordinator took over.

        `coordinator` is the transaction's partition of `__transaction_state`, and `coordinator_epoch` the epoch in which it was decided.
        """
        key = (coordinator, transaction.transactional_id)
        former = self._jobs.get(key)
        if former is not None:
            self._end(former, False)
        job = _Job(coordinator, coordinator_epoch, transaction)
        self._jobs[key] = job
        if job.pending:
            self._route(job, set(job.pending))
        else:
            self._end(job, True)
        return job.done

    def forget(self, coordinator: TopicPartition) -> None:
        """Stop writing markers for a partition that this broker does not coordinate any more; the new coordinator writes them."""
        for key, job in list(self._jobs.items()):
            if key[0] == coordinator:
                self._end(job, False)

    def _end(self, job: _Job, written: bool) -> None:
        key = (job.coordinator, job.transaction.transactional_id)
        if self._jobs.get(key) is job:
            del self._jobs[key]
        job.done.complete(written)

    def _route(self, job: _Job, partitions: set[TopicPartition]) -> None:
        for partition in sorted(partitions):
            leader = self._destinations.leader_of(partition)
            if leader is None:
                job.pending.discard(partition)
            elif leader == NO_LEADER:
                self._later(job, {partition})
            elif (waiting := self._requests.waiting(leader).get(job)) is not None:
                waiting.add(partition)
            else:
                self._requests.put(leader, job, {partition})
        if not job.pending:
            self._end(job, True)

    def _later(self, job: _Job, partitions: set[TopicPartition]) -> None:
        self._without_leader.append((job, partitions))
        if not self._retry_alarm.is_set:
            self._retry_alarm.set(_RETRY_S)

    def _retry(self) -> None:
        without_leader, self._without_leader = self._without_leader, []
        for job, partitions in without_leader:
            if not job.done.done:
                self._route(job, partitions)

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def _request(self, node: int, entries: dict[_Job, set[TopicPartition]]) -> Deferred[Message] | None:
        """Send the markers of transactions that have not ended. Return None when no response is to come."""
        here = self._here
        if here is not None and node == here.node_id:
            for job, partitions in entries.items():
                if not job.done.done:
                    self._write_here(here, job, partitions)
            return None
        markers = [_marker(job, partitions) for job, partitions in entries.items() if not job.done.done]
        return self._send(node, WriteTxnMarkersRequest(markers=markers)) if markers else None

    def _answered(self, node: int, entries: dict[_Job, set[TopicPartition]], done: Deferred[Message]) -> None:
        batch = {job: partitions for job, partitions in entries.items() if not job.done.done}
        if done.error is not None:
            logger.info("markers for broker %d: %s; retrying", node, done.error)
            for job, partitions in batch.items():
                self._later(job, partitions)
        else:
            response = cast("WriteTxnMarkersResponse", done.result())
            # The producer id identifies the result: two markers of one producer are only sent in different requests.
            results = {result.producer_id: result for result in response.markers}
            for job, partitions in batch.items():
                result = results.get(job.transaction.producer_id)
                codes = (
                    {}
                    if result is None
                    else {
                        TopicPartition(topic.name, each.partition_index): code_of(each.error_code)
                        for topic in result.topics
                        for each in topic.partitions
                    }
                )
                self._take(job, partitions, codes)

    def _write_here(self, here: PartitionsHere, job: _Job, partitions: set[TopicPartition]) -> None:
        for written in here.write_markers(job.transaction, job.coordinator_epoch, sorted(partitions)):
            written.add_callback(partial(self._written_here, job))

    def _written_here(self, job: _Job, done: Deferred[Codes]) -> None:
        codes = done.result()
        self._take(job, codes, codes)

    def _take(self, job: _Job, partitions: Iterable[TopicPartition], codes: Codes) -> None:
        again: set[TopicPartition] = set()
        for partition in partitions:
            code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code is ErrorCode.NONE or code in _NOT_NEEDED:
                job.pending.discard(partition)
            elif code in _FENCED:
                logger.info("the marker of %r is refused by %s: %s", job.transaction.transactional_id, partition, code.name)
                self._end(job, False)
                return
            else:
                again.add(partition)
        if again:
            self._later(job, again)
        elif not job.pending:
            self._end(job, True)


def _marker(job: _Job, partitions: set[TopicPartition]) -> WriteTxnMarkersRequest.WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    transaction = job.transaction
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.result_is_commit,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=ids) for name, ids in topics.items()],
        coordinator_epoch=job.coordinator_epoch,
        transaction_version=transaction.client_version,
    )
