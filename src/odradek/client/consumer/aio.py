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
from odradek.client.config import CONSUMER_CONFIG, ClientConfig, Setting, follow_references
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
from odradek.client.settling import within
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
    """Reads partitions that it is assigned, by hand or as a member of a consumer group. To be used by one task at a time."""

    def __init__(self, config: Mapping[str, Setting | Deserializer] | None = None, /, **settings: Setting | Deserializer) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit.

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
        """Makes the consumer ready; connections are made when they are needed."""
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
        """The interceptors hear of the engine's commits."""
        if self.interceptors is not None and engine.committer is not None:
            engine.committer.told = self.interceptors.on_commit

    @property
    def through(self) -> Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None:
        """What records pass before they are handed out, None for nothing."""
        return None if self.interceptors is None else self.interceptors.on_consume

    @property
    def engine(self) -> ConsumerEngine:
        """The running engine; OdradekError before `start`."""
        if self._engine is None:
            raise OdradekError("the consumer is not started: use `async with`, or await start()")
        return self._engine

    @property
    def _here(self) -> ConsumerEngine:
        """The running engine; OdradekError before `start`, in a forked child and in another event loop (`origin`)."""
        engine = self.engine
        engine.cluster.origin.check()
        return engine

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: RebalanceListener | object | None = None
    ) -> None:
        """Reads the topics as a member of the group `group.id`, which it joins with the next poll; replaces what it read before.

        A compiled pattern is matched here against whole names, whenever metadata is refreshed (metadata.max.age.ms). A SubscriptionPattern
        is matched by the broker (group.protocol=consumer). `listener`: see RebalanceListener; its methods may be coroutines.
        """
        self._here.subscribe(topics, listener)

    def subscription(self) -> set[str]:
        """The topics subscribed to, those that the pattern matched if it was one."""
        return set(self.engine.subscription.topics)

    async def unsubscribe(self) -> None:
        """Gives up all partitions and leaves the group."""
        await self._calling(lambda: self._here.unsubscribe(CLOSE_TIMEOUT_MS / 1000))

    def enforce_rebalance(self, reason: str = "rebalance enforced by the application") -> None:
        """Makes the group rebalance, with the next poll; without effect under group.protocol=consumer, as in Kafka."""
        if self._here.group is None:
            raise OdradekError("enforce_rebalance() needs subscribe() first")
        self._here.group.enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is to its group: for the offsets that a transactional producer sends."""
        return self.engine.group_metadata()

    async def commit(self, offsets: OffsetsGiven | None = None, timeout_ms: int | None = None) -> None:
        """Commits the offsets given (of the next record to read), or what was handed out, and waits for it (commitSync).

        What may heal is tried again for `timeout_ms` (default.api.timeout.ms). CommitFailed when this consumer is no member any more;
        KafkaError(REBALANCE_IN_PROGRESS) when poll() has to be called first.
        """
        await self._here.commit(offsets, None if timeout_ms is None else timeout_ms / 1000)

    def commit_async(self, offsets: OffsetsGiven | None = None, callback: CommitCallback | None = None) -> None:
        """Commits without waiting, once. `callback(offsets, error)` is called in a later poll() or close(). Commits keep their order."""
        self._here.commit_soon(offsets, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None where there is none. Waits for those that an open transaction may still change.

        Here and below `timeout_ms` bounds the wait, default.api.timeout.ms where it is not given; KafkaError(REQUEST_TIMED_OUT).
        """
        return await within("committed offsets", timeout_ms, self._here.committed(partitions))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        self._here.assign(TopicPartition(*partition) for partition in partitions)

    def assign_range(self, partition: TopicPartition, start: int, stop: int, topic_id: UUID | None = None) -> None:
        """Replaces the assignment by the offsets [start, stop) of one partition, so that who reads a part of it does not fetch what comes
        behind; nothing of the assignment before is kept. The last batch may reach beyond, and is handed out whole. A seek leaves the end.
        With `topic_id`, the offsets are of that topic: one of another id is not read, and raises TopicRecreated.
        """
        self._here.assign_range(partition, start, stop, topic_id)

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read."""
        return set(self.engine.fetcher.positions)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at the offset. With the `leader_epoch` that was committed beside it, a leader of before that epoch is not believed that
        the offset is out of range (KIP-320); -1 where it is not known.
        """
        self._here.seek(partition, offset, leader_epoch)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch in which what was read of the partition was written, -1 for none; to be committed beside the position."""
        return self.engine.leader_epoch(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues with the first record there is (of all partitions when none is named)."""
        self._here.seek_to(partitions or self.assignment(), EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues with the next record written (of all partitions when none is named)."""
        self._here.seek_to(partitions or self.assignment(), LATEST_TIMESTAMP)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops handing out records of partitions."""
        self._here.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continues after `pause`."""
        self._here.pause(partitions, paused=False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return {partition for partition, position in self.engine.fetcher.positions.items() if position.paused}

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Offset of the next record that will be handed out."""
        return await self._here.position(partition, None if timeout_ms is None else timeout_ms / 1000)

    def health(self) -> ConsumerHealth:
        """State of the membership, lag, time since the last poll; asks no broker."""
        return self.engine.health()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the application is behind the end of the partition, as the last answer said; None where that is not known."""
        return self.engine.current_lag(partition)

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """The numbers of the topic's partitions."""
        return await within(f"the partitions of {topic}", timeout_ms, self._here.partitions_for(topic))

    async def list_topics(self, timeout_ms: int | None = None) -> dict[str, TopicInfo]:
        """All topics that this client may see, Kafka's own among them."""
        return await within("the topics", timeout_ms, self._here.list_topics())

    async def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return await within("the offsets", timeout_ms, self._here.offsets_at(partitions, EARLIEST_TIMESTAMP))

    async def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, per partition."""
        return await within("the offsets", timeout_ms, self._here.offsets_at(partitions, LATEST_TIMESTAMP))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix milliseconds); None where there is none."""
        return await within("the offsets", timeout_ms, self._here.offsets_for_times(times))

    async def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` without any.

        A member of a group has to call it again within max.poll.interval.ms. Rebalances, listeners and automatic commits belong to it.
        """
        engine = self._here
        await self._polling(timeout_ms, engine.ready)
        return engine.hand_out.take(max_records or engine.max_poll_records, self.through)

    def wakeup(self) -> None:
        """The poll that waits now, or else the next one, raises WakeupError. From any thread, and from signal handlers."""
        self.engine.wakeup()

    async def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """The next batches as fetched, undecoded; None after `timeout_ms` without any."""
        engine = self._here
        await self._polling(timeout_ms, lambda left: engine.ready(left, decoded=False))
        return engine.hand_out.take_chunk()

    async def next_batch(self, timeout_ms: int = 1000, *, headers: bool = False) -> ArrowBatch | None:
        """The next records of one partition as Arrow columns, without a Python object per record; None after `timeout_ms` without any.

        Columns: key and value (binary), topic (string), partition (int32), offset (int64), timestamp (microseconds, UTC), timestampType
        (int32), and with `headers` also headers (list of structs of key and value). As many records as one answer of a broker had of the
        partition (max.partition.fetch.bytes); max.poll.records bounds nothing here. What else `poll` does belongs to it, too.
        OdradekError without pyarrow, or with deserializers.
        """
        engine = self._here
        found = await self._polling(timeout_ms, lambda left: engine.next_batch(left, headers=headers))
        if found is None:
            return None
        chunk, batch = found
        engine.hand_out.finish(chunk)
        return batch

    async def batches(self, *, headers: bool = False) -> AsyncIterator[ArrowBatch]:
        """`next_batch` for ever."""
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
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        return self.engine.cluster.metrics()

    async def _polling(self, timeout_ms: int, step: Callable[[float], Awaitable[T | Call]]) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        return await self._calling(lambda: step(max(deadline - loop.time(), 0.0)))

    async def _calling(self, step: Callable[[], Awaitable[T | Call]]) -> T:
        """Repeats `step` until it gives no more functions of the application to call."""
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
        """Commits what was handed out if that is automatic, gives up the partitions, leaves the group, and closes the connections.

        `leave_group` (KIP-1092): False stays a member until the session runs out, True leaves also where a static member would stay.
        What a listener raises is raised when all is closed.
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
