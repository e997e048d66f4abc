"""Appends of a request's records to the local logs, with the wait that its acks demand (kafka.server.ReplicaManager.appendRecords)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.metrics.traffic import TopicTraffic, Traffic
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.delayed_produce import Appends, DelayedProduce, PartitionAppend
from odradek.replication.flushing import Flusher
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.storage.append import AppendOrigin
    from odradek.storage.producer_state import VerificationGuard

logger = logging.getLogger(__name__)

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
"""Topics that only the broker itself writes to (org.apache.kafka.common.internals.Topic)."""

_PLAIN_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)
"""Errors that are answered without the log start offset, as in Kafka; all others have it."""

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

Entry = tuple[TopicPartition, memoryview]
Guards = Mapping[TopicPartition, "VerificationGuard"]


def valid_acks(required_acks: int) -> bool:
    """Return whether acks has a valid value: -1 (all in-sync replicas), 0 (no response) or 1 (the leader)."""
    return -1 <= required_acks <= 1


class Appender:
    """Appender to the hosted partitions."""

    __slots__ = ("_delayed", "_flusher", "_partitions", "_traffic")

    def __init__(self, partitions: HostedPartitions, delayed: DelayedOperations, flusher: Flusher, traffic: Traffic | None = None) -> None:
        self._partitions = partitions
        self._delayed = delayed
        self._flusher = flusher
        self._traffic = traffic or Traffic()

    def append(
        self,
        entries: Sequence[Entry],
        *,
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
        internal_topics_allowed: bool = False,
        guards: Guards | None = None,
        transaction_version: int = 0,
    ) -> Appends | Applied[Appends]:
        """Append to each partition; each `PartitionAppend` has the error of its partition.

        `transaction_version` is the version of markers (`Log.append_as_leader`). The records are in the logs when this method returns. The
        result is usually available at once. With acks=-1 it waits for the high watermark, at most `timeout_ms`, then REQUEST_TIMED_OUT.
        When flush.messages makes a flush due, it waits for the flush.
        """
        if not valid_acks(required_acks):
            return [
                PartitionAppend(topic_partition, self._partitions.error(topic_partition, ErrorCode.INVALID_REQUIRED_ACKS))
                for topic_partition, _ in entries
            ]
        appends: Appends = []
        delayed = self._delayed
        flush_due: list[Partition] | None = None
        waiting = False
        for topic_partition, records in entries:
            guard = None if guards is None else guards.get(topic_partition)
            append, partition = self._append_one(
                topic_partition, records, required_acks, origin, internal_topics_allowed, guard, transaction_version
            )
            appends.append(append)
            if partition is None:
                continue
            log = partition.log
            if log is None:
                continue
            if log.high_watermark >= append.required_offset:
                # A due flush would have held the high watermark back, so none is due.
                continue
            waiting = True
            if log.flush_due:
                flush_due = [partition] if flush_due is None else [*flush_due, partition]
        delayed.drain()
        if flush_due is not None:
            return self._after_flush(flush_due, appends, required_acks, timeout_ms)
        if required_acks == -1 and waiting:
            return self._await_replicas(appends, timeout_ms)
        return appends

    def _append_one(
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        required_acks: int,
        origin: AppendOrigin,
        internal_topics_allowed: bool,
        guard: VerificationGuard | None,
        transaction_version: int,
    ) -> tuple[PartitionAppend, Partition | None]:
        partition = self._partitions.by_name.get(topic_partition)
        try:
            if not internal_topics_allowed and topic_partition.topic in INTERNAL_TOPICS:
                code = self._partitions.error(topic_partition, ErrorCode.INVALID_TOPIC_EXCEPTION)
                raise KafkaError(code, f"Cannot append to internal topic {topic_partition.topic}")
            if partition is None:
                partition = self._partitions.find(topic_partition)
            partition.traffic.produces += 1
            info, advanced = partition.append_as_leader(records, required_acks, origin, guard, transaction_version)
        except KafkaError as error:
            return self._refused(topic_partition, partition, error, len(records)), None
        except OSError:
            return PartitionAppend(topic_partition, ErrorCode.KAFKA_STORAGE_ERROR), None
        except Exception:
            logger.exception("append to %s failed", topic_partition)
            self._counts(partition).failed_produces += 1
            return PartitionAppend(topic_partition, ErrorCode.UNKNOWN_SERVER_ERROR, log_start_offset=_log_start(partition)), None
        if advanced:
            self._delayed.partition_changed(topic_partition, len(records))
        else:
            self._delayed.log_end_moved(topic_partition, len(records))
        append = PartitionAppend(
            topic_partition,
            base_offset=info.first_offset,
            required_offset=info.last_offset + 1,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        return append, partition

    def _refused(self, topic_partition: TopicPartition, partition: Partition | None, error: KafkaError, size: int) -> PartitionAppend:
        from odradek.records.validation import RecordValidationError

        append = PartitionAppend(topic_partition, error.code)
        counts = self._counts(partition)
        if partition is None:
            counts.produces += 1
        if error.code not in _PLAIN_ERRORS:
            append.log_start_offset = _log_start(partition)
            counts.failed_produces += 1
        elif error.code in _TOO_LARGE:
            counts.bytes_rejected += size
        elif error.code is ErrorCode.CORRUPT_MESSAGE:
            counts.bad_crc += 1
        if isinstance(error, RecordValidationError):
            append.record_errors = error.record_errors
            append.error_message = error.message
            without_key = sum(1 for _, message in error.record_errors if message is not None and "without key" in message)
            counts.without_key += without_key
            counts.bad_sequence += len(error.record_errors) - without_key
        return append

    def _counts(self, partition: Partition | None) -> TopicTraffic:
        return self._traffic.unhosted if partition is None else partition.traffic

    def _await_replicas(self, appends: Appends, timeout_ms: int) -> Appends | Applied[Appends]:
        if len(appends) > 1:
            operation = DelayedProduce(self._partitions, appends)
            if operation.check_all():
                return appends
            pending = operation.pending
            if len(pending) > 1:
                self._delayed.produce.watch(operation, tuple(pending), timeout_ms)
                return operation.result
            [append] = pending.values()
        else:
            append = appends[0]
        if append.error is not ErrorCode.NONE:
            return appends
        partition = self._partitions.by_name.get(append.topic_partition)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if partition is None else partition.reached(append.required_offset)
        if error is None and partition is not None:
            return self._delayed.acks.wait(partition, append, appends, timeout_ms)
        append.error = error or ErrorCode.NONE
        return appends

    def _after_flush(self, partitions: Sequence[Partition], appends: Appends, required_acks: int, timeout_ms: int) -> Applied[Appends]:
        result: Applied[Appends] = Applied()
        left = len(partitions)

        def flushed(partition: Partition, done: Deferred[None]) -> None:
            nonlocal left
            left -= 1
            if done.error is not None:
                for append in appends:
                    if append.topic_partition == partition.topic_partition:
                        append.error = ErrorCode.KAFKA_STORAGE_ERROR
            if left:
                return
            self._delayed.drain()
            answer = self._await_replicas(appends, timeout_ms) if required_acks == -1 else appends
            if isinstance(answer, Deferred):
                answer.into(result)
            else:
                result.complete(answer)

        for partition in partitions:
            self._flusher.flush(partition).add_callback(partial(flushed, partition))
        return result


def _log_start(partition: Partition | None) -> int:
    return -1 if partition is None or partition.log is None or not partition.is_leader else partition.log.log_start_offset
