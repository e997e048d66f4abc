"""Where a consumer stands in each of its partitions (org.apache.kafka.clients.consumer.internals.SubscriptionState)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.backoff import Backoff
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
    """Of the last batch."""
    previous_epoch: int = -1
    """Of what was read before `offset`."""


class Position:
    """Where the reading of an assigned partition stands."""

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
        """The newest leader epoch that the partition is known to have had, -1 for none."""
        self.topic_id: UUID | None = None
        """The topic that the epoch is of, where that is known."""
        self.read_topic_id: UUID | None = None
        """The topic that `offset` was read from; None until a Fetch from there is answered."""
        self.offset = -1
        self.offset_epoch = -1
        """The leader epoch of what was read before `offset`, -1 where it is not known."""
        self.fetch_offset = -1
        self.fetch_epoch = -1
        """The leader epoch of what was fetched before `fetch_offset`, -1 where it is not known."""
        self.leader: tuple[int, int] | None = None
        """(node, epoch) of the leader under which the position stands, None while that has to be settled."""
        self.awaits_validation = False
        """Whether the leader has to say first that its log has what was read before the position (KIP-320)."""
        self.validating = False
        """Whether it is being asked."""
        self.reset_to: ResetTo | None = None
        self.wants_committed = False
        """Whether the group's committed offset has to be asked for first."""
        self.sought = False
        """Whether the application waits for the position: before, no broker is asked for it."""
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
        self.error: KafkaError | None = None
        """For the next poll to raise. Until then nothing is asked for the partition."""
        self.failures = 0
        self.retry_at_ms = 0
        self.trouble: KafkaError | None = None
        """Why the last request for the partition failed, where it is sent again; None after a success."""
        self.failing_since_ms = 0
        """Since when `trouble` is not None."""
        self.stop_offset: int | None = None
        """From here on nothing is asked for."""

    @property
    def is_finished(self) -> bool:
        """Whether all before the stop was handed out, so that nothing is asked for, on its way, or kept."""
        return self.stop_offset is not None and self.offset >= self.stop_offset and not self.chunks and not self.in_flight

    def succeeded(self) -> None:
        """Note that a request for the partition was answered without an error."""
        self.failures = self.retry_at_ms = 0
        self.trouble = None


class OffsetOutOfRange(KafkaError):
    """A position that the log does not have and `auto.offset.reset=none`."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic_partition} is not in the log (any more); seek, or set auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class TopicRecreated(OffsetOutOfRange):
    """A position in a topic that was deleted and created again, and `auto.offset.reset=none`. Raised by each poll until a seek."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {topic_partition} is of a topic that was deleted and created again;"
            " seek, or set auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset


class LogTruncation(OffsetOutOfRange):
    """What was read before the position is not in the log (any more): after an unclean election it goes on otherwise, and
    auto.offset.reset=none (org.apache.kafka.clients.consumer.LogTruncationException). Raised by each poll until somebody seeks.
    """

    def __init__(self, topic_partition: TopicPartition, offset: int, leader_epoch: int, divergent: OffsetAndMetadata | None) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the log of {topic_partition} was truncated below offset {offset} of leader epoch {leader_epoch}; "
            + ("where it diverges is not known" if divergent is None else f"it diverges at offset {divergent.offset}")
            + ": seek, or set auto.offset.reset to earliest or latest",
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.leader_epoch = leader_epoch
        """Of what was read before `offset`."""
        self.divergent = divergent
        """The first offset that differs, with the epoch of what stands before it; None where nobody knows."""


class Positions:
    """The assignment. Every position carries a generation: what was asked for before a seek is known by it.

    What fails for one partition stops that partition only, and is never forgotten:
    - an error that may pass (`again`) is noted, and the request is sent again after a back-off;
    - any other error (`refuse`) is raised by one poll. Then the broker is asked again, so that the error is either over or raised again.
    """

    __slots__ = ("_backoff", "_generation", "_reset_to", "errors", "positions")

    def __init__(self, reset_policy: str, backoff: Backoff) -> None:
        self._reset_to = reset_of(reset_policy)
        self._backoff = backoff
        self._generation = 0
        self.positions: dict[TopicPartition, Position] = {}
        self.errors: deque[BaseException] = deque()
        """Errors of no partition, for the next polls to raise."""

    # -- errors ---------------------------------------------------------------------------------------------------------------------

    def refuse(self, position: Position, error: KafkaError) -> None:
        """Let the next poll raise the error; nothing is asked for the partition before."""
        position.error = error
        position.failures += 1

    def again(self, position: Position, error: KafkaError, now_ms: int) -> None:
        """Ask for the partition again after a back-off."""
        if position.trouble is None:
            position.failing_since_ms = now_ms
        position.trouble = error
        position.failures += 1
        position.retry_at_ms = now_ms + self._backoff.delay_ms(position.failures)

    def failed(self, position: Position, error: KafkaError, now_ms: int) -> None:
        """Ask again after an error that may pass, as the absence of all brokers may; refuse the partition after another one."""
        if error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            self.again(position, error, now_ms)
        else:
            self.refuse(position, error)

    def leaderless(self, view: ClusterView, topic_partition: TopicPartition, position: Position, now_ms: int) -> None:
        """Note that the view has no leader of the partition, or refuse a topic that the client may not see."""
        topic = view.topics.get(topic_partition.topic)
        code = ErrorCode.NONE if topic is None else topic.error
        if code is not ErrorCode.NONE and not code.retriable:
            self.refuse(position, KafkaError(code, f"topic {topic_partition.topic}"))
            position.retry_at_ms = now_ms + self._backoff.delay_ms(1)
        elif position.trouble is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE if code is ErrorCode.NONE else code
            position.trouble, position.failing_since_ms = KafkaError(code, f"{topic_partition} has no leader"), now_ms

    def next_error(self) -> BaseException | None:
        """Remove and return the next error to raise, None where there is none."""
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
        """Whether an error waits to be raised."""
        return bool(self.errors) or any(position.error is not None for position in self.positions.values())

    # -- the assignment -------------------------------------------------------------------------------------------------------------

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
        """Continues at `offset`, before which stands what was written in `leader_epoch`; data fetched before is dropped."""
        position = self.rewind(topic_partition, offset, leader_epoch)
        position.read_topic_id = None
        position.epoch = max(position.epoch, leader_epoch)
        position.leader = None
        position.awaits_validation = False

    def rewind(self, topic_partition: TopicPartition, offset: int, leader_epoch: int) -> Position:
        """Continues at `offset`, which was read before under the same leader; data fetched before is dropped."""
        position = self._restarted(topic_partition)
        position.offset = position.fetch_offset = offset
        position.offset_epoch = position.fetch_epoch = leader_epoch
        return position

    def seek_to(self, topic_partition: TopicPartition, reset_to: ResetTo) -> None:
        """Continues where the broker says that the log begins (EARLIEST_TIMESTAMP) or ends (LATEST_TIMESTAMP), or at a time before now."""
        self.seek(topic_partition, -1)
        self.positions[topic_partition].reset_to = reset_to

    @property
    def resets_positions(self) -> bool:
        """Whether auto.offset.reset says where to go on, and not none."""
        return self._reset_to is not None

    def reset(self, topic_partition: TopicPartition) -> bool:
        """Continues where auto.offset.reset says; False, with nothing done, when it says none."""
        if self._reset_to is None:
            return False
        self.seek_to(topic_partition, self._reset_to)
        return True

    def positioned(self, topic_partition: TopicPartition, generation: int, offset: int, leader_epoch: int = -1) -> None:
        """The broker's answer to a reset (-1: nothing is as new as that); dropped when there was a seek in the meantime."""
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
        """(partition, generation) of the positions whose committed offset the group has to be asked for."""
        return [(partition, position.generation) for partition, position in self.positions.items() if position.wants_committed]

    def seek_missing(self) -> bool:
        """Have brokers asked for the positions that are missing; False when none is."""
        missing = [position for position in self.positions.values() if position.offset < 0]
        for position in missing:
            position.sought = True
        return bool(missing)

    def unpositioned(self) -> TopicPartition | None:
        """Return a partition of which neither a broker nor auto.offset.reset can say where to begin."""
        for partition, position in self.positions.items():
            if self.is_unpositioned(position):
                return partition
        return None

    @staticmethod
    def is_unpositioned(position: Position) -> bool:
        """Whether neither a broker nor auto.offset.reset can say where to begin."""
        return position.offset < 0 and position.reset_to is None and not position.wants_committed

    def given_up(self, now_ms: int, patience_ms: int) -> KafkaError | None:
        """Return why no partition has a position, once a search for one has failed for `patience_ms`. None while one can be read."""
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
        """The group's answer; where nothing is committed auto.offset.reset holds. Dropped when there was a seek in the meantime."""
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
        position.in_flight = position.validating = position.sought = False
        position.reset_to = position.error = None
        position.wants_committed = False
        position.succeeded()
        return position

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation
