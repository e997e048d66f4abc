"""Fetches, appends and snapshots: how followers copy the leader's log, and how the leader commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.consensus.log import end_offset_for_epoch, validate_fetch_position
from odradek.consensus.messages import (
    FetchedRecords,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Flushed,
    LogAppend,
    Propose,
    SnapshotChunk,
    SnapshotInstalled,
)
from odradek.consensus.states import NEVER, FollowerState, LeaderState, NomineeState, Role
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch, ReplicaKey

if TYPE_CHECKING:
    from odradek.consensus.raft import Raft


# The leader's own appends --------------------------------------------------------------------------------------------------


def on_propose(raft: Raft, event: Propose) -> None:
    """Append the records if this replica still leads the proposer's epoch; otherwise `Ready.appends` stays empty.

    Append nothing after the check-quorum deadline, even if no tick has reported it yet, as after a pause of the process. The same step then
    ends the leadership.
    """
    state = raft.state
    if not isinstance(state, LeaderState) or state.epoch != event.epoch or event.record_count <= 0:
        return
    if not state.lost_quorum(raft.now_ms):
        raft.append(event.record_count, event.epoch, payload=event.payload)
        after_local_progress(raft)


def on_flushed(raft: Raft, event: Flushed) -> None:
    raft.flushed_offset = max(raft.flushed_offset, min(event.end_offset, raft.log_end.offset))
    after_local_progress(raft)


def after_local_progress(raft: Raft) -> None:
    """Update the high watermark and answer parked fetches after the leader's log has grown or become durable."""
    state = raft.state
    if not isinstance(state, LeaderState):
        return
    _count_by_voters(raft, state)
    state.progress.local_flushed(raft.flushed_offset)
    _advance(raft, state)
    wake_parked(raft)


def _count_by_voters(raft: Raft, state: LeaderState) -> None:
    """Count commits and the check-quorum deadline by the voter set in force."""
    voters = raft.voters.current
    if voters != state.progress.voter_set:
        state.progress.update_voters(voters, raft.voters.current_offset)
        state.fetched.clear()
    if len(voters) < 2:
        state.check_quorum_deadline_ms = NEVER
    elif state.check_quorum_deadline_ms == NEVER:
        state.check_quorum_deadline_ms = raft.now_ms + raft.timeouts.check_quorum_ms


def _advance(raft: Raft, state: LeaderState) -> None:
    if state.progress.advance():
        assert state.progress.high_watermark is not None
        raft.raise_high_watermark(state.progress.high_watermark)
        wake_parked(raft)


# Fetches on the leader -----------------------------------------------------------------------------------------------------


def on_fetch_request(raft: Raft, token: int, request: FetchRequest) -> None:
    """Answer with records, a diverging epoch or a snapshot id. Park a fetch at the log's end until the log or the high watermark grows."""
    error = _check_leader(raft, request.epoch)
    if request.max_wait_ms < 0 or request.offset < 0 or request.last_fetched_epoch < 0 or request.last_fetched_epoch > request.epoch:
        error = ErrorCode.INVALID_REQUEST
    state = raft.state
    if error is ErrorCode.NONE and request.replica.id == raft.local.id:
        error = ErrorCode.INVALID_REQUEST  # a leader does not fetch from itself
    if error is not ErrorCode.NONE or not isinstance(state, LeaderState):
        raft.reply(token, _fetch_response(raft, error))
        return
    position = validate_fetch_position(raft.log, request.offset, request.last_fetched_epoch)
    note_fetch_from(raft, state, request.replica)
    if not position.valid:
        raft.reply(token, _fetch_response(raft, ErrorCode.NONE, diverging=position.diverging, snapshot=position.snapshot))
        return
    if request.replica.id >= 0:
        state.progress.of(request.replica).fetched(request.offset, raft.log_end.offset, raft.now_ms)
        if state.progress.is_voter(request.replica):
            _advance(raft, state)
    if request.max_wait_ms > 0 and not _has_news(raft, state, request):
        from odradek.consensus.raft import ParkedFetch

        raft.parked.append(ParkedFetch(token, request, raft.now_ms + request.max_wait_ms))
    else:
        raft.reply(token, _fetch_response(raft, ErrorCode.NONE, read_from=request.offset))


def _check_leader(raft: Raft, epoch: int) -> ErrorCode:
    """Return the error of a request that only the leader of `epoch` answers, or NONE if this replica leads that epoch."""
    if epoch < raft.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > raft.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if raft.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def note_fetch_from(raft: Raft, state: LeaderState, replica: ReplicaKey) -> None:
    """Note a voter's fetch. When a majority of the voters has fetched, extend the leader's check-quorum deadline."""
    if not state.progress.is_voter(replica) or replica.id == raft.local.id:
        return
    state.fetched.add(replica.id)
    voters = raft.voters.current
    counted = state.fetched | {raft.local.id} if raft.is_voter else state.fetched
    if len(voters) > 1 and len(counted) >= voters.majority:
        state.fetched.clear()
        state.check_quorum_deadline_ms = raft.now_ms + raft.timeouts.check_quorum_ms


def _has_news(raft: Raft, state: LeaderState, request: FetchRequest) -> bool:
    if request.offset < raft.log_end.offset:
        return True
    return state.progress.high_watermark is not None and state.progress.high_watermark > request.high_watermark


def wake_parked(raft: Raft) -> None:
    """Answer the parked fetches that have something to read or whose wait is over."""
    state = raft.state
    if not isinstance(state, LeaderState) or not raft.parked:
        return
    parked, raft.parked = raft.parked, []
    for fetch in parked:
        if _has_news(raft, state, fetch.request) or raft.now_ms >= fetch.deadline_ms:
            raft.reply(fetch.token, _fetch_response(raft, ErrorCode.NONE, read_from=fetch.request.offset))
        else:
            raft.parked.append(fetch)


def refuse_parked(raft: Raft) -> None:
    """Fail the parked fetches with NOT_LEADER_OR_FOLLOWER, because this replica no longer leads."""
    parked, raft.parked = raft.parked, []
    for fetch in parked:
        raft.reply(fetch.token, _fetch_response(raft, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _fetch_response(
    raft: Raft,
    error: ErrorCode,
    *,
    diverging: OffsetAndEpoch | None = None,
    snapshot: OffsetAndEpoch | None = None,
    read_from: int | None = None,
) -> FetchResponse:
    state = raft.state
    high_watermark = state.progress.high_watermark if error is ErrorCode.NONE and isinstance(state, LeaderState) else None
    return FetchResponse(
        error,
        state.leader_id,
        state.epoch,
        high_watermark=-1 if high_watermark is None else high_watermark,
        log_start_offset=raft.log.start_offset,
        diverging=diverging,
        snapshot_id=snapshot,
        read_from=read_from,
        endpoints=state.leader_endpoints,
    )


def on_fetch_snapshot_request(raft: Raft, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return the response to a snapshot fetch. The shell reads the chunk: at most `max_bytes` from `position`."""
    error = _check_leader(raft, request.epoch)
    size: int | None = None
    if error is ErrorCode.NONE:
        # The checkpoint that formatting wrote is only for its own node (Snapshots.BOOTSTRAP_SNAPSHOT_ID).
        size = None if request.snapshot_id == BOOTSTRAP_SNAPSHOT_ID else raft.log.snapshot_size(request.snapshot_id)
        if size is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= request.position < size:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    state = raft.state
    if error is not ErrorCode.NONE or size is None or not isinstance(state, LeaderState):
        return FetchSnapshotResponse(error, raft.leader_id, raft.epoch, request.snapshot_id, endpoints=state.leader_endpoints)
    note_fetch_from(raft, state, request.replica)
    room = min(max(request.max_bytes, 0), size - request.position)
    return FetchSnapshotResponse(
        error, raft.leader_id, raft.epoch, request.snapshot_id, size, request.position, room, b"", state.leader_endpoints
    )


# Fetches on a follower -----------------------------------------------------------------------------------------------------


def on_fetch_response(raft: Raft, source: int, request: FetchRequest, response: FetchResponse) -> None:
    """Truncate, start to fetch a snapshot, or append, as the leader's response says."""
    state = raft.state
    if (
        isinstance(state, NomineeState)
        and state.role is Role.PROSPECTIVE
        and response.error is ErrorCode.NONE
        and state.leader_id == source
    ):
        return
    if response.error is not ErrorCode.NONE:
        if request.epoch == state.epoch:
            # Back off even without a known leader, because the same server would give the same answer again.
            raft.requests.back_off(source, raft.now_ms)
        return
    if not isinstance(state, FollowerState) or response.epoch != state.epoch:
        return
    if request.epoch != state.epoch:
        return  # The request was sent before this epoch.
    if source != state.leader_id:
        # This bootstrap server leads. Fetch from it at the endpoint that it named as the leader's.
        raft.requests.back_off(source, raft.now_ms)
        return
    _heard_from_leader(raft, state)
    if response.diverging is not None:
        _truncate(raft, response.diverging)
    elif response.snapshot_id is not None:
        state.fetching_snapshot = response.snapshot_id
        state.fetching_position = 0
    else:
        if response.records is not None:
            _append_fetched(raft, state, response.records)
        if response.high_watermark >= 0:
            raft.raise_high_watermark(min(response.high_watermark, raft.log_end.offset))


def _heard_from_leader(raft: Raft, state: FollowerState) -> None:
    state.has_fetched = True
    state.deadline_ms = raft.now_ms + raft.timeouts.fetch_ms


def _truncate(raft: Raft, diverging: OffsetAndEpoch) -> None:
    """Truncate the log to the last offset at which it may agree with the leader's log.

    Raises AssertionError when that offset is below the high watermark.
    """
    ours = end_offset_for_epoch(raft.log, diverging.epoch)
    offset = ours.offset if ours.epoch < diverging.epoch else min(ours.offset, diverging.offset)
    if offset < raft.high_watermark:
        raise AssertionError(f"the leader's log diverges at offset {offset}, below the high watermark {raft.high_watermark}")
    if offset < raft.log_end.offset:
        raft.ready.truncate_to = offset
        raft.voters.truncate_from(offset)
        raft.flushed_offset = min(raft.flushed_offset, offset)
        raft.log_end = OffsetAndEpoch(offset, min(ours.epoch, raft.log_end.epoch))


def _append_fetched(raft: Raft, state: FollowerState, records: FetchedRecords) -> None:
    if records.base_offset != raft.log_end.offset or records.last_epoch > state.epoch:
        return
    raft.ready.appends.append(LogAppend(records.base_offset, records.end_offset, records.last_epoch, fetched=records))
    raft.log_end = OffsetAndEpoch(records.end_offset, records.last_epoch)
    for update in records.control:
        if update.voters is not None:
            raft.voters.add_voters(update.offset, update.voters)
        if update.kraft_version is not None:
            raft.voters.add_kraft_version(update.offset, update.kraft_version)


def on_fetch_snapshot_response(raft: Raft, source: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse) -> None:
    """Pass the chunk to the shell. When the leader has deleted the snapshot, give it up and fetch again."""
    state = raft.state
    if not isinstance(state, FollowerState) or response.epoch != state.epoch or source != state.leader_id:
        return
    if response.error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
        state.fetching_snapshot = None
        return
    if response.error is not ErrorCode.NONE:
        raft.requests.back_off(source, raft.now_ms)
        return
    mine = response.snapshot_id == state.fetching_snapshot == request.snapshot_id
    if not mine or response.position != state.fetching_position:
        state.fetching_snapshot = None
        return
    _heard_from_leader(raft, state)
    position = state.fetching_position
    state.fetching_position = position + len(response.data)
    last = state.fetching_position >= response.size
    state.installing_snapshot = last
    raft.ready.snapshot_chunks.append(SnapshotChunk(response.snapshot_id, position, response.data, last))


def on_snapshot_installed(raft: Raft, event: SnapshotInstalled) -> None:
    """Restart the log at the snapshot's end. Everything in the snapshot is committed."""
    raft.log_end = raft.log.end
    raft.flushed_offset = raft.log_end.offset
    raft.voters.restart(event.voters, event.kraft_version, event.snapshot_id.offset)
    raft.raise_high_watermark(event.snapshot_id.offset)
    state = raft.state
    if isinstance(state, FollowerState):
        state.fetching_snapshot = None
        state.installing_snapshot = False
        state.deadline_ms = raft.now_ms + raft.timeouts.fetch_ms
