"""Change of a group's protocol while it has members (KIP-848: online upgrade and downgrade; group.consumer.migration.policy).

A classic group of consumers becomes a consumer group when the first consumer-protocol member joins. It becomes a classic group again when
the last such member leaves. Classic-protocol members stay members all the time, and are told to rejoin after a change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from odradek.coordinator.group.classic.member import ClassicMember
from odradek.coordinator.group.classic.rebalance import Rebalances
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.consumer import records as write
from odradek.coordinator.group.consumer.embedded import read_assignment, read_subscription, write_assignment
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import ClassicMetadata, ConsumerMember
from odradek.coordinator.group.consumer.sessions import Sessions
from odradek.coordinator.group.consumer.view import TopicView
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.errors import ProtocolError

logger = logging.getLogger(__name__)


class Migration:
    """Migration of one shard's groups."""

    def __init__(
        self,
        groups: Groups,
        view: TopicView,
        settings: GroupSettings,
        sessions: Sessions,
        rebalances: Rebalances,
        time_ms: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._view = view
        self._settings = settings
        self._sessions = sessions
        self._rebalances = rebalances
        self._time_ms = time_ms

    # -- to a consumer group -----------------------------------------------------------------------------------------------------

    def upgrade(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """Return the consumer group that the records will create from a classic group.

        The classic group stays unchanged until `upgraded`, because the joining member may still be refused. Raises KafkaError with
        GROUP_ID_NOT_FOUND when the group has to stay a classic group.
        """
        self._check_upgrade(group)
        try:
            members = [self._upgraded_member(group, member) for member in group.members.values()]
        except (ProtocolError, KeyError) as error:
            raise _refused(group.group_id, f"its embedded protocol is malformed: {error}") from error
        upgraded = self._upgraded_group(group, members)
        records += group.tombstones()
        records += _group_records(upgraded)
        return upgraded

    def upgraded(self, group: ClassicGroup) -> None:
        """Answer all parked requests with REBALANCE_IN_PROGRESS, and start session timeouts in the consumer group.

        Call this method once the records of `upgrade` are certain to be returned.
        """
        for member in list(group.members.values()):
            group.fail_parked(member, ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            self._sessions.keep_alive(group.group_id, member.member_id, member.session_timeout_ms)
        logger.info("group %s becomes a consumer group", group.group_id)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._settings.migration_policy.upgrade:
            raise _refused(group.group_id, "group.consumer.migration.policy does not permit it")
        if not group.uses_consumer_protocol:
            raise _refused(group.group_id, "its members are not consumers")
        if len(group.members) > self._settings.consumer_max_size:
            raise _refused(group.group_id, "it has more members than a consumer group can have")

    def _upgraded_member(self, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(group.group_id, "its assignor keeps user data in the assignment, which would be lost")
        # A group without a completed generation has no protocol: the subscription comes from the member's first protocol.
        protocol = group.protocol_name if group.protocol_name is not None else member.protocols[0][0]
        subscription = read_subscription(member.metadata(protocol))
        assigned: dict[UUID, dict[int, int]] = {}
        for topic in assignment.assigned_partitions:
            topic_id = self._view.topic_id(topic.topic)
            if topic_id is not None and topic.partitions:
                assigned[topic_id] = dict.fromkeys(topic.partitions, group.generation_id)
        return ConsumerMember(
            member.member_id,
            group.generation_id,
            group.generation_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            assigned=assigned,
            classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        )

    def _upgraded_group(self, group: ClassicGroup, members: Iterable[ConsumerMember]) -> ConsumerGroup:
        journal = UndoJournal()
        journal.recording = False
        upgraded = ConsumerGroup(group.group_id, journal)
        for member in members:
            upgraded.targets[member.member_id] = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
            upgraded.put_member(member)
        metadata_hash = self._view.hashes.of_group(upgraded.topic_counts, self._view.image)
        generation = group.generation_id
        upgraded.epochs = upgraded.epochs._replace(group=generation, metadata_hash=metadata_hash, target=generation)
        return upgraded

    # -- to a classic group ------------------------------------------------------------------------------------------------------

    def may_downgrade(self, group: ConsumerGroup, leaving: list[ConsumerMember]) -> bool:
        """Return whether the group may become a classic group: only members of the classic protocol remain, and the policy permits it."""
        remaining = len(group.members) - len(leaving)
        classic = group.classic_count - sum(1 for member in leaving if member.classic is not None)
        return classic == remaining and remaining > 0 and self._downgrade_permitted(group, remaining)

    def may_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Return the same as `may_downgrade` for a static classic member that replaces the last member of the consumer protocol."""
        members = len(group.members)
        return replaced.classic is None and group.classic_count == members - 1 and self._downgrade_permitted(group, members)

    def _downgrade_permitted(self, group: ConsumerGroup, members: int) -> bool:
        if not self._settings.migration_policy.downgrade:
            logger.info("group %s stays a consumer group: group.consumer.migration.policy", group.group_id)
            return False
        return members <= self._settings.max_size

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: list[ConsumerMember],
        joining: ConsumerMember | None,
        records: list[CoordinatorRecord],
        *,
        rebalance: str | None,
    ) -> None:
        """Replace the group by a classic group at once. The added records persist the change, and are not to be replayed.

        `joining` is a static member that replaces another one. `rebalance` is the reason why members have to rejoin; None when they need
        not.
        """
        group_id = group.group_id
        replaced = None if joining is None else group.static_member(joining.instance_id)
        gone = {member.member_id for member in leaving}
        if replaced is not None:
            gone.add(replaced.member_id)
        staying = [member for member in group.members.values() if member.member_id not in gone]
        targets = {member.member_id: member.member_id for member in staying}
        if joining is not None and replaced is not None:
            staying.append(joining)
            targets[joining.member_id] = replaced.member_id
        classic = self._downgraded(group, staying, targets)
        records += group.tombstones({} if joining is None or replaced is None else {replaced.member_id: joining.member_id})
        records.append(classic.record({member.member_id: member.assignment for member in classic.members.values()}))
        # A later session timeout in the consumer group has no effect, unless the append fails and the consumer group is restored.
        self._groups.remove(group_id)
        self._groups.put(classic)
        for member in classic.members.values():
            self._rebalances.keep_alive(classic, member)
        if rebalance is not None:
            self._rebalances.prepare(classic, rebalance)
        logger.info("group %s becomes a classic group", group_id)

    def _downgraded(self, group: ConsumerGroup, staying: list[ConsumerMember], targets: dict[str, str]) -> ClassicGroup:
        classic = ClassicGroup(
            group.group_id,
            time_ms=self._time_ms,
            state=ClassicState.STABLE,
            generation_id=group.epochs.group,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
        )
        for member in staying:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocols=member.classic.protocols,
                )
            )
        classic.settle_protocol()
        try:
            for each in classic.members.values():
                target = group.targets.get(targets[each.member_id]) or {}
                each.assignment = write_assignment(target, self._view, each.metadata(classic.protocol_name))
        except ProtocolError as error:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} cannot become a classic group: {error}") from error
        return classic


def _group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    group_id, epochs, members = group.group_id, group.epochs, list(group.members.values())
    return [
        *[write.member_metadata(group_id, member) for member in members],
        write.group_epoch(group_id, epochs.group, epochs.metadata_hash),
        *[write.target_assignment(group_id, member.member_id, group.targets[member.member_id]) for member in members],
        write.target_epoch(group_id, epochs.target, epochs.target_timestamp_ms),
        *[write.current_assignment(group_id, member) for member in members],
    ]


def _refused(group_id: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Classic group {group_id} cannot become a consumer group: {why}.")
