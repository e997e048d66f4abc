"""Members of the classic protocol in consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848, migration).

The generation of such a member is its epoch. The coordinator computes the assignment, so these groups have no leader. A member joins again
after it has changed its subscription or given up partitions. REBALANCE_IN_PROGRESS tells a member that a new assignment exists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.group import join_error
from odradek.coordinator.group.classic.joining import protocols_of
from odradek.coordinator.group.consumer.embedded import read_subscription, write_assignment
from odradek.coordinator.group.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from odradek.coordinator.group.consumer.manager import ConsumerGroups, known_static
from odradek.coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState
from odradek.coordinator.group.consumer.reconciliation import Reported
from odradek.coordinator.group.consumer.sessions import Outcome
from odradek.coordinator.group.consumer.update import Records, RegexChange
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.shard import CoordinatorResult
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

_KNOWN_MEMBER_ID_SINCE = 4
"""First JoinGroup version in which a new dynamic member joins again with its id (KIP-394)."""


class ClassicMembers:
    """Classic-protocol members of one shard's consumer groups. Methods raise KafkaError for the response's error."""

    def __init__(self, consumer: ConsumerGroups, settings: GroupSettings, new_id: Callable[[], UUID]) -> None:
        self._consumer = consumer
        self._settings = settings
        self._new_id = new_id

    # -- joining -----------------------------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest, response: Deferred[JoinGroupResponse]) -> Outcome:
        """Join the group. The response completes once the records of the member's reconciliation are committed."""
        policy = self._settings.migration_policy
        if not policy.upgrade and not policy.downgrade:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {group.group_id} accepts only members of the consumer protocol."
            )
        is_new = not request.member_id
        member_id = request.member_id or str(self._new_id())
        self._consumer.throw_if_full(group, member_id)
        protocols = protocols_of(request)
        if not group.supports_classic(request.protocol_type, [name for name, _ in protocols]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"No protocol of {member_id} is supported by all other members.")
        if is_new and request.group_instance_id is None and caller.api_version >= _KNOWN_MEMBER_ID_SINCE:
            response.complete(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return CoordinatorResult([], None)
        try:
            subscription = read_subscription(protocols[0][1])
        except ProtocolError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the subscription of {member_id} is malformed: {error}") from error
        records: Records = []
        before = self._subscriber(group, member_id, request.group_instance_id, records, is_new=is_new)
        after = _updated(before, caller, request, subscription)
        return self._joined(group, before, after, self._reported(subscription), caller, request, response, records)

    def _subscriber(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, records: Records, *, is_new: bool
    ) -> ConsumerMember:
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        existing = group.static_member(instance_id)
        if is_new:
            return self._consumer.join_static(group, member_id, existing, records)
        return known_static(existing, instance_id, member_id)

    def _reported(self, subscription: ConsumerProtocolSubscription) -> Reported:
        owned: dict[UUID, set[int]] = {}
        for topic in subscription.owned_partitions:
            topic_id = self._consumer.view.topic_id(topic.topic)
            if topic_id is not None:
                owned.setdefault(topic_id, set()).update(topic.partitions)
        return owned

    def _joined(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        reported: Reported,
        caller: Caller,
        request: JoinGroupRequest,
        response: Deferred[JoinGroupResponse],
        records: Records,
    ) -> Outcome:
        updates, sessions, group_id = self._consumer.updates, self._consumer.sessions, group.group_id
        existing = group.static_member(request.group_instance_id)
        downgrade = existing is not None and self._consumer.migration.may_downgrade_replacing(group, existing)
        names_changed = updates.metadata(group_id, before, after, records)
        changed = updates.regex(group, before, after, records, caller.may_describe) is not RegexChange.NONE or names_changed
        epoch, homogeneous = updates.group_epoch(group, before, after, records, changed=changed)
        if downgrade:
            stale = group.epochs.target < epoch
            if not stale:
                target = (group.epochs.target, group.target_of(after.member_id, after.instance_id))
                after = updates.reconciled(group, after, target, reported, records, changed=changed)
            reason = "its assignment was not up to date when the last member of the consumer protocol was replaced" if stale else None
            self._consumer.migration.downgrade(group, [], after, records, rebalance=reason)
        else:
            target = updates.target(group, epoch, before, after, records, homogeneous=homogeneous)
            after = updates.reconciled(group, after, target, reported, records, changed=changed)
        answer = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=after.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=after.member_id,
            members=[],
        )

        def committed(error: KafkaError | None) -> None:
            if error is not None:
                self._consumer.restore_sessions(group, after.member_id)
                return
            sessions.joined(group_id, after.member_id)
            if not downgrade and self._consumer.is_member(group_id, after.member_id):
                sessions.keep_alive(group_id, after.member_id, request.session_timeout_ms)
                sessions.await_sync(group_id, after.member_id, request.rebalance_timeout_ms)
            response.complete(answer)

        return CoordinatorResult(records, None, replay=not downgrade, on_committed=committed)

    # -- in the group ------------------------------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, response: Deferred[SyncGroupResponse]) -> Outcome:
        """Return the member's assigned partitions of its epoch, in the form of the classic protocol.

        Raises KafkaError with REBALANCE_IN_PROGRESS when the member has to join again.
        """
        member, classic = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The protocol of member {member.member_id} is {protocol}.")
        sessions, group_id = self._consumer.sessions, group.group_id
        if group.epochs.target > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            sessions.await_join(group_id, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"Member {member.member_id} must join again.")
        answer = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, self._consumer.view, metadata),
        )

        def committed(error: KafkaError | None) -> None:
            if error is not None:
                return
            if self._consumer.is_member(group_id, member.member_id):
                # The member may have left in the meantime.
                sessions.synced(group_id, member.member_id)
                sessions.keep_alive(group_id, member.member_id, classic.session_timeout_ms)
            response.complete(answer)

        return CoordinatorResult([], None, on_committed=committed)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Extend the member's session; the response has REBALANCE_IN_PROGRESS when the member has to join again."""
        member, classic = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._consumer.sessions.keep_alive(group.group_id, member.member_id, classic.session_timeout_ms)
        code = ErrorCode.NONE
        unreleased = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if member.member_epoch < group.epochs.target or member.state is MemberState.UNREVOKED_PARTITIONS or unreleased:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self._consumer.sessions.await_join(group.group_id, member)
        return CoordinatorResult([], HeartbeatResponse(error_code=code))

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, ClassicMetadata]:
        member = group.member(member_id) if instance_id is None else known_static(group.static_member(instance_id), instance_id, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation != member.member_epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"Generation {generation} differs from the member's epoch {member.member_epoch}."
            )
        return member, member.classic

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove several members of either protocol.

        A request with an instance id only, as administrators send it, removes the static member.
        """
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for each in request.members:
            code = ErrorCode.NONE
            try:
                member = _leaving(group, each)
                leaving[member.member_id] = member
            except KafkaError as error:
                code = error.code
            answers.append(
                LeaveGroupResponse.MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
            )
        response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=answers)
        return self._consumer.remove(group, list(leaving.values()), response)


def _leaving(group: ConsumerGroup, each: LeaveGroupRequest.MemberIdentity) -> ConsumerMember:
    if each.group_instance_id is None:
        return group.member(each.member_id)
    existing = group.static_member(each.group_instance_id)
    return known_static(existing, each.group_instance_id, each.member_id or ("" if existing is None else existing.member_id))


def _updated(
    member: ConsumerMember, caller: Caller, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, protocols_of(request)),
    )
