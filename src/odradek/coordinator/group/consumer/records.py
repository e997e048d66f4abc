"""Records of consumer groups. Topics and partitions are sorted, so that equal states give equal records (GroupCoordinatorRecordHelpers)."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.assignment.spec import Partitions
from odradek.coordinator.group.consumer.member import ConsumerMember, Owned
from odradek.coordinator.records import CoordinatorRecord
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


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a record that groups from before Kafka 4.1 have."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = member.classic
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ConsumerGroupMemberMetadataValue.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
                ],
            ),
        ),
    )


def member_metadata_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                ConsumerGroupTargetAssignmentMemberValue.TopicPartition(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
                for topic_id in sorted(partitions)
            ]
        ),
    )


def target_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_epoch,
            state=int(member.state),
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def _topic_partitions(owned: Owned) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    topics: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = []
    for topic_id in sorted(owned):
        epochs = owned[topic_id]
        partitions = sorted(epochs)
        topics.append(
            ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
                topic_id=topic_id, partitions=partitions, assignment_epochs=[epochs[partition] for partition in partitions]
            )
        )
    return topics


def current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def resolved_regex(group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member's records, in the order that replay needs."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_assignment_tombstone(group_id, member_id),
        member_metadata_tombstone(group_id, member_id),
    ]
