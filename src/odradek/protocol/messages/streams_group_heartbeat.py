"""StreamsGroupHeartbeat, API key 88."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uint16, Versions, field


class StreamsGroupHeartbeatRequest(Message):
    """Request to join, stay in, change or leave a streams group (KIP-1071)."""

    API_KEY = 88
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_id: str = field(String, "0+")
    member_id: str = field(String, "0+")
    member_epoch: int = field(Int32, "0+")
    endpoint_information_epoch: int = field(Int32, "0+")
    instance_id: str | None = field(String, "0+", nullable="0+", default=None)
    rack_id: str | None = field(String, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field(Int32, "0+", default=-1)
    topology: Topology | None = field("Topology", "0+", nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    process_id: str | None = field(String, "0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = field("Endpoint", "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(Array("KeyValue"), "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(Array("TaskOffset"), "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(Array("TaskOffset"), "0+", nullable="0+", default=None)
    shutdown_application: bool = field(Bool, "0+")

    class Topology(Struct):
        epoch: int = field(Int32, "0+")
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = field(Array("Subtopology"), "0+")

    class TaskIds(Struct):
        subtopology_id: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")

    class Endpoint(Struct):
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class KeyValue(Struct):
        key: str = field(String, "0+")
        value: str = field(String, "0+")

    class TaskOffset(Struct):
        subtopology_id: str = field(String, "0+")
        partition: int = field(Int32, "0+")
        offset: int = field(Int64, "0+")

    class Subtopology(Struct):
        subtopology_id: str = field(String, "0+")
        source_topics: list[str] = field(Array(String), "0+")
        source_topic_regex: list[str] = field(Array(String), "0+")
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = field(Array("TopicInfo"), "0+")
        repartition_sink_topics: list[str] = field(Array(String), "0+")
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = field(Array("TopicInfo"), "0+")
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = field(Array("CopartitionGroup"), "0+")

    class TopicInfo(Struct):
        name: str = field(String, "0+")
        partitions: int = field(Int32, "0+")
        replication_factor: int = field(Int16, "0+")
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = field(Array("KeyValue"), "0+")

    class CopartitionGroup(Struct):
        source_topics: list[int] = field(Array(Int16), "0+")
        source_topic_regex: list[int] = field(Array(Int16), "0+")
        repartition_source_topics: list[int] = field(Array(Int16), "0+")


class StreamsGroupHeartbeatResponse(Message):
    """Member epoch, tasks, endpoints and status."""

    API_KEY = 88
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    member_id: str = field(String, "0+")
    member_epoch: int = field(Int32, "0+")
    heartbeat_interval_ms: int = field(Int32, "0+")
    acceptable_recovery_lag: int = field(Int32, "0+")
    task_offset_interval_ms: int = field(Int32, "0+")
    status: list[Status] | None = field(Array("Status"), "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(Array("TaskIds"), "0+", nullable="0+", default=None)
    endpoint_information_epoch: int = field(Int32, "0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(Array("EndpointToPartitions"), "0+", nullable="0+", default=None)

    class Status(Struct):
        status_code: int = field(Int8, "0+")
        status_detail: str = field(String, "0+")

    class TaskIds(Struct):
        subtopology_id: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")

    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = field("Endpoint", "0+")
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = field(Array("TopicPartition"), "0+")
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = field(Array("TopicPartition"), "0+")

    class Endpoint(Struct):
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class TopicPartition(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
