"""DeleteRecords: the leader raises its log start, and waits until every live replica has followed.

1. The leader raises its log start. Internal topics, topics that are only compacted and offsets beyond the high watermark are refused.
2. The new log starts are written to their checkpoint before any response. (Kafka writes them within the next minute; a crash before that
   brings the records back.)
3. The response waits until the low watermark, the smallest log start of the live replicas, has reached the offset, or the time is over. The
   next retention check deletes segments below the log start.

(kafka.server.ReplicaManager.deleteRecords, kafka.server.DelayedDeleteRecords)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.metadata.topic_names import is_internal
from odradek.replication.purgatory import DelayedOperation

if TYPE_CHECKING:
    from odradek.replication.delayed_operations import DelayedOperations
    from odradek.replication.hosted_partitions import HostedPartitions

logger = logging.getLogger(__name__)

INVALID_LOW_WATERMARK = -1


class PartitionDeletion:
    """Result for one partition. The low watermark is -1 when unknown."""

    __slots__ = ("error", "low_watermark", "required_offset")

    def __init__(self, error: ErrorCode = ErrorCode.NONE, *, low_watermark: int = INVALID_LOW_WATERMARK, required_offset: int = -1) -> None:
        self.error = error
        self.low_watermark = low_watermark
        self.required_offset = required_offset
        """Low watermark that ends the wait."""

    def __repr__(self) -> str:
        return f"PartitionDeletion({self.error.name}, low_watermark={self.low_watermark}, required_offset={self.required_offset})"


Deletions = dict[TopicPartition, PartitionDeletion]


class DelayedDeleteRecords(DelayedOperation[TopicPartition]):
    """Request that waits until every partition has reached its offset or failed.

    Partitions that are still pending at the timeout get REQUEST_TIMED_OUT.
    """

    __slots__ = ("_deletions", "_partitions", "_pending", "result")

    def __init__(self, partitions: HostedPartitions, deletions: Deletions) -> None:
        super().__init__()
        self._partitions = partitions
        self._deletions = deletions
        self._pending = {key: deletion for key, deletion in deletions.items() if deletion.error is ErrorCode.NONE}
        self.result: Deferred[Deletions] = Deferred()

    def check_all(self) -> bool:
        """Check every pending partition, without completing the operation. Return whether none is left."""
        for key in list(self._pending):
            self._check(key)
        return not self._pending

    @property
    def keys(self) -> Sequence[TopicPartition]:
        """Partitions that are still pending."""
        return tuple(self._pending)

    def _check(self, key: TopicPartition) -> None:
        deletion = self._pending.get(key)
        if deletion is None:
            return
        try:
            low_watermark = self._partitions.find(key).low_watermark()
        except KafkaError as error:
            deletion.error, deletion.low_watermark = error.code, INVALID_LOW_WATERMARK
        else:
            deletion.low_watermark = low_watermark
            if low_watermark < deletion.required_offset:
                return
        del self._pending[key]

    def try_complete(self, key: TopicPartition) -> bool:
        self._check(key)
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for deletion in self._pending.values():
            deletion.error = ErrorCode.REQUEST_TIMED_OUT
        self.result.complete(self._deletions)


class RecordsDeleter:
    """DeleteRecords on the partitions of one broker."""

    __slots__ = ("_checkpoint", "_delayed", "_partitions")

    def __init__(self, partitions: HostedPartitions, delayed: DelayedOperations, checkpoint: Callable[[], Deferred[None] | None]) -> None:
        """Create the deleter. `checkpoint` writes the log starts of all directories, or returns None when the files are up to date."""
        self._partitions = partitions
        self._delayed = delayed
        self._checkpoint = checkpoint

    def delete_records(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> Deferred[Deletions]:
        """Delete the records before the offsets (-1: the high watermark) from the partitions that this broker leads.

        Errors per partition: INVALID_TOPIC_EXCEPTION for internal topics, POLICY_VIOLATION, OFFSET_OUT_OF_RANGE, and the errors of
        `HostedPartitions.find`. REQUEST_TIMED_OUT when a live replica did not follow in time; the leader's records are deleted
        nevertheless.
        """
        deletions = {key: self._delete(key, offset) for key, offset in offsets.items()}
        self._delayed.drain()
        result: Deferred[Deletions] = Deferred()

        def wait(_: Deferred[None]) -> None:
            operation = DelayedDeleteRecords(self._partitions, deletions)
            if operation.check_all():
                result.complete(deletions)
                return
            operation.result.into(result)
            self._delayed.delete_records.watch(operation, operation.keys, max(timeout_ms, 0))

        written = self._checkpoint() if any(deletion.error is ErrorCode.NONE for deletion in deletions.values()) else None
        (written or Deferred[None].of(None)).add_callback(wait)
        return result

    def _delete(self, key: TopicPartition, offset: int) -> PartitionDeletion:
        if is_internal(key.topic):
            return PartitionDeletion(ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            required, low_watermark = self._partitions.find(key).delete_records_before(offset)
        except KafkaError as error:
            return PartitionDeletion(error.code)
        except OSError:
            return PartitionDeletion(ErrorCode.KAFKA_STORAGE_ERROR)
        except Exception:
            logger.exception("deleting records of %s failed", key)
            return PartitionDeletion(ErrorCode.UNKNOWN_SERVER_ERROR)
        # Readers that wait behind the new log start, including followers, learn the change now.
        self._delayed.partition_changed(key)
        return PartitionDeletion(low_watermark=low_watermark, required_offset=required)
