"""Whether the log of a new leader still has what was read before a position (KIP-320).

1. A position stands under a leader: a node and its epoch. Under another one, and after a seek to an offset with an epoch, it is not
   fetched from until the leader has said where the epoch of what was read ends in its log. What was fetched and not read is dropped.
2. Where that is not before the position, reading goes on. Otherwise an unclean election has lost what was read: the position goes back to
   the end of the last epoch that both know, or where nobody knows one, to where auto.offset.reset says. With auto.offset.reset=none that is
   a LogTruncation.
3. Positions or leaders without an epoch, and brokers older than OffsetForLeaderEpoch 3, are believed.

(org.apache.kafka.clients.consumer.internals.SubscriptionState, OffsetsForLeaderEpochUtils, OffsetFetcherUtils.) Times are monotonic ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.metadata import EMPTY_VIEW, ClusterView
from odradek.client.core.positions import LogTruncation, Position, Positions
from odradek.client.types import OffsetAndMetadata

_UNKNOWN = -1


class ValidationTarget(NamedTuple):
    """A position to be validated: `offset_epoch` is that of what was read before `offset`."""

    topic_partition: TopicPartition
    offset: int
    offset_epoch: int
    leader_epoch: int
    generation: int


class ValidationPlan(NamedTuple):
    """One OffsetForLeaderEpoch request."""

    node_id: int
    targets: tuple[ValidationTarget, ...]


class EpochEnd(NamedTuple):
    """The largest epoch of a log that is not above the one asked for, and the offset after its last record; -1 where there is none."""

    error: ErrorCode
    leader_epoch: int = _UNKNOWN
    end_offset: int = _UNKNOWN


class Unread(NamedTuple):
    """The first record that was taken from the positions but not handed out, and the epoch of what stands before it."""

    offset: int
    previous_epoch: int


class Validation:
    """Decides which positions have to be validated, and what follows from the answers."""

    __slots__ = ("_positions", "_seen", "put_back")

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._seen = EMPTY_VIEW
        self.put_back: Callable[[TopicPartition], Unread | None] = lambda _: None
        """Takes back what is decoded of a partition and not handed out."""

    def see(self, view: ClusterView) -> None:
        """Positions whose leader is another one in this view have to be validated."""
        if view is not self._seen:
            self._seen = view
            for topic_partition, position in self._positions.positions.items():
                self.settle(view, topic_partition, position)

    def settle(self, view: ClusterView, topic_partition: TopicPartition, position: Position) -> None:
        """Puts the position under the leader that the view knows, if there is one that is not older than what was read."""
        leader = view.leader(topic_partition)
        if leader is None or position.fetch_offset < 0 or self.is_deposed(view, topic_partition, position):
            return
        under = (leader, view.leader_epoch(topic_partition))
        if position.leader == under:
            return
        unread = self.put_back(topic_partition)
        offset, epoch = unread or (position.offset, position.offset_epoch)
        self._positions.rewind(topic_partition, offset, epoch)
        if position.leader is not None:
            position.preferred = None
        position.leader = under
        position.awaits_validation = epoch >= 0 and under[1] >= 0

    @staticmethod
    def is_deposed(view: ClusterView, topic_partition: TopicPartition, position: Position) -> bool:
        """Whether the leader that is known is one of before the position's epoch."""
        if not 0 <= view.leader_epoch(topic_partition) < position.epoch:
            return False
        if position.topic_id in (None, view.topics[topic_partition.topic].topic_id):
            return True
        # The topic was deleted and made anew: its epochs begin again.
        position.epoch = -1
        return False

    def plans(self, now_ms: int) -> list[ValidationPlan]:
        """The requests to send now; they count as sent."""
        targets: defaultdict[int, list[ValidationTarget]] = defaultdict(list)
        for topic_partition, position in self._positions.positions.items():
            if not position.awaits_validation or position.validating or position.retry_at_ms > now_ms or position.leader is None:
                continue
            if position.error is not None:
                continue
            node, epoch = position.leader
            position.validating = True
            targets[node].append(ValidationTarget(topic_partition, position.offset, position.offset_epoch, epoch, position.generation))
        return [ValidationPlan(node, tuple(chosen)) for node, chosen in targets.items()]

    def unsupported(self, plan: ValidationPlan) -> None:
        """The leader is too old to be asked."""
        for target in plan.targets:
            position = self._asked(target)
            if position is not None:
                position.awaits_validation = position.validating = False

    def on_failure(self, plan: ValidationPlan, error: KafkaError, now_ms: int) -> None:
        """The request got no answer: it is sent again after a while."""
        self.on_answers(plan, {target.topic_partition: EpochEnd(error.code) for target in plan.targets}, now_ms)

    def on_answers(self, plan: ValidationPlan, answers: Mapping[TopicPartition, EpochEnd], now_ms: int) -> bool:
        """Takes the answers over; True when the metadata may be out of date."""
        stale = False
        for target in plan.targets:
            position = self._asked(target)
            if position is None:
                continue
            position.validating = False
            answer = answers.get(target.topic_partition)
            if answer is None or answer.error is not ErrorCode.NONE:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error
                error = KafkaError(code, f"validating the position of {target.topic_partition}")
                if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    self._positions.refuse(position, error)
                else:
                    # Whatever it is, Java's client asks again, too: fetching from an unvalidated position is no way out.
                    stale = True
                    self._positions.again(position, error, now_ms)
            else:
                self._judge(position, target, answer)
        return stale

    def _judge(self, position: Position, target: ValidationTarget, answer: EpochEnd) -> None:
        partition = target.topic_partition
        position.succeeded()
        unknown = answer.end_offset == _UNKNOWN or answer.leader_epoch == _UNKNOWN
        if not unknown and answer.end_offset >= target.offset:
            position.awaits_validation = False
        elif not self._positions.resets_positions:
            divergent = None if unknown else OffsetAndMetadata(answer.end_offset, answer.leader_epoch)
            self._positions.refuse(position, LogTruncation(partition, target.offset, target.offset_epoch, divergent))
        elif unknown:
            self._positions.reset(partition)
        else:
            self._positions.rewind(partition, answer.end_offset, answer.leader_epoch)
            position.awaits_validation = False

    def _asked(self, target: ValidationTarget) -> Position | None:
        position = self._positions.positions.get(target.topic_partition)
        return position if position is not None and position.generation == target.generation else None
