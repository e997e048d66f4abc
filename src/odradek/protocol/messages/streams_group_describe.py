"""StreamsGroupDescribe, API key 89."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Uint16, Versions, field


class StreamsGroupDescribeRequest(Message):
    """Request for streams groups (KIP-1071)."""

    API_KEY = 89
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    group_ids: list[str] = field(Array(String), "0+")
    include_authorized_operations: bool = field(Bool, "0+")


class StreamsGroupDescribeResponse(Message):
    """Topology, epochs, members and tasks of each group."""

    API_KEY = 89
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    groups: list[DescribedGroup] = field(Array("DescribedGroup"), "0+")

    class DescribedGroup(Struct):
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "0+", nullable="0+", default=None)
        group_id: str = field(String, "0+")
        group_state: str = field(String, "0+")
        group_epoch: int = field(Int32, "0+")
        assignment_epoch: int = field(Int32, "0+")
        topology: StreamsGroupDescribeResponse.Topology | None = field("Topology", "0+", nullable="0+", default=None)
        members: list[StreamsGroupDescribeResponse.Member] = field(Array("Member"), "0+")
        authorized_operations: int = field(Int32, "0+", default=-2147483648)

    class Topology(Struct):
        epoch: int = field(Int32, "0+")
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = field(
            Array("Subtopology"), "0+", nullable="0+", default=None
        )

    class Member(Struct):
        member_id: str = field(String, "0+")
        member_epoch: int = field(Int32, "0+")
        instance_id: str | None = field(String, "0+", nullable="0+", default=None)
        rack_id: str | None = field(String, "0+", nullable="0+", default=None)
        client_id: str = field(String, "0+")
        client_host: str = field(String, "0+")
        topology_epoch: int = field(Int32, "0+")
        process_id: str = field(String, "0+")
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = field("Endpoint", "0+", nullable="0+", default=None)
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = field(Array("KeyValue"), "0+")
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = field(Array("TaskOffset"), "0+")
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = field(Array("TaskOffset"), "0+")
        assignment: StreamsGroupDescribeResponse.Assignment = field("Assignment", "0+")
        target_assignment: StreamsGroupDescribeResponse.Assignment = field("Assignment", "0+")
        is_classic: bool = field(Bool, "0+")

    class Subtopology(Struct):
        subtopology_id: str = field(String, "0+")
        source_topics: list[str] = field(Array(String), "0+")
        repartition_sink_topics: list[str] = field(Array(String), "0+")
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = field(Array("TopicInfo"), "0+")
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = field(Array("TopicInfo"), "0+")

    class TopicInfo(Struct):
        name: str = field(String, "0+")
        partitions: int = field(Int32, "0+")
        replication_factor: int = field(Int16, "0+")
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = field(Array("KeyValue"), "0+")

    class KeyValue(Struct):
        key: str = field(String, "0+")
        value: str = field(String, "0+")

    class Endpoint(Struct):
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")

    class TaskOffset(Struct):
        subtopology_id: str = field(String, "0+")
        partition: int = field(Int32, "0+")
        offset: int = field(Int64, "0+")

    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(Array("TaskIds"), "0+")
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(Array("TaskIds"), "0+")
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(Array("TaskIds"), "0+")

    class TaskIds(Struct):
        subtopology_id: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")
