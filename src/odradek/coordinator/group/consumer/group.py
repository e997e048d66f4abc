"""Consumer group: members, epochs, target assignment, and checks of requests (org...modern.consumer.ConsumerGroup, ModernGroup).

All state comes from records and is journaled. The group also keeps counts whose computation would need a scan of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import JournaledDict, UndoJournal, VersionedDict
from odradek.coordinator.group.consumer import records
from odradek.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember, MemberState, Owned
from odradek.coordinator.group.group import CommitValidator, GroupType, OffsetExpiry
from odradek.coordinator.records import CoordinatorRecord

CONSUMER_PROTOCOL_TYPE = "consumer"

EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
"""Names of the states, as clients see them."""

_CONSUMER_OFFSET_COMMIT_SINCE = 9


class ResolvedRegex(NamedTuple):
    """Topics that match a pattern, at a metadata offset (`version`) and a time in Unix milliseconds."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class SubscriptionCount(NamedTuple):
    """Number of members that subscribe to a topic by name, and number of the group's patterns that match it."""

    by_name: int = 0
    by_regex: int = 0


class Epochs(NamedTuple):
    """Epochs of a group. `group` rises with each change of subscriptions; `target` is the group epoch of the target assignment."""

    group: int = 1
    metadata_hash: int = 0
    target: int = LEAVE_EPOCH
    target_timestamp_ms: int = 0
    has_partition_metadata: bool = False
    """Whether the group has a partition metadata record, as written before Kafka 4.1; such a record needs a tombstone."""


Counts = Mapping[str, int]
TopicCounts = dict[str, SubscriptionCount]
_EPOCHS = ""


class ConsumerGroup:
    """Consumer group, an implementation of `group.Group`."""

    __slots__ = (
        "_epochs",
        "assignors",
        "classic_protocols",
        "group_id",
        "members",
        "partition_epochs",
        "refresh_at_ms",
        "refresh_epoch",
        "regex_members",
        "regexes",
        "static_members",
        "targets",
        "topic_counts",
    )

    def __init__(self, group_id: str, journal: UndoJournal) -> None:
        self.group_id = group_id
        self._epochs: VersionedDict[str, Epochs] = VersionedDict(journal)
        self.members: VersionedDict[str, ConsumerMember] = VersionedDict(journal)
        self.targets: VersionedDict[str, Partitions] = VersionedDict(journal)
        self.regexes: JournaledDict[str, ResolvedRegex] = JournaledDict(journal)
        self.static_members: JournaledDict[str, str] = JournaledDict(journal)
        """group.instance.id -> member id."""
        self.topic_counts: JournaledDict[str, SubscriptionCount] = JournaledDict(journal)
        self.regex_members: JournaledDict[str, int] = JournaledDict(journal)
        self.assignors: JournaledDict[str, int] = JournaledDict(journal)
        self.classic_protocols: JournaledDict[str, int] = JournaledDict(journal)
        """Protocol -> number of classic-protocol members that support it; "" -> number of all classic-protocol members."""
        self.partition_epochs: JournaledDict[tuple[UUID, int], int] = JournaledDict(journal)
        """(topic id, partition) -> epoch of the member that owns the partition or has yet to give it up."""
        self.refresh_at_ms = 0
        """Unix milliseconds at which the metadata of subscribed topics are checked at the latest; 0: with the next heartbeat. Soft state.
        """
        self.refresh_epoch = 0

    # -- epochs ------------------------------------------------------------------------------------------------------------------

    @property
    def epochs(self) -> Epochs:
        return self._epochs.get(_EPOCHS) or Epochs()

    @epochs.setter
    def epochs(self, epochs: Epochs) -> None:
        self._epochs[_EPOCHS] = epochs

    def committed_epochs(self) -> Epochs:
        return self._epochs.committed(_EPOCHS) or Epochs()

    def metadata_expired(self, now_ms: int) -> bool:
        """Return whether to check the topics' metadata: the refresh time has come, or the epoch bump of the last check was reverted."""
        return now_ms >= self.refresh_at_ms or self.epochs.group < self.refresh_epoch

    def request_refresh(self) -> None:
        self.refresh_at_ms = self.refresh_epoch = 0

    # -- state -------------------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type_name(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        """Name of the state, from the committed state."""
        members = [member for _, member in self.members.committed_items()]
        epochs = self.committed_epochs()
        if not members:
            return EMPTY
        if epochs.group > epochs.target:
            return ASSIGNING
        return STABLE if all(member.is_reconciled_to(epochs.target) for member in members) else RECONCILING

    def member(self, member_id: str) -> ConsumerMember:
        """Return the member. Raises KafkaError with UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """Return the target assignment of a member. A static member has the target of its instance, even one assigned under another member
        id.
        """
        if instance_id is not None:
            member_id = self.static_members.get(instance_id) or ""
        return self.targets.get(member_id) or {}

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        return (topic_id, partition) not in self.partition_epochs

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition that this member needs for its target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in (self.targets.get(member.member_id) or {}).items()
            for partition in partitions
        )

    # -- replay ------------------------------------------------------------------------------------------------------------------

    def put_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self._count(before, member)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        if member is None:
            return
        self._count(member, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            self.static_members.pop(member.instance_id)

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        self.remove_regex(regex)
        self.regexes[regex] = resolved
        for topic in resolved.topics:
            self._change_topic(topic, 0, 1)

    def remove_regex(self, regex: str) -> None:
        resolved = self.regexes.pop(regex)
        for topic in () if resolved is None else resolved.topics:
            self._change_topic(topic, 0, -1)

    def _count(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        if before is None or after is None or before.topic_names != after.topic_names:
            for topic in () if before is None else before.topic_names:
                self._change_topic(topic, -1, 0)
            for topic in () if after is None else after.topic_names:
                self._change_topic(topic, 1, 0)
        for member, change in ((before, -1), (after, 1)):
            if member is None:
                continue
            if member.regex is not None:
                _change(self.regex_members, member.regex, change)
            if member.server_assignor is not None:
                _change(self.assignors, member.server_assignor, change)
            if member.classic is not None:
                _change(self.classic_protocols, "", change)
                for name, _ in member.classic.protocols:
                    _change(self.classic_protocols, name, change)
        if before is not None:
            self._release(before.assigned, before.member_epoch)
            self._release(before.pending_revocation, before.member_epoch)
        if after is not None:
            self._own(after.assigned, after.member_epoch)
            self._own(after.pending_revocation, after.member_epoch)

    def _change_topic(self, topic: str, by_name: int, by_regex: int) -> None:
        count = _changed(self.topic_counts.get(topic), by_name, by_regex)
        if count is None:
            self.topic_counts.pop(topic)
        else:
            self.topic_counts[topic] = count

    def _own(self, owned: Owned, epoch: int) -> None:
        # After partial compaction the log may still contain an older owner: the later epoch counts.
        epochs = self.partition_epochs
        for topic_id, partitions in owned.items():
            for partition in partitions:
                known = epochs.get((topic_id, partition))
                if known is None or known < epoch:
                    epochs[(topic_id, partition)] = epoch

    def _release(self, owned: Owned, epoch: int) -> None:
        epochs = self.partition_epochs
        for topic_id, partitions in owned.items():
            for partition in partitions:
                if epochs.get((topic_id, partition)) == epoch:
                    epochs.pop((topic_id, partition))

    # -- subscriptions -----------------------------------------------------------------------------------------------------------

    def topic_counts_with(self, before: ConsumerMember | None, after: ConsumerMember | None) -> TopicCounts:
        """Return the counts after the replacement of `before` by `after`. A pattern without other members is removed."""
        counts = dict(self.topic_counts.items())
        for member, change in ((before, -1), (after, 1)):
            for topic in () if member is None else member.topic_names:
                _change_count(counts, topic, change, 0)
        regex = None if before is None else before.regex
        if regex is not None and (after is None or after.regex != regex) and self.regex_members.get(regex) == 1:
            self._without_regex(counts, regex)
        return counts

    def topic_counts_without(self, members: Iterable[ConsumerMember], regexes: Iterable[str]) -> TopicCounts:
        """Return the counts without these members and patterns."""
        counts = dict(self.topic_counts.items())
        for member in members:
            for topic in member.topic_names:
                _change_count(counts, topic, -1, 0)
        for regex in regexes:
            self._without_regex(counts, regex)
        return counts

    def _without_regex(self, counts: TopicCounts, regex: str) -> None:
        resolved = self.regexes.get(regex)
        for topic in () if resolved is None else resolved.topics:
            _change_count(counts, topic, 0, -1)

    def regex_members_with(self, before: ConsumerMember | None, after: ConsumerMember | None) -> dict[str, int]:
        """Return pattern -> number of subscribed members, after the replacement of `before` by `after`."""
        counts = dict(self.regex_members.items())
        for member, change in ((before, -1), (after, 1)):
            if member is not None and member.regex is not None:
                counts[member.regex] = counts.get(member.regex, 0) + change
        return {regex: count for regex, count in counts.items() if count > 0}

    def subscribed_names(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that the member subscribes to by name and by resolved pattern."""
        resolved = None if member.regex is None else self.regexes.get(member.regex)
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def preferred_assignor(self, before: ConsumerMember | None, after: ConsumerMember | None) -> str | None:
        """Return the assignor that most members prefer, after the replacement of `before` by `after`; None without a preference."""
        counts = dict(self.assignors.items())
        for member, change in ((before, -1), (after, 1)):
            if member is not None and member.server_assignor is not None:
                counts[member.server_assignor] = counts.get(member.server_assignor, 0) + change
        wanted = {name: count for name, count in counts.items() if count > 0}
        return max(sorted(wanted), key=lambda name: wanted[name]) if wanted else None

    # -- members of the classic protocol -----------------------------------------------------------------------------------------

    @property
    def classic_count(self) -> int:
        return self.classic_protocols.get("") or 0

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols may join: one protocol that all other classic members support."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        names = list(protocols)
        return bool(names) if self.is_empty else any((self.classic_protocols.get(name) or 0) == self.classic_count for name in names)

    # -- offsets and deletion (group.Group) --------------------------------------------------------------------------------------

    def validate_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_or_epoch: int, *, transactional: bool, api_version: int
    ) -> CommitValidator | None:
        """Check a commit. Return None, or a check of each partition for a commit with an older epoch (KIP-1251).

        The check accepts the partitions that the member has owned since that epoch or longer. Raises KafkaError for an unknown member, a
        later epoch, and an OffsetCommit version before 9.
        """
        epoch = generation_or_epoch
        if epoch < 0 and self.is_empty:
            return None
        if transactional and epoch == -1 and not member_id and group_instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and member.classic is None and api_version < _CONSUMER_OFFSET_COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "Members of the consumer protocol must commit offsets with OffsetCommit version 9 or later."
            )
        if epoch == member.member_epoch:
            return None
        if epoch > member.member_epoch:
            raise _stale(member, f"Epoch {epoch} is later than the member's, {member.member_epoch}.")
        return _partition_validator(member, epoch)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.members.committed(member_id or "")
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        if member_epoch != member.member_epoch:
            raise _stale(member, f"Epoch {member_epoch} differs from the member's, {member.member_epoch}.")

    def validate_offset_delete(self) -> None:
        """Accept every request: subscribed topics are protected one by one through `is_subscribed_to_topic`."""

    def validate_delete_group(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.topic_counts

    def offset_expiry(self) -> OffsetExpiry | None:
        return OffsetExpiry(None)

    def tombstones(self, replaced: Mapping[str, str] | None = None) -> list[CoordinatorRecord]:
        """Return the tombstones of all records of the group.

        `replaced` maps a member id to the id that the member has in records written just before.
        """
        group_id = self.group_id
        ids = [(replaced or {}).get(member_id, member_id) for member_id in self.members]
        return [
            *[records.current_assignment_tombstone(group_id, member_id) for member_id in ids],
            *[records.target_assignment_tombstone(group_id, member_id) for member_id in ids],
            records.target_epoch_tombstone(group_id),
            *[records.member_metadata_tombstone(group_id, member_id) for member_id in ids],
            *[records.regex_tombstone(group_id, regex) for regex in self.regexes],
            records.partition_metadata_tombstone(group_id),
            records.group_epoch_tombstone(group_id),
        ]

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id!r}, {self.epochs}, {list(self.members)})"


def is_homogeneous(
    regex_members: Counts, topic_counts: Mapping[str, SubscriptionCount] | JournaledDict[str, SubscriptionCount], members: int
) -> bool:
    """Return whether all members subscribe to the same topics."""
    if not regex_members:
        return all(count.by_name == members for count in topic_counts.values())
    if next(iter(regex_members.values())) != members:
        return False
    return all(count.by_regex == 1 and count.by_name <= 0 for count in topic_counts.values())


def _changed(count: SubscriptionCount | None, by_name: int, by_regex: int) -> SubscriptionCount | None:
    count = count or SubscriptionCount()
    count = SubscriptionCount(max(count.by_name + by_name, 0), max(count.by_regex + by_regex, 0))
    return count if count.by_name or count.by_regex else None


def _change_count(counts: TopicCounts, topic: str, by_name: int, by_regex: int) -> None:
    count = _changed(counts.get(topic), by_name, by_regex)
    if count is None:
        counts.pop(topic, None)
    else:
        counts[topic] = count


def _change(counts: JournaledDict[str, int], key: str, change: int) -> None:
    count = (counts.get(key) or 0) + change
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key)


def _stale(member: ConsumerMember, message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION, message)


def _partition_validator(member: ConsumerMember, epoch: int) -> Callable[[UUID, int], None]:
    def validate(topic_id: UUID, partition: int) -> None:
        since = member.assignment_epoch(topic_id, partition)
        if since is None:
            raise _stale(member, f"Partition {partition} of topic {topic_id} is not assigned to the member.")
        if epoch < since:
            raise _stale(
                member, f"Epoch {epoch} is earlier than the epoch in which partition {partition} was assigned to the member, {since}."
            )

    return validate
