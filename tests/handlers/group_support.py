"""Requests to groups at handler level."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.handlers.group import (
    join_group,
    offset_commit,
    offset_fetch,
)
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.schema import Message
from tests.handlers.support import Broker, through_the_wire


class Groups(Broker):
    def __init__(self, **config: str) -> None:
        super().__init__(group_initial_rebalance_delay_ms="0", **config)
        self.offsets_id = self.create_topic("__consumer_offsets", number=9, cleanup_policy="compact")
        self.topic = self.create_topic("t", number=2, partitions=2)
        self.clock.run_due()

    def ask(self, handle: Any, request: Message, version: int) -> Any:
        answer = self.call(handle, request, version)
        self.clock.run_due()
        self.clock.run_due()
        return through_the_wire(answer.result(), version) if isinstance(answer, Deferred) else answer

    def join(self, version: int, member: str = "") -> Any:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return self.ask(join_group.handle, request, version)

    def member(self, version: int = 9) -> tuple[str, int]:
        answer = self.join(version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join(version, answer.member_id)
        assert answer.error_code == ErrorCode.NONE
        return answer.member_id, answer.generation_id

    def commit(self, version: int, offset: int = 5, *, partition: int = 0, topic_id: UUID | None = None, topic: str = "t") -> ErrorCode:
        request = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=(topic_id or self.topic) if version >= 10 else ZERO_UUID,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata="m"
                        )
                    ],
                )
            ],
        )
        (answer,) = self.ask(offset_commit.handle, request, version).topics
        return ErrorCode(answer.partitions[0].error_code)

    def fetch(self, version: int, *, everything: bool = False, topic_id: UUID | None = None) -> Any:
        if version < 8:
            old = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
            return self.ask(offset_fetch.handle, OffsetFetchRequest(group_id="g", topics=None if everything else [old]), version)
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", topic_id=topic_id or self.topic, partition_indexes=[0])
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None if everything else [topic])
        return self.ask(offset_fetch.handle, OffsetFetchRequest(groups=[group]), version)
