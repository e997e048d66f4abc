"""Groups of all types, their members and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.admin.types.security import AclOperation
from odradek.client.core.metadata import Broker
from odradek.client.types import OffsetAndMetadata as OffsetAndMetadata


class GroupType(StrEnum):
    """Which protocol a group follows, as Kafka spells it."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"


class GroupState(StrEnum):
    """What a group is about, as Kafka spells it."""

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
    """A group as its coordinator lists it. `protocol` is the protocol type ("consumer", "connect", "" without members and protocol);
    `state` and `group_type` are None where the broker is too old to say (before Kafka 2.6 and 3.8)."""

    group_id: str
    group_type: GroupType | None
    protocol: str
    state: GroupState | None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it only has offsets that somebody committed without being a member."""
        return self.group_type in (GroupType.CLASSIC, None) and not self.protocol


class MemberDescription(NamedTuple):
    """A member of a classic or a consumer group. `target_assignment` is what it is on its way to, `member_epoch` how far it is; both None
    in classic groups. `upgraded` says whether a member of a consumer group speaks the protocol of KIP-848 (False: the classic one)."""

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
    """A group of consumers, classic or of KIP-848. The epochs are None in classic groups; `authorized_operations` is None unless asked
    for."""

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
    """A group of the classic protocol, of consumers or of others. `protocol` is its type ("consumer", "connect"), `protocol_data` what its
    members agreed on (the assignor)."""

    group_id: str
    protocol: str
    protocol_data: str
    members: tuple[MemberDescription, ...]
    state: GroupState
    coordinator: Broker
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it only has offsets that somebody committed without being a member."""
        return not self.protocol


class MemberToRemove(NamedTuple):
    """A static member, by its group.instance.id."""

    group_instance_id: str


class ShareMemberDescription(NamedTuple):
    """A member of a share group (KIP-932)."""

    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    member_epoch: int
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


class ShareGroupDescription(NamedTuple):
    """A share group (KIP-932)."""

    group_id: str
    members: tuple[ShareMemberDescription, ...]
    state: GroupState
    coordinator: Broker
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


class SharePartitionOffsetInfo(NamedTuple):
    """Where a share group begins in a partition; `lag` is None where the broker does not say."""

    start_offset: int
    leader_epoch: int | None
    lag: int | None


class StreamsTask(NamedTuple):
    """A task of Kafka Streams: one partition of a subtopology."""

    subtopology_id: str
    partition: int


class StreamsAssignment(NamedTuple):
    """What a member of a streams group works at."""

    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]
    warmup: tuple[StreamsTask, ...]


class StreamsGroupMemberDescription(NamedTuple):
    """A member of a streams group (KIP-1071). The task offsets say how far its state stores are, and how far they have to come."""

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
    """A topic that a subtopology needs; 0 partitions or replicas leave the number to others."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class StreamsSubtopology(NamedTuple):
    """A part of the topology whose tasks are assigned as one."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopicInfo, ...]
    repartition_source_topics: tuple[StreamsTopicInfo, ...]


class StreamsGroupDescription(NamedTuple):
    """A streams group (KIP-1071); `topology_epoch` is None and there are no subtopologies while it has no topology."""

    group_id: str
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsGroupMemberDescription, ...]
    state: GroupState
    coordinator: Broker
    authorized_operations: frozenset[AclOperation] | None = None
