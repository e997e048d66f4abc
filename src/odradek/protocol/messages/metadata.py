"""Metadata, API key 3."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Message, String, Struct, Uuid, Versions, field


class MetadataRequest(Message):
    """Request for brokers and for topics by name or id; may create topics (KIP-4, KIP-516)."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 13)
    FLEXIBLE_VERSIONS = Versions.since(9)

    topics: list[MetadataRequestTopic] | None = field(Array("MetadataRequestTopic"), "0+", nullable="1+")
    allow_auto_topic_creation: bool = field(Bool, "4+", default=True)
    include_cluster_authorized_operations: bool = field(Bool, "8-10")
    include_topic_authorized_operations: bool = field(Bool, "8+")

    class MetadataRequestTopic(Struct):
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        name: str | None = field(String, "0+", nullable="10+")


class MetadataResponse(Message):
    """Brokers, controller, and leader, replicas and ISR of every partition."""

    API_KEY = 3
    VALID_VERSIONS = Versions(0, 13)
    FLEXIBLE_VERSIONS = Versions.since(9)

    throttle_time_ms: int = field(Int32, "3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field(Array("MetadataResponseBroker"), "0+")
    cluster_id: str | None = field(String, "2+", nullable="2+", ignorable=True, default=None)
    controller_id: int = field(Int32, "1+", ignorable=True, default=-1)
    topics: list[MetadataResponseTopic] = field(Array("MetadataResponseTopic"), "0+")
    cluster_authorized_operations: int = field(Int32, "8-10", default=-2147483648)
    error_code: int = field(Int16, "13+", ignorable=True)

    class MetadataResponseBroker(Struct):
        node_id: int = field(Int32, "0+")
        host: str = field(String, "0+")
        port: int = field(Int32, "0+")
        rack: str | None = field(String, "1+", nullable="1+", ignorable=True, default=None)

    class MetadataResponseTopic(Struct):
        error_code: int = field(Int16, "0+")
        name: str | None = field(String, "0+", nullable="12+")
        topic_id: UUID = field(Uuid, "10+", ignorable=True)
        is_internal: bool = field(Bool, "1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = field(Array("MetadataResponsePartition"), "0+")
        topic_authorized_operations: int = field(Int32, "8+", default=-2147483648)

    class MetadataResponsePartition(Struct):
        error_code: int = field(Int16, "0+")
        partition_index: int = field(Int32, "0+")
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "7+", ignorable=True, default=-1)
        replica_nodes: list[int] = field(Array(Int32), "0+")
        isr_nodes: list[int] = field(Array(Int32), "0+")
        offline_replicas: list[int] = field(Array(Int32), "5+", ignorable=True)
