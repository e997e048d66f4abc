"""Types of groups, their members and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.admin.types.security import AclOperation
from odradek.client.core.metadata import Broker
from odradek.client.types import OffsetAndMetadata as OffsetAndMetadata


class GroupType(StrEnum):
    """Protocol of a group, as Kafka spells it."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"


class GroupState(StrEnum):
    """State of a group, as Kafka spells it."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupListing(NamedTuple):
    """Group as its coordinator lists it. `protocol` is the protocol type ("consumer", "connect"; "" for groups without members and
    protocol).

    Brokers before Kafka 2.6 report no `state`, brokers before 3.8 no `group_type` (None).
    """

    group_id: str
    group_type: GroupType | None
    protocol: str
    state: GroupState | None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Return whether the group only has offsets that were committed by clients that are not members."""
        return self.group_type in (GroupType.CLASSIC, None) and not self.protocol


class MemberDescription(NamedTuple):
    """Member of a classic or a consumer group.

    `target_assignment` is the assignment that the member moves to, `member_epoch` the epoch that it has reached; both None in classic
    groups. `upgraded` tells whether a member of a consumer group uses the protocol of KIP-848 (False: the classic protocol).
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    upgraded: bool | None = None


class ConsumerGroupDescription(NamedTuple):
    """Group of consumers, classic or of KIP-848. The epochs are None in classic groups; `authorized_operations` only if requested."""

    group_id: str
    is_simple_consumer_group: bool
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    group_type: GroupType
    state: GroupState
    coordinator: Broker
    authorized_operations: frozenset[AclOperation] | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


class ClassicGroupDescription(NamedTuple):
    """Group of the classic protocol, of consumers or of others.

    `protocol` is its type ("consumer", "connect"), `protocol_data` the protocol that its members chose (the assignor).
    """

    group_id: str
    protocol: str
    protocol_data: str
    members: tuple[MemberDescription, ...]
    state: GroupState
    coordinator: Broker
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Return whether the group only has offsets that were committed by clients that are not members."""
        return not self.protocol


class MemberToRemove(NamedTuple):
    """Static member of a group, by its group.instance.id."""

    group_instance_id: str


class ShareMemberDescription(NamedTuple):
    """Member of a share group (KIP-932)."""

    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    member_epoch: int
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


class ShareGroupDescription(NamedTuple):
    """Share group (KIP-932)."""

    group_id: str
    members: tuple[ShareMemberDescription, ...]
    state: GroupState
    coordinator: Broker
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


class SharePartitionOffsetInfo(NamedTuple):
    """Start offset of a share group in a partition; `lag` can be None: older brokers do not report it."""

    start_offset: int
    leader_epoch: int | None
    lag: int | None


class StreamsTask(NamedTuple):
    """Task of Kafka Streams: one partition of a subtopology."""

    subtopology_id: str
    partition: int


class StreamsAssignment(NamedTuple):
    """Tasks of a member of a streams group."""

    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]
    warmup: tuple[StreamsTask, ...]


class StreamsGroupMemberDescription(NamedTuple):
    """Member of a streams group (KIP-1071).

    `task_offsets` are the offsets of its state stores, `task_end_offsets` the ends of their changelogs.
    """

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    task_offsets: Mapping[StreamsTask, int]
    task_end_offsets: Mapping[StreamsTask, int]
    assignment: StreamsAssignment
    target_assignment: StreamsAssignment
    is_classic: bool


class StreamsTopicInfo(NamedTuple):
    """Topic that a subtopology needs. 0 partitions or replicas mean that the number is chosen elsewhere."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class StreamsSubtopology(NamedTuple):
    """Part of the topology whose tasks are assigned as one."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopicInfo, ...]
    repartition_source_topics: tuple[StreamsTopicInfo, ...]


class StreamsGroupDescription(NamedTuple):
    """Streams group (KIP-1071). A group without a topology has neither `topology_epoch` (None) nor subtopologies."""

    group_id: str
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsGroupMemberDescription, ...]
    state: GroupState
    coordinator: Broker
    authorized_operations: frozenset[AclOperation] | None = None
