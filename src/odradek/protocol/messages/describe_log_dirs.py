"""DescribeLogDirs, API key 35."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Versions, field


class DescribeLogDirsRequest(Message):
    """Request for the log directories of a broker and the replicas in them (KIP-113, KIP-827)."""

    API_KEY = 35
    VALID_VERSIONS = Versions(1, 5)
    FLEXIBLE_VERSIONS = Versions.since(2)

    topics: list[DescribableLogDirTopic] | None = field(Array("DescribableLogDirTopic"), "0+", nullable="0+")

    class DescribableLogDirTopic(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class DescribeLogDirsResponse(Message):
    """Replica sizes and lags, and space, by directory."""

    API_KEY = 35
    VALID_VERSIONS = Versions(1, 5)
    FLEXIBLE_VERSIONS = Versions.since(2)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field(Array("DescribeLogDirsResult"), "0+")

    class DescribeLogDirsResult(Struct):
        error_code: int = field(Int16, "0+")
        log_dir: str = field(String, "0+")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = field(Array("DescribeLogDirsTopic"), "0+")
        total_bytes: int = field(Int64, "4+", ignorable=True, default=-1)
        usable_bytes: int = field(Int64, "4+", ignorable=True, default=-1)
        is_cordoned: bool = field(Bool, "5+", ignorable=True)

    class DescribeLogDirsTopic(Struct):
        name: str = field(String, "0+")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = field(Array("DescribeLogDirsPartition"), "0+")

    class DescribeLogDirsPartition(Struct):
        partition_index: int = field(Int32, "0+")
        partition_size: int = field(Int64, "0+")
        offset_lag: int = field(Int64, "0+")
        is_future_key: bool = field(Bool, "0+")
