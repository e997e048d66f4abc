"""AlterReplicaLogDirs, API key 34."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Message, String, Struct, Versions, field


class AlterReplicaLogDirsRequest(Message):
    """Request to move replicas between the log directories of one broker (KIP-113)."""

    API_KEY = 34
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    dirs: list[AlterReplicaLogDir] = field(Array("AlterReplicaLogDir"), "0+")

    class AlterReplicaLogDir(Struct):
        path: str = field(String, "0+")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = field(Array("AlterReplicaLogDirTopic"), "0+")

    class AlterReplicaLogDirTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class AlterReplicaLogDirsResponse(Message):
    """Result for every partition."""

    API_KEY = 34
    VALID_VERSIONS = Versions(1, 2)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    results: list[AlterReplicaLogDirTopicResult] = field(Array("AlterReplicaLogDirTopicResult"), "0+")

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = field(String, "0+")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = field(
            Array("AlterReplicaLogDirPartitionResult"), "0+"
        )

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = field(Int32, "0+")
        error_code: int = field(Int16, "0+")
