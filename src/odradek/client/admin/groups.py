"""Admin calls for groups: listing, members and deletion.

All calls but `list_groups` go to the coordinator of each group, and retry while the coordinator moves or loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import COORDINATOR_ERRORS, Outcomes, outcome, results
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.terms import authorized_operations, known, word
from odradek.client.admin.types.groups import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
)
from odradek.client.assignors.protocol import decode_assignment
from odradek.client.core.metadata import Broker
from odradek.client.network.coordinators import CoordinatorKind
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CONSUMER_PROTOCOL = "consumer"

STATES_SINCE = 4
TYPES_SINCE = 5
"""First versions of ListGroups that filter by state (4) and by type (5)."""


def list_groups_request(states: Iterable[GroupState], types: Iterable[GroupType], version: int) -> ListGroupsRequest:
    """Build the request.

    Raises KafkaError(UNSUPPORTED_VERSION) for a filter that the broker would ignore: it would list all groups instead.
    """
    request = ListGroupsRequest(states_filter=[str(each) for each in states], types_filter=[str(each) for each in types])
    for name, given, since in (("states", request.states_filter, STATES_SINCE), ("types", request.types_filter, TYPES_SINCE)):
        if given and version < since:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker supports LIST_GROUPS up to version {version}; filtering by {name} needs version {since}",
            )
    return request


def listed_groups(response: ListGroupsResponse, version: int) -> list[GroupListing]:
    """Return the groups that one broker has listed."""
    return [
        GroupListing(
            each.group_id,
            word(GroupType, each.group_type) if version >= TYPES_SINCE else None,
            each.protocol_type,
            word(GroupState, each.group_state) if version >= STATES_SINCE else None,
        )
        for each in response.groups
    ]


def described_classic_groups(response: DescribeGroupsResponse, coordinator: Broker) -> Outcomes[str, ClassicGroupDescription]:
    """Return the description, or the error, of every classic group of any protocol type.

    Only members of the protocol type "consumer" have an assignment in the description.
    """
    found: Outcomes[str, ClassicGroupDescription] = {}
    for group in response.groups:
        error = outcome(group.error_code, group.error_message, f"group {group.group_id}")
        if error is None and group.group_state == GroupState.DEAD and group.error_message is None:
            # Before version 6 the broker describes a group that does not exist as a dead group (KIP-1043).
            error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} does not exist")
        try:
            found[group.group_id] = error or _classic_group(group, coordinator)
        except ProtocolError as unread:
            found[group.group_id] = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id}: {unread}")
    return found


def _classic_group(group: DescribeGroupsResponse.DescribedGroup, coordinator: Broker) -> ClassicGroupDescription:
    is_consumers = group.protocol_type == CONSUMER_PROTOCOL
    members = tuple(
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            None,
            member.client_id,
            member.client_host,
            tuple(decode_assignment(member.member_assignment).partitions) if is_consumers else (),
        )
        for member in group.members
    )
    return ClassicGroupDescription(
        group.group_id,
        group.protocol_type,
        group.protocol_data,
        members,
        word(GroupState, group.group_state),
        coordinator,
        authorized_operations(group.authorized_operations),
    )


def consumer_group_of(group: ClassicGroupDescription) -> ConsumerGroupDescription | KafkaError:
    """Return a classic group as a consumer group; an error when its protocol type is another."""
    if group.protocol not in (CONSUMER_PROTOCOL, ""):
        return KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} is not a consumer group: its protocol type is {group.protocol}"
        )
    return ConsumerGroupDescription(
        group.group_id,
        group.is_simple_consumer_group,
        group.members,
        group.protocol_data,
        GroupType.CLASSIC,
        group.state,
        group.coordinator,
        group.authorized_operations,
    )


def described_consumer_groups(response: ConsumerGroupDescribeResponse, coordinator: Broker) -> Outcomes[str, ConsumerGroupDescription]:
    """Return the description, or the error, of every group of the consumer protocol (KIP-848)."""
    found: Outcomes[str, ConsumerGroupDescription] = {}
    for group in response.groups:
        error = outcome(group.error_code, group.error_message, f"group {group.group_id}")
        found[group.group_id] = error or ConsumerGroupDescription(
            group.group_id,
            False,
            tuple(_consumer_member(member) for member in group.members),
            group.assignor_name,
            GroupType.CONSUMER,
            word(GroupState, group.group_state),
            coordinator,
            authorized_operations(group.authorized_operations),
            group.group_epoch,
            group.assignment_epoch,
        )
    return found


def _consumer_member(member: ConsumerGroupDescribeResponse.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        _assigned(member.assignment),
        _assigned(member.target_assignment),
        member.member_epoch,
        None if member.member_type < 0 else member.member_type == 1,
    )


def _assigned(assignment: ConsumerGroupDescribeResponse.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic_name, number) for each in assignment.topic_partitions for number in each.partitions)


def deleted_groups(response: DeleteGroupsResponse) -> Outcomes[str, None]:
    """Return None or the error of every group."""
    return {each.group_id: outcome(each.error_code, None, f"group {each.group_id}") for each in response.results}


# -- removal of members -------------------------------------------------------------------------------------------------------------------

_REASON = "member was removed by an admin"
REASON_LENGTH_MAX = 255
"""Characters of a reason that the coordinator keeps (KIP-800)."""


def remove_members_request(group_id: str, instance_ids: Iterable[str], member_ids: Iterable[str], reason: str | None) -> LeaveGroupRequest:
    """Build the request: static members by their group.instance.id, others by their member id."""
    text = (f"{_REASON}: {reason}" if reason else _REASON)[:REASON_LENGTH_MAX]
    identity = LeaveGroupRequest.MemberIdentity
    members = [identity(member_id="", group_instance_id=each, reason=text) for each in instance_ids]
    members += [identity(member_id=each, reason=text) for each in member_ids]
    return LeaveGroupRequest(group_id=group_id, members=members)


def removed_members(response: LeaveGroupResponse, asked: Sequence[str]) -> Outcomes[str, None]:
    """Return None or the error of every member, by group.instance.id or member id.

    An error of the whole response counts for each member.
    """
    whole = outcome(response.error_code, None, "removing members")
    if whole is not None:
        return dict.fromkeys(asked, whole)
    return {
        (name := each.member_id if each.group_instance_id is None else each.group_instance_id): outcome(
            each.error_code, None, f"member {name}"
        )
        for each in response.members
    }


def members_of(description: ConsumerGroupDescription) -> tuple[list[str], list[str]]:
    """Return (the static members by group.instance.id, the other members by member id)."""
    instances = [each.group_instance_id for each in description.members if each.group_instance_id is not None]
    return instances, [each.member_id for each in description.members if each.group_instance_id is None]


_MEMBERS_SINCE = 3
"""First version of LeaveGroup that can name several members, and static members."""


class GroupCalls(AdminBase):
    """Part of `AsyncAdmin` for groups."""

    # -- listing ------------------------------------------------------------------------------------------------------------------------

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

    # -- members ---------------------------------------------------------------------------------------------------------------------

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

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=group_label)

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

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=group_label)

    describe_classic_groups = raising(try_describe_classic_groups)

    async def try_delete_consumer_groups(self, group_ids: Iterable[str]) -> Outcomes[str, None]:
        """Delete groups without members, with their offsets. Errors of a group: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, None]:
            return deleted_groups(await peer.call(DeleteGroupsRequest(groups_names=list(ids)), DeleteGroupsResponse))

        return await self._at_coordinators(CoordinatorKind.GROUP, group_ids, ask, name=group_label)

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


def _is_error(found: object, *codes: ErrorCode) -> bool:
    return isinstance(found, KafkaError) and found.code in codes


def group_label(group_id: str) -> str:
    """Return the name of the group for messages."""
    return f"group {group_id}"


def _member(name: str) -> str:
    return f"member {name}"
