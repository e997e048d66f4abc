"""The asyncio consumer, without groups so far.

async with AsyncConsumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
    consumer.assign([TopicPartition("topic", 0)])
    async for record in consumer:
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Never, Self

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.config import CONSUMER_CONFIG, ClientConfig, Setting
from odradek.client.consumer.engine import ConsumerEngine
from odradek.client.core.fetcher import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Chunk
from odradek.client.metrics import MetricName
from odradek.client.types import ConsumerRecord, OffsetAndTimestamp

NO_GROUPS_YET = "this client has no consumer groups yet: use assign() with the partitions to read"


class AsyncConsumer:
    """Reads assigned partitions from positions of its own."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit."""
        self._config = ClientConfig(CONSUMER_CONFIG, config, **settings)
        self._engine: ConsumerEngine | None = None

    async def start(self) -> Self:
        """Makes the consumer ready; connections are made when they are needed."""
        if self._engine is None:
            self._engine = ConsumerEngine(self._config)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def engine(self) -> ConsumerEngine:
        """The running engine; OdradekError before `start`."""
        if self._engine is None:
            raise OdradekError("the consumer is not started: use `async with`, or await start()")
        return self._engine

    def subscribe(self, *_topics: Any) -> Never:
        """Not there yet: OdradekError."""
        raise OdradekError(NO_GROUPS_YET)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Replaces the assignment; partitions that stay keep their position."""
        self.engine.assign(TopicPartition(*partition) for partition in partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read."""
        return set(self.engine.fetcher.positions)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at the offset. With the `leader_epoch` that was committed beside it, a leader of before that epoch is not believed that
        the offset is out of range (KIP-320); -1 where it is not known.
        """
        self.engine.seek(partition, offset, leader_epoch)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The newest leader epoch in which what was read of the partition was written, -1 for none; to be committed beside the position."""
        return self.engine.leader_epoch(partition)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continues with the first record there is (of all partitions when none is named)."""
        self.engine.seek_to(partitions or self.assignment(), EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continues with the next record written (of all partitions when none is named)."""
        self.engine.seek_to(partitions or self.assignment(), LATEST_TIMESTAMP)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops handing out records of partitions."""
        self.engine.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continues after `pause`."""
        self.engine.pause(partitions, paused=False)

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that will be handed out."""
        return await self.engine.position(partition)

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions."""
        return await self.engine.partitions_for(topic)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return await self.engine.offsets_at(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, per partition."""
        return await self.engine.offsets_at(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (Unix milliseconds); None where there is none."""
        return await self.engine.offsets_for_times(times)

    async def poll(self, timeout_ms: int = 1000, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (max.poll.records) records; an empty list after `timeout_ms` without any."""
        return await self.engine.poll(timeout_ms / 1000, max_records)

    async def next_chunk(self, timeout_ms: int = 1000) -> Chunk | None:
        """The next batches as fetched, undecoded; None after `timeout_ms` without any. Not to be mixed with `poll`."""
        return await self.engine.next_chunk(timeout_ms / 1000)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            for record in await self.engine.poll(3600.0, None):
                yield record

    def metrics(self) -> dict[MetricName, float]:
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        return self.engine.cluster.metrics()

    async def close(self) -> None:
        """Stops and closes the connections."""
        if self._engine is not None:
            await self._engine.close()
