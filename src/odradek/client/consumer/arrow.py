# pyarrow has no types:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Fetched batches as Arrow columns, without a Python object per record."""

from __future__ import annotations

from odradek.client.core.positions import Chunk
from odradek.client.types import ArrowBatch
from odradek.records.arrow import decode_to_arrow


def chunk_to_arrow(chunk: Chunk, *, read_committed: bool, check_crcs: bool, headers: bool) -> ArrowBatch:
    """Return the wanted records of a chunk; no rows if all of them belong to aborted transactions. Raises KafkaError as `decode_chunk`."""
    topic, partition = chunk.topic_partition
    return decode_to_arrow(
        chunk.buffer,
        topic=topic,
        partition=partition,
        min_offset=chunk.offset,
        include_headers=headers,
        aborted=chunk.aborted if read_committed else (),
        check_crcs=check_crcs,
    )
