"""Share groups (KIP-932) and streams groups (KIP-1071) in the admin client: requests built, results read from responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.groups import (
    GroupState,
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffsetInfo,
    StreamsAssignment,
    StreamsGroupDescription,
    StreamsGroupMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTopicInfo,
)
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import authorized_operations, by_topic, present, word
from odradek.client.core.metadata import Broker
from odradek.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from odradek.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from odradek.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeResponse
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse

ShareOffsets = dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]
"""Partition -> where the group begins, None where it has not begun, or an error."""


def described_share_groups(response: ShareGroupDescribeResponse, coordinator: Broker) -> Outcomes[str, ShareGroupDescription]:
    """Return the description, or the error, of every share group."""
    return {
        group.group_id: outcome(group.error_code, group.error_message, f"group {group.group_id}")
        or ShareGroupDescription(
            group.group_id,
            tuple(
                ShareMemberDescription(
                    member.member_id,
                    member.rack_id,
                    member.client_id,
                    member.client_host,
                    member.member_epoch,
                    tuple(member.subscribed_topic_names),
                    tuple(
                        TopicPartition(each.topic_name, number) for each in member.assignment.topic_partitions for number in each.partitions
                    ),
                )
                for member in group.members
            ),
            word(GroupState, group.group_state),
            coordinator,
            group.group_epoch,
            group.assignment_epoch,
            authorized_operations(group.authorized_operations),
        )
        for group in response.groups
    }


def share_offsets_request(groups: Mapping[str, Iterable[TopicPartition] | None]) -> DescribeShareGroupOffsetsRequest:
    """Build the request; None asks for all partitions of a group."""
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    topic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
    wanted = [
        group(
            group_id=group_id,
            topics=None
            if partitions is None
            else [topic(topic_name=name, partitions=numbers) for name, numbers in by_topic(partitions).items()],
        )
        for group_id, partitions in groups.items()
    ]
    return DescribeShareGroupOffsetsRequest(groups=wanted)


def described_share_offsets(response: DescribeShareGroupOffsetsResponse) -> Outcomes[str, ShareOffsets]:
    """Return the start offsets, or the error, of every group."""
    found: Outcomes[str, ShareOffsets] = {}
    for group in response.groups:
        offsets: ShareOffsets = {}
        for topic in group.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.topic_name, part.partition_index)
                info = SharePartitionOffsetInfo(part.start_offset, present(part.leader_epoch), present(part.lag))
                error = outcome(part.error_code, part.error_message, f"offset of {partition}")
                offsets[partition] = error or (info if part.start_offset >= 0 else None)
        found[group.group_id] = outcome(group.error_code, group.error_message, f"offsets of group {group.group_id}") or offsets
    return found


def alter_share_offsets_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> AlterShareGroupOffsetsRequest:
    """Build the request that sets new start offsets."""
    part = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    topics = [
        AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[part(partition_index=number, start_offset=offsets[TopicPartition(name, number)]) for number in numbers],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)


def altered_share_offsets(response: AlterShareGroupOffsetsResponse, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
    """Return None or the error of every partition; an error of the whole response counts for each partition."""
    whole = outcome(response.error_code, response.error_message, "offsets of a share group")
    if whole is not None:
        return dict.fromkeys(asked, whole)
    return {
        (partition := TopicPartition(topic.topic_name, part.partition_index)): outcome(
            part.error_code, part.error_message, f"offset of {partition}"
        )
        for topic in response.responses
        for part in topic.partitions
    }


def delete_share_offsets_request(group_id: str, topics: Iterable[str]) -> DeleteShareGroupOffsetsRequest:
    """Build the request that deletes the group's offsets in these topics."""
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    return DeleteShareGroupOffsetsRequest(group_id=group_id, topics=[topic(topic_name=name) for name in topics])


def deleted_share_offsets(response: DeleteShareGroupOffsetsResponse, asked: Sequence[str]) -> Outcomes[str, None]:
    """Return None or the error of every topic; an error of the whole response counts for each topic."""
    whole = outcome(response.error_code, response.error_message, "offsets of a share group")
    if whole is not None:
        return dict.fromkeys(asked, whole)
    return {each.topic_name: outcome(each.error_code, each.error_message, f"topic {each.topic_name}") for each in response.responses}


# -- streams groups -----------------------------------------------------------------------------------------------------------------------


def described_streams_groups(response: StreamsGroupDescribeResponse, coordinator: Broker) -> Outcomes[str, StreamsGroupDescription]:
    """Return the description, or the error, of every streams group."""
    return {
        group.group_id: outcome(group.error_code, group.error_message, f"group {group.group_id}")
        or StreamsGroupDescription(
            group.group_id,
            group.group_epoch,
            group.assignment_epoch,
            None if group.topology is None else group.topology.epoch,
            () if group.topology is None else tuple(_subtopology(each) for each in group.topology.subtopologies or ()),
            tuple(_member(each) for each in group.members),
            word(GroupState, group.group_state),
            coordinator,
            authorized_operations(group.authorized_operations),
        )
        for group in response.groups
    }


def _subtopology(each: StreamsGroupDescribeResponse.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        each.subtopology_id,
        tuple(each.source_topics),
        tuple(each.repartition_sink_topics),
        tuple(_topic(topic) for topic in each.state_changelog_topics),
        tuple(_topic(topic) for topic in each.repartition_source_topics),
    )


def _topic(topic: StreamsGroupDescribeResponse.TopicInfo) -> StreamsTopicInfo:
    return StreamsTopicInfo(topic.name, topic.partitions, topic.replication_factor, {each.key: each.value for each in topic.topic_configs})


def _member(member: StreamsGroupDescribeResponse.Member) -> StreamsGroupMemberDescription:
    endpoint = member.user_endpoint
    return StreamsGroupMemberDescription(
        member.member_id,
        member.member_epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {each.key: each.value for each in member.client_tags},
        _offsets(member.task_offsets),
        _offsets(member.task_end_offsets),
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.is_classic,
    )


def _offsets(offsets: Iterable[StreamsGroupDescribeResponse.TaskOffset]) -> dict[StreamsTask, int]:
    return {StreamsTask(each.subtopology_id, each.partition): each.offset for each in offsets}


def _assignment(given: StreamsGroupDescribeResponse.Assignment) -> StreamsAssignment:
    return StreamsAssignment(_tasks(given.active_tasks), _tasks(given.standby_tasks), _tasks(given.warmup_tasks))


def _tasks(ids: Iterable[StreamsGroupDescribeResponse.TaskIds]) -> tuple[StreamsTask, ...]:
    return tuple(StreamsTask(each.subtopology_id, number) for each in ids for number in each.partitions)
