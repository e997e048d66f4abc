"""Sorting of a leader's response to a fetch, by the action that it demands (kafka.server.AbstractFetcherThread.processFetchRequest).

Each partition of the response is one of these. Partitions whose log has left the position of the request are skipped.

- records, possibly empty, with the leader's high watermark and log start: append (`Append`);
- the epoch at whose end the logs diverge: truncate (`Cut`, KIP-595);
- OFFSET_OUT_OF_RANGE: reset to the range of the leader's log;
- FENCED_LEADER_EPOCH: failed, newer metadata is on its way. OFFSET_MOVED_TO_TIERED_STORAGE: failed as well, because Odradek has no tiered
  storage to read the records from;
- any other error: delayed.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode, code_of
from odradek.base.ids import TopicPartition
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.protocol.schema import records_view
from odradek.replication.fetching.states import FetchTable, Followed


class Append(NamedTuple):
    """Records for the end of the local log; the offsets are the leader's."""

    followed: Followed
    records: memoryview
    high_watermark: int
    log_start_offset: int


class Cut(NamedTuple):
    """Divergence: the leader's log differs from the local log after the end of `epoch`, which is `end_offset` in the leader's log."""

    followed: Followed
    epoch: int
    end_offset: int


class Problem(NamedTuple):
    """Partition that is not fetched for a while, or in the rest of this leader epoch, with the error."""

    followed: Followed
    error: ErrorCode


class Answer(NamedTuple):
    """Partitions of a response, by action."""

    appends: list[Append]
    cuts: list[Cut]
    resets: list[Followed]
    delays: list[Problem]
    failures: list[Problem]


FINAL = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE})
"""Errors after which fetching cannot continue in the same leader epoch."""
BEHIND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Errors of a leader whose metadata is older than the follower's; they end soon."""


def sort_answer(response: FetchResponse, table: FetchTable) -> Answer:
    """Return the partitions of the response by action, in the order of the response."""
    answer = Answer([], [], [], [], [])
    for topic in response.responses:
        topic_id = topic.topic_id.int
        for data in topic.partitions:
            followed = table.by_key.get((topic_id, data.partition_index))
            if followed is not None and followed.awaits_answer:
                _sort(answer, followed, data)
    return answer


def _sort(answer: Answer, followed: Followed, data: FetchResponse.PartitionData) -> None:
    error = code_of(data.error_code)
    diverging = data.diverging_epoch
    if error is ErrorCode.OFFSET_OUT_OF_RANGE:
        answer.resets.append(followed)
    elif error in FINAL:
        answer.failures.append(Problem(followed, error))
    elif error is not ErrorCode.NONE:
        answer.delays.append(Problem(followed, error))
    elif diverging.epoch < 0:
        answer.appends.append(Append(followed, records_view(data.records), data.high_watermark, data.log_start_offset))
    elif diverging.end_offset < 0:
        # The leader knows that the logs diverge, but not where.
        answer.delays.append(Problem(followed, ErrorCode.UNKNOWN_LEADER_EPOCH))
    else:
        answer.cuts.append(Cut(followed, diverging.epoch, diverging.end_offset))


class Bounds(NamedTuple):
    """Start and end offset of the leader's log; valid only when `error` is `ErrorCode.NONE`."""

    error: ErrorCode
    start_offset: int = -1
    end_offset: int = -1


def read_bounds(earliest: ListOffsetsResponse, latest: ListOffsetsResponse) -> dict[TopicPartition, Bounds]:
    """Return the bounds in the leader's responses to ListOffsets, by partition."""
    starts, ends = _by_partition(earliest), _by_partition(latest)
    return {topic_partition: _bounds(starts[topic_partition], end) for topic_partition, end in ends.items() if topic_partition in starts}


def _by_partition(response: ListOffsetsResponse) -> dict[TopicPartition, ListOffsetsResponse.ListOffsetsPartitionResponse]:
    return {TopicPartition(topic.name, data.partition_index): data for topic in response.topics for data in topic.partitions}


def _bounds(start: ListOffsetsResponse.ListOffsetsPartitionResponse, end: ListOffsetsResponse.ListOffsetsPartitionResponse) -> Bounds:
    for each in (end, start):
        error = code_of(each.error_code)
        if error is not ErrorCode.NONE:
            return Bounds(error)
    if not 0 <= start.offset <= end.offset:
        # Start and end come from two requests, and the log may have been shortened at both ends in between.
        return Bounds(ErrorCode.OFFSET_NOT_AVAILABLE)
    return Bounds(ErrorCode.NONE, start.offset, end.offset)
