"""Reads of local logs for fetches: isolation, limits, diverging epochs, and the follower's progress.

No bytes are read from disk here: a log answers with slices of its files, which the network sends later.
(kafka.server.ReplicaManager.readFromLog)
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.metrics.traffic import TopicTraffic, Traffic
from odradek.replication.delayed_fetch import DelayedFetch, SessionFetch
from odradek.replication.delayed_operations import DelayedOperations
from odradek.replication.fetch_params import FetchParams, FetchPartition, Isolation
from odradek.replication.hosted_partitions import HostedPartitions
from odradek.replication.partition import Partition
from odradek.replication.visibility import divergence, visible_end

if TYPE_CHECKING:
    from odradek.replication.replica import Replica
    from odradek.replication.selector import PreferredReplicas
    from odradek.replication.subscriptions import Subscription
    from odradek.storage.log import Log
    from odradek.storage.reading import LogRead
    from odradek.storage.slices import FileSlice

logger = logging.getLogger(__name__)

AbortedTransactions = Sequence[tuple[int, int]]
"""Pairs of producer id and first offset, of aborted transactions that overlap the range that was read."""


class PartitionRead:
    """Answer for one partition. Offsets are -1 where an error leaves them unknown."""

    __slots__ = (
        "aborted",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "reassigning",
        "settled",
        "size",
        "slices",
        "traffic",
    )

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.slices: Sequence[FileSlice] = ()
        """Slices with the batches, from the batch that contains the fetch offset on; each slice must be sent or released."""
        self.size = 0
        self.aborted: AbortedTransactions | None = None
        """None unless the fetch is read_committed."""
        self.diverging_epoch: tuple[int, int] | None = None
        """Epoch and end offset at which the fetcher's log diverges from the local log: the fetcher must truncate."""
        self.preferred_read_replica = -1
        self.settled: Replica | None = None
        """Follower that fetched, when it is in the ISR and there was no news for it."""
        self.reassigning = False
        """Whether the answer is for a replica that a reassignment adds."""
        self.traffic: TopicTraffic | None = None
        """Counts of the bytes that are sent; None when no bytes were read."""

    @property
    def diverging(self) -> bool:
        return self.diverging_epoch is not None

    def release(self) -> None:
        """Release the slices of a read that will not be sent."""
        for piece in self.slices:
            piece.release()
        self.slices = ()
        self.size = 0


Reads = list[tuple[FetchPartition, PartitionRead]]


class Reader:
    """Reader of the hosted partitions, for fetches."""

    __slots__ = ("_delayed", "_preferred", "_traffic", "partitions", "withholds")

    def __init__(
        self,
        partitions: HostedPartitions,
        delayed: DelayedOperations,
        preferred: PreferredReplicas | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """Create the reader. `preferred` chooses better replicas for consumers; without it consumers read from the leader."""
        self.partitions = partitions
        self._delayed = delayed
        self._preferred = preferred
        self.withholds: Callable[[Partition, int], bool] | None = None
        """Return whether a follower (its broker id) is denied a partition's records for now; None while no follower is throttled."""
        self._traffic = traffic or Traffic()

    def fetch(self, params: FetchParams, wanted: Collection[FetchPartition]) -> Reads | Deferred[Reads]:
        """Read, and answer at once for enough bytes, an error or `max_wait_ms` of 0.

        Otherwise the answer comes when `min_bytes` are readable or the time is over.
        """
        reads = self.read(params, wanted, update_follower=True)
        if not wanted or _answers(params, reads):
            self._delayed.drain()
            return reads
        operation = DelayedFetch(self, params, reads)
        _release(reads)
        if operation.falls_behind():
            self._delayed.drain()
            return self.read(params, wanted, update_follower=False)
        self._delayed.fetch.watch(operation, operation.keys, params.max_wait_ms)
        self._delayed.drain()
        return operation.result

    def fetch_in_session(self, params: FetchParams, wanted: Collection[FetchPartition], session: Subscription) -> Reads | Deferred[Reads]:
        """Serve a fetch of a follower's session like `fetch`. `wanted` are the dirty partitions of the session, if any."""
        reads = self.read(params, wanted, update_follower=True)
        for entry, read in reads:
            if read.settled is not None:
                session.settle(entry, read.settled)
        session.looked()
        # Drain the effects of the follower's progress first: the requests that it acknowledges then no longer count as waiting.
        self._delayed.drain()
        held = False
        if _answers(params, reads):
            size = sum([read.size for _, read in reads])
            held = params.max_wait_ms > 0 and all(_is_plain(read) for _, read in reads) and session.holds(size)
            if not held:
                session.answered()
                return reads
        operation = SessionFetch(self, params, reads, session)
        _release(reads)
        if not held and operation.falls_behind():
            session.answered()
            return self.read(params, wanted, update_follower=False)
        session.park(operation, ready=held)
        self._delayed.fetch.watch(operation, (), session.wait_ms(params.max_wait_ms))
        return operation.result

    def read(self, params: FetchParams, wanted: Collection[FetchPartition], *, update_follower: bool) -> Reads:
        """Read each partition within the response's `max_bytes`, in order. The first that has records gets at least one whole batch."""
        left = params.max_bytes
        need_one = True
        reads: Reads = []
        for partition in wanted:
            read = self._read_or_error(params, partition, left, need_one, update_follower)
            size = read.size
            if size:
                need_one = False
                left = left - size if left > size else 0
            reads.append((partition, read))
        return reads

    def _read_or_error(
        self, params: FetchParams, wanted: FetchPartition, limit: int, need_one: bool, update_follower: bool
    ) -> PartitionRead:
        partition = self.partitions.by_name.get(wanted.topic_partition)
        try:
            if partition is None:
                self._traffic.unhosted.fetches += 1
                partition = self.partitions.find(wanted.topic_partition)
            partition.traffic.fetches += 1
            return self._read(params, partition, wanted, limit, need_one, update_follower)
        except KafkaError as error:
            return PartitionRead(error.code)
        except OSError:
            return PartitionRead(ErrorCode.KAFKA_STORAGE_ERROR)
        except Exception:
            logger.exception("fetch of %s at offset %d failed", wanted.topic_partition, wanted.fetch_offset)
            (self._traffic.unhosted if partition is None else partition.traffic).failed_fetches += 1
            return PartitionRead(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _read(
        self, params: FetchParams, partition: Partition, wanted: FetchPartition, limit: int, need_one: bool, update_follower: bool
    ) -> PartitionRead:
        topic_id = wanted.topic_id
        if topic_id is not partition.topic_id and topic_id.int and topic_id != partition.topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{partition.topic_partition} has the topic id {partition.topic_id}, not {topic_id}"
            )
        if self._preferred is not None and params.client_rack and not params.from_follower:
            chosen = self._preferred.choose(partition, wanted.fetch_offset, params.client_rack, params.listener)
            if chosen is not None:
                return _elsewhere(partition, wanted, chosen)
        log = partition.local_log(wanted.current_leader_epoch, leader_only=params.leader_only)
        replica = partition.follower(params.replica_id, wanted.current_leader_epoch) if params.from_follower else None
        answer = PartitionRead()
        # Taken before reading: a later append must not deny that the follower is in sync now.
        end_offset = log.log_end_offset
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        if wanted.last_fetched_epoch >= 0:
            answer.diverging_epoch = divergence(log, wanted)
        if answer.diverging_epoch is None:
            max_bytes = limit if limit < wanted.max_bytes else wanted.max_bytes
            self._read_log(answer, params, log, wanted, max_bytes, need_one, partition.traffic)
            if self.withholds is not None and answer.size and replica is not None and self.withholds(partition, params.replica_id):
                answer.release()
            if replica is not None:
                answer.reassigning = partition.is_adding_replica(replica.broker_id)
            if replica is not None and update_follower:
                try:
                    partition.record_follower_fetch(
                        replica,
                        fetch_offset=wanted.fetch_offset,
                        log_start_offset=wanted.log_start_offset,
                        leader_end_offset=end_offset,
                        broker_epoch=params.replica_epoch,
                    )
                except KafkaError:
                    answer.release()
                    raise
                if not answer.size and partition.has_nothing_new_for(replica, wanted):
                    answer.settled = replica
        return answer

    def _read_log(
        self,
        answer: PartitionRead,
        params: FetchParams,
        log: Log,
        wanted: FetchPartition,
        max_bytes: int,
        need_one: bool,
        traffic: TopicTraffic,
    ) -> None:
        isolation = params.isolation
        end = visible_end(log, isolation)
        if max_bytes < 0 and log.log_start_offset <= wanted.fetch_offset < end:
            # Kafka's segments raise for a negative size, and the client gets an unexpected error.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{max_bytes} is not a valid number of bytes")
        read = log.read(wanted.fetch_offset, max_bytes=max_bytes, max_offset=end, min_one_message=need_one)
        if read.first_entry_incomplete and read.size:
            # A part of a batch, without a whole batch before it, is useless to the client.
            read.release()
            return
        answer.slices = read.slices
        answer.size = read.size
        answer.traffic = traffic
        if isolation is Isolation.LAST_STABLE_OFFSET:
            answer.aborted = _aborted(log, wanted.fetch_offset, read) if read.size else ()

    def readable_bytes(self, params: FetchParams, log: Log, wanted: FetchPartition) -> int:
        """Return how many bytes a fetch of this partition alone would get now, from index positions, without reading."""
        max_bytes = wanted.max_bytes if wanted.max_bytes < params.max_bytes else params.max_bytes
        read = log.read(wanted.fetch_offset, max_bytes=max_bytes, max_offset=visible_end(log, params.isolation), min_one_message=True)
        for piece in read.slices:
            piece.release()
        return read.size

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self.partitions.by_name.get(topic_partition)


def _elsewhere(partition: Partition, wanted: FetchPartition, broker_id: int) -> PartitionRead:
    """Return an answer without records that names the broker to read from."""
    log = partition.local_log(wanted.current_leader_epoch, leader_only=False)
    answer = PartitionRead()
    answer.high_watermark = log.high_watermark
    answer.last_stable_offset = log.last_stable_offset
    answer.log_start_offset = log.log_start_offset
    answer.preferred_read_replica = broker_id
    return answer


def _is_plain(read: PartitionRead) -> bool:
    return read.error is ErrorCode.NONE and read.diverging_epoch is None and read.preferred_read_replica == -1


def _answers(params: FetchParams, reads: Reads) -> bool:
    """Return whether the request is answered with these reads and does not wait."""
    if params.max_wait_ms <= 0:
        return True
    size = 0
    for _, read in reads:
        if not _is_plain(read):
            return True
        size += read.size
    return size >= params.min_bytes


def _release(reads: Reads) -> None:
    for _, read in reads:
        if read.size:
            read.release()


def _aborted(log: Log, fetch_offset: int, read: LogRead) -> AbortedTransactions:
    """Return the aborted transactions that may overlap what was read, up to the end of its segment and the last stable offset."""
    following = bisect_right(log.bases, read.start.segment_base_offset)
    upper_bound = log.bases[following] if following < len(log.bases) else log.log_end_offset
    return [
        (found.producer_id, found.first_offset)
        for found in log.aborted_transactions(fetch_offset, min(upper_bound, log.last_stable_offset))
    ]
