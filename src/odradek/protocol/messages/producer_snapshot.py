"""File with the producer state (KIP-98)."""

from __future__ import annotations

from odradek.protocol.schema import Array, Int16, Int32, Int64, Message, Struct, Uint32, Versions, field


class ProducerSnapshot(Message):
    """Content of a producer state snapshot file (KIP-98)."""

    VALID_VERSIONS = Versions(1, 1)

    crc: int = field(Uint32, "1")
    producer_entries: list[ProducerEntry] = field(Array("ProducerEntry"), "1")

    class ProducerEntry(Struct):
        producer_id: int = field(Int64, "1")
        epoch: int = field(Int16, "1")
        last_sequence: int = field(Int32, "1")
        last_offset: int = field(Int64, "1")
        offset_delta: int = field(Int32, "1")
        timestamp: int = field(Int64, "1")
        coordinator_epoch: int = field(Int32, "1")
        current_txn_first_offset: int = field(Int64, "1")
