"""Finding the positions of newly assigned partitions: the group's committed offsets, and where there are none auto.offset.reset."""

from __future__ import annotations

import asyncio

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.consumer.commits import Committer
from odradek.client.core.fetcher import Fetcher
from odradek.client.core.reset_policy import Ago
from odradek.client.offsets import list_offsets


class NoOffsetForPartition(OdradekError, ValueError):
    """A partition without a position where auto.offset.reset is none (org.apache.kafka.clients.consumer.NoOffsetForPartitionException)."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition} has no position and auto.offset.reset is none: seek first")
        self.partition = partition


class PositionFinder:
    """Finds what the fetcher lacks. One search at a time, which goes on when a poll that waited for it has ended."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher, isolation: int, committer: Committer | None) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._isolation = isolation
        self._committer = committer
        self._search: asyncio.Task[None] | None = None

    @property
    def needed(self) -> bool:
        """Whether a position is missing."""
        return any(position.offset < 0 for position in self._fetcher.positions.values())

    async def find(self, timeout_s: float | None = None) -> bool:
        """Waits for the positions; False when that takes longer than `timeout_s`. NoOffsetForPartition, or KafkaError."""
        if self._search is None:
            self._search = asyncio.create_task(self._find())
        search = self._search
        await asyncio.wait({search}, timeout=timeout_s)
        if not search.done():
            return False
        if self._search is search:
            self._search = None
        search.result()
        self._raise_unpositioned()
        return True

    async def _find(self) -> None:
        uncommitted = self._fetcher.uncommitted()
        if uncommitted and self._committer is not None:
            found = await self._committer.committed([partition for partition, _ in uncommitted])
            for partition, generation in uncommitted:
                self._fetcher.committed(partition, generation, found[partition])
        while resets := self._fetcher.resets():
            now_ms = self._cluster.clock.time_ms()
            at_time = {
                partition: now_ms - reset_to.duration_ms if isinstance(reset_to, Ago) else reset_to for partition, reset_to, _ in resets
            }
            listed = await list_offsets(self._cluster, at_time, isolation=self._isolation)
            for partition, _, generation in resets:
                self._fetcher.positioned(partition, generation, listed[partition].offset, listed[partition].leader_epoch)

    def _raise_unpositioned(self) -> None:
        for partition, position in self._fetcher.positions.items():
            if position.offset < 0 and position.reset_to is None and not position.wants_committed and not self._fetcher.errors:
                raise NoOffsetForPartition(partition)

    async def close(self) -> None:
        """Ends the search."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.gather(self._search, return_exceptions=True)
