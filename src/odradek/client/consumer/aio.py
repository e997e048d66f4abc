"""The asyncio consumer.

async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="group", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["topic"])
    async for record in consumer:
        ...
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from odradek.base.errors import ConfigError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.commits import CommitCallback, OffsetsGiven
from odradek.client.consumer.deserializers import Deserializer, take_deserializers
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.consumer.interceptors import take_interceptors
from odradek.client.consumer.listeners import Call, RebalanceListener
from odradek.client.consumer.settings import check_group_settings
from odradek.client.core.positions import Chunk
from odradek.client.core.reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.core.subscription import SubscriptionPattern
from odradek.client.metrics import MetricName
from odradek.client.settings.config import CONSUMER_CONFIG, ClientConfig, Setting, follow_references
from odradek.client.time_limit import within
from odradek.client.types import (
    ArrowBatch,
    ConsumerGroupMetadata,
    ConsumerHealth,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicInfo,
)

T = TypeVar("T")
CLOSE_TIMEOUT_MS = 30_000


class AsyncConsumer:
    """Consumer for asyncio; reads partitions that are assigned by hand or by a consumer group. To be used by one task at a time."""

    def __init__(self, config: Mapping[str, Setting | Deserializer] | None = None, /, **settings: Setting | Deserializer) -> None:
        """Take Kafka's keys in `config`, or as keyword arguments with underscores. Raises ConfigError, which names the invalid key.

        key.deserializer and value.deserializer are functions of bytes, or names (docs/consumer.md).
        """
        given: dict[str, Any] = {}
        for name, value in [*(config or {}).items(), *settings.items()]:
            if name in given:
                raise ConfigError(f"Configuration {name} is given twice")
            given[name] = value
        given = follow_references(given)
        self._deserializers = take_deserializers(given)
        self.interceptors = take_interceptors(given)
        self._config = ClientConfig(CONSUMER_CONFIG, given)
        check_group_settings(self._config)
        self._engine: ConsumerEngine | None = None

    async def start(self) -> Self:
        """Make the consumer ready; connections are made when they are needed."""
        if self._engine is None:
            self._engine = ConsumerEngine(self._config)
            self._engine.deserializers = self._deserializers
            self.take_over(self._engine)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def take_over(self, engine: ConsumerEngine) -> None:
        """Make the engine report its commits to the interceptors."""
        if self.interceptors is not None and engine.committer is not None:
            engine.committer.told = self.interceptors.on_commit

    @property
    def through(self) -> Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None:
        """Function that records pass before they are handed out, None without interceptors."""
        return None if self.interceptors is None else self.interceptors.on_consume

    @property
    def engine(self) -> ConsumerEngine:
        """Running engine. Raises OdradekError before `start`."""
        if self._engine is None:
            raise OdradekError("the consumer is not started: use `async with`, or await start()")
        return self._engine

    @property
    def _here(self) -> ConsumerEngine:
        """Running engine. Raises OdradekError before `start`, in a forked child, and in another event loop (`origin`)."""
        engine = self.engine
        engine.cluster.origin.check()
        return engine

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: RebalanceListener | object | None = None
    ) -> None:
        """Read the topics as a member of the group `group.id`, which the next poll joins. Replaces the earlier subscription.

        The client matches a compiled pattern against whole names whenever metadata is refreshed (metadata.max.age.ms). The broker matches a
        SubscriptionPattern (group.protocol=consumer). `listener`: see RebalanceListener; in an AsyncConsumer its methods may be coroutines.
        """
        self._here.subscribe(topics, listener)

    def subscription(self) -> set[str]:
        """Return the topics subscribed to; for a pattern, the topics that it matched."""
        return set(self.engine.subscription.topics)

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        await self._calling(lambda: self._here.unsubscribe(CLOSE_TIMEOUT_MS / 1000))

    def enforce_rebalance(self, reason: str = "rebalance enforced by the application") -> None:
        """Make the group rebalance with the next poll; without effect under group.protocol=consumer, as in Kafka.

        Raises OdradekError before subscribe().
        """
        if self._here.group is None:
            raise OdradekError("enforce_rebalance() needs subscribe() first")
        self._here.group.enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's identity in its group, for the offsets that a transactional producer sends.

        Raises KafkaError without a group.id.
        """
        return self.engine.group_metadata()

    async def commit(self, offsets: OffsetsGiven | None = None, timeout_ms: int | None = None) -> None:
        """Commit `offsets`, or the offsets after the records handed out, and wait for the commit (commitSync).

        Each offset is that of the next record to read. Errors that may pass are retried for `timeout_ms` milliseconds
        (default.api.timeout.ms). Raises CommitFailed when this consumer is not a member any more, KafkaError(REBALANCE_IN_PROGRESS) when
        poll() has to be called first.
        """
        await self._here.commit(offsets, None if timeout_ms is None else timeout_ms / 1000)

    def commit_async(self, offsets: OffsetsGiven | None = None, callback: CommitCallback | None = None) -> None:
        """Commit once, without waiting. A later poll() or close() calls `callback(offsets, error)`. Commits keep their order.

        Commits the offsets after the records handed out, unless `offsets` is given.
        """
        self._here.commit_soon(offsets, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without. Waits for offsets that an open transaction may still change.

        Here and below `timeout_ms` bounds the wait in milliseconds (by default default.api.timeout.ms). Raises
        KafkaError(REQUEST_TIMED_OUT) after that time.
        """
        return await within("committed offsets", timeout_ms, self._here.committed(partitions))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replace the assignment; partitions that stay keep their position."""
        self._here.assign(partitions)

    def assign_range(self, partition: TopicPartition, start: int, stop: int, topic_id: UUID | None = None) -> None:
        """Replace the assignment by the offsets [start, stop) of one partition, so that no later records are fetched.

        Nothing of the earlier assignment is kept, not even of the same partition. The last batch may reach beyond `stop`, and is handed out
        whole. A seek keeps `stop`. With `topic_id`, the offsets belong to the topic with that id. If the topic has another id, the consumer
        raises TopicRecreated under auto.offset.reset=none, and resets the position otherwise.
        """
        self._here.assign_range(partition, start, stop, topic_id)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions being read."""
        return set(self.engine.fetcher.positions)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continue at the offset.

        `leader_epoch` is the epoch that was committed with the offset, -1 where unknown. A leader older than that epoch is not believed
        when it says that the offset is out of range (KIP-320). Raises ValueError for a negative offset, or a partition that is not
        assigned.
        """
        self._here.seek(partition, offset, leader_epoch)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the newest leader epoch that the partition is known to have had, -1 for none; to be committed with the position.

        Raises ValueError for a partition that is not assigned.
        """
        return self.engine.leader_epoch(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue with the first record of the log, in all partitions if none is given."""
        self._here.seek_to(partitions or self.assignment(), EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue with the next record that is written, in all partitions if none is given."""
        self._here.seek_to(partitions or self.assignment(), LATEST_TIMESTAMP)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop handing out records of these partitions. Raises ValueError for a partition that is not assigned."""
        self._here.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue these partitions after `pause`. Raises ValueError for a partition that is not assigned."""
        self._here.pause(partitions, paused=False)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that `pause` stopped."""
        return {partition for partition, position in self.engine.fetcher.positions.items() if position.paused}

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that will be handed out; wait until it is known."""
        return await self._here.position(partition, None if timeout_ms is None else timeout_ms / 1000)

    def health(self) -> ConsumerHealth:
        """Return the state of the membership, the lag, and the time since the last poll, without asking a broker."""
        return self.engine.health()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the application is behind the partition's end in the last response; None where unknown.

        Raises ValueError for a partition that is not assigned.
        """
        return self.engine.current_lag(partition)

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the numbers of the topic's partitions."""
        return await within(f"the partitions of {topic}", timeout_ms, self._here.partitions_for(topic))

    async def list_topics(self, timeout_ms: int | None = None) -> dict[str, TopicInfo]:
        """Return all topics that this client may see, including Kafka's internal topics."""
        return await within("the topics", timeout_ms, self._here.list_topics())

    async def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return await within("the offsets", timeout_ms, self._here.offsets_at(partitions, EARLIEST_TIMESTAMP))

    async def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Return, for each partition, the offset after the last record that can be read."""
        return await within("the offsets", timeout_ms, self._here.offsets_at(partitions, LATEST_TIMESTAMP))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (Unix milliseconds); None where no such record exists."""
        return await within("the offsets", timeout_ms, self._here.offsets_for_times(times))

    async def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` milliseconds without records.

        A member of a group has to call poll again within max.poll.interval.ms. Rebalances, listeners and automatic commits run within poll.
        """
        engine = self._here
        limit = engine.records_of_a_poll(max_records)
        await self._polling(timeout_ms, engine.ready)
        return engine.hand_out.take(limit, self.through)

    def wakeup(self) -> None:
        """Let the poll that waits now, or else the next poll, raise WakeupError.

        May be called from any thread, and from signal handlers.
        """
        self.engine.wakeup()

    async def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """Return the next batches as fetched, undecoded; None after `timeout_ms` milliseconds without batches."""
        engine = self._here
        await self._polling(timeout_ms, lambda left: engine.ready(left, decoded=False))
        return engine.hand_out.take_chunk()

    async def next_batch(self, timeout_ms: int = 1000, *, headers: bool = False) -> ArrowBatch | None:
        """Return the next records of one partition as Arrow columns, without a Python object per record.

        Returns None after `timeout_ms` milliseconds without records. Columns: key and value (binary), topic (string), partition (int32),
        offset (int64), timestamp (microseconds, UTC), timestampType (int32), and with `headers` also headers (list of structs of key and
        value).

        A batch has as many records as one response had of the partition (max.partition.fetch.bytes); max.poll.records has no effect.
        Rebalances, listeners and automatic commits run here as in `poll`. Raises OdradekError without pyarrow, or with deserializers.
        """
        engine = self._here
        found = await self._polling(timeout_ms, lambda left: engine.next_batch(left, headers=headers))
        if found is None:
            return None
        chunk, batch = found
        engine.hand_out.finish(chunk)
        return batch

    async def batches(self, *, headers: bool = False) -> AsyncIterator[ArrowBatch]:
        """Yield the results of `next_batch` without end."""
        while True:
            batch = await self.next_batch(3_600_000, headers=headers)
            if batch is not None:
                yield batch

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        engine = self._here
        while True:
            await self._polling(3_600_000, engine.ready)
            for record in engine.hand_out.draw(engine.max_poll_records, self.through):
                yield record

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics under Kafka's names: rates per second, times in milliseconds, sizes in bytes."""
        return self.engine.cluster.metrics()

    async def _polling(self, timeout_ms: int, step: Callable[[float], Awaitable[T | Call]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        return await self._calling(lambda: step(max(deadline - loop.time(), 0.0)))

    async def _calling(self, step: Callable[[], Awaitable[T | Call]]) -> T:
        """Repeat `step`, and make the application's calls that it returns, until it returns something else."""
        while True:
            outcome = await step()
            if not isinstance(outcome, Call):
                return outcome
            try:
                self._here.calling = True
                await outcome.make_async()
            finally:
                self._here.called(outcome)

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit the records handed out if commits are automatic, give up the partitions, leave the group, and close the connections.

        `leave_group` (KIP-1092): False stays a member until the session runs out, True leaves even where a static member would stay. An
        error of a listener is raised when everything is closed.
        """
        if self._engine is None or self._engine.closed:
            return
        engine, loop = self._here, asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        failure: Exception | None = None
        try:
            while (call := await engine.prepare_close(max(deadline - loop.time(), 0.0), leave_group)) is not None:
                try:
                    engine.calling = True
                    await call.make_async()
                except Exception as error:
                    failure = failure or error
                finally:
                    engine.called(call)
        finally:
            await engine.close()
            if self.interceptors is not None:
                self.interceptors.close()
        if failure is not None:
            raise failure
