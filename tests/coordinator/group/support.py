"""A group coordinator on a log in memory and a clock that is turned by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.base.undo import UndoJournal
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.records import SERDE
from odradek.coordinator.group.service import GroupCoordinator
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.timers import Timers
from odradek.metadata.image import EMPTY
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.records.batch import decode_batch, iter_headers
from tests.clock import ManualClock
from tests.coordinator.support import MemoryLog

PARTITION = TopicPartition("__consumer_offsets", 0)
GROUP = "g"
JoinReply = Deferred[JoinGroupResponse]
SyncReply = Deferred[SyncGroupResponse]


def subscription(*topics: str) -> bytes:
    encoded = [len(topic).to_bytes(2, "big") + topic.encode() for topic in topics]
    return b"\0\1" + len(topics).to_bytes(4, "big") + b"".join(encoded) + b"\xff\xff\xff\xff"


class World:
    """One partition of `__consumer_offsets`, led by one broker at a time."""

    def __init__(self, log: MemoryLog | None = None, clock: ManualClock | None = None, **config: str) -> None:
        settings = {"group.initial.rebalance.delay.ms": "0"} | {key.replace("_", "."): value for key, value in config.items()}
        self.clock = clock or ManualClock()
        self.image = EMPTY
        self.log = log or MemoryLog()
        self._numbers = itertools.count(1)
        self.epoch = 0
        self.shards: list[GroupShard] = []
        self.timers: list[Timers] = []
        """Of each shard."""
        self.settings = GroupSettings(DynamicBrokerConfig(standalone_config(settings)))
        self.runtime = CoordinatorRuntime(
            "groups",
            clock=self.clock,
            serde=SERDE,
            options=RuntimeOptions(),
            open_log=lambda _: self.log,
            new_shard=self._new_shard,
            image=lambda: self.image,
        )
        self.coordinator = GroupCoordinator(self.runtime, self.settings, topic="__consumer_offsets", partition_count=lambda: 1)
        self.load()

    def _new_shard(self, partition: TopicPartition, journal: UndoJournal, timers: Timers) -> GroupShard:
        shard = GroupShard(
            partition,
            journal,
            timers,
            settings=self.settings,
            time_ms=self.clock.time_ms,
            new_id=lambda: UUID(int=next(self._numbers)),
        )
        self.shards.append(shard)
        self.timers.append(timers)
        return shard

    @property
    def shard(self) -> GroupShard:
        return self.shards[-1]

    def is_watched(self, member_id: str, group_id: str = GROUP) -> bool:
        """Whether the coordinator would notice that the member is gone."""
        return any(f"{kind}\0{group_id}\0{member_id}" in self.timers[-1] for kind in ("heartbeat", "session"))

    def load(self) -> None:
        """As after a term of another broker."""
        self.epoch += 1
        self.runtime.unload(PARTITION, None)
        self.runtime.load(PARTITION, self.epoch)
        self.settle()

    def settle(self) -> None:
        for _ in range(5):
            self.clock.run_due()

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.shard.groups.find_classic(group_id)
        assert group is not None
        return group

    def records(self) -> list[CoordinatorRecord]:
        """All that is in the log."""
        return [
            SERDE.decode(record.key, record.value)
            for batch in self.log.batches
            for position, header in iter_headers(memoryview(batch))
            if not header.is_control
            for record in decode_batch(memoryview(batch), position, header)
        ]

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        version: int = 9,
        protocols: Sequence[tuple[str, bytes]] = (("range", b""),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        group_id: str = GROUP,
        client_id: str = "client",
    ) -> JoinReply:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        reply = self.coordinator.join_group(Caller(version, client_id, "/127.0.0.1"), request)
        self.settle()
        return reply

    def join_dynamic(self, **options: Any) -> tuple[str, JoinReply]:
        """Both steps of KIP-394."""
        required = self.join(**options).result()
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return required.member_id, self.join(required.member_id, **options)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, *, instance: str | None = None
    ) -> SyncReply:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in (assignments or {}).items()
            ],
        )
        reply = self.coordinator.sync_group(request)
        self.settle()
        return reply

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance)
        return ErrorCode(self.coordinator.heartbeat(request).result().error_code)

    def leave(self, *members: tuple[str, str | None]) -> LeaveGroupResponse:
        reply = self.coordinator.leave_group(
            LeaveGroupRequest(
                group_id=GROUP,
                members=[LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members],
            )
        )
        self.settle()
        return reply.result()

    def commit(
        self,
        offset: int,
        *,
        member: str = "",
        generation: int = -1,
        version: int = 9,
        topic: str = "t",
        partition: int = 0,
        group_id: str = GROUP,
        metadata: str | None = "",
        retention_ms: int = -1,
        topic_id: UUID = ZERO_UUID,
        instance: str | None = None,
    ) -> Deferred[OffsetCommitResponse]:
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_leader_epoch=7, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        reply = self.coordinator.commit_offsets(Caller(version), request)
        self.settle()
        return reply

    def commit_code(self, offset: int, **options: Any) -> ErrorCode:
        return ErrorCode(self.commit(offset, **options).result().topics[0].partitions[0].error_code)

    def fetch(
        self, topic: str = "t", partition: int = 0, *, stable: bool = False, group_id: str = GROUP, topic_id: UUID = ZERO_UUID
    ) -> tuple[int, ErrorCode]:
        """(offset, error) of one partition."""
        reply = self.coordinator.fetch_offsets(
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])],
            ),
            require_stable=stable,
        )
        self.settle()
        found = reply.result().topics[0].partitions[0]
        return found.committed_offset, ErrorCode(found.error_code)

    def stable_group(self, count: int = 1, **options: Any) -> tuple[list[str], int]:
        """`count` dynamic members, the leader first, and their generation; everybody owns its own name."""
        ids: list[str] = []
        for _ in range(count):
            required = self.join(**options).result()
            ids.append(required.member_id)
        replies = [self.join(member, **options) for member in ids]
        self.clock.advance_s(4)
        if count > 1:
            # The first one was alone for a moment.
            replies[0] = self.join(ids[0], **options)
        answers = [reply.result() for reply in replies]
        leader = answers[0].leader
        ids.sort(key=lambda member: member != leader)
        generation = answers[0].generation_id
        for member in reversed(ids):
            self.sync(member, generation, {each: each.encode() for each in ids} if member == leader else None)
        return ids, generation


def static_group(world: World, *names: str) -> tuple[dict[str, str], int]:
    both = [("range", subscription("t")), ("other", subscription("t"))]
    replies = {name: world.join(instance=name, protocols=both) for name in names}
    world.clock.advance_s(10)
    members = {name: reply.result().member_id for name, reply in replies.items()}
    generation = next(iter(replies.values())).result().generation_id
    leader = next(iter(replies.values())).result().leader
    for name, member in sorted(members.items(), key=lambda each: each[1] == leader):
        world.sync(member, generation, {m: m.encode() for m in members.values()} if member == leader else None, instance=name)
    assert world.group().state is ClassicState.STABLE
    return members, generation
