"""The blocking consumer.

with Consumer(bootstrap_servers="localhost:9092", group_id="group", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["topic"])
    for record in consumer:
        ...
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.client.calls.loop_thread import shared_loop
from odradek.client.consumer.aio import CLOSE_TIMEOUT_MS, AsyncConsumer
from odradek.client.consumer.commits import CommitCallback, OffsetsGiven
from odradek.client.consumer.deserializers import Deserializer
from odradek.client.consumer.listeners import Call, RebalanceListener
from odradek.client.core.positions import Chunk
from odradek.client.core.subscription import SubscriptionPattern
from odradek.client.metrics import MetricName
from odradek.client.settings.config import Setting
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


class Consumer:
    """Consumer like `AsyncConsumer`, for code without an event loop. To be used by one thread at a time.

    A thread of the client sends heartbeats. Listeners and callbacks run in the thread that calls poll(), unsubscribe() or close().
    """

    def __init__(self, config: Mapping[str, Setting | Deserializer] | None = None, /, **settings: Setting | Deserializer) -> None:
        """Take the keys of `AsyncConsumer`. Raises ConfigError, which names the invalid key."""
        self._consumer = AsyncConsumer(config, **settings)
        self._thread = shared_loop()
        self._thread.run(self._consumer.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def subscribe(
        self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern, listener: RebalanceListener | object | None = None
    ) -> None:
        """Read the topics as a member of the group `group.id`, which the next poll joins. Replaces the earlier subscription.

        The client matches a compiled pattern against whole names whenever metadata is refreshed (metadata.max.age.ms). The broker matches a
        SubscriptionPattern (group.protocol=consumer). `listener`: see RebalanceListener.
        """
        self._do(lambda: self._consumer.subscribe(topics, listener))

    def subscription(self) -> set[str]:
        """Return the topics subscribed to; for a pattern, the topics that it matched."""
        return self._consumer.subscription()

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        engine = self._consumer.engine
        self._calling(lambda: engine.unsubscribe(CLOSE_TIMEOUT_MS / 1000))

    def enforce_rebalance(self, reason: str = "rebalance enforced by the application") -> None:
        """Make the group rebalance with the next poll; without effect under group.protocol=consumer, as in Kafka.

        Raises OdradekError before subscribe().
        """
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the consumer's identity in its group, for the offsets that a transactional producer sends.

        Raises KafkaError without a group.id.
        """
        return self._consumer.group_metadata()

    def commit(self, offsets: OffsetsGiven | None = None, timeout_ms: int | None = None) -> None:
        """Commit `offsets`, or the offsets after the records handed out, and wait for the commit (commitSync).

        Each offset is that of the next record to read. Errors that may pass are retried for `timeout_ms` milliseconds
        (default.api.timeout.ms). Raises CommitFailed when this consumer is not a member any more, KafkaError(REBALANCE_IN_PROGRESS) when
        poll() has to be called first.
        """
        self._thread.run(lambda: self._consumer.commit(offsets, timeout_ms))

    def commit_async(self, offsets: OffsetsGiven | None = None, callback: CommitCallback | None = None) -> None:
        """Commit once, without waiting. A later poll() or close() calls `callback(offsets, error)`. Commits keep their order.

        Commits the offsets after the records handed out, unless `offsets` is given.
        """
        self._do(lambda: self._consumer.commit_async(offsets, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without. Waits for offsets that an open transaction may still change.

        Here and below `timeout_ms` bounds the wait in milliseconds (by default default.api.timeout.ms). Raises
        KafkaError(REQUEST_TIMED_OUT) after that time.
        """
        return self._thread.run(lambda: self._consumer.committed(partitions, timeout_ms))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replace the assignment; partitions that stay keep their position."""
        self._do(lambda: self._consumer.assign(partitions))

    def assign_range(self, partition: TopicPartition, start: int, stop: int, topic_id: UUID | None = None) -> None:
        """Replace the assignment by the offsets [start, stop) of one partition, so that no later records are fetched.

        Nothing of the earlier assignment is kept, not even of the same partition. The last batch may reach beyond `stop`, and is handed out
        whole. A seek keeps `stop`. With `topic_id`, the offsets belong to the topic with that id. If the topic has another id, the consumer
        raises TopicRecreated under auto.offset.reset=none, and resets the position otherwise.
        """
        self._do(lambda: self._consumer.assign_range(partition, start, stop, topic_id))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions being read."""
        return self._consumer.assignment()

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continue at the offset.

        `leader_epoch` is the epoch that was committed with the offset, -1 where unknown. A leader older than that epoch is not believed
        when it says that the offset is out of range (KIP-320). Raises ValueError for a negative offset, or a partition that is not
        assigned.
        """
        self._do(lambda: self._consumer.seek(partition, offset, leader_epoch))

    @property
    def at_rest(self) -> bool:
        """Return whether only ranges are assigned, all of them were read to their end, and no error waits to be raised. Asks no broker."""
        return self._consumer.engine.at_rest

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the newest leader epoch that the partition is known to have had, -1 for none; to be committed with the position.

        Raises ValueError for a partition that is not assigned.
        """
        return self._consumer.leader_epoch(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue with the first record of the log, in all partitions if none is given."""
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue with the next record that is written, in all partitions if none is given."""
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop handing out records of these partitions. Raises ValueError for a partition that is not assigned."""
        self._do(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue these partitions after `pause`. Raises ValueError for a partition that is not assigned."""
        self._do(lambda: self._consumer.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that `pause` stopped."""
        return self._consumer.paused()

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that will be handed out; wait until it is known."""
        return self._thread.run(lambda: self._consumer.position(partition, timeout_ms))

    def health(self) -> ConsumerHealth:
        """Return the state of the membership, the lag, and the time since the last poll, without asking a broker."""
        return self._consumer.health()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets the application is behind the partition's end in the last response; None where unknown.

        Raises ValueError for a partition that is not assigned.
        """
        return self._consumer.current_lag(partition)

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the numbers of the topic's partitions."""
        return self._thread.run(lambda: self._consumer.partitions_for(topic, timeout_ms))

    def list_topics(self, timeout_ms: int | None = None) -> dict[str, TopicInfo]:
        """Return all topics that this client may see, including Kafka's internal topics."""
        return self._thread.run(lambda: self._consumer.list_topics(timeout_ms))

    def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return self._thread.run(lambda: self._consumer.beginning_offsets(partitions, timeout_ms))

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Return, for each partition, the offset after the last record that can be read."""
        return self._thread.run(lambda: self._consumer.end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (Unix milliseconds); None where no such record exists."""
        return self._thread.run(lambda: self._consumer.offsets_for_times(times, timeout_ms))

    def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` milliseconds without records.

        A member of a group has to call poll again within max.poll.interval.ms. Rebalances, listeners and automatic commits run within poll.
        """
        engine = self._consumer.engine
        limit, through = engine.records_of_a_poll(max_records), self._consumer.through
        if not (engine.undisturbed and engine.hand_out.has_records):
            self._polling(timeout_ms, engine.ready)
        return engine.hand_out.take(limit, through)

    def wakeup(self) -> None:
        """Let the poll that waits now, or else the next poll, raise WakeupError.

        May be called from any thread, and from signal handlers.
        """
        self._consumer.wakeup()

    def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """Return the next batches as fetched, undecoded; None after `timeout_ms` milliseconds without batches."""
        engine, deadline = self._consumer.engine, time.monotonic() + timeout_ms / 1000
        while self._polling_until(deadline, lambda left: engine.ready(left, decoded=False)):
            mark = engine.hand_out.mark()
            try:
                chunk = engine.hand_out.take_chunk()
                if chunk is not None:
                    return chunk
            except BaseException:
                engine.hand_out.back_to(mark)
                raise
        return None

    def next_batch(self, timeout_ms: int = 1000, *, headers: bool = False) -> ArrowBatch | None:
        """Return the next records of one partition as Arrow columns; see `AsyncConsumer.next_batch`."""
        engine, deadline = self._consumer.engine, time.monotonic() + timeout_ms / 1000
        while found := self._polling_until(deadline, lambda left: engine.next_batch(left, headers=headers)):
            mark = engine.hand_out.mark()
            try:
                chunk, batch = found
                if engine.hand_out.finish(chunk):
                    return batch
            except BaseException:
                engine.hand_out.back_to(mark)
                raise
        return None

    def batches(self, *, headers: bool = False) -> Iterator[ArrowBatch]:
        """Yield the results of `next_batch` without end."""
        while True:
            batch = self.next_batch(3_600_000, headers=headers)
            if batch is not None:
                yield batch

    def __iter__(self) -> Iterator[ConsumerRecord]:
        engine = self._consumer.engine
        while True:
            if not (engine.undisturbed and engine.hand_out.has_records):
                self._polling(3_600_000, engine.ready)
            yield from engine.hand_out.draw(engine.max_poll_records, self._consumer.through)

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics under Kafka's names: rates per second, times in milliseconds, sizes in bytes."""
        metrics = self._consumer.metrics

        async def call() -> dict[MetricName, float]:
            return metrics()

        return self._thread.run(call)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commit the records handed out if commits are automatic, give up the partitions, leave the group, and close the connections.

        `leave_group` (KIP-1092): False stays a member until the session runs out, True leaves even where a static member would stay. An
        error of a listener is raised when everything is closed.
        """
        engine, failure = self._consumer.engine, None
        if engine.closed:
            return
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            while call := self._thread.run(lambda: engine.prepare_close(max(deadline - time.monotonic(), 0.0), leave_group)):
                try:
                    self._make(call)
                except Exception as error:
                    failure = failure or error
        finally:
            self._thread.run(engine.close)
            if self._consumer.interceptors is not None:
                self._consumer.interceptors.close()
        if failure is not None:
            raise failure

    def _polling(self, timeout_ms: int, step: Callable[[float], Awaitable[T | Call]]) -> T:
        return self._polling_until(time.monotonic() + timeout_ms / 1000, step)

    def _polling_until(self, deadline: float, step: Callable[[float], Awaitable[T | Call]]) -> T:
        return self._calling(lambda: step(max(deadline - time.monotonic(), 0.0)))

    def _calling(self, step: Callable[[], Awaitable[T | Call]]) -> T:
        """Repeat `step`, and make the application's calls that it returns, until it returns something else."""
        while True:
            outcome = self._thread.run(step)
            if not isinstance(outcome, Call):
                return outcome
            self._make(outcome)

    def _make(self, call: Call) -> None:
        engine = self._consumer.engine
        try:
            try:
                engine.calling = True
                call.make()
            finally:
                # Do not wait: a Ctrl-C could end the wait before the loop has heard of the call.
                self._thread.call_soon(engine.called, call)
        except BaseException:
            # A Ctrl-C may have come before the line above; a second report changes nothing.
            self._thread.call_soon(engine.called, call)
            raise

    def _do(self, action: Callable[[], None]) -> None:
        async def call() -> None:
            action()

        self._thread.run(call)
