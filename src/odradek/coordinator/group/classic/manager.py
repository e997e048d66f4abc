"""Requests of classic groups (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups), and loading and unloading of groups.

(the classic half of org.apache.kafka.coordinator.group.GroupMetadataManager)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.group import ClassicGroup, join_error
from odradek.coordinator.group.classic.joining import Joining
from odradek.coordinator.group.classic.rebalance import Outcome, Rebalances, nothing
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller, Group
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.protocol.messages.describe_groups import DescribeGroupsResponse
from odradek.protocol.messages.group_records import GroupMetadataValue
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

DescribedGroup = DescribeGroupsResponse.DescribedGroup
MemberResponse = LeaveGroupResponse.MemberResponse


class ClassicGroups:
    """Classic groups of one shard."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, time_ms: Callable[[], int], new_id: Callable[[], UUID]
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._time_ms = time_ms
        self.rebalances = self._rebalances = Rebalances(groups, timers, settings)
        self._joining = Joining(groups, self._rebalances, settings, new_id)

    # -- loading and unloading ---------------------------------------------------------------------------------------------------

    def replay(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """Replay a record while loading, or a tombstone at any time."""
        if value is None:
            self._groups.remove(group_id)
        else:
            self._groups.put(ClassicGroup.from_record(group_id, value, self._time_ms))

    def loaded(self) -> None:
        """Start a full session timeout for each member, so that all of them can find the new coordinator."""
        for group in self._groups:
            if not isinstance(group, ClassicGroup):
                continue
            for member in list(group.members.values()):
                self._rebalances.keep_alive(group, member)
            if len(group.members) > self._settings.max_size:
                self._rebalances.prepare(group, f"the loaded group has more than {self._settings.max_size} members")

    def unloaded(self) -> None:
        """Answer all parked requests with NOT_COORDINATOR, so that the members look up the new coordinator."""
        for group in self._groups:
            if isinstance(group, ClassicGroup):
                group.transition_to(ClassicState.DEAD)
                for member in list(group.members.values()):
                    group.fail_parked(member, ErrorCode.NOT_COORDINATOR, member_id=member.member_id)

    def committed(self, group: Group, member_id: str) -> None:
        """Extend the session of a member that has committed offsets."""
        if isinstance(group, ClassicGroup) and group.is_in(ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            member = group.members.get(member_id)
            if member is not None:
                self._rebalances.keep_alive(group, member)

    # -- requests ----------------------------------------------------------------------------------------------------------------

    def join(self, caller: Caller, request: JoinGroupRequest, response: Deferred[JoinGroupResponse]) -> Outcome:
        group = self._groups.find(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            response.complete(join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return nothing()
        return self._joining.join(caller, request, response)

    def sync(self, request: SyncGroupRequest, response: Deferred[SyncGroupResponse]) -> Outcome:
        """Answer SyncGroup. The leader's assignment is committed before any member receives it."""
        group = self._groups.find_classic(request.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None or group.is_empty else _sync_error(group, request)
        if group is None or error is not None:
            response.complete(SyncGroupResponse(error_code=error or ErrorCode.UNKNOWN_MEMBER_ID))
            return nothing()
        member = group.members[request.member_id]
        if group.is_in(ClassicState.PREPARING_REBALANCE):
            response.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return nothing()
        self._rebalances.synced(group, member.member_id)
        if group.is_in(ClassicState.STABLE):
            # The assignment is committed: a group becomes stable only after the commit, and loaded groups are served only after the commit.
            response.complete(
                SyncGroupResponse(
                    error_code=ErrorCode.NONE,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                )
            )
            return nothing()
        group.park_sync(member, response)
        return self._store(group, request) if group.is_leader(member.member_id) else nothing()

    def _store(self, group: ClassicGroup, request: SyncGroupRequest) -> Outcome:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        missing = [member_id for member_id in group.members if member_id not in given]
        if missing:
            logger.warning("group %s: the leader assigned nothing to %s in generation %d", group.group_id, missing, group.generation_id)
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation_id

        def committed(error: KafkaError | None) -> None:
            if not group.is_in(ClassicState.COMPLETING_REBALANCE) or group.generation_id != generation:
                # A member joined or left in the meantime: the next generation is being prepared.
                return
            if error is not None:
                self._rebalances.fail_syncs(group, error.code)
                self._rebalances.prepare_or_complete(group, f"its assignment could not be stored: {error}")
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
            self._rebalances.propagate(group)
            group.transition_to(ClassicState.STABLE)

        return CoordinatorResult([group.record(assignments)], None, replay=False, on_committed=committed)

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Extend the member's session. REBALANCE_IN_PROGRESS in the response tells the member to rejoin.

        Raises KafkaError for an unknown group, member or generation.
        """
        group = self._groups.find_classic(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {request.group_id} not found.")
        if group.is_in(ClassicState.DEAD):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalances.keep_alive(group, group.members[request.member_id])
        rebalancing = group.is_in(ClassicState.PREPARING_REBALANCE)
        return CoordinatorResult([], HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE))

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove several members. A request with an instance id only, as administrators send it, removes the static member.

        Raises KafkaError with UNKNOWN_MEMBER_ID for an unknown group.
        """
        group = self._groups.find_classic(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {request.group_id} not found.")
        if group.is_in(ClassicState.DEAD):
            return CoordinatorResult([], LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        answers = [
            MemberResponse(
                member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=self._leave_one(group, leaving)
            )
            for leaving in request.members
        ]
        response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
        left = [answer.member_id or answer.group_instance_id for answer in answers if answer.error_code == ErrorCode.NONE]
        outcome = nothing()
        if left and group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            outcome = self._rebalances.prepare_or_complete(group, f"{left} left")
        elif left and group.is_in(ClassicState.PREPARING_REBALANCE):
            outcome = self._rebalances.complete_if_joined(group)
        return CoordinatorResult(outcome.records, response, replay=outcome.replay, on_committed=outcome.on_committed)

    def _leave_one(self, group: ClassicGroup, leaving: LeaveGroupRequest.MemberIdentity) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            known = group.static_member_id(leaving.group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id not in group.pending_join:
            try:
                group.validate_member(member_id, leaving.group_instance_id)
            except KafkaError as error:
                return error.code
        self._rebalances.forget(group, member_id)
        group.remove(member_id)
        return ErrorCode.NONE

    # -- descriptions ------------------------------------------------------------------------------------------------------------

    def describe(self, caller: Caller, group_id: str) -> DescribedGroup:
        """Return the description of a group. Only the group's existence comes from the committed state, because members are soft state."""
        group = self._groups.find_committed(group_id)
        if group is None or not isinstance(group, ClassicGroup):
            why = "not found" if group is None else "is not a classic group"
            described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value, members=[])
            if caller.api_version >= 6:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} {why}."
            return described
        stable = group.is_in(ClassicState.STABLE)
        protocol = group.protocol_name if stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type_name,
            protocol_data=protocol or "",
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.metadata(protocol),
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    if group.is_in(ClassicState.DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    try:
        group.validate_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    for given, actual in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)):
        if given is not None and actual is not None and given != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None
