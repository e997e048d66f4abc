"""Requests of consumer-protocol members, replay, loading, timers and descriptions of consumer groups.

(the consumer half of org.apache.kafka.coordinator.group.GroupMetadataManager)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.consumer import records as write
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerMember, MemberState
from odradek.coordinator.group.consumer.migration import Migration
from odradek.coordinator.group.consumer.reconciliation import Reported
from odradek.coordinator.group.consumer.regexes import RegexResolver
from odradek.coordinator.group.consumer.replay import replays
from odradek.coordinator.group.consumer.sessions import Sessions
from odradek.coordinator.group.consumer.update import Records, RegexChange, Updates
from odradek.coordinator.group.consumer.view import TopicView
from odradek.coordinator.group.group import Caller, Group
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.coordinator.group.classic.rebalance import Rebalances
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

HeartbeatRequest = ConsumerGroupHeartbeatRequest
HeartbeatResponse = ConsumerGroupHeartbeatResponse
DescribedConsumerGroup = ConsumerGroupDescribeResponse.DescribedGroup
DescribedMember = ConsumerGroupDescribeResponse.Member
DescribedAssignment = ConsumerGroupDescribeResponse.Assignment

R = TypeVar("R")

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerGroups:
    """Consumer groups of one shard."""

    def __init__(
        self,
        groups: Groups,
        journal: UndoJournal,
        timers: Timers,
        settings: GroupSettings,
        time_ms: Callable[[], int],
        new_id: Callable[[], UUID],
        rebalances: Rebalances,
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._new_id = new_id
        self.view = TopicView()
        self.sessions = Sessions(groups, timers)
        self.sessions.fence = lambda group, member: self.remove(group, [member], None)
        self.updates = Updates(groups, self.view, settings, self.sessions, RegexResolver(timers, time_ms), time_ms)
        self.migration = Migration(groups, self.view, settings, self.sessions, rebalances, time_ms)
        self.replays = replays(groups, journal)

    # -- loading and metadata ----------------------------------------------------------------------------------------------------

    def loaded(self, image: MetadataImage) -> None:
        """Start a full session timeout for each member, so that all of them can find the new coordinator."""
        self.view.loaded(image)
        for group in self._groups:
            if not isinstance(group, ConsumerGroup):
                continue
            for member in list(group.members.values()):
                self.keep_alive(group, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self.sessions.await_revocation(group.group_id, member)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make groups with changed topics check the topics' metadata at the next heartbeat."""
        changed = self.view.update(delta, image)
        for group in self._groups if changed else ():
            if isinstance(group, ConsumerGroup) and any(name in group.topic_counts for name in changed):
                group.request_refresh()

    def keep_alive(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        timeout_ms = self._settings.consumer_session_timeout_ms(self.view.overrides(group.group_id))
        self.sessions.keep_alive(group.group_id, member.member_id, timeout_ms)

    def forget(self, group: Group) -> None:
        """Cancel the timers of a group that is about to be deleted."""
        for member_id in group.members if isinstance(group, ConsumerGroup) else ():
            self.sessions.forget(group.group_id, member_id)

    # -- heartbeats --------------------------------------------------------------------------------------------------------------

    def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Handle a heartbeat: join (epoch 0), go on, or leave (epochs -1 and -2).

        Raises KafkaError for an unknown group or member, a fenced epoch, and a full group.
        """
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        records: Records = []
        joins = request.member_epoch == 0
        former = self._groups.find(request.group_id)
        group = self._group(request.group_id, records, joins=joins)
        member_id = request.member_id
        self.throw_if_full(group, member_id)
        member_id = member_id or str(self._new_id())
        reported = _reported(request)
        before = self._subscriber(group, member_id, request, reported, records, joins=joins)
        after = _updated(before, caller, request)
        names_changed = self.updates.metadata(group.group_id, before, after, records)
        regex = self.updates.regex(group, before, after, records, caller.may_describe)
        bump = names_changed or regex is RegexChange.RESOLVED
        epoch, homogeneous = self.updates.group_epoch(group, before, after, records, changed=bump)
        target = self.updates.target(group, epoch, before, after, records, homogeneous=homogeneous)
        changed = names_changed or regex is not RegexChange.NONE
        after = self.updates.reconciled(group, after, target, reported, records, changed=changed)
        if isinstance(former, ClassicGroup) and not former.is_empty:
            self.migration.upgraded(former)
        self.keep_alive(group, after)
        response = HeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms(self.view.overrides(group.group_id)),
        )
        if joins or _is_full(request) or before.assigned != after.assigned:
            response.assignment = _assignment(after)

        def committed(error: KafkaError | None) -> None:
            if error is not None:
                self.restore_sessions(group, after.member_id)

        return CoordinatorResult(records, response, on_committed=committed if records else None)

    def restore_sessions(self, seen: ConsumerGroup, member_id: str) -> None:
        """Restore the session timers after the records of a member's heartbeat or join were reverted. `seen` is the group before the
        revert.

        Afterwards exactly the existing members have session timers.
        """
        group_id = seen.group_id
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            # The group is a classic group again; its members would have been brought over.
            for each in (member_id, *seen.members):
                self.sessions.forget(group_id, each)
            return
        if member_id not in group.members:
            self.sessions.forget(group_id, member_id)
        for member in group.members.values():
            if not self.sessions.is_alive(group_id, member.member_id):
                # The revert has restored a static member that was being replaced.
                self.keep_alive(group, member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                self.sessions.keep_awaiting_revocation(group_id, member)

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Return whether the member is in a consumer group now."""
        group = self._groups.find(group_id)
        return isinstance(group, ConsumerGroup) and member_id in group.members

    def _group(self, group_id: str, records: Records, *, joins: bool) -> ConsumerGroup:
        """Return the group, or for a joining member the group that the records will create."""
        group = self._groups.find(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not joins:
            why = "not found" if group is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
        if isinstance(group, ClassicGroup) and not group.is_empty:
            return self.migration.upgrade(group, records)
        if group is not None:
            records += group.tombstones()
        return ConsumerGroup(group_id, _no_journal())

    def throw_if_full(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise KafkaError with GROUP_MAX_SIZE_REACHED for a new member of a full group."""
        most = self._settings.consumer_max_size
        if len(group.members) >= most and member_id not in group.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group already has the maximum number of members, {most}.")

    def _subscriber(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: HeartbeatRequest,
        reported: Reported | None,
        records: Records,
        *,
        joins: bool,
    ) -> ConsumerMember:
        instance_id = request.instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if not joins:
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
                return ConsumerMember(member_id)
            _check_epoch(member, request.member_epoch, reported)
            return member
        existing = group.static_member(instance_id)
        if joins:
            if existing is not None and existing.classic is None and existing.member_epoch != STATIC_LEAVE_EPOCH:
                raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, f"The instance id {instance_id} belongs to member {existing.member_id}.")
            return self.join_static(group, member_id, existing, records)
        member = known_static(existing, instance_id, member_id)
        _check_epoch(member, request.member_epoch, reported)
        return member

    def join_static(self, group: ConsumerGroup, member_id: str, existing: ConsumerMember | None, records: Records) -> ConsumerMember:
        """Return a new static member, or a member that replaces `existing` and takes over all of its state."""
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        member = existing._replace(member_id=member_id, member_epoch=0, previous_epoch=0)
        group_id = group.group_id
        records += write.member_tombstones(group_id, existing.member_id)
        records.append(write.member_metadata(group_id, member))
        records.append(write.target_assignment(group_id, member_id, group.targets.get(existing.member_id) or {}))
        records.append(write.current_assignment(group_id, member))
        if existing.member_id != member_id:
            self.sessions.forget(group_id, existing.member_id)
        return member

    # -- leaving -----------------------------------------------------------------------------------------------------------------

    def _leave(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        group = self._group(request.group_id, [], joins=False)
        response = HeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            return self.remove(group, [group.member(request.member_id)], response)
        member = known_static(group.static_member(request.instance_id), request.instance_id, request.member_id)
        if request.member_epoch == LEAVE_EPOCH:
            return self.remove(group, [member], response)
        # The member keeps its partitions for its return. Their assignment epochs become 0: the partitions belong to any member of the
        # instance.
        away = member._replace(
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
            pending_revocation={},
        )
        return CoordinatorResult([write.current_assignment(group.group_id, away)], response)

    def remove(self, group: ConsumerGroup, members: list[ConsumerMember], response: R) -> CoordinatorResult[R]:
        """Remove members that leave or are fenced. When only classic-protocol members remain, the group may become a classic group."""
        if not members:
            return CoordinatorResult([], response)
        records: Records = []
        if self.migration.may_downgrade(group, members):
            sessions = list(group.members)
            self.migration.downgrade(group, members, None, records, rebalance="members of the consumer protocol have left")

            def downgraded(error: KafkaError | None) -> None:
                for member_id in sessions if error is None else ():
                    if not self.is_member(group.group_id, member_id):
                        self.sessions.forget(group.group_id, member_id)

            return CoordinatorResult(records, response, replay=False, on_committed=downgraded)
        group_id = group.group_id
        leaving: dict[str, int] = {}
        for member in members:
            records += write.member_tombstones(group_id, member.member_id)
            if member.regex is not None:
                leaving[member.regex] = leaving.get(member.regex, 0) + 1
        unused = [regex for regex, count in leaving.items() if group.regex_members.get(regex) == count]
        records += [write.regex_tombstone(group_id, regex) for regex in unused]
        counts = group.topic_counts_without(members, unused)
        epoch = group.epochs.group + 1
        self._settings.counts.consumer_rebalances += 1
        records.append(write.group_epoch(group_id, epoch, self.view.hashes.of_group(counts, self.view.image)))
        logger.info("group %s changes to epoch %d: %s left", group_id, epoch, [member.member_id for member in members])
        for member in members:
            self.sessions.forget(group_id, member.member_id)

        def committed(error: KafkaError | None) -> None:
            for member in members if error is not None else ():
                # After a timeout the records may still be committed. The group then has no member whose session could be restored.
                if member.member_id in group.members:
                    self.keep_alive(group, member)

        return CoordinatorResult(records, response, on_committed=committed)

    # -- descriptions ------------------------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """Return the description of the committed state."""
        group = self._groups.find_committed(group_id)
        if not isinstance(group, ConsumerGroup):
            why = "not found" if group is None else "is not a consumer group"
            return failed_description(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
        epochs = group.committed_epochs()
        return DescribedConsumerGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=epochs.group,
            assignment_epoch=epochs.target,
            assignor_name=group.preferred_assignor(None, None) or next(iter(self._settings.consumer_assignors)),
            members=[
                self._describe_member(member, group.targets.committed(name) or {}) for name, member in group.members.committed_items()
            ],
        )

    def _describe_member(self, member: ConsumerMember, target: Partitions) -> DescribedMember:
        owned: dict[UUID, frozenset[int]] = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
        for topic_id, epochs in member.pending_revocation.items():
            owned[topic_id] = owned.get(topic_id, frozenset()) | epochs.keys()
        return DescribedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            assignment=self._describe_partitions(owned),
            target_assignment=self._describe_partitions(target),
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _describe_partitions(self, partitions: Partitions) -> DescribedAssignment:
        return DescribedAssignment(
            topic_partitions=[
                ConsumerGroupDescribeResponse.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers)
                for name, topic_id, numbers in self.view.named(partitions)
            ]
        )


def failed_description(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedConsumerGroup:
    """Return a description with an error."""
    return DescribedConsumerGroup(error_code=code, error_message=message, group_id=group_id, group_state="", assignor_name="", members=[])


def _no_journal() -> UndoJournal:
    journal = UndoJournal()
    journal.recording = False
    return journal


def known_static(existing: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the static member. Raises KafkaError with UNKNOWN_MEMBER_ID for an unknown instance, and with FENCED_INSTANCE_ID when another
    member has replaced this one.
    """
    if existing is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"Member {existing.member_id} has replaced the former member with instance id {instance_id}."
        )
    return existing


def _check_epoch(member: ConsumerMember, received: int, reported: Reported | None) -> None:
    """Raise KafkaError with FENCED_MEMBER_EPOCH unless the epoch is current.

    A member whose last response got lost is accepted: it has the previous epoch, and reports only partitions that are assigned to it.
    """
    if received in (0, member.member_epoch):
        return
    if received > member.member_epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member's epoch {received} is later than {member.member_epoch}, the epoch that the coordinator knows; the member "
            "must join again.",
        )
    behind = received == member.previous_epoch and reported is not None
    if not behind or not _is_subset(reported or {}, member.assigned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member's epoch {received} is earlier than {member.member_epoch}, the epoch that the coordinator knows; the "
            "member must join again.",
        )


def _is_subset(reported: Reported, assigned: Mapping[UUID, Iterable[int]]) -> bool:
    return all(set(partitions) <= set(assigned.get(topic_id, ())) for topic_id, partitions in reported.items())


def _reported(request: HeartbeatRequest) -> Reported | None:
    """Return the partitions that the member reports; None for unchanged partitions."""
    if request.topic_partitions is None:
        return None
    owned: dict[UUID, set[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _updated(member: ConsumerMember, caller: Caller, request: HeartbeatRequest) -> ConsumerMember:
    """Return the member with the values of the request; null values leave the member's values unchanged."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _is_full(request: HeartbeatRequest) -> bool:
    """Return whether the request has all fields, which makes the response contain the assignment."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None


def _assignment(member: ConsumerMember) -> HeartbeatResponse.Assignment:
    return HeartbeatResponse.Assignment(
        topic_partitions=[
            HeartbeatResponse.TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ]
    )
