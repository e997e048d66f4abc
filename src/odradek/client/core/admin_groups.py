"""Groups in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.groups import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
)
from odradek.client.assignors.protocol import decode_assignment
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import authorized_operations, word
from odradek.client.core.metadata import Broker
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsResponse
from odradek.protocol.messages.describe_groups import DescribeGroupsResponse
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
