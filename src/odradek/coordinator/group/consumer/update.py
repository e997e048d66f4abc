"""Consequences of a member's new subscription: patterns, group epoch, target assignment, the member's next step.

These functions read the group and add records; replay of the records changes the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto

from odradek.assignment.spec import AssignorError, GroupSpec, MemberSpec, Partitions
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.consumer import records as write
from odradek.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex, SubscriptionCount, TopicCounts, is_homogeneous
from odradek.coordinator.group.consumer.member import ConsumerMember, MemberState
from odradek.coordinator.group.consumer.reconciliation import Reported, Target, reconcile
from odradek.coordinator.group.consumer.regexes import REFRESH_AGAIN_MS, MayDescribe, RegexResolver, Resolved
from odradek.coordinator.group.consumer.sessions import Outcome, Sessions
from odradek.coordinator.group.consumer.view import TopicView
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.patterns import compile_pattern
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import CoordinatorResult

logger = logging.getLogger(__name__)

Records = list[CoordinatorRecord]
_NEVER_MS = 2**31 - 1
"""Milliseconds until topics are checked again, when no topic changes before."""


class RegexChange(Enum):
    """Change of a member's pattern by a heartbeat."""

    NONE = auto()
    UNRESOLVED = auto()
    """The member has another pattern, whose topics are not known yet."""
    RESOLVED = auto()
    """The member has another pattern or none, and its subscribed topics change now."""


class Updates:
    """Updates of one shard's groups."""

    def __init__(
        self,
        groups: Groups,
        view: TopicView,
        settings: GroupSettings,
        sessions: Sessions,
        resolver: RegexResolver,
        time_ms: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._view = view
        self._settings = settings
        self._sessions = sessions
        self._resolver = resolver
        self._time_ms = time_ms

    # -- subscriptions -----------------------------------------------------------------------------------------------------------

    def metadata(self, group_id: str, before: ConsumerMember, after: ConsumerMember, records: Records) -> bool:
        """Add the record of changed member metadata; return whether the subscribed names have changed."""
        if after == before:
            return False
        records.append(write.member_metadata(group_id, after))
        return after.topic_names != before.topic_names

    def regex(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        records: Records,
        may_describe: MayDescribe | None = None,
    ) -> RegexChange:
        """Add the records of a changed pattern, start an evaluation if one is due, and return the change.

        Raises KafkaError with INVALID_REGULAR_EXPRESSION for an invalid pattern that no other member of the group has.
        """
        old, new = before.regex, after.regex
        change, unknown = RegexChange.NONE, False
        if before.topic_regex != after.topic_regex:
            change = RegexChange.UNRESOLVED
            if old is not None and group.regex_members.get(old) == 1:
                records.append(write.regex_tombstone(group.group_id, old))
            if new is not None:
                if not group.regex_members.get(new):
                    compile_pattern(new)
                    unknown = True
                elif new in group.regexes:
                    change = RegexChange.RESOLVED
            elif old is not None:
                change = RegexChange.RESOLVED
        if unknown or group.regex_members:
            self._refresh_regexes(group, before, after, may_describe, unknown=unknown)
        return change

    def _refresh_regexes(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, may_describe: MayDescribe | None, *, unknown: bool
    ) -> None:
        if self._resolver.is_running(group.group_id):
            return
        last = next(iter(group.regexes.values()), None)
        now_ms = self._time_ms()
        if last is not None and now_ms <= last.timestamp_ms + REFRESH_AGAIN_MS:
            return
        regexes = group.regex_members_with(before, after)
        if not regexes:
            return
        due = (
            unknown
            or len(regexes) != len(group.regexes)
            or last is None
            or last.version < self._view.version_with_new_topics
            or now_ms > last.timestamp_ms + self._settings.regex_refresh_interval_ms
        )
        if due:
            group_id = group.group_id
            self._resolver.start(
                group_id, regexes, self._view.image, lambda resolved: self._regexes_resolved(group_id, resolved), may_describe
            )

    def _regexes_resolved(self, group_id: str, resolved: Resolved) -> Outcome:
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult([], None)
        records: Records = []
        counts = dict(group.topic_counts.items())
        changed = False
        for regex, found in resolved.items():
            if not group.regex_members.get(regex):
                continue
            known = group.regexes.get(regex) or ResolvedRegex(frozenset(), 0, 0)
            if known.topics != found.topics:
                changed = True
                _count_regex(counts, known.topics, -1)
                _count_regex(counts, found.topics, 1)
            elif regex not in group.regexes:
                # The pattern matches no topics, but topics that its members subscribed to before have to be assigned to other members.
                changed = changed or self._exceeds_subscription(group, regex)
            records.append(write.resolved_regex(group_id, regex, found.topics, found.version, found.timestamp_ms))
        epochs = group.epochs
        metadata_hash = self._view.hashes.of_group(counts, self._view.image)
        if changed or metadata_hash != epochs.metadata_hash:
            records.append(self._bumped(group, epochs.group + 1, metadata_hash))
            self._looked(group, epochs.group + 1)
        return CoordinatorResult(records, None)

    def _exceeds_subscription(self, group: ConsumerGroup, regex: str) -> bool:
        """Return whether a member with the pattern, which matches nothing, has topics in its target to which it does not subscribe."""
        return any(
            group.target_of(member.member_id, member.instance_id).keys() - set(self._view.ids_of(member.topic_names))
            for member in group.members.values()
            if member.regex == regex
        )

    # -- the group's epoch -------------------------------------------------------------------------------------------------------

    def group_epoch(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, records: Records, *, changed: bool
    ) -> tuple[int, bool]:
        """Return the group's new epoch, and whether all members then subscribe to the same topics.

        A bumped epoch adds a record.
        """
        epochs = group.epochs
        looks = changed or group.metadata_expired(self._time_ms())
        if not looks and epochs.target >= epochs.group:
            # The case of nearly all heartbeats: no assignment is due, so the caller does not use the second value.
            return epochs.group, True
        counts = group.topic_counts_with(before, after)
        members = len(group.members)
        if after.member_id not in group.members and group.static_member(after.instance_id) is None:
            members += 1
        homogeneous = is_homogeneous(group.regex_members_with(before, after), counts, members)
        if not looks:
            # A new member with an unresolved pattern does not change the epoch, but takes part in the computation of the target.
            return epochs.group, homogeneous
        metadata_hash = self._view.hashes.of_group(counts, self._view.image)
        epoch = epochs.group
        if changed or metadata_hash != epochs.metadata_hash:
            epoch += 1
            records.append(self._bumped(group, epoch, metadata_hash))
        self._looked(group, epoch)
        if epochs.has_partition_metadata:
            records.append(write.partition_metadata_tombstone(group.group_id))
        return epoch, homogeneous

    def _looked(self, group: ConsumerGroup, epoch: int) -> None:
        group.refresh_at_ms = self._time_ms() + _NEVER_MS
        group.refresh_epoch = epoch

    def _bumped(self, group: ConsumerGroup, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        """Return the record of the group's new epoch, and count the rebalance."""
        self._settings.counts.consumer_rebalances += 1
        logger.info("group %s changes to epoch %d", group.group_id, epoch)
        return write.group_epoch(group.group_id, epoch, metadata_hash)

    # -- the target assignment ---------------------------------------------------------------------------------------------------

    def target(
        self,
        group: ConsumerGroup,
        epoch: int,
        before: ConsumerMember,
        after: ConsumerMember,
        records: Records,
        *,
        homogeneous: bool,
    ) -> tuple[int, Partitions]:
        """Return epoch and partitions of the member's target. The target is computed for `epoch` unless the last computation is too recent.

        Raises KafkaError with UNKNOWN_SERVER_ERROR when the assignor fails.
        """
        epochs, now_ms = group.epochs, self._time_ms()
        interval_ms = self._settings.consumer_assignment_interval_ms(self._view.overrides(group.group_id))
        too_soon = epochs.target_timestamp_ms != 0 and now_ms < epochs.target_timestamp_ms + interval_ms
        if epochs.target >= epoch or too_soon:
            return epochs.target, group.target_of(after.member_id, after.instance_id)
        assignors = self._settings.consumer_assignors
        preferred = group.preferred_assignor(before, after)
        name = preferred if preferred in assignors else next(iter(assignors))
        spec = self._spec(group, after, homogeneous=homogeneous)
        try:
            assigned = assignors[name](spec)
        except AssignorError as error:
            logger.error("group %s: %s cannot assign for epoch %d: %s", group.group_id, name, epoch, error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no target assignment for epoch {epoch}: {error}") from error
        for member_id in spec.members:
            partitions = assigned.get(member_id, {})
            if partitions != group.targets.get(member_id):
                records.append(write.target_assignment(group.group_id, member_id, partitions))
        records.append(write.target_epoch(group.group_id, epoch, now_ms))
        logger.info("group %s: %s has assigned for epoch %d", group.group_id, name, epoch)
        return epoch, assigned.get(after.member_id, {})

    def _spec(self, group: ConsumerGroup, updated: ConsumerMember, *, homogeneous: bool) -> GroupSpec:
        replaced = None if updated.instance_id is None else group.static_members.get(updated.instance_id)
        members: dict[str, MemberSpec] = {}
        for member in [*group.members.values(), updated]:
            if member.member_id in (replaced, updated.member_id) and member is not updated:
                continue
            subscribed = self._view.ids_of(group.subscribed_names(member))
            former = group.target_of(member.member_id, member.instance_id)
            members[member.member_id] = MemberSpec(subscribed, former, member.instance_id, member.rack_id)
        topics = {topic_id for member in members.values() for topic_id in member.topics}
        return GroupSpec(members, self._view.partition_counts(topics), homogeneous)

    # -- the member --------------------------------------------------------------------------------------------------------------

    def reconciled(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: tuple[int, Partitions],
        reported: Reported | None,
        records: Records,
        *,
        changed: bool,
    ) -> ConsumerMember:
        """Return the member after its next step towards the target.

        A changed member adds a record, and starts or ends its revocation timeout.
        """
        if not changed and member.is_reconciled_to(target[0]):
            return member
        subscribed = self._view.ids_of(group.subscribed_names(member))
        after = reconcile(member, Target(*target, subscribed, group.is_free), reported, subscription_changed=changed)
        if after == member:
            return member
        records.append(write.current_assignment(group.group_id, after))
        if after.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._sessions.await_revocation(group.group_id, after)
            else:
                self._sessions.revoked(group.group_id, after.member_id)
        return after


def _count_regex(counts: TopicCounts, topics: frozenset[str], change: int) -> None:
    for topic in topics:
        count = counts.get(topic, SubscriptionCount())
        count = SubscriptionCount(count.by_name, max(count.by_regex + change, 0))
        if count.by_name or count.by_regex:
            counts[topic] = count
        else:
            counts.pop(topic, None)
