"""Validation of positions: does the log of a new leader still have the records before a position (KIP-320)?

1. A position holds for a leader: a node and its epoch. Under another leader, and after a seek to an offset with an epoch, nothing is
   fetched before the position is validated. The leader is asked where the epoch of the records before the position ends in its log. Fetched
   records that were not read are dropped.
2. If that epoch ends at the position or later, reading goes on. Otherwise an unclean election has lost records that were read. The position
   goes back to the end of the last epoch that both logs have; if the leader knows no such epoch, to where auto.offset.reset says. With
   auto.offset.reset=none the consumer raises LogTruncation.
3. A position or leader without an epoch, and a broker older than OffsetForLeaderEpoch 3, are trusted without validation.

Source: org.apache.kafka.clients.consumer.internals.SubscriptionState, OffsetsForLeaderEpochUtils, OffsetFetcherUtils. Times are monotonic
ms.
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
    """Position to validate; `offset_epoch` is the leader epoch of the last record before `offset`."""

    topic_partition: TopicPartition
    offset: int
    offset_epoch: int
    leader_epoch: int
    generation: int


class ValidationPlan(NamedTuple):
    """OffsetForLeaderEpoch request to one node."""

    node_id: int
    targets: tuple[ValidationTarget, ...]


class EpochEnd(NamedTuple):
    """Largest epoch of a log that is at most the requested epoch, and the offset after its last record; -1 for none."""

    error: ErrorCode
    leader_epoch: int = _UNKNOWN
    end_offset: int = _UNKNOWN


class Unread(NamedTuple):
    """First record that was taken from the positions but not handed out, and the leader epoch of the record before it."""

    offset: int
    previous_epoch: int


class Validation:
    """Positions to validate, and the consequences of the answers."""

    __slots__ = ("_positions", "_seen", "put_back")

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._seen = EMPTY_VIEW
        self.put_back: Callable[[TopicPartition], Unread | None] = lambda _: None
        """Function that takes back the decoded records of a partition that were not handed out."""

    def see(self, view: ClusterView) -> None:
        """Mark for validation the positions whose leader has changed in this view."""
        if view is not self._seen:
            self._seen = view
            for topic_partition, position in self._positions.positions.items():
                self.settle(view, topic_partition, position)

    def settle(self, view: ClusterView, topic_partition: TopicPartition, position: Position) -> None:
        """Count the position as valid for the leader in the view, unless that leader's epoch is older than the records that were read."""
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
        """Return whether the leader in the view is older than the position's epoch."""
        if not 0 <= view.leader_epoch(topic_partition) < position.epoch:
            return False
        if position.topic_id in (None, view.topics[topic_partition.topic].topic_id):
            return True
        # The topic was deleted and created again: its epochs start again.
        position.epoch = -1
        return False

    def plans(self, now_ms: int) -> list[ValidationPlan]:
        """Return the requests to send now; they count as sent."""
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
        """Trust the positions without validation, as the leader is too old to be asked."""
        for target in plan.targets:
            position = self._asked(target)
            if position is not None:
                position.awaits_validation = position.validating = False

    def on_failure(self, plan: ValidationPlan, error: KafkaError, now_ms: int) -> None:
        """Note that the request got no response; it is retried after a back-off."""
        self.on_answers(plan, {target.topic_partition: EpochEnd(error.code) for target in plan.targets}, now_ms)

    def on_answers(self, plan: ValidationPlan, answers: Mapping[TopicPartition, EpochEnd], now_ms: int) -> bool:
        """Process the answers; return whether the metadata may be out of date."""
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
                    # Java's client retries after any error, too: fetching from an unvalidated position is no alternative.
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
