"""Search for positions that only a partition's leader knows (org.apache.kafka.clients.consumer.internals.OffsetFetcher).

1. A position to be reset (`Position.reset_to`) is looked up once the application waits for it (`Position.sought`). Each leader gets one
   ListOffsets request.
2. Each partition is searched for independently: a partition without a leader, or with an error, delays no other partition.
3. The answer for a partition that was assigned again or sought in the meantime is dropped: the partition has another generation.

Times are monotonic milliseconds, `time_ms` is Unix milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.metadata import FOREVER, LEADERSHIP_ERRORS, ClusterView
from odradek.client.core.positions import Position, Positions
from odradek.client.core.reset_policy import Ago


class ResetTarget(NamedTuple):
    """Position to look up: the first offset at or after `timestamp`, or -2 (beginning) or -1 (end)."""

    topic_partition: TopicPartition
    timestamp: int
    generation: int


class ResetPlan(NamedTuple):
    """ListOffsets request to one node."""

    node_id: int
    targets: tuple[ResetTarget, ...]


class Listed(Protocol):
    """Answer for one partition; `offset` is -1 where no record is at or after the time."""

    @property
    def error(self) -> ErrorCode: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class Resets:
    """Searches of a consumer that are under way."""

    __slots__ = ("_positions",)

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def plans(self, view: ClusterView, now_ms: int, time_ms: int) -> tuple[list[ResetPlan], bool, int]:
        """Return the requests to send now, whether metadata is missing, and milliseconds until a back-off ends (FOREVER for none)."""
        targets: defaultdict[int, list[ResetTarget]] = defaultdict(list)
        needs_metadata, wake = False, FOREVER
        for topic_partition, reset_to, generation in self._positions.resets():
            position = self._positions.positions[topic_partition]
            if not position.sought or position.in_flight or position.error is not None:
                continue
            if position.retry_at_ms > now_ms:
                wake = min(wake, position.retry_at_ms - now_ms)
                continue
            leader = view.leader(topic_partition)
            if leader is None:
                needs_metadata = True
                self._positions.leaderless(view, topic_partition, position, now_ms)
                continue
            timestamp = time_ms - reset_to.duration_ms if isinstance(reset_to, Ago) else reset_to
            position.in_flight = True
            targets[leader].append(ResetTarget(topic_partition, timestamp, generation))
        return [ResetPlan(node, tuple(chosen)) for node, chosen in targets.items()], needs_metadata, wake

    def on_failure(self, plan: ResetPlan, error: KafkaError, now_ms: int) -> None:
        """Note that the request got no response."""
        for target in plan.targets:
            self._failed(target, error, now_ms)

    def on_answers(self, plan: ResetPlan, answers: Mapping[TopicPartition, Listed], now_ms: int) -> bool:
        """Process the answers; return whether the metadata is out of date."""
        stale = False
        for target in plan.targets:
            answer = answers.get(target.topic_partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error
            if answer is not None and code is ErrorCode.NONE:
                position = self._asked(target)
                if position is not None:
                    position.in_flight = False
                    self._positions.positioned(target.topic_partition, target.generation, answer.offset, answer.leader_epoch)
            else:
                stale = stale or code in LEADERSHIP_ERRORS
                why = "the broker's response does not contain" if answer is None else "looking for"
                self._failed(target, KafkaError(code, f"{why} the position of {target.topic_partition}"), now_ms)
        return stale

    def _failed(self, target: ResetTarget, error: KafkaError, now_ms: int) -> None:
        position = self._asked(target)
        if position is None:
            return
        position.in_flight = False
        self._positions.failed(position, error, now_ms)

    def _asked(self, target: ResetTarget) -> Position | None:
        position = self._positions.positions.get(target.topic_partition)
        return position if position is not None and position.generation == target.generation else None
