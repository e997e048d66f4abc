"""Member of a consumer group, from its records (org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from odradek.protocol.messages.consumer_group_records import ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue

Owned = Mapping[UUID, Mapping[int, int]]
"""Topic id -> partition -> epoch in which the member got the partition. Immutable by convention, without empty topics."""

LEAVE_EPOCH = -1
"""Epoch of a heartbeat with which the member leaves, and epoch of a member without an assignment."""
STATIC_LEAVE_EPOCH = -2
"""Epoch of a static member that has left temporarily."""


class MemberState(IntEnum):
    """State of a member's reconciliation with its target assignment."""

    STABLE = 0
    """The member owns all partitions that it can have in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member still has to give up partitions, and its epoch does not advance before that."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not given up yet."""
    UNKNOWN = 127
    """A later release has written the state: the member has to rejoin."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(int(state) for state in MemberState)


class ClassicMetadata(NamedTuple):
    """Session timeout and protocols from a classic member's JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """Member of a consumer group; changes replace the tuple. Timeouts in milliseconds."""

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
    """None for a member of the consumer protocol."""

    @property
    def regex(self) -> str | None:
        """Return the subscribed pattern; None for a subscription by names only."""
        return self.topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(self, epoch: int, state: MemberState, assigned: Owned, pending_revocation: Owned) -> ConsumerMember:
        """Return the member after the next step of its reconciliation, with its former epoch as `previous_epoch`."""
        return self._replace(
            member_epoch=epoch, previous_epoch=self.member_epoch, state=state, assigned=assigned, pending_revocation=pending_revocation
        )

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Return the epoch in which the member got the partition, which it may have to give up; None for a partition of other members."""
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
    """Return the owned partitions. Records from before 4.3 have no assignment epochs; the member's epoch replaces them."""
    owned: dict[UUID, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
