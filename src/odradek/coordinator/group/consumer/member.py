"""A member of a consumer group, as its records say (org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.protocol.messages.consumer_group_records import ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue

Owned = Mapping[UUID, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member got it. Never changed in place; topics without partitions are left out."""

LEAVE_EPOCH = -1
"""In a heartbeat: the member leaves. As a state: it has no assignment (any more)."""
STATIC_LEAVE_EPOCH = -2
"""The static member is away and means to come back."""


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment."""

    STABLE = 0
    """It has all that it can have in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It still has to give up partitions; its epoch waits for that."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by a later release: it has to join anew."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(int(state) for state in MemberState)


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol has said in JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """Replaced, never changed. Timeouts in ms."""

    member_id: str
    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Mapping[UUID, Mapping[int, int]] = {}
    pending_revocation: Mapping[UUID, Mapping[int, int]] = {}
    classic: ClassicMetadata | None = None
    """None: it speaks the consumer protocol."""

    @property
    def regex(self) -> str | None:
        """None when it subscribes by names alone."""
        return self.topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(self, epoch: int, state: MemberState, assigned: Owned, pending_revocation: Owned) -> ConsumerMember:
        """The next step of its reconciliation; the epoch it leaves stays known."""
        return self._replace(
            member_epoch=epoch, previous_epoch=self.member_epoch, state=state, assigned=assigned, pending_revocation=pending_revocation
        )

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch in which the member got the partition, also one that it is to give up; None when it has it not."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None if classic is None else _classic(classic),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return self._replace(
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        return self._replace(member_epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, pending_revocation={})


def _classic(value: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata) -> ClassicMetadata:
    return ClassicMetadata(value.session_timeout_ms, tuple([(each.name, bytes(each.metadata)) for each in value.supported_protocols]))


def _owned(topics: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], member_epoch: int) -> Owned:
    """Records of before 4.3 have no epochs of partitions: the member's stands for them."""
    owned: dict[UUID, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
