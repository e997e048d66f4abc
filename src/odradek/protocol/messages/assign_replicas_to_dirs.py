"""AssignReplicasToDirs, API key 73."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, Struct, Uuid, Versions, field


class AssignReplicasToDirsRequest(Message):
    """Broker's report to the controller of the directories of its replicas (KIP-858)."""

    API_KEY = 73
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)
    directories: list[DirectoryData] = field(Array("DirectoryData"), "0+")

    class DirectoryData(Struct):
        id: UUID = field(Uuid, "0+")
        topics: list[AssignReplicasToDirsRequest.TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")


class AssignReplicasToDirsResponse(Message):
    """Result for every partition."""

    API_KEY = 73
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    directories: list[DirectoryData] = field(Array("DirectoryData"), "0+")

    class DirectoryData(Struct):
        id: UUID = field(Uuid, "0+")
        topics: list[AssignReplicasToDirsResponse.TopicData] = field(Array("TopicData"), "0+")

    class TopicData(Struct):
        topic_id: UUID = field(Uuid, "0+")
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = field(Array("PartitionData"), "0+")

    class PartitionData(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
