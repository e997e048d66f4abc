"""The consumer's shell: runs the fetcher in an event loop. Both consumers, asyncio and blocking, drive this one."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import length_hint

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import ClientClosed, Cluster
from odradek.client.config import ClientConfig
from odradek.client.consumer.arrow import chunk_to_arrow
from odradek.client.consumer.commits import CommitCallback, Committer, OffsetsGiven
from odradek.client.consumer.deserializers import Deserializers
from odradek.client.consumer.fetching import FetchLoop
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.listeners import Call
from odradek.client.consumer.positions import PositionFinder
from odradek.client.consumer.settings import new_membership, optional_text, uses_consumer_protocol
from odradek.client.coordinators import Coordinator, CoordinatorKind
from odradek.client.core.data_requests import FetchSettings
from odradek.client.core.fetcher import READ_COMMITTED, READ_UNCOMMITTED, Fetcher, decode_chunk, epoch_before
from odradek.client.core.metadata import MetadataCache, TopicInfo
from odradek.client.core.positions import Chunk, Position
from odradek.client.core.subscription import Subscription, SubscriptionPattern
from odradek.client.core.validation import Unread
from odradek.client.failures import WakeupError
from odradek.client.offsets import list_offsets
from odradek.client.pyarrow_needed import need_pyarrow
from odradek.client.types import ArrowBatch, ConsumerGroupMetadata, ConsumerHealth, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp

_UNDISTURBED_S = 0.1
"""How long decoded records are handed out without asking the group: rebalances and automatic commits wait as long at most."""
_MOMENT_S = 0.2
"""How long a member of a group waits for positions before it looks whether the group wants something."""


class ConsumerEngine:
    """Made and closed in the loop; all methods belong to the loop. Fetching starts with the first call that wants data."""

    def __init__(self, config: ClientConfig, cluster: Cluster | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(config)
        self.max_poll_records = config.integer("max.poll.records")
        self.check_crcs = config.flag("check.crcs")
        self.isolation = READ_COMMITTED if config.text("isolation.level") == "read_committed" else READ_UNCOMMITTED
        self._auto_create = config.flag("allow.auto.create.topics")
        settings = FetchSettings(
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
            preference_ms=config.integer("metadata.max.age.ms"),
        )
        self.fetcher.validation.put_back = self._take_back
        self._records: list[ConsumerRecord] = []
        self._read = 0
        self._decoded: Chunk | None = None
        """What `_records` were decoded from."""
        self._prepared: tuple[TopicPartition, int] | None = None
        """Where the chunk begins that is fetched again after what its deserializers needed was asked for."""
        self._handing_out = threading.Lock()
        """Held by who takes decoded records, in the thread of the application, and by who takes them back meanwhile, in the loop."""
        self._undisturbed_until = 0.0
        """So long, by the loop's clock, `take` may go on without a look at what the group wants."""
        self._news = asyncio.Event()
        self._fetching = FetchLoop(self.cluster, self.fetcher, settings, self._news.set, auto_create=self._auto_create)
        self._iterated: tuple[list[ConsumerRecord], Iterator[ConsumerRecord]] | None = None
        self._closed = False
        self._woken = False
        self.deserializers: Deserializers | None = None
        self._polled_ms: int | None = None
        self.calling = False
        """Whether a function of the application is being called."""
        self._config = config
        self.subscription = Subscription(exclude_internal=config.flag("exclude.internal.topics"))
        self.group: GroupDriver | None = None
        self._group_id = optional_text(config, "group.id")
        self._coordinator: Coordinator | None = None
        self.committer: Committer | None = None
        if self._group_id is not None:
            self._coordinator = Coordinator(self.cluster, CoordinatorKind.GROUP, self._group_id)
            interval = config.integer("auto.commit.interval.ms") if config.flag("enable.auto.commit") else None
            self.committer = Committer(self.cluster, self._coordinator, interval, optional_text(config, "group.instance.id"))
            self.committer.held = self.fetcher.position_of
            self.committer.news = self._news.set
        self._positions = PositionFinder(self.cluster, self.fetcher, self.isolation, self.committer)

    # -- assignment -----------------------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        self.subscription.assign()
        self.reassign(chosen)
        if not chosen:
            self.subscription.clear()

    def reassign(self, partitions: Iterable[TopicPartition]) -> None:
        """As `assign`, whoever says so. New partitions begin at the group's committed offsets, if there is a group."""
        chosen = dict.fromkeys(partitions)
        self._drop_records(lambda partition: partition not in chosen)
        self.cluster.metadata.want({partition.topic for partition in chosen})
        self.fetcher.assign(chosen, committed=self.committer is not None)
        self.wake()

    def suspend(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out nothing more of them; they keep their positions."""
        for partition in partitions:
            if partition in self.fetcher.positions:
                self._put_back(partition)
                self.fetcher.suspend(partition)

    # -- the group ------------------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: object | None) -> None:
        """Joins the group with the next poll; KafkaError without a group.id."""
        committer, coordinator = self._committer(), self._coordinator
        assert coordinator is not None
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if isinstance(topics, SubscriptionPattern) and not uses_consumer_protocol(self._config):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "a SubscriptionPattern needs group.protocol=consumer; use re.compile() with classic"
            )
        self.subscription.subscribe(topics)
        if self.group is None:
            membership = new_membership(self._config, self.cluster)
            self.group = GroupDriver(self.cluster, coordinator, membership, self.subscription, committer, self, self._news.set)
        self.group.listener = listener
        self.group.subscription_changed()

    async def unsubscribe(self, timeout_s: float, *, reason: str = "unsubscribe", stay: bool | None = None) -> Call | None:
        """Gives up all partitions and leaves the group, in steps: a function of the application that is due, None when it is over."""
        if self.group is not None:
            call = await self.group.depart(self._loop.time() + timeout_s, reason=reason, stay=stay)
            if call is not None:
                return call
            self.group = None
        self.reassign(())
        self.subscription.clear()
        return None

    async def prepare_close(self, timeout_s: float, leave_group: bool | None) -> Call | None:
        """What comes before `close`: commits, leaving the group. A function of the application that is due, None when it is over."""
        deadline = self._loop.time() + timeout_s
        if self.committer is not None:
            if self.group is None and self.committer.auto is not None:
                await self.committer.commit_before_loss(self.committer.auto.changed(self.consumed()), timeout_s)
            await self.committer.finish(deadline - self._loop.time())
            if self.committer.callbacks:
                return self.committer.callbacks.popleft()
        call = await self.unsubscribe(
            timeout_s, reason="the consumer is being closed", stay=None if leave_group is None else not leave_group
        )
        if call is None and self.committer is not None and self.committer.callbacks:
            return self.committer.callbacks.popleft()
        return call

    def called(self, call: Call) -> None:
        """The application's function has been called."""
        self.calling = False
        if self.group is not None:
            self.group.called(call)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who commits for the group; KafkaError without a group.id."""
        return self._committer().member()

    async def commit(self, offsets: OffsetsGiven | None, timeout_s: float | None) -> None:
        """Commits the offsets, or what was handed out."""
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        await self._committer().commit(self._offsets(offsets), timeout_ms)

    def commit_soon(self, offsets: OffsetsGiven | None, callback: CommitCallback | None) -> None:
        """As `commit`, without waiting."""
        self._committer().commit_soon(self._offsets(offsets), callback)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed."""
        return await self._committer().committed([TopicPartition(*partition) for partition in partitions])

    def _committer(self) -> Committer:
        if self.committer is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group.id: groups and committed offsets need one")
        return self.committer

    def _offsets(self, given: OffsetsGiven | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if given is None:
            return self.consumed()
        offsets = {
            TopicPartition(*partition): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
            for partition, offset in given.items()
        }
        for partition, offset in offsets.items():
            if offset.offset < 0:
                raise ValueError(f"the offset to commit for {partition} is {offset.offset}, below 0")
        return offsets

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of each partition with a position, the offset after what was handed out."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, position in self.fetcher.positions.items():
            if position.offset >= 0:
                epoch = position.offset_epoch
                offsets[partition] = OffsetAndMetadata(position.offset, epoch if epoch >= 0 else None)
        for waiting in self._waiting():
            partition = TopicPartition(waiting.topic, waiting.partition)
            if partition in offsets:
                offsets[partition] = offsets[partition]._replace(offset=waiting.offset)
        return offsets

    def _waiting(self) -> list[ConsumerRecord]:
        """The first record that is decoded and not handed out, and before it the first that an iteration has not come to."""
        found: list[ConsumerRecord] = self._records[self._read : self._read + 1]
        if self._iterated is not None:
            records, left = self._iterated[0], length_hint(self._iterated[1])
            found += records[len(records) - left :][:1]
        return found

    def iterate(self, records: list[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Hands records out one by one: what the application has not come to does not count as handed out."""
        handed_out = iter(records)
        self._iterated = (records, handed_out)
        return handed_out

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

    def assign_range(self, partition: TopicPartition, start: int, stop: int) -> None:
        """Replaces the assignment by the offsets [start, stop) of one partition. Nothing of before is kept, also of the same partition."""
        self.assign([])
        self.assign([partition])
        self.fetcher.positions[partition].stop_offset = stop
        self.seek(partition, start)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is assigned but ranges that were read to their end, and no error waits to be raised."""
        return not (self._closed or self.fetcher.errors) and all(position.is_finished for position in self.fetcher.positions.values())

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._closed

    def _put_back(self, partition: TopicPartition) -> None:
        """Records that were decoded but not handed out are fetched again later."""
        unread = self._take_back(partition)
        if unread is not None:
            self.fetcher.rewind(partition, unread.offset, unread.previous_epoch)

    def _take_back(self, partition: TopicPartition) -> Unread | None:
        with self._handing_out:
            offset = self._next_decoded(partition)
            if offset is None or self._decoded is None:
                return None
            self._drop_records(lambda other: other == partition)
        return Unread(offset, epoch_before(self._decoded, offset))

    def _next_decoded(self, partition: TopicPartition) -> int | None:
        """The offset of the partition's first record that is decoded and not handed out."""
        waiting = self._records[self._read :]
        return next((record.offset for record in waiting if (record.topic, record.partition) == partition), None)

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that will be handed out."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        await self._positions.find()
        decoded = self._next_decoded(partition)
        return self.fetcher.positions[partition].offset if decoded is None else decoded

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch that the partition is known to have had, -1 for none."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return self.fetcher.positions[partition].epoch

    def health(self) -> ConsumerHealth:
        """How it fares now."""
        handed_out = self.consumed()
        lags = [self._lag(position, handed_out.get(partition)) for partition, position in self.fetcher.positions.items()]
        known = [lag for lag in lags if lag is not None]
        state = "alone" if self.group is None else self.group.membership.state
        return ConsumerHealth(
            state="closed" if self._closed else state,
            coordinator=None if self._coordinator is None else self._coordinator.node_id,
            assigned=len(lags),
            lag=sum(known) if len(known) == len(lags) else None,
            last_poll_ms=None if self._polled_ms is None else self.cluster.now_ms() - self._polled_ms,
            failing=sum(position.failures > 0 for position in self.fetcher.positions.values()),
        )

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the application is behind, None where that is not known."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return self._lag(self.fetcher.positions[partition], self.consumed().get(partition))

    @staticmethod
    def _lag(position: Position, handed_out: OffsetAndMetadata | None) -> int | None:
        return None if position.end_offset < 0 or handed_out is None else max(position.end_offset - handed_out.offset, 0)

    def _drop_records(self, dropped: Callable[[TopicPartition], bool]) -> None:
        left = [record for record in self._records[self._read :] if not dropped(TopicPartition(record.topic, record.partition))]
        self._records, self._read = left, 0

    # -- offsets --------------------------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        return sorted((await self.cluster.topic(topic, allow_auto_create=self._auto_create)).partitions)

    async def list_topics(self) -> dict[str, TopicInfo]:
        """All topics by name."""

        async def attempt() -> dict[str, TopicInfo]:
            return dict(MetadataCache(0).update(await self.cluster.ask_metadata(None), 0).topics)

        return await self.cluster.retrying("the topics", attempt)

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

    # -- data -----------------------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_s: float, max_records: int | None) -> list[ConsumerRecord] | Call:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_s` without any. KafkaError when it fails.

        A Call is to be made by the application and told to `called`; then it polls again.
        """
        limit = max_records or self.max_poll_records
        deadline = self._loop.time() + timeout_s
        self._polled_ms = self.cluster.now_ms()
        try:
            while True:
                call = await self._serve(deadline)
                if call is not None:
                    return call
                self._undisturbed_until = self._loop.time() + _UNDISTURBED_S
                if self._read < len(self._records):
                    break
                chunk = await self._wait_for_chunk(deadline)
                if chunk is not None:
                    prepare = self._decode(chunk)
                    if prepare is not None:
                        await asyncio.to_thread(prepare)
                elif self._loop.time() >= deadline:
                    return []
        finally:
            if self.group is not None:
                self.group.poll_ended()
        return self._next_records(limit)

    def take(self, max_records: int | None) -> list[ConsumerRecord] | None:
        """As `poll`, of what is decoded already, in the thread of the application while the loop goes on; None when it has to be `poll`."""
        if self.calling or self._woken or self._loop.time() >= self._undisturbed_until:
            return None
        with self._handing_out:
            self._iterated = None
            return self._next_records(max_records or self.max_poll_records) or None

    def _next_records(self, limit: int) -> list[ConsumerRecord]:
        taken = self._records[self._read : self._read + limit]
        self._read += len(taken)
        if self._read >= len(self._records):
            self._records, self._read = [], 0
        return taken

    async def _serve(self, deadline: float) -> Call | None:
        """What the group wants before records are handed out."""
        if self.calling:
            raise OdradekError("poll() cannot be called by a rebalance listener or a callback")
        self._raise_wakeup()
        if self.committer is None:
            return None
        if self.group is not None:
            call = await self.group.serve(deadline)
            if call is not None:
                return call
        elif self.committer.callbacks:
            return self.committer.callbacks.popleft()
        self._iterated = None
        self.committer.commit_when_due(self.consumed)
        return None

    def _decode(self, chunk: Chunk) -> Callable[[], None] | None:
        """Makes the records of a chunk those that are handed out; or gives what has to be done first, outside of the loop."""
        self._decoded = chunk
        try:
            self._records = decode_chunk(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=self.check_crcs)
        except KafkaError:
            # The damaged chunk must not be skipped: the next poll raises the error again, unless somebody seeks past it.
            self.fetcher.rewind(chunk.topic_partition, chunk.offset, chunk.previous_epoch)
            raise
        if self.deserializers is not None:
            begin = (chunk.topic_partition, chunk.offset)
            prepare = self.deserializers.preparation(self._records) if begin != self._prepared else None
            if prepare is not None:
                # Nothing of the chunk is held meanwhile, as partitions may be revoked and positions moved. It is fetched again, once.
                self._prepared = begin
                self._records, self._read = [], 0
                self.fetcher.rewind(chunk.topic_partition, chunk.offset, chunk.previous_epoch)
                return prepare
            self._prepared = None
            self._records, unreadable = self.deserializers.apply(self._records)
            if unreadable is not None:
                # What comes before it is handed out first; the next chunk begins with it.
                self.fetcher.rewind(chunk.topic_partition, unreadable.offset, epoch_before(chunk, unreadable.offset))
                if not self._records:
                    raise unreadable
        self._read = 0
        return None

    async def next_chunk(self, timeout_s: float) -> Chunk | Call | None:
        """The next fetched batches as they came, None after `timeout_s` seconds without any. KafkaError for what went wrong; a Call as in
        `poll`.
        """
        deadline = self._loop.time() + timeout_s
        self._polled_ms = self.cluster.now_ms()
        try:
            while True:
                call = await self._serve(deadline)
                if call is not None:
                    return call
                chunk = await self._wait_for_chunk(deadline)
                if chunk is not None or self._loop.time() >= deadline:
                    return chunk
        finally:
            if self.group is not None:
                self.group.poll_ended()

    async def next_batch(self, timeout_s: float, *, headers: bool) -> ArrowBatch | Call | None:
        """As `next_chunk`, as an Arrow batch with at least one row."""
        need_pyarrow()
        if self.deserializers is not None:
            raise OdradekError("Arrow batches hold the bytes as they are: a consumer with deserializers hands out none")
        deadline = self._loop.time() + timeout_s
        while True:
            chunk = await self.next_chunk(max(deadline - self._loop.time(), 0.0))
            if not isinstance(chunk, Chunk):
                return chunk
            try:
                batch = chunk_to_arrow(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=self.check_crcs, headers=headers)
            except KafkaError:
                # As in `poll`: it must not be skipped.
                self.fetcher.rewind(chunk.topic_partition, chunk.offset, chunk.previous_epoch)
                raise
            if batch.num_rows:
                return batch

    async def _wait_for_chunk(self, deadline: float) -> Chunk | None:
        """The next chunk; None at the deadline, or when the group wants something."""
        if self._closed:
            raise ClientClosed("the consumer is closed")
        self._fetching.start()
        while True:
            self._raise_wakeup()
            error = self.fetcher.validation.next_error()
            if error is not None:
                self.wake()
                raise error
            chunk = self.fetcher.take_chunk()
            if chunk is not None:
                self.wake()
                return chunk
            left = deadline - self._loop.time()
            if self._positions.needed and not await self._positions.find(self._patience(left)):
                return None
            left = deadline - self._loop.time()
            if left <= 0 or self._attention():
                return None
            self._news.clear()
            self.wake()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return None

    def _raise_wakeup(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")

    def wakeup(self) -> None:
        """The poll that waits, or else the next one, raises WakeupError; from any thread."""
        self._woken = True
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits.
            self._loop.call_soon_threadsafe(self._news.set)

    def _patience(self, left: float) -> float:
        """How long to wait for positions: a group, or whoever wakes the consumer, may want something meanwhile."""
        return max(min(left, _MOMENT_S), 0.0)

    def _attention(self) -> bool:
        if self.group is not None:
            return self.group.attention
        return self.committer is not None and bool(self.committer.callbacks)

    def wake(self) -> None:
        """Wakes the fetching task."""
        self._fetching.wake()

    async def close(self) -> None:
        """Stops fetching and closes the connections."""
        self._closed = True
        self._news.set()
        if self.group is not None:
            await self.group.close()
        if self.committer is not None:
            await self.committer.close()
        await self._positions.close()
        if self._coordinator is not None:
            await self._coordinator.close()
        await self._fetching.close()
        await self.cluster.close()
