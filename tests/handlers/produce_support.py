"""Produce requests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.base.ids import ZERO_UUID
from odradek.handlers.data import produce
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.handlers.support import Broker, topic_id


def request(
    records: Any,
    version: int,
    *,
    topic: str = "orders",
    id_: UUID = ZERO_UUID,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                topic_id=id_ if id_ != ZERO_UUID or version < 13 else topic_id(1),
                partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def send(broker: Broker, records: Any, version: int = 9, **more: Any) -> ProduceResponse.PartitionProduceResponse:
    client_id = more.pop("client_id", "test")
    response = broker.call(produce.handle, request(records, version, **more), version, client_id=client_id)
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]
