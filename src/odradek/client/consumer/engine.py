"""The consumer's shell: runs the fetcher in an event loop. Both consumers, asyncio and blocking, drive this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import ClientClosed, Cluster, NoBrokersAvailable, Node, as_kafka_error
from odradek.client.config import ClientConfig
from odradek.client.core.data_requests import LAST_FETCH_BY_NAME, FetchSettings, fetch_answers, fetch_request, topic_ids
from odradek.client.core.fetcher import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Chunk,
    FetchedPartition,
    Fetcher,
    FetchPlan,
    decode_chunk,
)
from odradek.client.core.metadata import FOREVER
from odradek.client.offsets import list_offsets
from odradek.client.types import ConsumerRecord, OffsetAndTimestamp
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchResponse


class ConsumerEngine:
    """Made and closed in the loop; all methods belong to the loop. Fetching starts with the first call that wants data."""

    def __init__(self, config: ClientConfig, cluster: Cluster | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(config)
        self.max_poll_records = config.integer("max.poll.records")
        self.check_crcs = config.flag("check.crcs")
        self.isolation = READ_COMMITTED if config.text("isolation.level") == "read_committed" else READ_UNCOMMITTED
        self._auto_create = config.flag("allow.auto.create.topics")
        self._settings = FetchSettings(
            max_wait_ms=config.integer("fetch.max.wait.ms"),
            min_bytes=config.integer("fetch.min.bytes"),
            max_bytes=config.integer("fetch.max.bytes"),
            isolation=self.isolation,
            rack_id=config.text("client.rack"),
        )
        self.fetcher = Fetcher(
            partition_max_bytes=config.integer("max.partition.fetch.bytes"),
            reset_policy=config.text("auto.offset.reset"),
            backoff=self.cluster.backoff,
        )
        self._records: list[ConsumerRecord] = []
        self._read = 0
        self._news = asyncio.Event()
        self._wake = asyncio.Event()
        self._failures = 0
        self._refreshing = False
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    # -- assignment -----------------------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        self._drop_records(lambda partition: partition not in chosen)
        self.cluster.metadata.want(partition.topic for partition in chosen)
        self.fetcher.assign(chosen)
        self.wake()

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at the offset."""
        if offset < 0:
            raise ValueError("an offset is at least 0; for the ends of the log use seek_to_beginning and seek_to_end")
        self._drop_records(lambda other: other == partition)
        self.fetcher.seek(partition, offset, leader_epoch)
        self.wake()

    def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Continues at the beginning (EARLIEST_TIMESTAMP) or the end (LATEST_TIMESTAMP), looked up when data is next wanted."""
        chosen = list(partitions)
        self._drop_records(lambda other: other in chosen)
        for partition in chosen:
            self.fetcher.seek_to(partition, timestamp)
        self.wake()

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Stops or resumes reading partitions without losing their position."""
        for partition in partitions:
            if partition not in self.fetcher.positions:
                raise ValueError(f"{partition} is not assigned to this consumer")
            if paused:
                self._put_back(partition)
            self.fetcher.positions[partition].paused = paused
        self.wake()

    def _put_back(self, partition: TopicPartition) -> None:
        """Records that were decoded but not handed out are fetched again later."""
        offset = self._next_decoded(partition)
        if offset is not None:
            self._drop_records(lambda other: other == partition)
            self.fetcher.seek(partition, offset)

    def _next_decoded(self, partition: TopicPartition) -> int | None:
        """The offset of the partition's first record that is decoded and not handed out."""
        waiting = self._records[self._read :]
        return next((record.offset for record in waiting if (record.topic, record.partition) == partition), None)

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that will be handed out."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        await self._find_positions()
        decoded = self._next_decoded(partition)
        return self.fetcher.positions[partition].offset if decoded is None else decoded

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch that the partition is known to have had, -1 for none."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return self.fetcher.positions[partition].epoch

    def _drop_records(self, dropped: Callable[[TopicPartition], bool]) -> None:
        left = [record for record in self._records[self._read :] if not dropped(TopicPartition(record.topic, record.partition))]
        self._records, self._read = left, 0

    # -- offsets --------------------------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        return sorted((await self.cluster.topic(topic, allow_auto_create=self._auto_create)).partitions)

    async def offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Offsets for -2 (beginning) or -1 (end)."""
        listed = await list_offsets(self.cluster, dict.fromkeys(partitions, timestamp), isolation=self.isolation)
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix milliseconds); None where there is none."""
        listed = await list_offsets(self.cluster, times, isolation=self.isolation)
        return {
            partition: OffsetAndTimestamp(found.offset, found.timestamp, found.leader_epoch) if found.offset >= 0 else None
            for partition, found in listed.items()
        }

    async def _find_positions(self) -> None:
        resets = self.fetcher.resets()
        if not resets:
            self._raise_unpositioned()
            return
        at_time = {partition: timestamp for partition, timestamp, _ in resets}
        listed = await list_offsets(self.cluster, at_time, isolation=self.isolation)
        for partition, _, generation in resets:
            self.fetcher.positioned(partition, generation, listed[partition].offset)
        self._raise_unpositioned()

    def _raise_unpositioned(self) -> None:
        for partition, position in self.fetcher.positions.items():
            if position.offset < 0 and position.reset_to is None and not self.fetcher.errors:
                raise ValueError(f"{partition} has no position and auto.offset.reset is none: seek first")

    # -- data -----------------------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float, max_records: int | None) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_s` without any. KafkaError when it fails."""
        limit = max_records or self.max_poll_records
        deadline = self._loop.time() + timeout_s
        while self._read >= len(self._records):
            chunk = await self.next_chunk(deadline - self._loop.time())
            if chunk is None:
                return []
            try:
                self._records = decode_chunk(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=self.check_crcs)
            except KafkaError:
                # The damaged chunk must not be skipped: the next poll raises the error again, unless somebody seeks past it.
                self.fetcher.seek(chunk.topic_partition, chunk.offset)
                raise
            self._read = 0
        taken = self._records[self._read : self._read + limit]
        self._read += len(taken)
        if self._read >= len(self._records):
            self._records, self._read = [], 0
        return taken

    async def next_chunk(self, timeout_s: float) -> Chunk | None:
        """The next fetched batches as they came, None after `timeout_s` seconds without any. KafkaError for what went wrong."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)
        deadline = self._loop.time() + timeout_s
        while True:
            if self.fetcher.errors:
                raise self.fetcher.errors.popleft()
            chunk = self.fetcher.take_chunk()
            if chunk is not None:
                self.wake()
                return chunk
            if self.fetcher.resets() or any(position.offset < 0 for position in self.fetcher.positions.values()):
                await self._find_positions()
                self.wake()
            left = deadline - self._loop.time()
            if left <= 0:
                return None
            self._news.clear()
            self.wake()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return None

    def wake(self) -> None:
        """Wakes the fetching task."""
        self._wake.set()

    # -- the fetching task ----------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stops fetching and closes the connections."""
        self._closed = True
        self._news.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.cluster.close()

    async def _run(self) -> None:
        helpers: dict[asyncio.Task[None], None] = {}
        try:
            while True:
                self._wake.clear()
                wait_ms = self._step(helpers)
                try:
                    async with asyncio.timeout(None if wait_ms >= FOREVER else wait_ms / 1000):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for task in list(helpers):
                task.cancel()

    def _step(self, helpers: dict[asyncio.Task[None], None]) -> int:
        plans, needs_metadata, wake_ms = self.fetcher.plan(self.cluster.view, self.cluster.now_ms())
        for plan in plans:
            self._keep(helpers, self._fetch(plan))
        due = self.cluster.metadata.due_in_ms(self.cluster.now_ms())
        if (needs_metadata or due == 0) and not self._refreshing:
            self._refreshing = True
            self._keep(helpers, self._refresh())
        return min(wake_ms, due) if due > 0 else wake_ms

    async def _refresh(self) -> None:
        try:
            await self.cluster.refresh(allow_auto_create=self._auto_create)
            self._failures = 0
        except (ConnectionLost, KafkaError) as error:
            self._failures += 1
            # Brokers that answered once come back, as those of Kafka's consumers do. Where nobody ever did, the address may be wrong.
            away = isinstance(error, NoBrokersAvailable) and self.cluster.metadata.has_answer
            if isinstance(error, KafkaError) and not error.code.retriable and not away and self._failures > 3:
                self.fetcher.errors.append(error)
                self._news.set()
        finally:
            await asyncio.sleep(self.cluster.backoff.delay_ms(self._failures + 1) / 1000)
            self._refreshing = False
            self._wake.set()

    async def _fetch(self, plan: FetchPlan) -> None:
        now_ms = self.cluster.now_ms
        try:
            node = await self.cluster.node(plan.node_id, "data")
            answers = await self._ask(node, plan)
        except (ConnectionLost, KafkaError) as error:
            self.fetcher.on_failure(plan, as_kafka_error(error), now_ms())
            self.cluster.metadata.request_update()
        except Exception:
            # Whoever polls hears of it, and asks again with the next poll: the node must not count as asked for ever.
            self.fetcher.on_response(plan, [None] * len(plan.targets), now_ms())
            raise
        else:
            if self.fetcher.on_response(plan, answers, now_ms()):
                self.cluster.metadata.request_update()
        self._news.set()
        self._wake.set()

    async def _ask(self, node: Node, plan: FetchPlan) -> list[FetchedPartition | None]:
        ids = topic_ids(self.cluster.view, {target.topic_partition.topic for target in plan.targets})
        at_most = None if ids else LAST_FETCH_BY_NAME
        by_id = ids if node.versions.choose(ApiKey.FETCH, at_most=at_most) > LAST_FETCH_BY_NAME else None
        request = fetch_request(plan.targets, self._settings, ids)
        timeout = self.cluster.request_timeout_s + self._settings.max_wait_ms / 1000
        response = await self.cluster.call(node, request, FetchResponse, at_most=at_most, timeout_s=timeout)
        return fetch_answers(plan.targets, response, by_id)

    def _keep(self, tasks: dict[asyncio.Task[None], None], action: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine as a task, and keeps a reference until it is done; its error is raised by the next poll."""

        def ended(task: asyncio.Task[None]) -> None:
            tasks.pop(task, None)
            self._ended(task)

        task = asyncio.create_task(action)
        tasks[task] = None
        task.add_done_callback(ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fetcher.errors.append(error)
            self._news.set()
