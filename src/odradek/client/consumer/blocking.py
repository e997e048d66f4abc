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
from odradek.client.config import Setting
from odradek.client.consumer.aio import CLOSE_TIMEOUT_MS, AsyncConsumer
from odradek.client.consumer.commits import CommitCallback, OffsetsGiven
from odradek.client.consumer.deserializers import Deserializer
from odradek.client.consumer.listeners import Call, RebalanceListener
from odradek.client.core.positions import Chunk
from odradek.client.core.subscription import SubscriptionPattern
from odradek.client.loop_thread import shared_loop
from odradek.client.metrics import MetricName
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
    """As `AsyncConsumer`, for code without an event loop. Heartbeats are sent by a thread of the client; listeners and callbacks run in the
    thread that calls poll(), unsubscribe() or close(). To be used by one thread at a time.
    """

    def __init__(self, config: Mapping[str, Setting | Deserializer] | None = None, /, **settings: Setting | Deserializer) -> None:
        """Keys as `AsyncConsumer` has them; ConfigError names one that does not fit."""
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
        """Reads the topics as a member of the group `group.id`, which it joins with the next poll; replaces what it read before.

        A compiled pattern is matched here against whole names, whenever metadata is refreshed (metadata.max.age.ms). A SubscriptionPattern
        is matched by the broker (group.protocol=consumer). `listener`: see RebalanceListener.
        """
        self._do(lambda: self._consumer.subscribe(topics, listener))

    def subscription(self) -> set[str]:
        """The topics subscribed to, those that the pattern matched if it was one."""
        return self._consumer.subscription()

    def unsubscribe(self) -> None:
        """Gives up all partitions and leaves the group."""
        engine = self._consumer.engine
        self._calling(lambda: engine.unsubscribe(CLOSE_TIMEOUT_MS / 1000))

    def enforce_rebalance(self, reason: str = "rebalance enforced by the application") -> None:
        """Makes the group rebalance, with the next poll; without effect under group.protocol=consumer, as in Kafka."""
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is to its group: for the offsets that a transactional producer sends."""
        return self._consumer.group_metadata()

    def commit(self, offsets: OffsetsGiven | None = None, timeout_ms: int | None = None) -> None:
        """Commits the offsets given (of the next record to read), or what was handed out, and waits for it (commitSync).

        What may heal is tried again for `timeout_ms` (default.api.timeout.ms). CommitFailed when this consumer is no member any more;
        KafkaError(REBALANCE_IN_PROGRESS) when poll() has to be called first.
        """
        self._thread.run(lambda: self._consumer.commit(offsets, timeout_ms))

    def commit_async(self, offsets: OffsetsGiven | None = None, callback: CommitCallback | None = None) -> None:
        """Commits without waiting, once. `callback(offsets, error)` is called in a later poll() or close(). Commits keep their order."""
        self._do(lambda: self._consumer.commit_async(offsets, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None where there is none. Waits for those that an open transaction may still change.

        Here and below `timeout_ms` bounds the wait, default.api.timeout.ms where it is not given; KafkaError(REQUEST_TIMED_OUT).
        """
        return self._thread.run(lambda: self._consumer.committed(partitions, timeout_ms))

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        self._do(lambda: self._consumer.assign(partitions))

    def assign_range(self, partition: TopicPartition, start: int, stop: int, topic_id: UUID | None = None) -> None:
        """Replaces the assignment by the offsets [start, stop) of one partition, so that who reads a part of it does not fetch what comes
        behind; nothing of the assignment before is kept. The last batch may reach beyond, and is handed out whole. A seek leaves the end.
        With `topic_id`, the offsets are of that topic: one of another id is not read, and raises TopicRecreated.
        """
        self._do(lambda: self._consumer.assign_range(partition, start, stop, topic_id))

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read."""
        return self._consumer.assignment()

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at the offset. With the `leader_epoch` that was committed beside it, a leader of before that epoch is not believed that
        the offset is out of range (KIP-320); -1 where it is not known.
        """
        self._do(lambda: self._consumer.seek(partition, offset, leader_epoch))

    @property
    def at_rest(self) -> bool:
        """Whether nothing is assigned but ranges that were read to their end, and no error waits to be raised. Asks no broker."""
        return self._consumer.engine.at_rest

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch in which what was read of the partition was written, -1 for none; to be committed beside the position."""
        return self._consumer.leader_epoch(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues with the first record there is (of all partitions when none is named)."""
        self._do(lambda: self._consumer.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues with the next record written (of all partitions when none is named)."""
        self._do(lambda: self._consumer.seek_to_end(*partitions))

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops handing out records of partitions."""
        self._do(lambda: self._consumer.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Continues after `pause`."""
        self._do(lambda: self._consumer.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` stopped."""
        return self._consumer.paused()

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Offset of the next record that will be handed out."""
        return self._thread.run(lambda: self._consumer.position(partition, timeout_ms))

    def health(self) -> ConsumerHealth:
        """State of the membership, lag, time since the last poll; asks no broker."""
        return self._consumer.health()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the application is behind the end of the partition, as the last answer said; None where that is not known."""
        return self._consumer.current_lag(partition)

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """The numbers of the topic's partitions."""
        return self._thread.run(lambda: self._consumer.partitions_for(topic, timeout_ms))

    def list_topics(self, timeout_ms: int | None = None) -> dict[str, TopicInfo]:
        """All topics that this client may see, Kafka's own among them."""
        return self._thread.run(lambda: self._consumer.list_topics(timeout_ms))

    def beginning_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return self._thread.run(lambda: self._consumer.beginning_offsets(partitions, timeout_ms))

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, per partition."""
        return self._thread.run(lambda: self._consumer.end_offsets(partitions, timeout_ms))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix milliseconds); None where there is none."""
        return self._thread.run(lambda: self._consumer.offsets_for_times(times, timeout_ms))

    def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` without any.

        A member of a group has to call it again within max.poll.interval.ms. Rebalances, listeners and automatic commits belong to it.
        """
        engine = self._consumer.engine
        limit, through = max_records or engine.max_poll_records, self._consumer.through
        if not (engine.undisturbed and engine.hand_out.has_records):
            self._polling(timeout_ms, engine.ready)
        return engine.hand_out.take(limit, through)

    def wakeup(self) -> None:
        """The poll that waits now, or else the next one, raises WakeupError. From any thread, and from signal handlers."""
        self._consumer.wakeup()

    def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """The next batches as fetched, undecoded; None after `timeout_ms` without any."""
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
        """The next records of one partition as Arrow columns; see `AsyncConsumer.next_batch`."""
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
        """`next_batch` for ever."""
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
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        metrics = self._consumer.metrics

        async def call() -> dict[MetricName, float]:
            return metrics()

        return self._thread.run(call)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS, *, leave_group: bool | None = None) -> None:
        """Commits what was handed out if that is automatic, gives up the partitions, leaves the group, and closes the connections.

        `leave_group` (KIP-1092): False stays a member until the session runs out, True leaves also where a static member would stay.
        What a listener raises is raised when all is closed.
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
        """Repeats `step` until it gives no more functions of the application to call."""
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
                # Without waiting, which a Ctrl-C could end before the loop has heard of it.
                self._thread.call_soon(engine.called, call)
        except BaseException:
            # A Ctrl-C may have come before the line above; to be told twice changes nothing.
            self._thread.call_soon(engine.called, call)
            raise

    def _do(self, action: Callable[[], None]) -> None:
        async def call() -> None:
            action()

        self._thread.run(call)
