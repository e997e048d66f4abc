"""Fetcher of a consumer: partitions to fetch, and the records that arrived.

- A partition is fetched again while fewer than two of its answers wait to be read: one answer is decoded while the next is on its way.
- At most one Fetch request per node is on the wire.
- A partition without a leader, or with an error, stops only itself (`positions`).
- Records of a partition that was assigned again or sought in the meantime are dropped: every position carries a generation.
- No leader is asked whose epoch is below the epoch of the records read, or of the position that was sought (KIP-320). A deposed leader that
  does not know of its successor would call a position beyond the end of its log out of range.
- A new leader is first asked whether its log has the records that were read (`validation`).
- A position does not carry over to a topic that was deleted and created again: reading begins where auto.offset.reset says.

Times are monotonic milliseconds. Source: org.apache.kafka.clients.consumer.internals.AbstractFetch, FetchCollector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.metadata import FOREVER, LEADERSHIP_ERRORS, ClusterView
from odradek.client.core.positions import Chunk, OffsetOutOfRange, Position, Positions, TopicRecreated
from odradek.client.core.resets import Resets
from odradek.client.core.validation import Validation
from odradek.client.types import ConsumerRecord
from odradek.records.batch import LOG_OVERHEAD, decode_placed, iter_headers
from odradek.records.visibility import visible_batches

READ_COMMITTED = 1
READ_UNCOMMITTED = 0
_BUFFERED_ANSWERS = 2


class FetchTarget(NamedTuple):
    """Partition in a Fetch request."""

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int
    generation: int
    max_bytes: int
    topic_id: UUID


class FetchPlan(NamedTuple):
    """Fetch request to one node."""

    node_id: int
    targets: tuple[FetchTarget, ...]


class FetchedPartition(NamedTuple):
    """Partition in a Fetch response."""

    error: ErrorCode
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of each aborted transaction that reaches into the records."""
    records: memoryview
    end_offset: int = -1
    """Offset after the last readable record (high watermark or last stable offset); -1 where the response has none."""
    preferred_replica: int = -1
    """Broker that is nearer to this client (KIP-392); -1 for none."""


class Fetcher(Positions):
    """Positions of a consumer, with the decisions on fetching and the records that arrived."""

    __slots__ = ("_busy_nodes", "_partition_max_bytes", "_preference_ms", "searches", "validation")

    def __init__(self, *, partition_max_bytes: int, reset_policy: str, backoff: Backoff, preference_ms: int = 300_000) -> None:
        """`preference_ms`: milliseconds for which a nearer replica is read before the leader is asked again (metadata.max.age.ms)."""
        super().__init__(reset_policy, backoff)
        self._preference_ms = preference_ms
        self._partition_max_bytes = partition_max_bytes
        self._busy_nodes: set[int] = set()
        self.validation = Validation(self)
        self.searches = Resets(self)

    # -- fetching -------------------------------------------------------------------------------------------------------------------

    def plan(self, view: ClusterView, now_ms: int) -> tuple[list[FetchPlan], bool, int]:
        """Return the requests to send now, whether metadata is missing, and milliseconds until a back-off ends (FOREVER for none)."""
        targets: dict[int, list[FetchTarget]] = {}
        needs_metadata = False
        wake = FOREVER
        self.validation.see(view)
        self._notice_topics_made_anew(view)
        for topic_partition, position in self.positions.items():
            if position.fetch_offset < 0 or position.paused or position.in_flight or len(position.chunks) >= _BUFFERED_ANSWERS:
                continue
            if position.error is not None:
                continue
            if position.suspended or (position.stop_offset is not None and position.fetch_offset >= position.stop_offset):
                continue
            if position.retry_at_ms > now_ms:
                wake = min(wake, position.retry_at_ms - now_ms)
                continue
            leader = view.leader(topic_partition)
            if leader is None:
                self.leaderless(view, topic_partition, position, now_ms)
            if leader is None or self.validation.is_deposed(view, topic_partition, position):
                needs_metadata = True
                continue
            if position.leader is None:
                self.validation.settle(view, topic_partition, position)
            if position.awaits_validation:
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

    def _notice_topics_made_anew(self, view: ClusterView) -> None:
        for topic_partition, position in self.positions.items():
            topic = view.topics.get(topic_partition.topic)
            if position.read_topic_id is None or topic is None or topic.topic_id in (ZERO_UUID, position.read_topic_id):
                continue
            if self.resets_positions:
                self.validation.put_back(topic_partition)
                self.reset(topic_partition)
            elif position.error is None:
                self.refuse(position, TopicRecreated(topic_partition, position.offset))

    @staticmethod
    def _nearest(view: ClusterView, position: Position, leader: int, now_ms: int) -> int:
        """Return the replica that the leader preferred, until the preference ends; then the leader."""
        if position.preferred is None:
            return leader
        if now_ms >= position.preferred_until_ms or position.preferred not in view.brokers:
            position.preferred = None
            return leader
        return position.preferred

    def on_response(self, plan: FetchPlan, answers: Sequence[FetchedPartition | None], now_ms: int) -> bool:
        """Process the answers, in the order of the plan's targets (None for a target that the response leaves out).

        Returns True when the metadata is out of date.
        """
        self._busy_nodes.discard(plan.node_id)
        stale = False
        # The broker fills the response in order until fetch.max.bytes: partitions that got nothing this time come first in the next
        # request.
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
                # The leader may have the records that a follower refuses: it is asked next, and its answer decides.
                position.preferred = None
                stale = stale or answer.error in LEADERSHIP_ERRORS
                if answer.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._refused(target, position, answer.error, now_ms)
            else:
                stale = stale or answer.error in LEADERSHIP_ERRORS
                self._refused(target, position, answer.error, now_ms)
        return stale

    def on_failure(self, plan: FetchPlan, error: KafkaError, now_ms: int) -> None:
        """Note that the request got no response."""
        failed = FetchedPartition(error.code, (), memoryview(b""))
        self.on_response(plan, [failed] * len(plan.targets), now_ms)

    def _take(self, target: FetchTarget, position: Position, answer: FetchedPartition) -> None:
        position.succeeded()
        if target.topic_id != ZERO_UUID:
            position.read_topic_id = target.topic_id
        if answer.end_offset >= 0:
            position.end_offset = answer.end_offset
        if not answer.records:
            return
        end, next_offset, epoch = whole_batches(answer.records, target.offset)
        if end == 0:
            corrupt = f"{target.topic_partition} at offset {target.offset}: the broker sent no complete batch"
            self.refuse(position, KafkaError(ErrorCode.CORRUPT_MESSAGE, corrupt))
            return
        position.chunks.append(
            Chunk(target.topic_partition, target.offset, next_offset, answer.records[:end], answer.aborted, epoch, position.fetch_epoch)
        )
        position.fetch_offset = next_offset
        position.fetch_epoch = epoch
        if epoch >= position.epoch:
            position.epoch, position.topic_id = epoch, target.topic_id
        # Fair order: a partition that got records goes to the end.
        self.positions[target.topic_partition] = self.positions.pop(target.topic_partition)

    def _refused(self, target: FetchTarget, position: Position, error: ErrorCode, now_ms: int) -> None:
        # Out of range while fetched records are unread: they are read first, and the next answer may differ.
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and not position.chunks:
            if not self.reset(target.topic_partition):
                self.refuse(position, OffsetOutOfRange(target.topic_partition, target.offset))
            return
        refused = KafkaError(error, f"reading {target.topic_partition} at offset {target.offset}")
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.again(position, refused, now_ms)
        else:
            self.failed(position, refused, now_ms)

    # -- reading --------------------------------------------------------------------------------------------------------------------

    def take_chunk(self) -> Chunk | None:
        """Remove and return the next buffered chunk, fairly over the partitions; the position moves past the chunk."""
        for topic_partition, position in self.positions.items():
            if position.chunks and not position.paused and not position.suspended:
                chunk = position.chunks.popleft()
                position.offset = chunk.end_offset
                position.offset_epoch = chunk.leader_epoch
                self.positions[topic_partition] = self.positions.pop(topic_partition)
                return chunk
        return None


def whole_batches(buffer: memoryview, offset: int) -> tuple[int, int, int]:
    """Return (bytes of the whole batches at the start of the buffer, next offset, leader epoch of the last batch).

    The next offset is at least `offset`. Without a whole batch the epoch is -1.
    """
    end, next_offset, epoch = 0, offset, -1
    for position, header in iter_headers(buffer):
        end = position + header.batch_length + LOG_OVERHEAD
        next_offset = max(next_offset, header.next_offset)
        epoch = header.partition_leader_epoch
    return end, next_offset, epoch


def epoch_before(chunk: Chunk, offset: int) -> int:
    """Return the leader epoch of the last record before `offset` in a chunk, -1 where it is unknown."""
    epoch = chunk.previous_epoch
    for _, header in iter_headers(chunk.buffer):
        if header.base_offset >= offset:
            break
        epoch = header.partition_leader_epoch
    return epoch


def decode_chunk(chunk: Chunk, *, read_committed: bool, check_crcs: bool) -> list[ConsumerRecord]:
    """Return the records of a chunk in order. Raises KafkaError(CORRUPT_MESSAGE) for a wrong checksum."""
    topic, partition = chunk.topic_partition
    output: list[ConsumerRecord] = []
    aborted = chunk.aborted if read_committed else ()
    for _, position, header in visible_batches([chunk.buffer], aborted, check_crcs=check_crcs, name=chunk.topic_partition):
        decode_placed(chunk.buffer, position, header, ConsumerRecord, topic, partition, chunk.offset, output)
    return output
