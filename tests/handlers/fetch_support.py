"""Fetch requests, and appends that they read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.schema import records_view
from odradek.records.batch import decode_records
from odradek.storage.append import AppendOrigin
from tests.handlers.support import Broker, batch, topic_id


def append(broker: Broker, *values: bytes, topic: str = "orders", partition: int = 0, **options: Any) -> None:
    hosted = broker.manager.partition(TopicPartition(topic, partition))
    _, advanced = hosted.append_as_leader(batch(*values, **options), 1, AppendOrigin.CLIENT)
    if advanced:
        broker.manager.delayed.partition_changed(hosted.topic_partition)
    broker.manager.delayed.drain()


def values(data: FetchResponse.PartitionData) -> list[bytes | None]:
    return [record.value for record in decode_records(records_view(data.records))]


def request(
    version: int,
    *offsets: int,
    topic: str = "orders",
    id_: UUID = ZERO_UUID,
    partitions: tuple[int, ...] | None = None,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    forgotten: tuple[int, ...] = (),
    **fields: Any,
) -> FetchRequest:
    topic_id_ = id_ if id_ != ZERO_UUID or version < 13 else topic_id(1)
    fields = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | fields
    if version < 7:
        del fields["session_epoch"]
    wanted = [
        FetchRequest.FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for partition, offset in zip(partitions or range(len(offsets)), offsets, strict=True)
    ]
    topics = [FetchRequest.FetchTopic(topic=topic, topic_id=topic_id_, partitions=wanted)] if wanted else []
    gone = [FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id_, partitions=list(forgotten))] if forgotten else []
    return FetchRequest(topics=topics, forgotten_topics_data=gone, **fields)


def partitions(response: FetchResponse) -> list[FetchResponse.PartitionData]:
    return [partition for topic in response.responses for partition in topic.partitions]
