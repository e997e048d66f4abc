"""Records of `__consumer_offsets` for streams groups (KIP-1071); API_KEY is the record type."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Uint16, Versions, field


class StreamsGroupMetadataKey(Message):
    """Key: a streams group."""

    API_KEY = 17
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class StreamsGroupMetadataValue(Message):
    """Value: the group epoch, hash of the metadata, and the topology found valid."""

    API_KEY = 17
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    epoch: int = field(Int32, "0+")
    metadata_hash: int = field(Int64, "0+")
    validated_topology_epoch: int = field(Int32, "0+", tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(Array("LastAssignmentConfig"), "0+", nullable="0+", tag=1)

    class LastAssignmentConfig(Struct):
        key: str = field(String, "0+")
        value: str = field(String, "0+")


class StreamsGroupMemberMetadataKey(Message):
    """Key: a member of a streams group."""

    API_KEY = 19
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class StreamsGroupMemberMetadataValue(Message):
    """Value: process, client, endpoint and timeouts of a member."""

    API_KEY = 19
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    instance_id: str | None = field(String, "0+", nullable="0+")
    rack_id: str | None = field(String, "0+", nullable="0+")
    client_id: str = field(String, "0+")
    client_host: str = field(String, "0+")
    rebalance_timeout_ms: int = field(Int32, "0+", default=-1)
    topology_epoch: int = field(Int32, "0+")
    process_id: str = field(String, "0+")
    user_endpoint: Endpoint | None = field("Endpoint", "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = field(Array("KeyValue"), "0+")

    class Endpoint(Struct):
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class KeyValue(Struct):
        key: str = field(String, "0+")
        value: str = field(String, "0+")


class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Key: the target assignment of a streams group."""

    API_KEY = 20
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class StreamsGroupTargetAssignmentMetadataValue(Message):
    """Value: the epoch of the target assignment."""

    API_KEY = 20
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    assignment_epoch: int = field(Int32, "0+")
    assignment_timestamp: int = field(Int64, "0+", tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message):
    """Key: the tasks that a member of a streams group should own."""

    API_KEY = 21
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class StreamsGroupTargetAssignmentMemberValue(Message):
    """Value: the target tasks of a member."""

    API_KEY = 21
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    active_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")
    standby_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")
    warmup_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")

    class TaskIds(Struct):
        subtopology_id: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Key: the tasks that a member of a streams group owns now."""

    API_KEY = 22
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    member_id: str = field(String, "0")


class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Value: the epochs of a member, its active, standby and warm-up tasks, and the tasks to be revoked."""

    API_KEY = 22
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    member_epoch: int = field(Int32, "0+")
    previous_member_epoch: int = field(Int32, "0+")
    state: int = field(Int8, "0+")
    active_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")
    standby_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")
    warmup_tasks: list[TaskIds] = field(Array("TaskIds"), "0+")
    active_tasks_pending_revocation: list[TaskIds] = field(Array("TaskIds"), "0+")
    standby_tasks_pending_revocation: list[TaskIds] = field(Array("TaskIds"), "0+")
    warmup_tasks_pending_revocation: list[TaskIds] = field(Array("TaskIds"), "0+")

    class TaskIds(Struct):
        subtopology_id: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
        assignment_epochs: list[int] | None = field(Array(Int32), "0+", nullable="0+", tag=0)


class StreamsGroupTopologyKey(Message):
    """Key: the topology of a streams group."""

    API_KEY = 23
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")


class StreamsGroupTopologyValue(Message):
    """Value: the subtopologies with their source, sink, repartition and changelog topics."""

    API_KEY = 23
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    epoch: int = field(Int32, "0+")
    subtopologies: list[Subtopology] = field(Array("Subtopology"), "0+")

    class Subtopology(Struct):
        subtopology_id: str = field(String, "0+")
        source_topics: list[str] = field(Array(String), "0+")
        source_topic_regex: list[str] = field(Array(String), "0+")
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = field(Array("TopicInfo"), "0+")
        repartition_sink_topics: list[str] = field(Array(String), "0+")
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = field(Array("TopicInfo"), "0+")
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = field(Array("CopartitionGroup"), "0+")

    class TopicInfo(Struct):
        name: str = field(String, "0+")
        partitions: int = field(Int32, "0+")
        replication_factor: int = field(Int16, "0+")
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = field(Array("TopicConfig"), "0+")

    class CopartitionGroup(Struct):
        source_topics: list[int] = field(Array(Int16), "0+")
        source_topic_regex: list[int] = field(Array(Int16), "0+")
        repartition_source_topics: list[int] = field(Array(Int16), "0+")

    class TopicConfig(Struct):
        key: str = field(String, "0+")
        value: str = field(String, "0+")
