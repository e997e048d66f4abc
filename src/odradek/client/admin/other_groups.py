"""Admin calls for share groups (KIP-932) and streams groups (KIP-1071).

Offsets of a streams group are committed like those of a consumer group. Its calls have names of their own, as in Kafka's Admin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.groups import GroupCalls, group_label
from odradek.client.admin.items import Outcomes, outcome, results
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.terms import authorized_operations, by_topic, present, word
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
from odradek.client.core.metadata import Broker
from odradek.client.network.coordinators import CoordinatorKind
from odradek.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from odradek.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from odradek.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

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


class ShareGroupCalls(AdminBase):
    """Part of `AsyncAdmin` for share groups."""

    async def try_describe_share_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> Outcomes[str, ShareGroupDescription]:
        """Return state, members and assignments of share groups.

        Error of a group that does not exist, or is of another type: GROUP_ID_NOT_FOUND.
        """

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ShareGroupDescription]:
            request = ShareGroupDescribeRequest(group_ids=list(ids), include_authorized_operations=include_authorized_operations)
            response = await peer.call(request, ShareGroupDescribeResponse)
            return described_share_groups(response, await self._broker_info(peer.node_id))

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=group_label)

    describe_share_groups = raising(try_describe_share_groups)

    async def try_list_share_group_offsets(self, groups: Mapping[str, Iterable[TopicPartition] | None]) -> Outcomes[str, ShareOffsets]:
        """Return the start offsets of share groups: in all partitions of the group (None), or in the given ones.

        A partition in which the group has no start offset has the value None. A partition that failed has its KafkaError.
        """
        wanted = {group_id: None if partitions is None else list(partitions) for group_id, partitions in groups.items()}

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ShareOffsets]:
            request = share_offsets_request({each: wanted[each] for each in ids})
            return described_share_offsets(await peer.call(request, DescribeShareGroupOffsetsResponse))

        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, name=group_label)

    async def list_share_group_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, SharePartitionOffsetInfo | None]]:
        """Return the start offsets of share groups: in all partitions of the group (None), or in the given ones.

        A partition in which the group has no start offset has the value None. Raises the KafkaError of the first group or partition that
        failed.
        """
        found = results(await self.try_list_share_group_offsets(groups))
        return {group_id: results(offsets) for group_id, offsets in found.items()}

    async def try_alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> Outcomes[TopicPartition, None]:
        """Set the start offsets of a share group without members. Error when the group has members: NON_EMPTY_GROUP."""

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            request = alter_share_offsets_request(group_id, {each: offsets[each] for each in asked})
            return altered_share_offsets(await peer.call(request, AlterShareGroupOffsetsResponse), asked)

        return await self._at_coordinators(CoordinatorKind.GROUP, offsets, ask, id_of=lambda _: group_id)

    alter_share_group_offsets = raising_only(try_alter_share_group_offsets)

    async def try_delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> Outcomes[str, None]:
        """Delete the offsets of whole topics of a share group without members. Error when the group has members: NON_EMPTY_GROUP."""

        async def ask(peer: Peer, asked: Sequence[str]) -> Outcomes[str, None]:
            response = await peer.call(delete_share_offsets_request(group_id, asked), DeleteShareGroupOffsetsResponse)
            return deleted_share_offsets(response, asked)

        return await self._at_coordinators(CoordinatorKind.GROUP, topics, ask, id_of=lambda _: group_id)

    delete_share_group_offsets = raising_only(try_delete_share_group_offsets)


class OtherGroupCalls(ShareGroupCalls, GroupCalls, GroupOffsetCalls):
    """Part of `AsyncAdmin` for share and streams groups."""

    delete_share_groups = GroupCalls.delete_consumer_groups
    try_delete_share_groups = GroupCalls.try_delete_consumer_groups

    async def try_describe_streams_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Return state, topology, members and tasks of streams groups.

        Error of a group that does not exist, or is of another type: GROUP_ID_NOT_FOUND.
        """

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, StreamsGroupDescription]:
            request = StreamsGroupDescribeRequest(group_ids=list(ids), include_authorized_operations=include_authorized_operations)
            response = await peer.call(request, StreamsGroupDescribeResponse)
            return described_streams_groups(response, await self._broker_info(peer.node_id))

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=group_label)

    describe_streams_groups = raising(try_describe_streams_groups)

    list_streams_group_offsets = GroupOffsetCalls.list_consumer_group_offsets
    try_list_streams_group_offsets = GroupOffsetCalls.try_list_consumer_group_offsets
    alter_streams_group_offsets = GroupOffsetCalls.alter_consumer_group_offsets
    try_alter_streams_group_offsets = GroupOffsetCalls.try_alter_consumer_group_offsets
    delete_streams_group_offsets = GroupOffsetCalls.delete_consumer_group_offsets
    try_delete_streams_group_offsets = GroupOffsetCalls.try_delete_consumer_group_offsets
    delete_streams_groups = GroupCalls.delete_consumer_groups
    try_delete_streams_groups = GroupCalls.try_delete_consumer_groups
