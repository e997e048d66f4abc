"""Next step of a member from its assigned partitions to its target (org...modern.consumer.CurrentAssignmentBuilder, KIP-848).

1. The member first gives up partitions outside of its target (UNREVOKED_PARTITIONS). It moves to the epoch of the target assignment only
   after it has reported that it does not own those partitions any more.
2. In that epoch the member gets the free partitions of its target. A partition is free when no member owns it or has yet to give it up.
3. While partitions of its target are not free, the member asks again with every heartbeat (UNRELEASED_PARTITIONS), until it has all of them
   (STABLE).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.consumer.member import ConsumerMember, MemberState, Owned

Reported = Mapping[UUID, Collection[int]]
"""Partitions that a member reports to own, by topic id."""


class Target(NamedTuple):
    """Target of a member's reconciliation, and the group's state that the step needs."""

    epoch: int
    partitions: Partitions
    subscribed: Collection[UUID]
    """Ids of the existing topics to which the member subscribes."""
    is_free: Callable[[UUID, int], bool]
    """Function that returns whether a partition has no owner."""


def reconcile(member: ConsumerMember, target: Target, reported: Reported | None, *, subscription_changed: bool) -> ConsumerMember:
    """Return the member after its next step; the same object when nothing changes.

    Raises KafkaError with FENCED_MEMBER_EPOCH for a member in an unknown state that may still own partitions.
    """
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
            "The coordinator does not know the member's state; the member must revoke its partitions and join again.",
        )
    return _advance(member, target.epoch, target, reported)


def _may_own(partitions: Owned, reported: Reported | None) -> bool:
    """Return whether the member may still own some of the partitions: it reports one of them, or reports nothing."""
    if reported is None:
        return True
    return any(partition in partitions.get(topic_id, ()) for topic_id, owned in reported.items() for partition in owned)


def _drop_unsubscribed(member: ConsumerMember, target: Target, reported: Reported | None) -> ConsumerMember:
    """Revoke the partitions of topics without subscription at once; a new target assignment may follow later."""
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
        # Partitions that this member was giving up are free for itself, although the group still counts them as owned.
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
