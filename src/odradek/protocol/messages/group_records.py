"""Records of `__consumer_offsets` for offsets and classic groups; API_KEY is the record type, written as an int16 before the key.

Those of the newer group protocols stand in `consumer_group_records`, `share_group_records` and `streams_group_records`."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bytes, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class LegacyOffsetCommitKey(Message):
    """Key: an offset, in the first format."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)

    group: str = field(String, "0")
    topic: str = field(String, "0")
    partition: int = field(Int32, "0")


class LegacyOffsetCommitValue(Message):
    """Value: a committed offset, in the first format."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)

    offset: int = field(Int64, "0")
    metadata: str = field(String, "0")
    commit_timestamp: int = field(Int64, "0")


class OffsetCommitKey(Message):
    """Key: the offset of a group in a partition."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 0)

    group: str = field(String, "0")
    topic: str = field(String, "0")
    partition: int = field(Int32, "0")


class OffsetCommitValue(Message):
    """Value: the committed offset with leader epoch, metadata and times."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    offset: int = field(Int64, "0+")
    leader_epoch: int = field(Int32, "3+", ignorable=True, default=-1)
    metadata: str = field(String, "0+")
    commit_timestamp: int = field(Int64, "0+")
    expire_timestamp: int = field(Int64, "1", ignorable=True, default=-1)
    topic_id: UUID = field(Uuid, "4+", tag=0, ignorable=True)


class GroupMetadataKey(Message):
    """Key: a classic group."""

    API_KEY = 2
    VALID_VERSIONS = Versions(0, 0)

    group: str = field(String, "0")


class GroupMetadataValue(Message):
    """Value: generation, leader, protocol and members of a classic group."""

    API_KEY = 2
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(4)

    protocol_type: str = field(String, "0+")
    generation: int = field(Int32, "0+")
    protocol: str | None = field(String, "0+", nullable="0+")
    leader: str | None = field(String, "0+", nullable="0+")
    current_state_timestamp: int = field(Int64, "2+", ignorable=True, default=-1)
    members: list[MemberMetadata] = field(Array("MemberMetadata"), "0+")

    class MemberMetadata(Struct):
        member_id: str = field(String, "0+")
        group_instance_id: str | None = field(String, "3+", nullable="3+", ignorable=True, default=None)
        client_id: str = field(String, "0+")
        client_host: str = field(String, "0+")
        rebalance_timeout: int = field(Int32, "1+", ignorable=True, default=-1)
        session_timeout: int = field(Int32, "0+")
        subscription: bytes = field(Bytes, "0+")
        assignment: bytes = field(Bytes, "0+")
