"""AlterPartition, API key 56."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, Struct, Uuid, Versions, field


class AlterPartitionRequest(Message):
    """Partition leader's request to the controller to change an ISR (KIP-497, KIP-841)."""

    API_KEY = 56
    VALID_VERSIONS = Versions(2, 3)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)
    topics: list[TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_id: UUID = field(Uuid, "2+", ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        new_isr: list[int] = field(Array(Int32), "0-2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = field(Array("BrokerState"), "3+")
        leader_recovery_state: int = field(Int8, "1+")
        partition_epoch: int = field(Int32, "0+")

    class BrokerState(Struct):
        broker_id: int = field(Int32, "3+")
        broker_epoch: int = field(Int64, "3+", default=-1)


class AlterPartitionResponse(Message):
    """Current partition states of the controller."""

    API_KEY = 56
    VALID_VERSIONS = Versions(2, 3)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    topics: list[TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_id: UUID = field(Uuid, "2+", ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
        leader_id: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        isr: list[int] = field(Array(Int32), "0+")
        leader_recovery_state: int = field(Int8, "1+", ignorable=True)
        partition_epoch: int = field(Int32, "0+")
