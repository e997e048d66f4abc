"""LeaderAndIsr, API key 4."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class LeaderAndIsrRequest(Message):
    """Request of a ZooKeeper-era controller with the roles of a broker's replicas (KIP-497, KIP-866)."""

    API_KEY = 4
    VALID_VERSIONS = Versions(0, 7)
    FLEXIBLE_VERSIONS = Versions.since(4)

    controller_id: int = field(Int32, "0+")
    is_k_raft_controller: bool = field(Bool, "7+")
    controller_epoch: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "2+", ignorable=True, default=-1)
    type: int = field(Int8, "5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(Array("LeaderAndIsrPartitionState"), "0-1")
    topic_states: list[LeaderAndIsrTopicState] = field(Array("LeaderAndIsrTopicState"), "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field(Array("LeaderAndIsrLiveLeader"), "0+")

    class LeaderAndIsrPartitionState(Struct):
        topic_name: str = field(String, "0-1", ignorable=True)
        partition_index: int = field(Int32, "0+")
        controller_epoch: int = field(Int32, "0+")
        leader: int = field(Int32, "0+")
        leader_epoch: int = field(Int32, "0+")
        isr: list[int] = field(Array(Int32), "0+")
        partition_epoch: int = field(Int32, "0+")
        replicas: list[int] = field(Array(Int32), "0+")
        adding_replicas: list[int] = field(Array(Int32), "3+", ignorable=True)
        removing_replicas: list[int] = field(Array(Int32), "3+", ignorable=True)
        is_new: bool = field(Bool, "1+", ignorable=True)
        leader_recovery_state: int = field(Int8, "6+")

    class LeaderAndIsrTopicState(Struct):
        topic_name: str = field(String, "2+")
        topic_id: UUID = field(Uuid, "5+", ignorable=True)
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = field(Array("LeaderAndIsrPartitionState"), "2+")

    class LeaderAndIsrLiveLeader(Struct):
        broker_id: int = field(Int32, "0+")
        host_name: str = field(String, "0+")
        port: int = field(Int32, "0+")


class LeaderAndIsrResponse(Message):
    """Result for every partition."""

    API_KEY = 4
    VALID_VERSIONS = Versions(0, 7)
    FLEXIBLE_VERSIONS = Versions.since(4)

    error_code: int = field(Int16, "0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field(Array("LeaderAndIsrPartitionError"), "0-4")
    topics: list[LeaderAndIsrTopicError] = field(Array("LeaderAndIsrTopicError"), "5+")

    class LeaderAndIsrPartitionError(Struct):
        topic_name: str = field(String, "0-4", ignorable=True)
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")

    class LeaderAndIsrTopicError(Struct):
        topic_id: UUID = field(Uuid, "5+")
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = field(Array("LeaderAndIsrPartitionError"), "5+")
