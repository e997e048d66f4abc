"""The next step of a member from what it has to what it should have (org...modern.consumer.CurrentAssignmentBuilder, KIP-848).

1. What is not in its target it has to give up first (UNREVOKED_PARTITIONS); only when it says that it no longer owns those partitions, it
   goes to the epoch of the target assignment.
2. In that epoch it gets what is free of its target. A partition is free when no member has it, nor has it still to give up.
3. While some of its target is not free it asks again with every heartbeat (UNRELEASED_PARTITIONS), until it has all (STABLE).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.consumer.member import ConsumerMember, MemberState, Owned

Reported = Mapping[UUID, Collection[int]]
"""What a member says that it owns, by topic id."""


class Target(NamedTuple):
    """Where a member is to go, and what the group knows meanwhile."""

    epoch: int
    partitions: Partitions
    subscribed: Collection[UUID]
    """The topics, of those that exist, to which the member subscribes."""
    is_free: Callable[[UUID, int], bool]
    """Whether nobody has the partition."""


def reconcile(member: ConsumerMember, target: Target, reported: Reported | None, *, subscription_changed: bool) -> ConsumerMember:
    """The member after the step, or the same. FENCED_MEMBER_EPOCH for one in a state that is not known and that still owns partitions."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != target.epoch:
            return _advance(member, member.member_epoch, target, reported)
        return _drop_unsubscribed(member, target, reported) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _may_own(member.pending_revocation, reported):
            return _drop_unsubscribed(member, target, reported) if subscription_changed else member
        return _advance(member, member.member_epoch, target, reported)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _advance(member, member.member_epoch, target, reported)
    if reported is None or reported:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that is not known here; it has to give up its partitions and join anew.",
        )
    return _advance(member, target.epoch, target, reported)


def _may_own(partitions: Owned, reported: Reported | None) -> bool:
    """Whether the member may still own some of them: it reports that it does, or reports nothing."""
    if reported is None:
        return True
    return any(partition in partitions.get(topic_id, ()) for topic_id, owned in reported.items() for partition in owned)


def _drop_unsubscribed(member: ConsumerMember, target: Target, reported: Reported | None) -> ConsumerMember:
    """Gives up topics that the member no longer subscribes to at once; the target assignment may follow later."""
    dropped = [topic_id for topic_id in member.assigned if topic_id not in target.subscribed]
    if not dropped:
        return member
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in target.subscribed}
    revoked = dict(member.pending_revocation)
    for topic_id in dropped:
        revoked[topic_id] = {**revoked.get(topic_id, {}), **member.assigned[topic_id]}
    if _may_own(revoked, reported):
        return member.at_epoch(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoked)
    return member.at_epoch(member.member_epoch, member.state, assigned, member.pending_revocation)


def _advance(member: ConsumerMember, epoch: int, target: Target, reported: Reported | None) -> ConsumerMember:
    assigned: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    granted: dict[UUID, list[int]] = {}
    unreleased = False
    for topic_id in {**target.partitions, **member.assigned}:
        wanted = target.partitions.get(topic_id, frozenset()) if topic_id in target.subscribed else frozenset[int]()
        current = member.assigned.get(topic_id, {})
        releasing = member.pending_revocation.get(topic_id, {})
        kept = {partition: since for partition, since in current.items() if partition in wanted}
        given_up = {partition: since for partition, since in current.items() if partition not in wanted}
        missing = wanted - kept.keys()
        # What the member itself was giving up is free for it, although the group still counts it as owned.
        free = [partition for partition in sorted(missing) if partition in releasing or target.is_free(topic_id, partition)]
        unreleased = unreleased or len(free) < len(missing)
        if kept:
            assigned[topic_id] = kept
        if given_up:
            revoked[topic_id] = given_up
        if free:
            granted[topic_id] = free
    if revoked and _may_own(revoked, reported):
        return member.at_epoch(epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoked)
    for topic_id, partitions in granted.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.at_epoch(target.epoch, state, assigned, {})
