"""Append as leader: checks, write and roll (UnifiedLog.append, analyzeAndValidateProducerState, LocalLog.roll).

An append takes these steps:

  1. check the CRC and the other requirements of a client's batch (`records.validation`);
  2. ask the producer state: a duplicate is answered with its first offset, a gap or an old epoch is refused;
  3. roll when the segment is full;
  4. write [base offset, length, leader epoch, rest] in one vectored write, without copying the producer's bytes;
  5. only then move the log end offset, indexes, leader epochs and producer state.

A failed write leaves nothing visible: the log end offset has not moved, and the next append overwrites the bytes or recovery truncates
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from odradek.base.disk import out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, iter_headers, read_header
from odradek.records.patch import patched_chunks
from odradek.records.validation import validate_append
from odradek.storage.append import AppendInfo, AppendOrigin, ControlMarker, read_marker
from odradek.storage.flushing import Guarded
from odradek.storage.producer_state import BatchMetadata, VerificationGuard
from odradek.storage.recovery import recent_batches
from odradek.storage.segment import Segment
from odradek.storage.truncation import harden

if TYPE_CHECKING:
    from odradek.storage.log import Log

_CLIENT, _RAFT_LEADER = AppendOrigin.CLIENT, AppendOrigin.RAFT_LEADER
"""Constants, because access to the members of an enum is slow."""


def append_batch(
    log: Log,
    batch: memoryview,
    leader_epoch: int,
    origin: AppendOrigin,
    guard: VerificationGuard | None,
    transaction_version: int,
) -> AppendInfo:
    """Append one batch as `Log.append_as_leader`."""
    if len(batch) < HEADER_SIZE:
        if not batch:
            return AppendInfo(-1, -1, log.log_start_offset)
        raise KafkaError(ErrorCode.INVALID_RECORD, f"The records appended to {log.name} contain no complete batch")
    header = read_header(batch, 0)
    size = header.batch_length + LOG_OVERHEAD
    if size != len(batch):
        batches = len(list(islice(iter_headers(batch), 2)))
        if batches != 1:
            found = "more" if batches else "none"
            raise KafkaError(ErrorCode.INVALID_RECORD, f"Records appended to {log.name} must be exactly one record batch, not {found}")
        batch = batch[:size]
    now_ms = log.clock.time_ms()
    rules = log.rules if origin != _RAFT_LEADER else log.rules._replace(max_message_bytes=0x7FFFFFFF)
    valid = validate_append(batch, 0, header, rules, now_ms=now_ms, from_client=origin == _CLIENT)
    batch, header, max_timestamp, _, _, _ = valid
    size = header.batch_length + LOG_OVERHEAD
    if size > log.segments.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"A batch of {size} bytes does not fit into a segment of {log.name} (segment.bytes is {log.segments.segment_bytes})",
        )
    marker: ControlMarker | None = None
    if header.producer_id >= 0:
        if header.is_control:
            marker = _check_marker(log, batch, header, transaction_version)
        else:
            duplicate = _check_producer(log, header, origin, guard)
            if duplicate is not None:
                return duplicate
    base_offset = log.log_end_offset
    last_offset = base_offset + header.last_offset_delta
    if header.base_offset == base_offset and header.partition_leader_epoch == leader_epoch:
        # A coordinator knew the offset at which its batch would be written.
        chunks: Sequence[memoryview | bytes] = (batch,)
    else:
        chunks = patched_chunks(batch, base_offset, leader_epoch)
    write(log, chunks, size, base_offset, last_offset, max_timestamp, leader_epoch, now_ms)
    if header.producer_id >= 0:
        follow_producer(log, header, base_offset, max_timestamp, marker)
    log.producer_state.map_end_offset = last_offset + 1
    return AppendInfo(
        base_offset,
        last_offset,
        log.log_start_offset,
        max_timestamp=max_timestamp,
        record_count=header.record_count,
        size=size,
        log_append_time_ms=now_ms if rules.log_append_time else -1,
    )


def _check_producer(log: Log, header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None) -> AppendInfo | None:
    state = log.producer_state
    transactional = header.is_transactional
    if origin == _CLIENT:
        duplicate = _check_sequence(log, header)
        if duplicate is not None:
            return AppendInfo(
                duplicate.first_offset,
                duplicate.last_offset,
                log.log_start_offset,
                max_timestamp=duplicate.timestamp,
                # Regardless of message.timestamp.type, as in Kafka (UnifiedLog.append).
                log_append_time_ms=duplicate.timestamp,
                duplicate=True,
            )
    else:
        entry = state.producers.get(header.producer_id)
        if entry is not None:
            state.check_epoch(entry, header.producer_epoch)
    state.check_transaction(header.producer_id, header.producer_epoch, transactional=transactional, guard=guard)
    return None


def _check_sequence(log: Log, header: BatchHeader) -> BatchMetadata | None:
    """Return the earlier batch that this one repeats, None when this one is next in sequence.

    After a restart the state knows only the last batch of a producer. A batch that seems out of order may then repeat an earlier one
    whose response was lost with the connection. The log is therefore searched, once per producer. (Kafka refuses such a batch, and its
    client writes it again under the next epoch.)

    Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER for any other batch.
    """
    state = log.producer_state
    asked = (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    try:
        return state.check_client(*asked)
    except KafkaError as error:
        entry = state.producers.get(header.producer_id)
        if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or entry is None or not entry.restored:
            raise
        entry.complete_from(recent_batches(log.segments, header.producer_id, entry.epoch))
        return state.check_client(*asked)


def _check_marker(log: Log, batch: memoryview, header: BatchHeader, transaction_version: int) -> ControlMarker | None:
    marker = read_marker(batch, 0, header)
    if marker is not None:
        log.producer_state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch, transaction_version)
    return marker


def follow_producer(log: Log, header: BatchHeader, base_offset: int, max_timestamp: int, marker: ControlMarker | None) -> None:
    """Update producer state and transaction index after a batch with a producer id was written."""
    aborted = log.producer_state.follow(header, base_offset, max_timestamp, marker)
    if aborted is not None:
        with Guarded(log, changing=True):
            log.segments.active.txn_index.append(aborted)


def write(
    log: Log,
    chunks: Sequence[bytes | bytearray | memoryview],
    size: int,
    base_offset: int,
    last_offset: int,
    max_timestamp: int,
    leader_epoch: int,
    now_ms: int,
) -> None:
    """Write one batch to the end of the log, rolling before it where needed, and move the log end offset."""
    if log.closed:
        raise log.gone()
    segments = log.segments
    try:
        if log.durability.is_cut:
            harden(log)
        segment = segments.active
        if segment.should_roll(size, last_offset, max_timestamp, now_ms, segments.segment_bytes, segments.segment_ms):
            segment = roll(log, base_offset)
        file = segment.file
        if leader_epoch > log.leader_epochs.latest_epoch:
            log.leader_epochs.assign(leader_epoch, base_offset, flush=False)
        position = segment.size
        file.pwritev(chunks, position)
        segment.note_batch(position, size, last_offset, max_timestamp)
    except OSError as error:
        raise log.failed(error) from error
    segments.note_position(base_offset, position)
    log.log_end_offset = last_offset + 1


def roll(log: Log, base_offset: int) -> Segment:
    """Begin a new segment at `base_offset`, or at the log end if that is higher. An empty active segment that begins there stays."""
    if log.durability.is_cut:
        harden(log)
    active = log.segments.active
    base_offset = max(base_offset, log.log_end_offset)
    if active.base_offset == base_offset:
        if active.size == 0 and not active.is_index_full:
            return active
        if active.size:
            raise StorageError(f"{log.name} cannot roll at {base_offset}, the base offset of its active segment")
        active.reset_indexes()
        return active
    log.durability.touch()
    active.become_inactive()
    segment = log.segments.begin(base_offset)
    # The snapshot at a segment's base lets recovery begin there.
    log.producer_state.map_end_offset = base_offset
    try:
        unsynced = log.producer_state.take_snapshot(sync=False)
    except OSError as error:
        if not out_of_descriptors(error):
            raise
        unsynced = None  # recovery then begins at the previous snapshot
    if unsynced is not None:
        log.durability.owe_snapshot(unsynced)
    if log.options.on_roll is not None:
        log.options.on_roll(log)
    return segment
