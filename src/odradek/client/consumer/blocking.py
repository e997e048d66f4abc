"""The blocking consumer, without groups so far.

with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
    consumer.assign([TopicPartition("topic", 0)])
    for record in consumer:
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Never, Self

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.config import Setting
from odradek.client.consumer.aio import NO_GROUPS_YET, AsyncConsumer
from odradek.client.core.fetcher import Chunk
from odradek.client.loop_thread import shared_loop
from odradek.client.metrics import MetricName
from odradek.client.types import ConsumerRecord, OffsetAndTimestamp


class Consumer:
    """As `AsyncConsumer`, for code without an event loop."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit."""
        self._consumer = AsyncConsumer(config, **settings)
        self._thread = shared_loop()
        self._thread.run(self._consumer.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def subscribe(self, *_topics: Any) -> Never:
        """Not there yet: OdradekError."""
        raise OdradekError(NO_GROUPS_YET)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        self._do(lambda: self._consumer.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read."""
        return self._consumer.assignment()

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at the offset. With the `leader_epoch` that was committed beside it, a leader of before that epoch is not believed that
        the offset is out of range (KIP-320); -1 where it is not known.
        """
        self._do(lambda: self._consumer.seek(partition, offset, leader_epoch))

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

    def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that will be handed out."""
        return self._thread.run(lambda: self._consumer.position(partition))

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        return self._thread.run(lambda: self._consumer.partitions_for(topic))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return self._thread.run(lambda: self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, per partition."""
        return self._thread.run(lambda: self._consumer.end_offsets(partitions))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix milliseconds); None where there is none."""
        return self._thread.run(lambda: self._consumer.offsets_for_times(times))

    def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` without any."""
        return self._thread.run(lambda: self._consumer.poll(timeout_ms, max_records))

    def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """The next batches as fetched, undecoded; None after `timeout_ms` without any. Not to be mixed with `poll`."""
        return self._thread.run(lambda: self._consumer.next_chunk(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield from self.poll(3_600_000)

    def metrics(self) -> dict[MetricName, float]:
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        metrics = self._consumer.metrics

        async def call() -> dict[MetricName, float]:
            return metrics()

        return self._thread.run(call)

    def close(self) -> None:
        """Stops and closes the connections."""
        self._thread.run(self._consumer.close)

    def _do(self, action: Callable[[], None]) -> None:
        async def call() -> None:
            action()

        self._thread.run(call)
