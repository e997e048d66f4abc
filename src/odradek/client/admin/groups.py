"""Admin calls for groups: listing, members and committed offsets.

All calls but `list_groups` go to the coordinator of each group, and retry while the coordinator moves or loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer, one_by_one
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.types.groups import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberToRemove,
    OffsetAndMetadata,
)
from odradek.client.core.admin_group_offsets import (
    LAST_BY_NAME,
    SEVERAL_GROUPS_SINCE,
    STABLE_SINCE,
    GroupOffsets,
    committed_offsets,
    deleted_offsets,
    fetched_offsets,
    fetched_offsets_of_one,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_fetch_request_of_one,
)
from odradek.client.core.admin_groups import (
    CONSUMER_PROTOCOL,
    consumer_group_of,
    deleted_groups,
    described_classic_groups,
    described_consumer_groups,
    list_groups_request,
    listed_groups,
    members_of,
    remove_members_request,
    removed_members,
)
from odradek.client.core.admin_items import COORDINATOR_ERRORS, Outcomes, results
from odradek.client.core.admin_terms import known
from odradek.client.network.coordinators import CoordinatorKind
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.messages.leave_group import LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsResponse
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.messages.offset_delete import OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse

_MEMBERS_SINCE = 3
"""First version of LeaveGroup that can name several members, and static members."""


class GroupCalls(AdminBase):
    """Part of `AsyncAdmin` for groups."""

    # -- which there are --------------------------------------------------------------------------------------------------------------

    async def try_list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
    ) -> Outcomes[int, list[GroupListing]]:
        """Return the groups that each broker coordinates, by broker id. Filters: states, group types and protocol types; an empty filter
        matches all.

        Error of a broker before Kafka 2.6 (states) or 3.8 (types): UNSUPPORTED_VERSION. Raises ValueError for an unknown state or type.
        """
        wanted_states = [known(GroupState, each) for each in states]
        wanted_types = [known(GroupType, each) for each in types]
        wanted_protocols = set(protocol_types)

        async def ask(peer: Peer, brokers: Sequence[int]) -> Outcomes[int, list[GroupListing]]:
            version = peer.version(ApiKey.LIST_GROUPS)
            response = await peer.call(list_groups_request(wanted_states, wanted_types, version), ListGroupsResponse)
            if response.error_code:
                return dict.fromkeys(brokers, KafkaError(code_of(response.error_code), f"groups of broker {peer.node_id}"))
            found = listed_groups(response, version)
            chosen = [each for each in found if not wanted_protocols or each.protocol in wanted_protocols]
            return dict.fromkeys(brokers, chosen)

        return await self._at_brokers(
            await self._all_brokers(), ask, broker_of=int, retried=COORDINATOR_ERRORS, name=lambda each: f"broker {each}"
        )

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
    ) -> list[GroupListing]:
        """Return the groups of the cluster, sorted by id. Filters: states, group types and protocol types ("consumer", "connect", "").

        An empty filter matches all. Raises the KafkaError of the first broker that failed; `try_list_groups` returns the groups of the
        others. Raises ValueError for an unknown state or type.
        """
        found = results(await self.try_list_groups(states=states, types=types, protocol_types=protocol_types))
        # While a coordinator moves, two brokers may list its groups.
        by_id = {group.group_id: group for groups in found.values() for group in groups}
        return [by_id[group_id] for group_id in sorted(by_id)]

    async def list_consumer_groups(
        self, *, states: Iterable[GroupState | str] = (), types: Iterable[GroupType | str] = ()
    ) -> list[GroupListing]:
        """Return the groups of consumers, sorted by id: classic groups, groups of KIP-848, and groups that only have offsets."""
        return await self.list_groups(states=states, types=types, protocol_types=(CONSUMER_PROTOCOL, ""))

    # -- who is in them ---------------------------------------------------------------------------------------------------------------

    async def try_describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> Outcomes[str, ConsumerGroupDescription]:
        """Return state, members and assignments of groups of consumers, classic or of KIP-848.

        Error of a group that does not exist: GROUP_ID_NOT_FOUND.
        """

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ConsumerGroupDescription]:
            coordinator = await self._broker_info(peer.node_id)
            found: Outcomes[str, ConsumerGroupDescription] = {}
            left = list(ids)
            request = ConsumerGroupDescribeRequest(group_ids=left, include_authorized_operations=include_authorized_operations)
            try:
                found = described_consumer_groups(await peer.call(request, ConsumerGroupDescribeResponse), coordinator)
                left = [each for each in ids if _is_error(found.get(each), ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)]
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
            if left:
                # A group that is not of KIP-848 may be a classic one.
                classic = DescribeGroupsRequest(groups=left, include_authorized_operations=include_authorized_operations)
                for group_id, each in described_classic_groups(await peer.call(classic, DescribeGroupsResponse), coordinator).items():
                    found[group_id] = each if isinstance(each, KafkaError) else consumer_group_of(each)
            return found

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=_group)

    describe_consumer_groups = raising(try_describe_consumer_groups)

    async def try_describe_classic_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> Outcomes[str, ClassicGroupDescription]:
        """Return state and members of groups of the classic protocol, with any protocol type.

        Error of a group that does not exist, or is of another type: GROUP_ID_NOT_FOUND.
        """

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, ClassicGroupDescription]:
            request = DescribeGroupsRequest(groups=list(ids), include_authorized_operations=include_authorized_operations)
            response = await peer.call(request, DescribeGroupsResponse)
            return described_classic_groups(response, await self._broker_info(peer.node_id))

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=_group)

    describe_classic_groups = raising(try_describe_classic_groups)

    async def try_delete_consumer_groups(self, group_ids: Iterable[str]) -> Outcomes[str, None]:
        """Delete groups without members, with their offsets. Errors of a group: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, None]:
            return deleted_groups(await peer.call(DeleteGroupsRequest(groups_names=list(ids)), DeleteGroupsResponse))

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=_group)

    delete_consumer_groups = raising_only(try_delete_consumer_groups)

    async def try_remove_members_from_consumer_group(
        self, group_id: str, members: Iterable[MemberToRemove] | None = None, *, reason: str | None = None
    ) -> Outcomes[str, None]:
        """Remove static members by group.instance.id. Without `members` remove all members, dynamic ones by member id.

        The broker logs `reason` (KIP-800). Error of a member that does not exist: UNKNOWN_MEMBER_ID.
        """
        if members is None:
            instances, others = members_of((await self.describe_consumer_groups([group_id]))[group_id])
        else:
            instances, others = [each.group_instance_id for each in members], []

        async def ask(peer: Peer, names: Sequence[str]) -> Outcomes[str, None]:
            version = peer.version(ApiKey.LEAVE_GROUP)
            if version < _MEMBERS_SINCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot remove members: it is older than Kafka 2.4")
            left = set(names)
            request = remove_members_request(
                group_id, [each for each in instances if each in left], [each for each in others if each in left], reason
            )
            return removed_members(await peer.call(request, LeaveGroupResponse), names)

        return await self._at_coordinators(CoordinatorKind.GROUP, instances + others, ask, id_of=lambda _: group_id, name=_member)

    remove_members_from_consumer_group = raising_only(try_remove_members_from_consumer_group)

    # -- what they have committed -----------------------------------------------------------------------------------------------------

    async def try_list_consumer_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, require_stable: bool = False
    ) -> Outcomes[str, GroupOffsets]:
        """Return the committed offsets of groups: of all partitions, or of the partitions to which `groups` maps a group.

        A partition without a committed offset has the value None if it was named, and is absent if not. A partition that failed has its
        KafkaError. A group that does not exist has no offsets. `require_stable` waits for open transactions that contain offsets (KIP-447).
        """
        named = _named(groups)
        wanted = {group_id: None if partitions is None else list(partitions) for group_id, partitions in named.items()}

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, GroupOffsets]:
            version = peer.version(ApiKey.OFFSET_FETCH, at_most=LAST_BY_NAME)
            if require_stable and version < STABLE_SINCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot wait for stable offsets: it is older than Kafka 2.5")
            if version >= SEVERAL_GROUPS_SINCE:
                request = offset_fetch_request({each: wanted[each] for each in ids}, require_stable)
                return fetched_offsets(await peer.call(request, OffsetFetchResponse, at_most=LAST_BY_NAME))

            async def one(each: str) -> GroupOffsets | KafkaError:
                request = offset_fetch_request_of_one(each, wanted[each], require_stable)
                return fetched_offsets_of_one(each, await peer.call(request, OffsetFetchResponse, at_most=LAST_BY_NAME))

            return await one_by_one(ids, one)

        retried = COORDINATOR_ERRORS | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, retried=retried, name=_group)

    async def list_consumer_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return the committed offsets of groups: of all partitions, or of the partitions to which `groups` maps a group.

        A partition without a committed offset has the value None if it was named, and is absent if not. A group that does not exist has no
        offsets. `require_stable` waits for open transactions that contain offsets (KIP-447).

        Raises the KafkaError of the first group or partition that failed.
        """
        found = results(await self.try_list_consumer_group_offsets(groups, require_stable=require_stable))
        return {group_id: results(offsets) for group_id, offsets in found.items()}

    async def try_alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members; the coordinator creates a missing group.

        Error of the partitions when the group has members: UNKNOWN_MEMBER_ID.
        """
        wanted = {each: offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset) for each, offset in offsets.items()}

        async def ask(peer: Peer, partitions: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            request = offset_commit_request(group_id, {each: wanted[each] for each in partitions})
            return committed_offsets(await peer.call(request, OffsetCommitResponse, at_most=LAST_BY_NAME))

        retried = COORDINATOR_ERRORS | {ErrorCode.REBALANCE_IN_PROGRESS}
        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, id_of=lambda _: group_id, retried=retried)

    alter_consumer_group_offsets = raising_only(try_alter_consumer_group_offsets)

    async def try_delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcomes[TopicPartition, None]:
        """Delete committed offsets. Error of a partition whose topic a member of the group reads: GROUP_SUBSCRIBED_TO_TOPIC."""

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            return deleted_offsets(await peer.call(offset_delete_request(group_id, asked), OffsetDeleteResponse), asked)

        return await self._at_coordinators(CoordinatorKind.GROUP, partitions, ask, id_of=lambda _: group_id)

    delete_consumer_group_offsets = raising_only(try_delete_consumer_group_offsets)


def _named(groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None]) -> Mapping[str, Iterable[TopicPartition] | None]:
    if isinstance(groups, Mapping):
        return cast("Mapping[str, Iterable[TopicPartition] | None]", groups)
    return dict.fromkeys(groups)


def _is_error(found: object, *codes: ErrorCode) -> bool:
    return isinstance(found, KafkaError) and found.code in codes


def _group(group_id: str) -> str:
    return f"group {group_id}"


def _member(name: str) -> str:
    return f"member {name}"
