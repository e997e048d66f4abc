"""UpdateMetadata, API key 6."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class UpdateMetadataRequest(Message):
    """Request of a ZooKeeper-era controller with the state of partitions and live brokers (KIP-866)."""

    API_KEY = 6
    VALID_VERSIONS = Versions(0, 8)
    FLEXIBLE_VERSIONS = Versions.since(6)

    controller_id: int = field(Int32, "0+")
    is_k_raft_controller: bool = field(Bool, "8+")
    type: int = field(Int8, "8+", tag=0)
    controller_epoch: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "5+", ignorable=True, default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(Array("UpdateMetadataPartitionState"), "0-4")
    topic_states: list[UpdateMetadataTopicState] = field(Array("UpdateMetadataTopicState"), "5+")
    live_brokers: list[UpdateMetadataBroker] = field(Array("UpdateMetadataBroker"), "0+")

    class UpdateMetadataPartitionState(Struct):
        topic_name: str = field(String, "0-4", ignorable=True)
        partition_index: int = field(Int32, "0+")
        controller_epoch: int = field(Int32, "0+")
        leader: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        isr: list[int] = field(Array(Int32), "0+")
        zk_version: int = field(Int32, "0+")
        replicas: list[int] = field(Array(Int32), "0+")
        offline_replicas: list[int] = field(Array(Int32), "4+", ignorable=True)

    class UpdateMetadataTopicState(Struct):
        topic_name: str = field(String, "5+")
        topic_id: UUID = field(Uuid, "7+", ignorable=True)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = field(Array("UpdateMetadataPartitionState"), "5+")

    class UpdateMetadataBroker(Struct):
        id: int = field(Int32, "0+")
        v0_host: str = field(String, "0", ignorable=True)
        v0_port: int = field(Int32, "0", ignorable=True)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = field(Array("UpdateMetadataEndpoint"), "1+", ignorable=True)
        rack: str | None = field(String, "2+", nullable="0+", ignorable=True)

    class UpdateMetadataEndpoint(Struct):
        port: int = field(Int32, "1+")
        host: str = field(String, "1+")
        listener: str = field(String, "3+", ignorable=True)
        security_protocol: int = field(Int16, "1+")


class UpdateMetadataResponse(Message):
    """Result."""

    API_KEY = 6
    VALID_VERSIONS = Versions(0, 8)
    FLEXIBLE_VERSIONS = Versions.since(6)

    error_code: int = field(Int16, "0+")
