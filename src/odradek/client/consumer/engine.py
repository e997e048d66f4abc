"""Shell of the consumers: runs the fetcher in an event loop. The asyncio and the blocking consumer share this engine."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.arrow import chunk_to_arrow
from odradek.client.consumer.commits import CommitCallback, Committer, OffsetsGiven
from odradek.client.consumer.deserializers import Deserializers
from odradek.client.consumer.fetching import FetchLoop
from odradek.client.consumer.group import GroupDriver
from odradek.client.consumer.hand_out import HandOut
from odradek.client.consumer.listeners import Call
from odradek.client.consumer.positions import NoOffsetForPartition, PositionFinder
from odradek.client.consumer.settings import new_membership, uses_consumer_protocol
from odradek.client.core.data_requests import FetchSettings
from odradek.client.core.fetcher import READ_COMMITTED, READ_UNCOMMITTED, Fetcher, decode_chunk, epoch_before
from odradek.client.core.metadata import MetadataCache, TopicInfo
from odradek.client.core.outgoing import checked_offset, checked_offsets, checked_place, checked_timestamp
from odradek.client.core.positions import Chunk, Position
from odradek.client.core.subscription import Subscription, SubscriptionPattern
from odradek.client.failures import WakeupError
from odradek.client.network.cluster import ClientClosed, Cluster
from odradek.client.network.coordinators import Coordinator, CoordinatorKind
from odradek.client.network.offsets import list_offsets
from odradek.client.pyarrow_needed import need_pyarrow
from odradek.client.settings.common_keys import DEFAULT_API_TIMEOUT_MS, METADATA_MAX_AGE_MS
from odradek.client.settings.config import ClientConfig
from odradek.client.settings.consumer_keys import (
    ALLOW_AUTO_CREATE_TOPICS,
    AUTO_COMMIT_INTERVAL_MS,
    AUTO_OFFSET_RESET,
    CHECK_CRCS,
    CLIENT_RACK,
    ENABLE_AUTO_COMMIT,
    EXCLUDE_INTERNAL_TOPICS,
    FETCH_MAX_BYTES,
    FETCH_MAX_WAIT_MS,
    FETCH_MIN_BYTES,
    GROUP_ID,
    GROUP_INSTANCE_ID,
    ISOLATION_LEVEL,
    MAX_PARTITION_FETCH_BYTES,
    MAX_POLL_RECORDS,
)
from odradek.client.types import ArrowBatch, ConsumerGroupMetadata, ConsumerHealth, OffsetAndMetadata, OffsetAndTimestamp

_UNDISTURBED_S = 0.1
"""Seconds for which decoded records are handed out without a check of the group: the longest delay of rebalances and automatic commits."""


class ConsumerEngine:
    """Engine of one consumer, made and closed in the loop. Methods belong to the loop, unless their docstring says otherwise.

    Fetching starts with the first call that wants data. `hand_out` alone decides which records count as handed out, and so as consumed.
    """

    def __init__(self, config: ClientConfig, cluster: Cluster | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.cluster = cluster or Cluster(config)
        self.max_poll_records = config[MAX_POLL_RECORDS]
        self.check_crcs = config[CHECK_CRCS]
        self.isolation = READ_COMMITTED if config[ISOLATION_LEVEL] == "read_committed" else READ_UNCOMMITTED
        self._auto_create = config[ALLOW_AUTO_CREATE_TOPICS]
        settings = FetchSettings(
            max_wait_ms=config[FETCH_MAX_WAIT_MS],
            min_bytes=config[FETCH_MIN_BYTES],
            max_bytes=config[FETCH_MAX_BYTES],
            isolation=self.isolation,
            rack_id=config[CLIENT_RACK],
        )
        self.fetcher = Fetcher(
            partition_max_bytes=config[MAX_PARTITION_FETCH_BYTES],
            reset_policy=config[AUTO_OFFSET_RESET],
            backoff=self.cluster.backoff,
            preference_ms=config[METADATA_MAX_AGE_MS],
        )
        self.hand_out = HandOut()
        self.fetcher.validation.put_back = self.hand_out.take_back
        self.cluster.origin.at_fork(self.hand_out.abandon)
        self._prepared: Chunk | None = None
        """Chunk for which the deserializers have done their preparation."""
        self._preparing: asyncio.Task[None] | None = None
        self._undisturbed_until = 0.0
        """Time of the loop's clock until which records are handed out without a check of the group."""
        self._news = asyncio.Event()
        self._patience_ms = config[DEFAULT_API_TIMEOUT_MS]
        self._told_error = False
        """True when the last poll raised an error: then records come first."""
        self._closing = False
        self._closed = False
        self._teardown: asyncio.Task[None] | None = None
        self._departures: set[asyncio.Task[None]] = set()
        self._woken = False
        self.deserializers: Deserializers | None = None
        self._polled_ms: int | None = None
        self.calling = False
        """True while a function of the application is being called."""
        self._config = config
        self.subscription = Subscription(exclude_internal=config[EXCLUDE_INTERNAL_TOPICS])
        self.group: GroupDriver | None = None
        self._group_id = config[GROUP_ID]
        self._coordinator: Coordinator | None = None
        self.committer: Committer | None = None
        if self._group_id is not None:
            self._coordinator = Coordinator(self.cluster, CoordinatorKind.GROUP, self._group_id)
            interval = config[AUTO_COMMIT_INTERVAL_MS] if config[ENABLE_AUTO_COMMIT] else None
            self.committer = Committer(self.cluster, self._coordinator, interval, config[GROUP_INSTANCE_ID])
            self.committer.held = self.fetcher.position_of
            self.committer.news = self._news.set
        finder = PositionFinder(self.cluster, self.fetcher, self.isolation, self.committer)
        self._fetching = FetchLoop(self.cluster, self.fetcher, finder, settings, self._news.set, auto_create=self._auto_create)

    # -- assignment -----------------------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replace the assignment; partitions that stay keep their position. Raises TypeError or ValueError for an impossible partition."""
        chosen = [checked_place(partition) for partition in partitions]
        self.subscription.assign()
        self.reassign(chosen)
        if not chosen:
            self.subscription.clear()

    def reassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment on behalf of the application or the group.

        New partitions begin at the committed offsets if there is a group.
        """
        chosen = dict.fromkeys(partitions)
        at_hand = self.hand_out.chunk
        if at_hand is not None and at_hand.topic_partition not in chosen:
            self.hand_out.take_back(at_hand.topic_partition)
        self.cluster.metadata.want({partition.topic for partition in chosen})
        self.fetcher.assign(chosen, committed=self.committer is not None)
        self.wake()

    def suspend(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no further records of these partitions; they keep their positions."""
        for partition in partitions:
            if partition in self.fetcher.positions:
                self._put_back(partition)
                self.fetcher.suspend(partition)

    # -- the group ------------------------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: object | None) -> None:
        """Join the group with the next poll. Raises KafkaError without a group.id, or for a SubscriptionPattern under the classic protocol.

        Raises ClientClosed after `close`.
        """
        committer, coordinator = self._committer(), self._coordinator
        assert coordinator is not None
        if self._closed:
            raise ClientClosed("the consumer is closed")
        if isinstance(topics, SubscriptionPattern) and not uses_consumer_protocol(self._config):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "a SubscriptionPattern needs group.protocol=consumer; use re.compile() with classic"
            )
        if self.group is not None and self.group.is_departing:
            self._depart_in_background(self.group)
        self.subscription.subscribe(topics)
        if self.group is None:
            membership = new_membership(self._config, self.cluster)
            self.group = GroupDriver(self.cluster, coordinator, membership, self.subscription, committer, self, self._news.set)
        self.group.listener = listener
        self.group.subscription_changed()

    def _depart_in_background(self, group: GroupDriver) -> None:
        """Leave a membership whose unsubscribe() was cancelled, in the background; another membership begins beside it."""
        self.group = None
        self.reassign(())
        leaving = asyncio.create_task(self._left_alone(group))
        self._departures.add(leaving)
        leaving.add_done_callback(self._departures.discard)

    async def _left_alone(self, group: GroupDriver) -> None:
        try:
            await group.depart(self._loop.time() + self._patience_ms / 1000, reason="unsubscribe", stay=None, silently=True)
        finally:
            await group.close()

    async def unsubscribe(self, timeout_s: float, *, reason: str = "unsubscribe", stay: bool | None = None) -> Call | None:
        """Give up all partitions and leave the group, in steps.

        Returns a call that the application has to make before the next step, None when all is done.
        """
        if self.group is not None:
            call = await self.group.depart(self._loop.time() + timeout_s, reason=reason, stay=stay)
            if call is not None:
                return call
            self.group = None
        self.reassign(())
        self.subscription.clear()
        return None

    async def prepare_close(self, timeout_s: float, leave_group: bool | None) -> Call | None:
        """End waiting polls, commit and leave the group, in steps, before `close`.

        Returns a call that the application has to make before the next step, None when all is done.
        """
        self.end_polls()
        deadline = self._loop.time() + timeout_s
        if self.committer is not None:
            if self.group is None and self.committer.auto is not None:
                await self.committer.commit_before_loss(self.committer.auto.changed(self.consumed()), timeout_s)
            await self.committer.finish(deadline - self._loop.time())
            if self.committer.callbacks:
                return self.committer.callbacks[0]
        call = await self.unsubscribe(
            timeout_s, reason="the consumer is being closed", stay=None if leave_group is None else not leave_group
        )
        if call is None and self.committer is not None and self.committer.callbacks:
            return self.committer.callbacks[0]
        return call

    def called(self, call: Call) -> None:
        """Note that the application has made the call. If a Ctrl-C came before the function was entered, the next poll makes the call."""
        self.calling = False
        if not call.made:
            return
        if self.committer is not None and self.committer.callbacks and self.committer.callbacks[0] is call:
            self.committer.callbacks.popleft()
        if self.group is not None:
            self.group.called(call)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the identity that commits for the group. Raises KafkaError without a group.id."""
        return self._committer().member()

    async def commit(self, offsets: OffsetsGiven | None, timeout_s: float | None) -> None:
        """Commit the offsets, or the offsets after the records handed out, and wait for the commit."""
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        await self._committer().commit(self._offsets(offsets), timeout_ms)

    def commit_soon(self, offsets: OffsetsGiven | None, callback: CommitCallback | None) -> None:
        """Commit the offsets, or the offsets after the records handed out, without waiting."""
        self._committer().commit_soon(self._offsets(offsets), callback)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without."""
        return await self._committer().committed([checked_place(partition) for partition in partitions])

    def _committer(self) -> Committer:
        if self.committer is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group.id, which groups and committed offsets need")
        return self.committer

    def _offsets(self, given: OffsetsGiven | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if given is None:
            return self.consumed()
        return checked_offsets(given)

    def records_of_a_poll(self, wanted: int | None) -> int:
        """Return how many records a poll returns at most: `wanted`, or max.poll.records. Raises ValueError below 1."""
        if wanted is not None and wanted < 1:
            raise ValueError(f"max_records must be at least 1, not {wanted}")
        return self.max_poll_records if wanted is None else wanted

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the records that were handed out, each with the leader epoch of the record before it.

        Only partitions with a position are in the result.
        """
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, position in self.fetcher.positions.items():
            unread = self.hand_out.unread(partition)
            offset, epoch = unread or (position.offset, position.offset_epoch)
            if offset >= 0:
                offsets[partition] = OffsetAndMetadata(offset, epoch if epoch >= 0 else None)
        return offsets

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continue at the offset. Raises ValueError for an impossible offset or a partition that is not assigned, TypeError for no int."""
        if isinstance(offset, int) and offset < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("an offset must be at least 0; for the ends of the log use seek_to_beginning and seek_to_end")
        offset = checked_offset(offset)
        self.hand_out.take_back(partition)
        self.fetcher.seek(partition, offset, leader_epoch)
        self.wake()

    def seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Continue at the beginning (EARLIEST_TIMESTAMP) or the end (LATEST_TIMESTAMP), looked up when data is next wanted.

        Raises ValueError for a partition that is not assigned.
        """
        for partition in partitions:
            self.hand_out.take_back(partition)
            self.fetcher.seek_to(partition, timestamp)
        self.wake()

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Stop or resume reading partitions; they keep their positions. Raises ValueError for a partition that is not assigned."""
        for partition in partitions:
            if partition not in self.fetcher.positions:
                raise ValueError(f"{partition} is not assigned to this consumer")
            if paused:
                self._put_back(partition)
            self.fetcher.positions[partition].paused = paused
        self.wake()

    def assign_range(self, partition: TopicPartition, start: int, stop: int, topic_id: UUID | None = None) -> None:
        """Replace the assignment by the offsets [start, stop) of one partition. Nothing of the earlier assignment is kept.

        With `topic_id` the offsets count as read from the topic with that id.
        """
        self.assign([])
        known = self.cluster.metadata.view.topics.get(partition.topic)
        if topic_id is not None and known is not None and known.topic_id != topic_id:
            # The view may be older than the offsets. Only a later response shows whether their topic was deleted and created again.
            self.cluster.metadata.forget(partition.topic)
        self.assign([partition])
        self.fetcher.positions[partition].stop_offset = stop
        self.seek(partition, start)
        self.fetcher.positions[partition].read_topic_id = topic_id

    @property
    def at_rest(self) -> bool:
        """Return whether only ranges are assigned, all of them were read to their end, and no error waits to be raised."""
        busy = self._closed or self.fetcher.has_error or not self.hand_out.is_empty
        return not busy and all(position.is_finished for position in self.fetcher.positions.values())

    @property
    def closed(self) -> bool:
        """Return whether the engine is closed."""
        return self._closed

    def _put_back(self, partition: TopicPartition) -> None:
        """Take back the partition's records at hand; they are fetched again later."""
        unread = self.hand_out.take_back(partition)
        if unread is not None:
            self.fetcher.rewind(partition, unread.offset, unread.previous_epoch)

    async def position(self, partition: TopicPartition, timeout_s: float | None = None) -> int:
        """Return the offset of the next record of the partition that will be handed out; look it up if it is unknown.

        Does not wait for other partitions. Raises ValueError for a partition that is not assigned, NoOffsetForPartition, or ClientClosed.
        Raises KafkaError when brokers refuse, or do not answer within `timeout_s` seconds (default.api.timeout.ms).
        """
        limit_s = self._patience_ms / 1000 if timeout_s is None else timeout_s
        deadline = self._loop.time() + limit_s
        while True:
            position = self.fetcher.positions.get(partition)
            if position is None:
                raise ValueError(f"{partition} is not assigned to this consumer")
            at_hand = self.hand_out.next_offset(partition)
            if at_hand is not None or position.offset >= 0:
                return position.offset if at_hand is None else at_hand
            self._raise_closed()
            if position.error is not None:
                error, position.error = position.error, None
                raise error
            if self.fetcher.is_unpositioned(position):
                raise NoOffsetForPartition(partition)
            position.sought = True
            self._fetching.start(fetch=False)
            if not await self._wait_for_news(deadline):
                why = position.trouble
                code = ErrorCode.REQUEST_TIMED_OUT if why is None or timeout_s is not None else why.code
                text = "" if why is None else f" ({why})"
                raise KafkaError(code, f"the position in {partition}: no success within {int(limit_s * 1000)} ms{text}")

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the newest known leader epoch of the partition, -1 for none. Raises ValueError for a partition that is not assigned."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return self.fetcher.positions[partition].epoch

    def health(self) -> ConsumerHealth:
        """Return the state of the membership, the lag, and the time since the last poll."""
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
        """Return how many offsets the application is behind, None where unknown. Raises ValueError for a partition that is not assigned."""
        if partition not in self.fetcher.positions:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return self._lag(self.fetcher.positions[partition], self.consumed().get(partition))

    @staticmethod
    def _lag(position: Position, handed_out: OffsetAndMetadata | None) -> int | None:
        return None if position.end_offset < 0 or handed_out is None else max(position.end_offset - handed_out.offset, 0)

    # -- offsets --------------------------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the numbers of the topic's partitions."""
        return sorted((await self.cluster.topic(topic, allow_auto_create=self._auto_create)).partitions)

    async def list_topics(self) -> dict[str, TopicInfo]:
        """Return all topics by name."""

        async def attempt() -> dict[str, TopicInfo]:
            return dict(MetadataCache(0).update(await self.cluster.ask_metadata(None), 0).topics)

        return await self.cluster.retrying("the topics", attempt)

    async def offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """Return the offsets for the timestamp -2 (beginning) or -1 (end)."""
        listed = await list_offsets(self.cluster, dict.fromkeys(map(checked_place, partitions), timestamp), isolation=self.isolation)
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (Unix milliseconds); None where no such record exists."""
        checked = {checked_place(partition): checked_timestamp(time_ms) for partition, time_ms in times.items()}
        listed = await list_offsets(self.cluster, checked, isolation=self.isolation)
        return {
            partition: OffsetAndTimestamp(found.offset, found.timestamp, found.leader_epoch) if found.offset >= 0 else None
            for partition, found in listed.items()
        }

    # -- data -----------------------------------------------------------------------------------------------------------------------

    async def ready(self, timeout_s: float, *, decoded: bool = True) -> bool | Call:
        """Wait until a chunk is at hand, with `decoded` also its records. Hands out nothing.

        Returns False after `timeout_s` seconds without data. Returns a Call when the application has to make one: make it, report it with
        `called`, then call `ready` again. Raises KafkaError on failure.
        """
        deadline = self._loop.time() + timeout_s
        self._polled_ms = self.cluster.now_ms()
        try:
            while True:
                call = await self._serve(deadline)
                if call is not None:
                    return call
                self._undisturbed_until = self._loop.time() + _UNDISTURBED_S
                if self.hand_out.is_empty and not await self._wait_for_chunk(deadline):
                    if self._loop.time() >= deadline:
                        return False
                elif not decoded or await self._decode(deadline):
                    return True
                elif self._loop.time() >= deadline:
                    return False
        finally:
            if self.group is not None:
                self.group.poll_ended()

    @property
    def undisturbed(self) -> bool:
        """Return whether records at hand may be handed out without `ready`. May be called from any thread."""
        return not (self.calling or self._woken or self._closing) and self._loop.time() < self._undisturbed_until

    async def _serve(self, deadline: float) -> Call | None:
        """Do the group's work before records are handed out; return a call that the application has to make, or None."""
        if self.calling:
            raise OdradekError("poll() must not be called by a rebalance listener or a callback")
        self._raise_closed()
        self._raise_wakeup()
        if self.committer is None:
            return None
        if self.group is not None and self.group.is_departing:
            call = await self.unsubscribe(deadline - self._loop.time())
            if call is not None:
                return call
        if self.group is not None:
            call = await self.group.serve(deadline)
            if call is not None:
                return call
        elif self.committer.callbacks:
            return self.committer.callbacks[0]
        self.committer.commit_when_due(self.consumed)
        return None

    async def _decode(self, deadline: float) -> bool:
        """Decode the chunk at hand. Return False at the deadline, or when the chunk was removed by a seek or has no record to hand out."""
        chunk = self.hand_out.chunk
        if chunk is None or self.hand_out.is_decoded:
            return not self.hand_out.is_empty
        try:
            records = decode_chunk(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=self.check_crcs)
        except KafkaError:
            # The damaged chunk must not be skipped: the next poll raises the error again, unless the application seeks past the chunk.
            self._put_back(chunk.topic_partition)
            raise
        if self.deserializers is None:
            self.hand_out.decoded(records)
            return bool(records)
        if chunk is not self._prepared:
            prepare = self.deserializers.preparation(records)
            if prepare is not None and not await self._prepare(prepare, chunk, deadline):
                return False
        if self.hand_out.chunk is not chunk:
            return False
        self._prepared = None
        records, unreadable = self.deserializers.apply(records)
        if unreadable is not None:
            # Records before the unreadable record are handed out first; the next chunk begins with the unreadable record.
            self.fetcher.rewind(chunk.topic_partition, unreadable.offset, epoch_before(chunk, unreadable.offset))
            if not records:
                self.hand_out.clear()
                raise unreadable
        self.hand_out.decoded(records)
        return bool(records)

    async def _prepare(self, prepare: Callable[[], None], chunk: Chunk, deadline: float) -> bool:
        """Run the deserializers' blocking work in a thread; return False at the deadline. The poll after a cancelled one waits for it."""
        if self._preparing is None:
            self._preparing = asyncio.ensure_future(asyncio.to_thread(prepare))
        preparing = self._preparing
        await asyncio.wait({preparing}, timeout=max(deadline - self._loop.time(), 0.0))
        if not preparing.done():
            return False
        self._preparing, self._prepared = None, chunk
        preparing.result()
        return True

    async def next_batch(self, timeout_s: float, *, headers: bool) -> tuple[Chunk, ArrowBatch] | Call | None:
        """Return the chunk at hand, and the part of it that is not handed out as an Arrow batch with at least one row.

        Returns None after `timeout_s` seconds without rows, a Call as in `ready`. `hand_out.finish` hands the batch out. Raises
        OdradekError without pyarrow, or with deserializers.
        """
        need_pyarrow()
        if self.deserializers is not None:
            raise OdradekError("Arrow batches contain undecoded bytes: they need a consumer without deserializers")
        deadline = self._loop.time() + timeout_s
        while True:
            found = await self.ready(max(deadline - self._loop.time(), 0.0), decoded=False)
            if isinstance(found, Call):
                return found
            at_hand, chunk = self.hand_out.chunk, self.hand_out.rest()
            if at_hand is None or chunk is None:
                if not found:
                    return None
                continue
            try:
                batch = chunk_to_arrow(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=self.check_crcs, headers=headers)
            except KafkaError:
                # As in `_decode`: the chunk must not be skipped.
                self._put_back(chunk.topic_partition)
                raise
            if batch.num_rows:
                return at_hand, batch
            self.hand_out.clear()

    async def _wait_for_chunk(self, deadline: float) -> bool:
        """Put the next chunk at hand. Return False at the deadline, or when the group needs the application."""
        while True:
            self._raise_closed()
            self._raise_wakeup()
            self._fetching.start()
            if not self._told_error:
                self._raise_error()
            self._told_error = False
            chunk = self.fetcher.take_chunk()
            if chunk is not None:
                self.hand_out.put(chunk)
                self.wake()
                return True
            self._raise_error()
            if self._attention() or not await self._wait_for_news(deadline):
                return False

    def _raise_error(self) -> None:
        """Raise the next error for the application. After it, records that have arrived are handed out before another error is raised."""
        error = self.fetcher.next_error()
        if error is None and self.fetcher.seek_missing():
            unpositioned = self.fetcher.unpositioned()
            if unpositioned is not None:
                error = NoOffsetForPartition(unpositioned)
            else:
                error = self.fetcher.given_up(self.cluster.now_ms(), self._patience_ms)
        if error is not None:
            self._told_error = True
            self.wake()
            raise error

    async def _wait_for_news(self, deadline: float) -> bool:
        """Wait until something has changed; return False at the deadline."""
        left = deadline - self._loop.time()
        if left <= 0:
            return False
        self._news.clear()
        self.wake()
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _raise_closed(self) -> None:
        if self._closing:
            raise ClientClosed("the consumer is closed")

    def _raise_wakeup(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")

    def wakeup(self) -> None:
        """Let the poll that waits, or else the next poll, raise WakeupError. May be called from any thread."""
        self._woken = True
        with contextlib.suppress(RuntimeError):  # The loop is closed: no poll waits.
            self._loop.call_soon_threadsafe(self._news.set)

    def _attention(self) -> bool:
        if self.group is not None:
            return self.group.attention
        return self.committer is not None and bool(self.committer.callbacks)

    def wake(self) -> None:
        """Wake the fetching task."""
        self._fetching.wake()

    def end_polls(self) -> None:
        """Let waiting and later polls raise ClientClosed; no further record is handed out."""
        self._closing = True
        at_hand = self.hand_out.chunk
        if at_hand is not None:
            self._put_back(at_hand.topic_partition)
        self._news.set()

    async def close(self) -> None:
        """Stop fetching and close the connections. If a call is cancelled, closing goes on, and the next call waits for it."""
        self.end_polls()
        self._closed = True
        if self._teardown is None:
            self._teardown = asyncio.create_task(self._tear_down())
        await asyncio.shield(self._teardown)

    async def _tear_down(self) -> None:
        for leaving in self._departures:
            leaving.cancel()
        await asyncio.gather(*self._departures, return_exceptions=True)
        if self.group is not None:
            await self.group.close()
        if self.committer is not None:
            await self.committer.close()
        if self._coordinator is not None:
            await self._coordinator.close()
        await self._fetching.close()
        await self.cluster.close()
