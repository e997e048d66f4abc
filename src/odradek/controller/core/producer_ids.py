"""Blocks of producer ids (org.apache.kafka.controller.ProducerIdControlManager, KIP-730). Each id is allocated once."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.protocol.messages.metadata_records import ProducerIdsRecord

BLOCK_SIZE = 1_000

_MAX_ID = (1 << 63) - 1


def allocate_producer_ids(
    context: ControllerContext, request: AllocateProducerIdsRequest, version: int
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Allocate the next block of 1,000 producer ids to a broker (AllocateProducerIds, 67).

    Raises KafkaError STALE_BROKER_EPOCH for an old broker epoch, and UNKNOWN_SERVER_ERROR when all ids are used up.
    ACL: CLUSTER_ACTION on Cluster. Quota: none.
    """
    context.state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = context.state.next_producer_id
    if first > _MAX_ID - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been handed out")
    record = ProducerIdsRecord(broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return ControllerResult([VersionedRecord(record, 0)], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE))
