"""Replay of consumer groups' records. After partial compaction records may come in any order, so every record is accepted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

from odradek.base.undo import UndoJournal
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from odradek.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember
from odradek.coordinator.group.registry import Groups
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from odradek.protocol.schema import Message

logger = logging.getLogger(__name__)

Replay = Callable[[Message, Message | None], object]


def replays(groups: Groups, journal: UndoJournal) -> dict[type[Message], Replay]:
    """Return key class -> replay function."""
    replay = _Replay(groups, journal)
    return {
        ConsumerGroupMetadataKey: replay.group,
        ConsumerGroupPartitionMetadataKey: replay.partition_metadata,
        ConsumerGroupMemberMetadataKey: replay.member,
        ConsumerGroupTargetAssignmentMetadataKey: replay.target_epoch,
        ConsumerGroupTargetAssignmentMemberKey: replay.target,
        ConsumerGroupCurrentMemberAssignmentKey: replay.current,
        ConsumerGroupRegularExpressionKey: replay.regex,
    }


class _Replay:
    def __init__(self, groups: Groups, journal: UndoJournal) -> None:
        self._groups = groups
        self._journal = journal

    def _find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.find(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _get(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group, or create it in place of a group of another type: the later record counts."""
        group = self._groups.find(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup) and not group.is_empty:
            logger.warning("group %s was a classic group with members, and is now a consumer group", group_id)
        group = ConsumerGroup(group_id, self._journal)
        self._groups.put(group)
        return group

    def group(self, key: Message, value: Message | None) -> None:
        group_id = cast(ConsumerGroupMetadataKey, key).group_id
        if value is None:
            if self._find(group_id) is not None:
                self._groups.remove(group_id)
            return
        value = cast(ConsumerGroupMetadataValue, value)
        group = self._get(group_id)
        group.epochs = group.epochs._replace(group=value.epoch, metadata_hash=value.metadata_hash)

    def partition_metadata(self, key: Message, value: Message | None) -> None:
        group_id = cast(ConsumerGroupPartitionMetadataKey, key).group_id
        group = self._find(group_id) if value is None else self._get(group_id)
        if group is not None:
            group.epochs = group.epochs._replace(has_partition_metadata=value is not None)

    def member(self, key: Message, value: Message | None) -> None:
        key = cast(ConsumerGroupMemberMetadataKey, key)
        if value is None:
            group = self._find(key.group_id)
            if group is not None:
                group.remove_member(key.member_id)
            return
        group = self._get(key.group_id)
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(member.with_metadata(cast(ConsumerGroupMemberMetadataValue, value)))

    def target_epoch(self, key: Message, value: Message | None) -> None:
        group_id = cast(ConsumerGroupTargetAssignmentMetadataKey, key).group_id
        if value is None:
            group = self._find(group_id)
            if group is not None:
                group.epochs = group.epochs._replace(target=LEAVE_EPOCH, target_timestamp_ms=0)
            return
        value = cast(ConsumerGroupTargetAssignmentMetadataValue, value)
        group = self._get(group_id)
        group.epochs = group.epochs._replace(target=value.assignment_epoch, target_timestamp_ms=value.assignment_timestamp)

    def target(self, key: Message, value: Message | None) -> None:
        key = cast(ConsumerGroupTargetAssignmentMemberKey, key)
        if value is None:
            group = self._find(key.group_id)
            if group is not None:
                group.targets.pop(key.member_id)
            return
        topics = cast(ConsumerGroupTargetAssignmentMemberValue, value).topic_partitions
        self._get(key.group_id).targets[key.member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in topics}

    def current(self, key: Message, value: Message | None) -> None:
        key = cast(ConsumerGroupCurrentMemberAssignmentKey, key)
        if value is None:
            group = self._find(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if group is not None and member is not None:
                group.put_member(member.without_assignment())
            return
        group = self._get(key.group_id)
        member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(member.with_assignment(cast(ConsumerGroupCurrentMemberAssignmentValue, value)))

    def regex(self, key: Message, value: Message | None) -> None:
        key = cast(ConsumerGroupRegularExpressionKey, key)
        if value is None:
            group = self._find(key.group_id)
            if group is not None:
                group.remove_regex(key.regular_expression)
            return
        value = cast(ConsumerGroupRegularExpressionValue, value)
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        self._get(key.group_id).put_regex(key.regular_expression, resolved)
