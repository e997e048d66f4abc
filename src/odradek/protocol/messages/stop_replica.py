"""StopReplica, API key 5."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Versions, field


class StopReplicaRequest(Message):
    """Request of a ZooKeeper-era controller to a broker to stop, and maybe delete, replicas (KIP-570)."""

    API_KEY = 5
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(2)

    controller_id: int = field(Int32, "0+")
    is_k_raft_controller: bool = field(Bool, "4+")
    controller_epoch: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "1+", ignorable=True, default=-1)
    delete_partitions: bool = field(Bool, "0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(Array("StopReplicaPartitionV0"), "0")
    topics: list[StopReplicaTopicV1] = field(Array("StopReplicaTopicV1"), "1-2")
    topic_states: list[StopReplicaTopicState] = field(Array("StopReplicaTopicState"), "3+")

    class StopReplicaPartitionV0(Struct):
        topic_name: str = field(String, "0")
        partition_index: int = field(Int32, "0")

    class StopReplicaTopicV1(Struct):
        name: str = field(String, "1-2")
        partition_indexes: list[int] = field(Array(Int32), "1-2")

    class StopReplicaTopicState(Struct):
        topic_name: str = field(String, "3+")
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = field(Array("StopReplicaPartitionState"), "3+")

    class StopReplicaPartitionState(Struct):
        partition_index: int = field(Int32, "3+")
        leader_epoch: int = field(Int32, "3+", default=-1)
        delete_partition: bool = field(Bool, "3+")


class StopReplicaResponse(Message):
    """Result for every replica."""

    API_KEY = 5
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(2)

    error_code: int = field(Int16, "0+")
    partition_errors: list[StopReplicaPartitionError] = field(Array("StopReplicaPartitionError"), "0+")

    class StopReplicaPartitionError(Struct):
        topic_name: str = field(String, "0+")
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
