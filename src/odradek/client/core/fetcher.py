"""Positions and fetched data of a consumer without a group (org.apache.kafka.clients.consumer.internals.Fetcher, SubscriptionState).

- A partition is asked for again as soon as less than two of its answers wait to be read: one is decoded while the next is on its way.
- There is at most one Fetch on the wire per node.
- What arrives for a partition that was re-assigned or sought in the meantime is dropped: every position carries a generation.
- No leader is asked of an earlier epoch than that of what was read, or of the position that was sought (KIP-320): one that was deposed and
  has not heard of it would take a position beyond the end of its log for one that is out of range.
Times are monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.backoff import Backoff
from odradek.client.core.metadata import FOREVER, LEADERSHIP_ERRORS, ClusterView
from odradek.client.core.reset_policy import LATEST_TIMESTAMP, Ago, ResetTo, reset_of
from odradek.client.types import ConsumerRecord, OffsetAndMetadata
from odradek.records.batch import LOG_OVERHEAD, decode_placed, iter_headers
from odradek.records.visibility import visible_batches

READ_COMMITTED = 1
READ_UNCOMMITTED = 0
_BUFFERED_ANSWERS = 2


class FetchTarget(NamedTuple):
    """One partition in a Fetch request."""

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int
    generation: int
    max_bytes: int
    topic_id: UUID


class FetchPlan(NamedTuple):
    """One Fetch request."""

    node_id: int
    targets: tuple[FetchTarget, ...]


class FetchedPartition(NamedTuple):
    """One partition of a Fetch answer."""

    error: ErrorCode
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of aborted transactions that reach into the records."""
    records: memoryview
    end_offset: int = -1
    """After the last record that may be read (high watermark, or last stable offset), -1 where the answer does not say."""
    preferred_replica: int = -1
    """The broker that is nearer to this client (KIP-392), -1 where there is none."""


class Chunk(NamedTuple):
    """Whole batches of one partition, of which the records with offsets in [offset, end_offset) are wanted."""

    topic_partition: TopicPartition
    offset: int
    end_offset: int
    buffer: memoryview
    aborted: Sequence[tuple[int, int]]
    leader_epoch: int = -1
    """Of the last batch."""


class Position:
    """Where the reading of an assigned partition stands."""

    __slots__ = (
        "chunks",
        "end_offset",
        "epoch",
        "failures",
        "fetch_offset",
        "generation",
        "in_flight",
        "offset",
        "offset_epoch",
        "paused",
        "preferred",
        "preferred_until_ms",
        "reset_to",
        "retry_at_ms",
        "suspended",
        "topic_id",
        "wants_committed",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.epoch = -1
        """The newest leader epoch that the partition is known to have had, -1 for none."""
        self.topic_id: UUID | None = None
        """The topic that the epoch is of, where that is known."""
        self.offset = -1
        self.offset_epoch = -1
        """The leader epoch of what was read before `offset`, -1 where it is not known."""
        self.fetch_offset = -1
        self.reset_to: ResetTo | None = None
        self.wants_committed = False
        """Whether the group's committed offset has to be asked for first."""
        self.paused = False
        self.suspended = False
        """Whether it is about to be given up: nothing more is handed out."""
        self.end_offset = -1
        """After the last record that may be read, as the last answer said."""
        self.preferred: int | None = None
        """The replica that the leader told this client to read from, until `preferred_until_ms`."""
        self.preferred_until_ms = 0
        self.in_flight = False
        self.chunks: deque[Chunk] = deque()
        self.failures = 0
        self.retry_at_ms = 0


class OffsetOutOfRange(KafkaError):
    """A position that the log does not have and `auto.offset.reset=none`."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic_partition} is not in the log (any more); seek, or set auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class Fetcher:
    """Decides what to fetch and keeps what arrived."""

    __slots__ = ("_backoff", "_busy_nodes", "_generation", "_partition_max_bytes", "_preference_ms", "_reset_to", "errors", "positions")

    def __init__(self, *, partition_max_bytes: int, reset_policy: str, backoff: Backoff, preference_ms: int = 300_000) -> None:
        """`preference_ms`: how long a nearer replica is read from before the leader is asked again (metadata.max.age.ms)."""
        self._preference_ms = preference_ms
        self._partition_max_bytes = partition_max_bytes
        self._reset_to = reset_of(reset_policy)
        self._backoff = backoff
        self._busy_nodes: set[int] = set()
        self._generation = 0
        self.positions: dict[TopicPartition, Position] = {}
        self.errors: deque[BaseException] = deque()

    # -- assignment -----------------------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition], *, committed: bool = False) -> None:
        """Replaces the assignment; partitions that stay keep their position and data. New ones begin where auto.offset.reset says, or, if
        `committed`, at the group's committed offset when there is one.
        """
        kept = self.positions
        self.positions = {}
        for topic_partition in partitions:
            position = kept.get(topic_partition)
            if position is None:
                position = Position(self._next_generation())
                position.reset_to = None if committed else self._reset_to
                position.wants_committed = committed
            self.positions[topic_partition] = position

    def position_of(self, topic_partition: TopicPartition) -> Position | None:
        """The position of an assigned partition: the same object until the partition is given up."""
        return self.positions.get(topic_partition)

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continues at `offset`, of which is known that it was written in `leader_epoch` or later; data fetched before is dropped."""
        position = self._restarted(topic_partition)
        position.offset = position.fetch_offset = offset
        position.offset_epoch = leader_epoch
        position.epoch = max(position.epoch, leader_epoch)

    def seek_to(self, topic_partition: TopicPartition, reset_to: ResetTo) -> None:
        """Continues where the broker says that the log begins (EARLIEST_TIMESTAMP) or ends (LATEST_TIMESTAMP), or at a time before now."""
        position = self._restarted(topic_partition)
        position.offset = position.fetch_offset = position.offset_epoch = -1
        position.reset_to = reset_to

    def positioned(self, topic_partition: TopicPartition, generation: int, offset: int, leader_epoch: int = -1) -> None:
        """The broker's answer to a reset (-1: nothing is as new as that); dropped when there was a seek in the meantime."""
        position = self.positions.get(topic_partition)
        if position is None or position.generation != generation or position.reset_to is None:
            return
        if offset < 0 and isinstance(position.reset_to, Ago):
            position.reset_to = LATEST_TIMESTAMP
            return
        position.reset_to = None
        position.offset = position.fetch_offset = offset
        position.offset_epoch = leader_epoch

    def uncommitted(self) -> list[tuple[TopicPartition, int]]:
        """(partition, generation) of the positions whose committed offset the group has to be asked for."""
        return [(partition, position.generation) for partition, position in self.positions.items() if position.wants_committed]

    def committed(self, topic_partition: TopicPartition, generation: int, committed: OffsetAndMetadata | None) -> None:
        """The group's answer; where nothing is committed auto.offset.reset holds. Dropped when there was a seek in the meantime."""
        position = self.positions.get(topic_partition)
        if position is None or position.generation != generation or not position.wants_committed:
            return
        if committed is None:
            position.wants_committed = False
            position.reset_to = self._reset_to
        else:
            self.seek(topic_partition, committed.offset, -1 if committed.leader_epoch is None else committed.leader_epoch)

    def suspend(self, topic_partition: TopicPartition) -> None:
        """Hands out nothing more of a partition that is about to be given up; it keeps its position."""
        self.positions[topic_partition].suspended = True

    def resets(self) -> list[tuple[TopicPartition, ResetTo, int]]:
        """(partition, where to, generation) of the positions that the broker has to be asked for."""
        return [
            (partition, position.reset_to, position.generation)
            for partition, position in self.positions.items()
            if position.reset_to is not None
        ]

    def _restarted(self, topic_partition: TopicPartition) -> Position:
        position = self.positions.get(topic_partition)
        if position is None:
            raise ValueError(f"{topic_partition} is not assigned to this consumer")
        position.generation = self._next_generation()
        position.chunks.clear()
        position.in_flight = False
        position.reset_to = None
        position.wants_committed = False
        position.failures = position.retry_at_ms = 0
        return position

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    # -- fetching -------------------------------------------------------------------------------------------------------------------

    def plan(self, view: ClusterView, now_ms: int) -> tuple[list[FetchPlan], bool, int]:
        """The requests to send now, whether metadata is missing, and milliseconds until a back-off ends (FOREVER when none runs)."""
        targets: dict[int, list[FetchTarget]] = {}
        needs_metadata = False
        wake = FOREVER
        for topic_partition, position in self.positions.items():
            if position.fetch_offset < 0 or position.paused or position.in_flight or len(position.chunks) >= _BUFFERED_ANSWERS:
                continue
            if position.suspended:
                continue
            if position.retry_at_ms > now_ms:
                wake = min(wake, position.retry_at_ms - now_ms)
                continue
            leader = view.leader(topic_partition)
            if leader is None or self._is_deposed(view, topic_partition, position):
                needs_metadata = True
                continue
            node = self._nearest(view, position, leader, now_ms)
            if node not in self._busy_nodes:
                target = FetchTarget(
                    topic_partition,
                    position.fetch_offset,
                    view.leader_epoch(topic_partition),
                    position.generation,
                    self._partition_max_bytes,
                    view.topics[topic_partition.topic].topic_id,
                )
                targets.setdefault(node, []).append(target)
        plans = [FetchPlan(node, tuple(chosen)) for node, chosen in targets.items()]
        for plan in plans:
            self._busy_nodes.add(plan.node_id)
            for target in plan.targets:
                self.positions[target.topic_partition].in_flight = True
        return plans, needs_metadata, wake

    @staticmethod
    def _nearest(view: ClusterView, position: Position, leader: int, now_ms: int) -> int:
        """The replica that the leader preferred, for a while; then the leader is asked again."""
        if position.preferred is None:
            return leader
        if now_ms >= position.preferred_until_ms or position.preferred not in view.brokers:
            position.preferred = None
            return leader
        return position.preferred

    def _is_deposed(self, view: ClusterView, topic_partition: TopicPartition, position: Position) -> bool:
        """Whether the leader that is known is one of before the position's epoch."""
        if not 0 <= view.leader_epoch(topic_partition) < position.epoch:
            return False
        if position.topic_id in (None, view.topics[topic_partition.topic].topic_id):
            return True
        # The topic was deleted and made anew: its epochs begin again.
        position.epoch = -1
        return False

    def on_response(self, plan: FetchPlan, answers: Sequence[FetchedPartition | None], now_ms: int) -> bool:
        """Takes the answer over, in the order of the plan's targets (None: not in the answer); True when the metadata is out of date."""
        self._busy_nodes.discard(plan.node_id)
        stale = False
        # The next request lists first those that got nothing this time: the broker fills in order until fetch.max.bytes.
        for target, answer in zip(plan.targets, answers, strict=True):
            position = self.positions.get(target.topic_partition)
            if position is None or position.generation != target.generation:
                continue
            position.in_flight = False
            if answer is None:
                continue
            if answer.error is ErrorCode.NONE:
                self._take(target, position, answer)
                if answer.preferred_replica >= 0:
                    position.preferred = answer.preferred_replica
                    position.preferred_until_ms = now_ms + self._preference_ms
            elif position.preferred is not None and position.preferred == plan.node_id:
                # What a follower refuses the leader may have: it is asked next, and judges.
                position.preferred = None
                stale = stale or answer.error in LEADERSHIP_ERRORS
                if answer.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._refused(target, position, answer.error, now_ms)
            else:
                stale = stale or answer.error in LEADERSHIP_ERRORS
                self._refused(target, position, answer.error, now_ms)
        return stale

    def on_failure(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> None:
        """The request got no answer."""
        failed = FetchedPartition(error.code, (), memoryview(b""))
        self.on_response(plan, [failed] * len(plan.targets), now_ms)

    def _take(self, target: FetchTarget, position: Position, answer: FetchedPartition) -> None:
        position.failures = position.retry_at_ms = 0
        if answer.end_offset >= 0:
            position.end_offset = answer.end_offset
        if not answer.records:
            return
        end, next_offset, epoch = whole_batches(answer.records, target.offset)
        if end == 0:
            self.errors.append(
                KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{target.topic_partition} at offset {target.offset}: the broker sent no whole batch")
            )
            return
        position.chunks.append(Chunk(target.topic_partition, target.offset, next_offset, answer.records[:end], answer.aborted, epoch))
        position.fetch_offset = next_offset
        if epoch >= position.epoch:
            position.epoch, position.topic_id = epoch, target.topic_id
        # Fair order: who was served goes to the end.
        self.positions[target.topic_partition] = self.positions.pop(target.topic_partition)

    def _refused(self, target: FetchTarget, position: Position, error: ErrorCode, now_ms: int) -> None:
        # Out of range, while fetched data is still unread: it is read first, and the next answer may be different.
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and not position.chunks:
            if self._reset_to is None:
                position.fetch_offset = -1
                self.errors.append(OffsetOutOfRange(target.topic_partition, target.offset))
            else:
                self.seek_to(target.topic_partition, self._reset_to)
        elif error.retriable or error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position.failures += 1
            position.retry_at_ms = now_ms + self._backoff.delay_ms(position.failures)
        else:
            position.fetch_offset = -1
            self.errors.append(KafkaError(error, f"reading {target.topic_partition} at offset {target.offset}"))

    # -- reading --------------------------------------------------------------------------------------------------------------------

    def take_chunk(self) -> Chunk | None:
        """The next buffered chunk, fairly over the partitions; the position moves past it."""
        for topic_partition, position in self.positions.items():
            if position.chunks and not position.paused and not position.suspended:
                chunk = position.chunks.popleft()
                position.offset = chunk.end_offset
                position.offset_epoch = chunk.leader_epoch
                self.positions[topic_partition] = self.positions.pop(topic_partition)
                return chunk
        return None


def whole_batches(buffer: memoryview, offset: int) -> tuple[int, int, int]:
    """(bytes of the whole batches at the start of the buffer, offset after the last of them, at least `offset`, and its leader epoch)."""
    end, next_offset, epoch = 0, offset, -1
    for position, header in iter_headers(buffer):
        end = position + header.batch_length + LOG_OVERHEAD
        next_offset = max(next_offset, header.next_offset)
        epoch = header.partition_leader_epoch
    return end, next_offset, epoch


def decode_chunk(chunk: Chunk, *, read_committed: bool, check_crcs: bool) -> list[ConsumerRecord]:
    """The records of a chunk in order; KafkaError(CORRUPT_MESSAGE) for a checksum that does not fit."""
    topic, partition = chunk.topic_partition
    output: list[ConsumerRecord] = []
    aborted = chunk.aborted if read_committed else ()
    for _, position, header in visible_batches([chunk.buffer], aborted, check_crcs=check_crcs, name=chunk.topic_partition):
        decode_placed(chunk.buffer, position, header, ConsumerRecord, topic, partition, chunk.offset, output)
    return output
