"""Groups and offsets of one partition of `__consumer_offsets` (org.apache.kafka.coordinator.group.GroupCoordinatorShard).

One registry contains the groups of all types. A type other than the classic one adds its record types to `replays` and implements
`group.Group`. Classic-protocol requests are dispatched by the type of the group, because consumer groups may have classic-protocol members.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.base.undo import UndoJournal
from odradek.coordinator.group.classic.group import ClassicGroup, join_error
from odradek.coordinator.group.classic.manager import ClassicGroups, DescribedGroup
from odradek.coordinator.group.classic.rebalance import Outcome, nothing
from odradek.coordinator.group.consumer.classic_members import ClassicMembers
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.manager import ConsumerGroups, DescribedConsumerGroup
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.memory import GROUP_BYTES, MEMBER_BYTES, MemberMemory, bytes_of, group_bytes, text_bytes
from odradek.coordinator.group.offsets import HIGHEST_VERSION, LEAST_VALUE, OffsetManager
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsResponse
from odradek.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.schema import Message

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

DeletableGroupResult = DeleteGroupsResponse.DeletableGroupResult
ListedGroup = ListGroupsResponse.ListedGroup
Replay = Callable[[Message, Message | None], object]

_EXPIRY_KEY = "expire-group-metadata"
_OFFSETS_PER_TURN = 5_000
"""Offsets that are checked for expiration in one loop iteration."""


class GroupShard:
    """Group shard. Methods are operations for the runtime's `write`, unless they are said to read committed state."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        journal: UndoJournal,
        timers: Timers,
        *,
        settings: GroupSettings,
        time_ms: Callable[[], int],
        new_id: Callable[[], UUID],
        memory: MemberMemory | None = None,
    ) -> None:
        """`new_id` returns the unique part of a member id; without `memory` the members' size is not limited."""
        self.topic_partition = topic_partition
        self._timers = timers
        self._settings = settings
        self._memory = memory
        self.groups = Groups(journal, time_ms)
        self.classic = ClassicGroups(self.groups, timers, settings, time_ms, new_id)
        self.consumer = ConsumerGroups(self.groups, journal, timers, settings, time_ms, new_id, self.classic.rebalances)
        self._classic_members = ClassicMembers(self.consumer, settings, new_id)
        self.offsets = OffsetManager(journal, self.groups, settings, time_ms, self.classic.committed)
        self.offsets.topic_id = lambda name: self.consumer.view.topic_id(name) or ZERO_UUID
        self.replay_encoded = self.offsets.replay_encoded
        """Replay of encoded offset records, which are most of a log (see `coordinator.shard.EncodedReplay`)."""
        self.replays: dict[type[Message], Replay] = dict(self.consumer.replays)
        """Key class -> replay function (key, value) for records of other group types."""
        self._ignored: set[type[Message]] = set()
        self._to_expire: list[str] = []

    @property
    def load_tables(self) -> dict[bytes, dict[int, bytes]]:
        """See `coordinator.shard.EncodedReplay`."""
        return self.offsets.tables

    @property
    def load_values(self) -> tuple[int, int]:
        """See `coordinator.shard.EncodedReplay`."""
        return LEAST_VALUE, HIGHEST_VERSION

    # -- CoordinatorShard ----------------------------------------------------------------------------------------------------------

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        # isinstance with a tuple is several times faster than with a union.
        if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            commit = value if isinstance(value, OffsetCommitValue) else None
            self.offsets.replay(offset, producer_id, key.group, key.topic, key.partition, commit, record.version)
        elif isinstance(key, GroupMetadataKey):
            self.classic.replay(key.group, value if isinstance(value, GroupMetadataValue) else None)
        else:
            self._replay_other(key, value)

    def _replay_other(self, key: Message, value: Message | None) -> None:
        replay = self.replays.get(type(key))
        if replay is not None:
            replay(key, value)
        elif type(key) not in self._ignored:
            self._ignored.add(type(key))
            logger.warning(
                "%s has a record of %s, which is not supported yet: the record is ignored", self.topic_partition, type(key).__name__
            )

    def replay_end_transaction(self, offset: int, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        self.offsets.replay_end_transaction(producer_id, committed=committed)

    def on_loaded(self, image: MetadataImage) -> None:
        self.offsets.loaded()
        self.classic.loaded()
        self.consumer.loaded(image)
        if self._memory is not None:
            self._memory.loaded(self.member_bytes())
        logger.info("%s is loaded with %d groups and %d offsets", self.topic_partition, len(self.groups), len(self.offsets.offsets))
        self._schedule_expiry()

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Update the consumer groups. Classic groups do not depend on metadata."""
        self.consumer.on_metadata(delta, image)

    def on_new_epoch(self) -> None:
        """Do nothing: groups do not use the leader epoch, so members and rebalances go on."""

    def on_unloaded(self) -> None:
        self.classic.unloaded()

    # -- members -------------------------------------------------------------------------------------------------------------------

    def join(self, caller: Caller, request: JoinGroupRequest, response: Deferred[JoinGroupResponse]) -> Outcome:
        """Join a group of either type, if the migration policy permits it. Raises KafkaError with the client's error."""
        group = self.groups.find(request.group_id)
        size = sum([len(each.name) + len(each.metadata) for each in request.protocols])
        instance_id, client_id = request.group_instance_id, caller.client_id
        # The id of a new member begins with its instance id or its client id.
        size += text_bytes(request.member_id or instance_id or client_id, client_id, instance_id)
        self._admit(request.group_id, request.member_id, size)
        if not isinstance(group, ConsumerGroup):
            return self.classic.join(caller, request, response)
        if not group.is_empty:
            return self._classic_members.join(group, caller, request, response)
        if request.member_id:
            response.complete(join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return nothing()
        # An empty group is not migrated, but replaced by a classic group.
        tombstones = group.tombstones()
        self.groups.remove(group.group_id)
        joined = self.classic.join(caller, request, response)
        return CoordinatorResult([*tombstones, *joined.records], None, replay=False, on_committed=joined.on_committed)

    def sync(self, request: SyncGroupRequest, response: Deferred[SyncGroupResponse]) -> Outcome:
        group = self.groups.find(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.sync(group, request, response)
        return self.classic.sync(request, response)

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        group = self.groups.find(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.heartbeat(group, request)
        return self.classic.heartbeat(request)

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        group = self.groups.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, request)
        return self.classic.leave(request)

    def consumer_heartbeat(
        self, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        if request.member_epoch >= 0 and (names is not None or regex is not None):
            size = text_bytes(request.member_id, caller.client_id, request.instance_id, request.rack_id, regex, *(names or ()))
            self._admit(request.group_id, request.member_id, size)
        return self.consumer.heartbeat(caller, request)

    def _admit(self, group_id: str, member_id: str, size: int) -> None:
        """Raise KafkaError with COORDINATOR_NOT_AVAILABLE when the memory limit refuses a new member, or the growth of a known one."""
        if self._memory is None:
            return
        group = self.groups.find(group_id)
        member = group.members.get(member_id) if isinstance(group, (ClassicGroup, ConsumerGroup)) else None
        if member is None:
            self._memory.admit(MEMBER_BYTES + size + (0 if group is not None else GROUP_BYTES + len(group_id)))
        elif (more := MEMBER_BYTES + size - bytes_of(member)) > 0:
            self._memory.admit(more)

    def member_bytes(self) -> int:
        """Return an estimate of the bytes of all members, and of groups without stored offsets."""
        stored = self.offsets.offsets
        counted = [group for group in self.groups if not group.is_empty or not stored.topics(group.group_id, committed=False)]
        return sum([group_bytes(group) for group in counted])

    # -- groups --------------------------------------------------------------------------------------------------------------------

    def describe(self, caller: Caller, group_id: str) -> DescribedGroup:
        """Return the description of a group. Reads committed state."""
        return self.classic.describe(caller, group_id)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Return the description of a consumer group. Reads committed state."""
        return self.consumer.describe(group_id)

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """Return the groups with these states and types, given in lower case; an empty set matches all. Reads committed state."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type_name,
                group_state=group.state_name,
                group_type=group.type.value,
            )
            for group in self.groups.committed()
            if (not states or group.state_name.lower() in states) and (not types or group.type.value in types)
        ]

    def delete_groups(self, group_ids: Iterable[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        """Delete empty groups with all their offsets."""
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            code = ErrorCode.NONE
            try:
                group = self.groups.get(group_id)
                group.validate_delete_group()
                records += self.offsets.delete_all(group_id)
                records += group.tombstones()
            except KafkaError as error:
                code = error.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return CoordinatorResult(records, results, atomic=False)

    def topics_deleted(self, deleted: Mapping[str, Container[UUID]]) -> CoordinatorResult[None]:
        """Delete the offsets of deleted topics, given as name -> ids."""
        return CoordinatorResult(self.offsets.topics_deleted(deleted), None, atomic=False)

    # -- expiry --------------------------------------------------------------------------------------------------------------------

    def _schedule_expiry(self) -> None:
        delay_ms = 0 if self._to_expire else self._settings.retention_check_interval_ms
        self._timers.schedule(_EXPIRY_KEY, delay_ms, self._expire)

    def _expire(self) -> CoordinatorResult[None]:
        """Return tombstones for expired offsets and for groups without members and offsets, for some groups in each loop iteration."""
        if not self._to_expire:
            self._to_expire = self.groups.ids()
        records: list[CoordinatorRecord] = []
        looked_at = 0
        while self._to_expire and looked_at < _OFFSETS_PER_TURN:
            group = self.groups.find(self._to_expire.pop())
            if group is None:
                continue
            looked_at += 1 + sum(len(table) for _, table in self.offsets.offsets.topics(group.group_id, committed=False))
            if self.offsets.expire(group, records) and group.is_empty:
                records += group.tombstones()
        self._schedule_expiry()
        return CoordinatorResult(records, None, atomic=False)
