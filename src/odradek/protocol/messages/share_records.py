"""Records of `__share_group_state` (KIP-932); API_KEY is the record type."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, Versions, field


class ShareSnapshotKey(Message):
    """Key: a full snapshot of a share partition."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    topic_id: UUID = field(Uuid, "0")
    partition: int = field(Int32, "0")


class ShareSnapshotValue(Message):
    """Value: the whole state of a share partition."""

    API_KEY = 0
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    snapshot_epoch: int = field(Int32, "0+")
    state_epoch: int = field(Int32, "0+")
    leader_epoch: int = field(Int32, "0+")
    start_offset: int = field(Int64, "0+")
    delivery_complete_count: int = field(Int32, "0+", tag=0, default=-1)
    create_timestamp: int = field(Int64, "0+")
    write_timestamp: int = field(Int64, "0+")
    state_batches: list[StateBatch] = field(Array("StateBatch"), "0+")

    class StateBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        delivery_state: int = field(Int8, "0+")
        delivery_count: int = field(Int16, "0+")


class ShareUpdateKey(Message):
    """Key: a change of a share partition since its last snapshot."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 0)

    group_id: str = field(String, "0")
    topic_id: UUID = field(Uuid, "0")
    partition: int = field(Int32, "0")


class ShareUpdateValue(Message):
    """Value: the record states that changed."""

    API_KEY = 1
    VALID_VERSIONS = Versions(0, 0)
    FLEXIBLE_VERSIONS = Versions.since(0)

    snapshot_epoch: int = field(Int32, "0+")
    leader_epoch: int = field(Int32, "0+")
    start_offset: int = field(Int64, "0+")
    delivery_complete_count: int = field(Int32, "0+", tag=0, default=-1)
    state_batches: list[StateBatch] = field(Array("StateBatch"), "0+")

    class StateBatch(Struct):
        first_offset: int = field(Int64, "0+")
        last_offset: int = field(Int64, "0+")
        delivery_state: int = field(Int8, "0+")
        delivery_count: int = field(Int16, "0+")
