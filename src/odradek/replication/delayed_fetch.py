"""Fetches that wait for more data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.replication.fetch_params import FetchParams, FetchPartition
from odradek.replication.purgatory import DelayedOperation
from odradek.replication.visibility import divergence, visible_end

if TYPE_CHECKING:
    from odradek.replication.reader import PartitionRead, Reader, Reads
    from odradek.replication.subscriptions import Subscription
    from odradek.storage.log import Log


class WaitingFetch(DelayedOperation[TopicPartition]):
    """Fetch that waits until `min_bytes` are readable, a partition can no longer be read as asked, or the time is over; then it reads
    again.

    The readable bytes of each partition are kept, so that a wake-up looks only at the partition that changed. (kafka.server.DelayedFetch)
    """

    __slots__ = ("_params", "_reader", "_sizes", "_total", "result")

    def __init__(self, reader: Reader, params: FetchParams, reads: Reads) -> None:
        super().__init__()
        self._reader = reader
        self._params = params
        self._sizes: dict[FetchPartition, int] = {}
        self._total = 0
        for wanted, read in reads:
            self._note_size(wanted, read)
        self.result: Deferred[Reads] = Deferred()

    def _note_size(self, wanted: FetchPartition, read: PartitionRead) -> None:
        if read.size:
            self._sizes[wanted] = read.size
            self._total += read.size

    @property
    def kind(self) -> str:
        return "follower" if self._params.from_follower else "consumer"

    def falls_behind(self) -> bool:
        """Return whether a partition has data in an older segment: waiting does not add to it, however small `min_bytes` is."""
        for wanted in self._sizes:
            partition = self._reader.find(wanted.topic_partition)
            if partition is not None and partition.log is not None and wanted.fetch_offset < partition.log.active.base_offset:
                return True
        return False

    def is_over_by(self, wanted: FetchPartition) -> bool:
        """Return whether the change of the partition ends the wait."""
        partition = self._reader.find(wanted.topic_partition)
        if partition is None:
            return True
        try:
            log = partition.local_log(wanted.current_leader_epoch, leader_only=self._params.leader_only)
            withholds = self._reader.withholds
            if withholds is not None and self._params.from_follower and withholds(partition, self._params.replica_id):
                return False
            return self._satisfied_by(log, wanted)
        except (KafkaError, OSError):
            # The next read tells the client the error.
            return True

    def _satisfied_by(self, log: Log, wanted: FetchPartition) -> bool:
        end_offset = visible_end(log, self._params.isolation)
        if end_offset != wanted.fetch_offset:
            if end_offset < wanted.fetch_offset:
                # The log was truncated, unless the fetch began above its visible end.
                return log.log_end_offset < wanted.fetch_offset
            if self._params.min_bytes <= 1 or wanted.fetch_offset < log.active.base_offset:
                return True
            size = self._reader.readable_bytes(self._params, log, wanted)
            self._total += size - self._sizes.get(wanted, 0)
            self._sizes[wanted] = size
            if self._total >= self._params.min_bytes:
                return True
        if wanted.last_fetched_epoch >= 0:
            return divergence(log, wanted) is not None
        return False


class DelayedFetch(WaitingFetch):
    """Fetch that names all of its partitions, and watches each of them."""

    __slots__ = ("_wanted", "keys")

    def __init__(self, reader: Reader, params: FetchParams, reads: Reads) -> None:
        super().__init__(reader, params, reads)
        self._wanted: dict[TopicPartition, FetchPartition] = {wanted.topic_partition: wanted for wanted, _ in reads}
        self.keys = tuple(self._wanted)

    def try_complete(self, key: TopicPartition) -> bool:
        return self.is_over_by(self._wanted[key]) and self.force_complete()

    def on_complete(self) -> None:
        self.result.complete(self._reader.read(self._params, self._wanted.values(), update_follower=False))


class SessionFetch(WaitingFetch):
    """Fetch of a follower's session. It watches no partition, because the `Subscription` knows what has changed."""

    __slots__ = ("_subscription", "_superseded")

    def __init__(self, reader: Reader, params: FetchParams, reads: Reads, subscription: Subscription) -> None:
        super().__init__(reader, params, reads)
        self._subscription = subscription
        self._superseded = False

    def supersede(self) -> None:
        """Complete without reading: the follower does not expect this response any longer."""
        self._superseded = True
        self.force_complete()

    def on_complete(self) -> None:
        subscription = self._subscription
        subscription.unpark()
        reads: Reads = []
        if not self._superseded:
            wanted = [entry for entry in subscription.dirty if entry.topic is not None]
            reads = self._reader.read(self._params, wanted, update_follower=False)
            subscription.answered()
        self.result.complete(reads)
