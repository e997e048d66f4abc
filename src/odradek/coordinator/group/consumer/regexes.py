"""Evaluation of subscribed patterns, apart from the heartbeats: all patterns of a group against all topics (TopicRegexResolver).

An evaluation is divided into several timer calls. Topics that the client whose heartbeat started the evaluation may not describe do not
match.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from odradek.base.errors import KafkaError
from odradek.coordinator.group.consumer.group import ResolvedRegex
from odradek.coordinator.patterns import compile_pattern
from odradek.coordinator.shard import CoordinatorResult
from odradek.coordinator.timers import Timers
from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

REFRESH_AGAIN_MS = 10_000
"""Least milliseconds between two evaluations of a group's patterns."""
_MATCHES_PER_TURN = 20_000

Resolved = dict[str, ResolvedRegex]
MayDescribe = Callable[[str], bool]
Finished = Callable[[Resolved], CoordinatorResult[None]]


class RegexResolver:
    """Pattern evaluations of one shard, at most one for each group at a time."""

    def __init__(self, timers: Timers, time_ms: Callable[[], int]) -> None:
        self._timers = timers
        self._time_ms = time_ms
        self._running: set[str] = set()

    def is_running(self, group_id: str) -> bool:
        return group_id in self._running

    def start(
        self, group_id: str, regexes: Iterable[str], image: MetadataImage, finished: Finished, may_describe: MayDescribe | None = None
    ) -> None:
        """Start an evaluation, unless one of the group is running. `finished` gets the topics, in a separate write operation."""
        if group_id in self._running:
            return
        self._running.add(group_id)
        evaluation = _Evaluation(regexes, image, self._time_ms(), may_describe)
        self._timers.schedule(_key(group_id), 0, lambda: self._match_some(group_id, evaluation, finished))

    def _match_some(self, group_id: str, evaluation: _Evaluation, finished: Finished) -> CoordinatorResult[None]:
        if not evaluation.go_on():
            self._timers.schedule(_key(group_id), 0, lambda: self._match_some(group_id, evaluation, finished))
            return CoordinatorResult([], None)
        # After a failed append the timer calls this method again, unless a heartbeat has started another evaluation.
        self._running.discard(group_id)
        return finished(evaluation.resolved())


class _Evaluation:
    def __init__(self, regexes: Iterable[str], image: MetadataImage, now_ms: int, may_describe: MayDescribe | None) -> None:
        self._may_describe = may_describe
        self._version = image.offset
        self._now_ms = now_ms
        self._names: Iterator[str] = iter(list(image.topics.by_name))
        self._matches: dict[str, set[str]] = {}
        self._patterns: list[tuple[Callable[[str], bool], set[str]]] = []
        for regex in regexes:
            found = self._matches[regex] = set()
            try:
                self._patterns.append((compile_pattern(regex), found))
            except KafkaError as error:
                # Written by another release, in which the pattern was valid.
                logger.error("the subscribed pattern %r cannot be evaluated: %s", regex, error)

    def go_on(self) -> bool:
        """Match some more topics, and return whether all topics are done."""
        may_describe = self._may_describe
        turn = max(1, _MATCHES_PER_TURN // max(1, len(self._patterns)))
        count = 0
        for name in islice(self._names, turn):
            count += 1
            for matches, found in self._patterns:
                if matches(name) and (may_describe is None or may_describe(name)):
                    found.add(name)
        return count < turn

    def resolved(self) -> Resolved:
        return {regex: ResolvedRegex(frozenset(found), self._version, self._now_ms) for regex, found in self._matches.items()}


def _key(group_id: str) -> str:
    return f"regex\0{group_id}"
