"""JoinGroup of classic groups: new members (dynamic and static), and known members that rejoin."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.group import ClassicGroup, join_error
from odradek.coordinator.group.classic.member import ClassicMember, Protocols
from odradek.coordinator.group.classic.rebalance import Outcome, Rebalances, nothing
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.shard import CoordinatorResult
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Milliseconds after which a new member that does not know its id yet is removed (group.new.member.join.timeout.ms)."""

MAX_PENDING_MEMBERS = 20_000
"""Most member ids of a group that were sent out and have not joined yet; bounds clients that keep requesting new ids."""

Response = Deferred[JoinGroupResponse]


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple([(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols])


class Joining:
    """JoinGroup of one shard. The Deferred that comes with a request is completed at once, or after the rebalance."""

    def __init__(self, groups: Groups, rebalances: Rebalances, settings: GroupSettings, new_id: Callable[[], UUID]) -> None:
        self._groups = groups
        self._rebalances = rebalances
        self._settings = settings
        self._new_id = new_id

    def join(self, caller: Caller, request: JoinGroupRequest, response: Response) -> Outcome:
        """Join a classic group; create the group for a request without member id."""
        group = self._groups.find_classic(request.group_id)
        is_new_group = group is None
        if group is None:
            if request.member_id:
                response.complete(join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
                return nothing()
            group = self._groups.get_or_create_classic(request.group_id)
        if not self._accepts(group, request.member_id):
            group.remove(request.member_id)
            self._rebalances.forget(group, request.member_id)
            response.complete(join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
            outcome = nothing()
        elif not group.supports(request.protocol_type, protocols_of(request)):
            response.complete(join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            outcome = nothing()
        elif not request.member_id:
            outcome = self._join_new(caller, request, group, response)
        else:
            outcome = self._join_known(caller, request, group, response)
        if is_new_group and not outcome.records:
            # The new group has to be in the log, too.
            first = next(iter(group.members), None)
            return CoordinatorResult(
                [group.empty_record()], None, replay=False, on_committed=lambda error: self._created(group, first, response, error)
            )
        return outcome

    def _created(self, group: ClassicGroup, first: str | None, response: Response, error: KafkaError | None) -> None:
        if error is None:
            return
        logger.warning("group %s: the new group could not be stored: %s", group.group_id, error)
        # When the append was reverted, the group is gone, and so are all members that joined in the meantime. Otherwise the append timed
        # out and may still be committed. Then only the first member is refused, and only while it still waits: once it has got a
        # generation, it is a member.
        lost = self._groups.find(group.group_id) is not group
        if lost:
            self._rebalances.forget_group(group)
        waiting = [member.member_id for member in group.members.values() if member.member_id == first and member.awaiting_join is response]
        for member_id in list(group.members) if lost else waiting:
            group.fail_parked(group.members[member_id], error.code, member_id="")
            self._rebalances.forget(group, member_id)
            group.remove(member_id)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether group.max.size admits the member.

        During a rebalance the first members to rejoin are admitted. In a completed generation the existing members are admitted.
        """
        if group.is_in(ClassicState.EMPTY, ClassicState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(ClassicState.PREPARING_REBALANCE):
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    # -- new members -------------------------------------------------------------------------------------------------------------

    def _join_new(self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, response: Response) -> Outcome:
        instance_id = request.group_instance_id
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None:
            existing = group.static_member_id(instance_id)
            if existing is not None:
                return self._replace_static(caller, request, group, existing, member_id, response)
            return self._add(caller, request, group, member_id, response)
        if caller.api_version < 4:
            return self._add(caller, request, group, member_id, response)
        if len(group.pending_join) >= MAX_PENDING_MEMBERS:
            response.complete(join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
            return nothing()
        # The client joins again with this id: a member whose response got lost does not stay in the group (KIP-394).
        group.pending_join.add(member_id)
        self._rebalances.await_member(group.group_id, member_id, request.session_timeout_ms)
        response.complete(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        return nothing()

    def _add(self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, member_id: str, response: Response) -> Outcome:
        member = ClassicMember(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=protocols_of(request),
        )
        member.is_new = True
        if group.is_in(ClassicState.PREPARING_REBALANCE) and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member, response)
        self._rebalances.keep_alive(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalances.prepare_or_complete(group, f"{member_id} joins; {_reason(request)}")

    # -- known members -----------------------------------------------------------------------------------------------------------

    def _join_known(self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, response: Response) -> Outcome:
        member_id = request.member_id
        if member_id in group.pending_join:
            if request.group_instance_id is not None:
                # This id was given to a dynamic member; a static member cannot use it.
                response.complete(join_error(member_id, ErrorCode.UNKNOWN_MEMBER_ID))
                return nothing()
            return self._add(caller, request, group, member_id, response)
        try:
            group.validate_member(member_id, request.group_instance_id)
        except KafkaError as error:
            response.complete(join_error(member_id, error.code))
            return nothing()
        member = group.members[member_id]
        if group.is_in(ClassicState.PREPARING_REBALANCE):
            return self._update(request, group, member, response, "joins again")
        unchanged = member.protocols == protocols_of(request)
        if group.is_in(ClassicState.COMPLETING_REBALANCE) and unchanged:
            # The client may not have received the previous response.
            response.complete(group.join_response(member_id, with_members=group.is_leader(member_id)))
            return nothing()
        if group.is_in(ClassicState.STABLE) and unchanged and not group.is_leader(member_id):
            response.complete(group.join_response(member_id, with_members=False))
            return nothing()
        # A leader requests a rebalance by rejoining, even with unchanged metadata.
        return self._update(
            request, group, member, response, "is the leader and joins again" if unchanged else "joins with different metadata"
        )

    def _update(self, request: JoinGroupRequest, group: ClassicGroup, member: ClassicMember, response: Response, what: str) -> Outcome:
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, response)
        return self._rebalances.prepare_or_complete(group, f"{member.member_id} {what}; {_reason(request)}")

    # -- static members ----------------------------------------------------------------------------------------------------------

    def _replace_static(
        self, caller: Caller, request: JoinGroupRequest, group: ClassicGroup, old_id: str, new_id: str, response: Response
    ) -> Outcome:
        """Replace a static member that has restarted. A stable group with the same protocol does not rebalance."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        leader_before = group.leader_id
        old = group.members[old_id]
        member = group.replace_static(instance_id, old_id, new_id)
        self._rebalances.forget(group, old_id)
        self._rebalances.keep_alive(group, member)
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, response)
        reason = f"static member {instance_id} now has the member id {new_id}; {_reason(request)}"
        if group.is_in(ClassicState.COMPLETING_REBALANCE):
            # The leader may already be computing an assignment for the old id.
            return self._rebalances.prepare(group, reason)
        if not group.is_in(ClassicState.STABLE):
            return self._rebalances.complete_if_joined(group)
        if group.select_protocol() != group.protocol_name:
            return self._rebalances.prepare_or_complete(group, reason)
        logger.info("group %s: %s, without a rebalance", group.group_id, reason)
        # Another replacement may come before this one is stored, and both appends may fail.
        member.replaces = old.replaces or old

        def committed(error: KafkaError | None) -> None:
            if error is None:
                member.replaces = None
                current = group.members.get(group.static_member_id(instance_id) or "")
                if current is not None and current.replaces is not None:
                    current.replaces = member
                self._answer_replaced(caller, group, member, leader_before)
            elif group.members.get(new_id) is member:
                self._take_back(group, member, error)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        return CoordinatorResult([group.record(assignments)], None, replay=False, on_committed=committed)

    def _take_back(self, group: ClassicGroup, member: ClassicMember, error: KafkaError) -> None:
        """Restore the static member that is in the log, after the append of its replacement failed."""
        stored, instance_id = member.replaces, member.group_instance_id
        assert stored is not None
        assert instance_id is not None
        logger.warning("group %s: static member %s keeps the member id %s: %s", group.group_id, instance_id, stored.member_id, error)
        group.complete_join(member, join_error("", error.code))
        group.update(member, stored.protocols, stored.rebalance_timeout_ms, stored.session_timeout_ms, None)
        self._rebalances.forget(group, member.member_id)
        self._rebalances.keep_alive(group, group.replace_static(instance_id, member.member_id, stored.member_id))

    def _answer_replaced(self, caller: Caller, group: ClassicGroup, member: ClassicMember, leader_before: str | None) -> None:
        if member.awaiting_join is None or not group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            # A rebalance has begun in the meantime; its end answers the request.
            return
        leads = group.is_leader(member.member_id)
        if caller.api_version >= 9:
            response = group.join_response(member.member_id, with_members=leads, skip=leads)
        else:
            # A client before version 9 would compute an assignment if it were named leader; it has to keep its former assignment.
            response = group.join_response(member.member_id, with_members=False, leader=leader_before)
        group.complete_join(member, response)


def _reason(request: JoinGroupRequest) -> str:
    return f"client reason: {request.reason or 'not provided'}"
