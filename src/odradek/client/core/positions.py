"""Positions of a consumer in its partitions (org.apache.kafka.clients.consumer.internals.SubscriptionState)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.metadata import ClusterView
from odradek.client.core.reset_policy import LATEST_TIMESTAMP, Ago, ResetTo, reset_of
from odradek.client.types import OffsetAndMetadata


class Chunk(NamedTuple):
    """Whole batches of one partition, of which the records with offsets in [offset, end_offset) are wanted."""

    topic_partition: TopicPartition
    offset: int
    end_offset: int
    buffer: memoryview
    aborted: Sequence[tuple[int, int]]
    leader_epoch: int = -1
    """Leader epoch of the last batch."""
    previous_epoch: int = -1
    """Leader epoch of the last record before `offset`."""


class Position:
    """Position in an assigned partition, with the state of its requests."""

    __slots__ = (
        "awaits_validation",
        "chunks",
        "end_offset",
        "epoch",
        "error",
        "failing_since_ms",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "in_flight",
        "leader",
        "offset",
        "offset_epoch",
        "paused",
        "preferred",
        "preferred_until_ms",
        "read_topic_id",
        "reset_to",
        "retry_at_ms",
        "sought",
        "stop_offset",
        "suspended",
        "topic_id",
        "trouble",
        "validating",
        "wants_committed",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.epoch = -1
        """Newest leader epoch that the partition is known to have had, -1 for none."""
        self.topic_id: UUID | None = None
        """Id of the topic to which `epoch` belongs, None where unknown."""
        self.read_topic_id: UUID | None = None
        """Id of the topic that `offset` was read from; None until a Fetch from there is answered."""
        self.offset = -1
        self.offset_epoch = -1
        """Leader epoch of the last record before `offset`, -1 where unknown."""
        self.fetch_offset = -1
        self.fetch_epoch = -1
        """Leader epoch of the last record before `fetch_offset`, -1 where unknown."""
        self.leader: tuple[int, int] | None = None
        """(node, epoch) of the leader for which the position holds; None until that is settled."""
        self.awaits_validation = False
        """True while the leader has to confirm that its log has the records before the position (KIP-320)."""
        self.validating = False
        """True while the request for that confirmation is on the wire."""
        self.reset_to: ResetTo | None = None
        self.wants_committed = False
        """True while the group has to be asked for the committed offset first."""
        self.sought = False
        """True when the application waits for the position; no broker is asked for the position before."""
        self.paused = False
        self.suspended = False
        """True when the partition is about to be given up: no further record is handed out."""
        self.end_offset = -1
        """Offset after the last readable record, by the last response."""
        self.preferred: int | None = None
        """Replica that the leader told this client to read from, until `preferred_until_ms`."""
        self.preferred_until_ms = 0
        self.in_flight = False
        self.chunks: deque[Chunk] = deque()
        self.error: KafkaError | None = None
        """Error for the next poll to raise; no request is sent for the partition before that."""
        self.failures = 0
        self.retry_at_ms = 0
        self.trouble: KafkaError | None = None
        """Error of the last request for the partition, if the request is retried; None after a success."""
        self.failing_since_ms = 0
        """Time from which on `trouble` has been set."""
        self.stop_offset: int | None = None
        """Offset from which on nothing is fetched."""

    @property
    def is_finished(self) -> bool:
        """Return whether all records before `stop_offset` were handed out; then nothing is requested, on the wire, or kept."""
        return self.stop_offset is not None and self.offset >= self.stop_offset and not self.chunks and not self.in_flight

    def succeeded(self) -> None:
        """Note that a request for the partition was answered without an error."""
        self.failures = self.retry_at_ms = 0
        self.trouble = None


class OffsetOutOfRange(KafkaError):
    """Position that the log does not have, with `auto.offset.reset=none`."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic_partition} is not in the log, or no longer in it; seek, or set auto.offset.reset to "
            "earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class TopicRecreated(OffsetOutOfRange):
    """Position in a topic that was deleted and created again, with `auto.offset.reset=none`. Raised by each poll until a seek."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} belongs to a former topic {topic_partition}, which was deleted and created again; seek, or set "
            "auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class LogTruncation(OffsetOutOfRange):
    """Position after records that the log no longer has, as an unclean election replaced them, with `auto.offset.reset=none`.

    Raised by each poll until a seek (org.apache.kafka.clients.consumer.LogTruncationException).
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, leader_epoch: int, divergent: OffsetAndMetadata | None) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the log of {topic_partition} was truncated below offset {offset} of leader epoch {leader_epoch}; "
            + ("the diverging offset is unknown" if divergent is None else f"it diverges at offset {divergent.offset}")
            + ": seek, or set auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        """Leader epoch of the last record before `offset`."""
        self.divergent = divergent
        """First offset that differs, with the leader epoch of the record before it; None where unknown."""


class Positions:
    """Assignment of a consumer. Every position carries a generation, by which answers to requests from before a seek are recognized.

    A failure stops only its own partition, and is never forgotten:
    - after an error that may pass (`again`) the request is sent again after a back-off;
    - any other error (`refuse`) is raised by one poll. Then the broker is asked again, so that the error is either over or raised again.
    """

    __slots__ = ("_backoff", "_generation", "_reset_to", "errors", "positions")

    def __init__(self, reset_policy: str, backoff: Backoff) -> None:
        self._reset_to = reset_of(reset_policy)
        self._backoff = backoff
        self._generation = 0
        self.positions: dict[TopicPartition, Position] = {}
        self.errors: deque[BaseException] = deque()
        """Errors that concern no single partition, for the next polls to raise."""

    # -- errors ---------------------------------------------------------------------------------------------------------------------

    def refuse(self, position: Position, error: KafkaError) -> None:
        """Let the next poll raise the error; no request is sent for the partition before that."""
        position.error = error
        position.failures += 1

    def again(self, position: Position, error: KafkaError, now_ms: int) -> None:
        """Retry the partition's request after a back-off."""
        if position.trouble is None:
            position.failing_since_ms = now_ms
        position.trouble = error
        position.failures += 1
        position.retry_at_ms = now_ms + self._backoff.delay_ms(position.failures)

    def failed(self, position: Position, error: KafkaError, now_ms: int) -> None:
        """Retry after an error that may pass, which includes that no broker is available; refuse the partition after any other error."""
        if error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            self.again(position, error, now_ms)
        else:
            self.refuse(position, error)

    def leaderless(self, view: ClusterView, topic_partition: TopicPartition, position: Position, now_ms: int) -> None:
        """Note that the view has no leader of the partition; refuse the partition if its topic has an error that will not pass."""
        topic = view.topics.get(topic_partition.topic)
        code = ErrorCode.NONE if topic is None else topic.error
        if code is not ErrorCode.NONE and not code.retriable:
            self.refuse(position, KafkaError(code, f"topic {topic_partition.topic}"))
            position.retry_at_ms = now_ms + self._backoff.delay_ms(1)
        elif position.trouble is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if code is ErrorCode.NONE else code
            position.trouble, position.failing_since_ms = KafkaError(code, f"{topic_partition} has no leader"), now_ms

    def next_error(self) -> BaseException | None:
        """Remove and return the next error to raise, None without an error."""
        if self.errors:
            return self.errors.popleft()
        for topic_partition, position in self.positions.items():
            if position.error is not None:
                error, position.error = position.error, None
                self.positions[topic_partition] = self.positions.pop(topic_partition)
                return error
        return None

    @property
    def has_error(self) -> bool:
        """Return whether an error waits to be raised."""
        return bool(self.errors) or any(position.error is not None for position in self.positions.values())

    # -- the assignment -------------------------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition], *, committed: bool = False) -> None:
        """Replace the assignment. Partitions that stay keep their position and data.

        New partitions begin where auto.offset.reset says; with `committed`, at the group's committed offset if there is one.
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
        """Return the position of an assigned partition: the same object until the partition is given up; None for other partitions."""
        return self.positions.get(topic_partition)

    def seek(self, topic_partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Continue at `offset`; data fetched before is dropped. `leader_epoch` is the epoch of the last record before `offset`.

        Raises ValueError for a partition that is not assigned.
        """
        position = self.rewind(topic_partition, offset, leader_epoch)
        position.read_topic_id = None
        position.epoch = max(position.epoch, leader_epoch)
        position.leader = None
        position.awaits_validation = False

    def rewind(self, topic_partition: TopicPartition, offset: int, leader_epoch: int) -> Position:
        """Continue at `offset`, which was read before under the same leader; data fetched before is dropped.

        Raises ValueError for a partition that is not assigned.
        """
        position = self._restarted(topic_partition)
        position.offset = position.fetch_offset = offset
        position.offset_epoch = position.fetch_epoch = leader_epoch
        return position

    def seek_to(self, topic_partition: TopicPartition, reset_to: ResetTo) -> None:
        """Continue at the log's beginning (EARLIEST_TIMESTAMP), its end (LATEST_TIMESTAMP), or a time before now.

        The broker looks up the offset.
        """
        self.seek(topic_partition, -1)
        self.positions[topic_partition].reset_to = reset_to

    @property
    def resets_positions(self) -> bool:
        """Return whether auto.offset.reset is set to another value than none."""
        return self._reset_to is not None

    def reset(self, topic_partition: TopicPartition) -> bool:
        """Continue where auto.offset.reset says. Return False, and change nothing, with auto.offset.reset=none."""
        if self._reset_to is None:
            return False
        self.seek_to(topic_partition, self._reset_to)
        return True

    def positioned(self, topic_partition: TopicPartition, generation: int, offset: int, leader_epoch: int = -1) -> None:
        """Process the broker's answer to a reset (-1: no record is that new).

        The answer is dropped if there was a seek in the meantime.
        """
        position = self.positions.get(topic_partition)
        if position is None or position.generation != generation or position.reset_to is None:
            return
        if offset < 0 and isinstance(position.reset_to, Ago):
            position.reset_to = LATEST_TIMESTAMP
            return
        position.reset_to = None
        position.succeeded()
        position.offset = position.fetch_offset = offset
        position.offset_epoch = position.fetch_epoch = leader_epoch

    def uncommitted(self) -> list[tuple[TopicPartition, int]]:
        """Return (partition, generation) of the positions for which the group's committed offset has to be fetched."""
        return [(partition, position.generation) for partition, position in self.positions.items() if position.wants_committed]

    def seek_missing(self) -> bool:
        """Let brokers be asked for the missing positions; return whether any position is missing."""
        missing = [position for position in self.positions.values() if position.offset < 0]
        for position in missing:
            position.sought = True
        return bool(missing)

    def unpositioned(self) -> TopicPartition | None:
        """Return a partition whose beginning neither a broker nor auto.offset.reset can tell, None without such a partition."""
        for partition, position in self.positions.items():
            if self.is_unpositioned(position):
                return partition
        return None

    @staticmethod
    def is_unpositioned(position: Position) -> bool:
        """Return whether neither a broker nor auto.offset.reset can tell where to begin."""
        return position.offset < 0 and position.reset_to is None and not position.wants_committed

    def given_up(self, now_ms: int, patience_ms: int) -> KafkaError | None:
        """Return the error with which the search for a position has failed for `patience_ms`, and forget the error.

        Returns None while any partition has a position.
        """
        since: Position | None = None
        for position in self.positions.values():
            if position.offset >= 0:
                return None
            if position.trouble is not None and now_ms - position.failing_since_ms >= patience_ms:
                since = position
        if since is None:
            return None
        error, since.trouble = since.trouble, None
        return error

    def committed(self, topic_partition: TopicPartition, generation: int, committed: OffsetAndMetadata | None) -> None:
        """Continue at the group's committed offset; without one, auto.offset.reset applies.

        The offset is dropped if there was a seek in the meantime.
        """
        position = self.positions.get(topic_partition)
        if position is None or position.generation != generation or not position.wants_committed:
            return
        if committed is None:
            position.wants_committed = position.in_flight = False
            position.succeeded()
            position.reset_to = self._reset_to
        else:
            self.seek(topic_partition, committed.offset, -1 if committed.leader_epoch is None else committed.leader_epoch)

    def suspend(self, topic_partition: TopicPartition) -> None:
        """Hand out no further record of a partition that is about to be given up; the partition keeps its position."""
        self.positions[topic_partition].suspended = True

    def resets(self) -> list[tuple[TopicPartition, ResetTo, int]]:
        """Return (partition, where to, generation) of the positions that brokers have to look up."""
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
        position.in_flight = position.validating = position.sought = False
        position.reset_to = position.error = None
        position.wants_committed = False
        position.succeeded()
        return position

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation
