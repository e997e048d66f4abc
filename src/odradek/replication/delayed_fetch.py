"""A fetch that waits for more data."""

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
    from odradek.storage.log import Log


class DelayedFetch(DelayedOperation[TopicPartition]):
    """Ends when `min_bytes` are readable, when a partition can no longer be read as asked, or when its time is up; then reads once more.

    It keeps how many bytes each partition had to offer, so that a wake-up looks only at the partition that changed.
    (kafka.server.DelayedFetch)
    """

    __slots__ = ("_params", "_reader", "_sizes", "_total", "_wanted", "keys", "result")

    def __init__(self, reader: Reader, params: FetchParams, reads: Reads) -> None:
        super().__init__()
        self._reader = reader
        self._params = params
        self._wanted: dict[TopicPartition, FetchPartition] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._total = 0
        for wanted, read in reads:
            self._wanted[wanted.topic_partition] = wanted
            self._note_size(wanted, read)
        self.keys = tuple(self._wanted)
        self.result: Deferred[Reads] = Deferred()

    def _note_size(self, wanted: FetchPartition, read: PartitionRead) -> None:
        if read.size:
            self._sizes[wanted.topic_partition] = read.size
            self._total += read.size

    def falls_behind(self) -> bool:
        """Whether a partition has data in an older segment: it will not get more by waiting, however small `min_bytes` is."""
        for key in self._sizes:
            partition = self._reader.find(key)
            if partition is not None and partition.log is not None and self._wanted[key].fetch_offset < partition.log.active.base_offset:
                return True
        return False

    def try_complete(self, key: TopicPartition) -> bool:
        wanted = self._wanted[key]
        partition = self._reader.find(key)
        if partition is None:
            return self.force_complete()
        try:
            log = partition.local_log(wanted.current_leader_epoch, leader_only=self._params.leader_only)
            if self._satisfied_by(log, wanted, key):
                return self.force_complete()
        except (KafkaError, OSError):
            # Reading again tells the client what is wrong.
            return self.force_complete()
        return False

    def _satisfied_by(self, log: Log, wanted: FetchPartition, key: TopicPartition) -> bool:
        end_offset = visible_end(log, self._params.isolation)
        if end_offset != wanted.fetch_offset:
            if end_offset < wanted.fetch_offset:
                # Truncated meanwhile, unless the fetch began above what it may see.
                return log.log_end_offset < wanted.fetch_offset
            if self._params.min_bytes <= 1 or wanted.fetch_offset < log.active.base_offset:
                return True
            size = self._reader.readable_bytes(self._params, log, wanted)
            self._total += size - self._sizes.get(key, 0)
            self._sizes[key] = size
            if self._total >= self._params.min_bytes:
                return True
        if wanted.last_fetched_epoch >= 0:
            return divergence(log, wanted) is not None
        return False

    def on_complete(self) -> None:
        self.result.complete(self._reader.read(self._params, self._wanted.values(), update_follower=False))
