"""CreateTopics, API key 19."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class CreateTopicsRequest(Message):
    """Request to create topics, by count or with given replicas (KIP-4, KIP-464)."""

    API_KEY = 19
    VALID_VERSIONS = Versions(2, 7)
    FLEXIBLE_VERSIONS = Versions.since(5)

    topics: list[CreatableTopic] = field(Array("CreatableTopic"), "0+")
    timeout_ms: int = field(Int32, "0+", default=60000)
    validate_only: bool = field(Bool, "1+")

    class CreatableTopic(Struct):
        name: str = field(String, "0+")
        num_partitions: int = field(Int32, "0+")
        replication_factor: int = field(Int16, "0+")
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = field(Array("CreatableReplicaAssignment"), "0+")
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = field(Array("CreatableTopicConfig"), "0+")

    class CreatableReplicaAssignment(Struct):
        partition_index: int = field(Int32, "0+")
        broker_ids: list[int] = field(Array(Int32), "0+")

    class CreatableTopicConfig(Struct):
        name: str = field(String, "0+")
        value: str | None = field(String, "0+", nullable="0+")


class CreateTopicsResponse(Message):
    """Result for every topic, with its id and configuration (KIP-525)."""

    API_KEY = 19
    VALID_VERSIONS = Versions(2, 7)
    FLEXIBLE_VERSIONS = Versions.since(5)

    throttle_time_ms: int = field(Int32, "2+", ignorable=True)
    topics: list[CreatableTopicResult] = field(Array("CreatableTopicResult"), "0+")

    class CreatableTopicResult(Struct):
        name: str = field(String, "0+")
        topic_id: UUID = field(Uuid, "7+", ignorable=True)
        error_code: int = field(Int16, "0+")
        error_message: str | None = field(String, "1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = field(Int16, "5+", tag=0, ignorable=True)
        num_partitions: int = field(Int32, "5+", ignorable=True, default=-1)
        replication_factor: int = field(Int16, "5+", ignorable=True, default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = field(
            Array("CreatableTopicConfigs"), "5+", nullable="5+", ignorable=True
        )

    class CreatableTopicConfigs(Struct):
        name: str = field(String, "5+")
        value: str | None = field(String, "5+", nullable="5+")
        read_only: bool = field(Bool, "5+")
        config_source: int = field(Int8, "5+", ignorable=True, default=-1)
        is_sensitive: bool = field(Bool, "5+")
