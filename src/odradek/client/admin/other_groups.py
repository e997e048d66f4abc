"""Admin calls for share groups (KIP-932) and streams groups (KIP-1071).

Offsets of a streams group are committed like those of a consumer group. Its calls have names of their own, as in Kafka's Admin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.types.groups import ShareGroupDescription, SharePartitionOffsetInfo, StreamsGroupDescription
from odradek.client.core.admin_items import Outcomes, results
from odradek.client.core.admin_other_groups import (
    ShareOffsets,
    alter_share_offsets_request,
    altered_share_offsets,
    delete_share_offsets_request,
    deleted_share_offsets,
    described_share_groups,
    described_share_offsets,
    described_streams_groups,
    share_offsets_request,
)
from odradek.client.network.coordinators import CoordinatorKind
from odradek.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from odradek.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from odradek.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse


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

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=_group)

    describe_share_groups = raising(try_describe_share_groups)

    async def try_list_share_group_offsets(self, groups: Mapping[str, Iterable[TopicPartition] | None]) -> Outcomes[str, ShareOffsets]:
        """Return the start offsets of share groups: in all partitions of the group (None), or in the given ones.

        A partition in which the group has no start offset has the value None. A partition that failed has its KafkaError.
        """
        wanted = {group_id: None if partitions is None else list(partitions) for group_id, partitions in groups.items()}

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ShareOffsets]:
            request = share_offsets_request({each: wanted[each] for each in ids})
            return described_share_offsets(await peer.call(request, DescribeShareGroupOffsetsResponse))

        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, name=_group)

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


class OtherGroupCalls(ShareGroupCalls, GroupCalls):
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

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=_group)

    describe_streams_groups = raising(try_describe_streams_groups)

    list_streams_group_offsets = GroupCalls.list_consumer_group_offsets
    try_list_streams_group_offsets = GroupCalls.try_list_consumer_group_offsets
    alter_streams_group_offsets = GroupCalls.alter_consumer_group_offsets
    try_alter_streams_group_offsets = GroupCalls.try_alter_consumer_group_offsets
    delete_streams_group_offsets = GroupCalls.delete_consumer_group_offsets
    try_delete_streams_group_offsets = GroupCalls.try_delete_consumer_group_offsets
    delete_streams_groups = GroupCalls.delete_consumer_groups
    try_delete_streams_groups = GroupCalls.try_delete_consumer_groups


def _group(group_id: str) -> str:
    return f"group {group_id}"
