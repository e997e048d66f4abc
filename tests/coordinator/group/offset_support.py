"""Requests for offsets of groups."""

from __future__ import annotations

from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.group import Caller
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.coordinator.group.support import GROUP, PARTITION, World

DAY = 86_400.0


TOPIC_ID = UUID(int=77)


def txn_commit(
    world: World, offset: int, *, producer: int = 9, member: str = "", generation: int = -1, version: int = 5, partition: int = 0
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=producer,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
            )
        ],
    )
    reply = world.coordinator.commit_transactional_offsets(Caller(version), request)
    world.settle()
    return ErrorCode(reply.result().topics[0].partitions[0].error_code)


def end(world: World, *, committed: bool, producer: int = 9) -> None:
    done = world.runtime.end_transaction(PARTITION, producer, 0, 1, committed=committed, version=0)
    world.settle()
    done.result()


def delete_groups(world: World, *names: str) -> list[ErrorCode]:
    reply = world.coordinator.delete_groups(names)
    world.settle()
    return [ErrorCode(result.error_code) for result in reply.result()]
