"""ControlledShutdown, API key 7."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, Versions, field


class ControlledShutdownRequest(Message):
    """Request of a stopping broker to a ZooKeeper-era controller to move the broker's leaders."""

    API_KEY = 7
    VALID_VERSIONS = Versions(0, 3)
    FLEXIBLE_VERSIONS = Versions.since(3)

    broker_id: int = field(Int32, "0+")
    broker_epoch: int = field(Int64, "2+", ignorable=True, default=-1)


class ControlledShutdownResponse(Message):
    """Partitions that the broker still leads."""

    API_KEY = 7
    VALID_VERSIONS = Versions(0, 3)
    FLEXIBLE_VERSIONS = Versions.since(3)

    error_code: int = field(Int16, "0+")
    remaining_partitions: list[RemainingPartition] = field(Array("RemainingPartition"), "0+")

    class RemainingPartition(Struct):
        topic_name: str = field(String, "0+")
        partition_index: int = field(Int32, "0+")
