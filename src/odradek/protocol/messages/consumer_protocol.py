"""Embedded protocol of classic consumer groups; the version precedes the message as an int16."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bytes, Int32, Message, String, Struct, Versions, field


class ConsumerProtocolAssignment(Message):
    """Assignment of a member by the leader of a classic consumer group (embedded protocol "consumer", KIP-429)."""

    VALID_VERSIONS = Versions(0, 3)

    assigned_partitions: list[TopicPartition] = field(Array("TopicPartition"), "0+")
    user_data: bytes | None = field(Bytes, "0+", nullable="0+", default=None)

    class TopicPartition(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


class ConsumerProtocolSubscription(Message):
    """Subscription and owned partitions of a member of a classic consumer group (KIP-429, KIP-881)."""

    VALID_VERSIONS = Versions(0, 3)

    topics: list[str] = field(Array(String), "0+")
    user_data: bytes | None = field(Bytes, "0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field(Array("TopicPartition"), "1+", ignorable=True)
    generation_id: int = field(Int32, "2+", ignorable=True, default=-1)
    rack_id: str | None = field(String, "3+", nullable="3+", ignorable=True, default=None)

    class TopicPartition(Struct):
        topic: str = field(String, "1+")
        partitions: list[int] = field(Array(Int32), "1+")
