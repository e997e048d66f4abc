"""Subscription of a consumer: topics by name, topics by pattern, or partitions assigned by hand. The kinds exclude one another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from odradek.base.errors import OdradekError
from odradek.client.core.membership import Subscribed
from odradek.client.core.metadata import TopicInfo
from odradek.client.core.outgoing import checked_topic


class SubscriptionPattern(NamedTuple):
    """Regular expression (RE2) that the broker applies to topic names (org.apache.kafka.clients.consumer.SubscriptionPattern)."""

    pattern: str


class Kind(Enum):
    """Way in which a consumer gets its partitions."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    BROKER_PATTERN = "a pattern of the broker"
    PARTITIONS = "partitions"


class Subscription:
    """Subscription of one consumer."""

    __slots__ = ("_exclude_internal", "kind", "pattern", "topics")

    def __init__(self, *, exclude_internal: bool) -> None:
        self._exclude_internal = exclude_internal
        self.clear()

    def clear(self) -> None:
        """Forget topics, pattern and manual assignment."""
        self.kind = Kind.NOTHING
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | SubscriptionPattern | None = None

    @property
    def in_group(self) -> bool:
        """Return whether the group assigns the partitions."""
        return self.kind not in (Kind.NOTHING, Kind.PARTITIONS)

    def assign(self) -> None:
        """Note that partitions are assigned by hand. Raises OdradekError while topics or a pattern are subscribed to."""
        self._become(Kind.PARTITIONS)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern) -> None:
        """Replace the subscription.

        Raises OdradekError when partitions were assigned by hand or the subscription is of another kind. Raises TypeError when `topics` is
        one str, ValueError for a topic without a name.
        """
        if isinstance(topics, SubscriptionPattern):
            self._become(Kind.BROKER_PATTERN)
            self.pattern = topics
        elif isinstance(topics, re.Pattern):
            self._become(Kind.PATTERN)
            if topics != self.pattern:
                self.pattern, self.topics = topics, frozenset()
        else:
            names = frozenset(_names(topics))
            self._become(Kind.TOPICS)
            self.topics = names

    def _become(self, kind: Kind) -> None:
        if self.kind not in (Kind.NOTHING, kind):
            raise OdradekError(
                f"this consumer uses {self.kind.value}: topics, patterns and assigned partitions exclude one another; call "
                "unsubscribe() first"
            )
        self.kind = kind

    def match(self, topics: Iterable[TopicInfo]) -> bool:
        """Match the pattern against whole topic names, and subscribe to the matching topics. Return whether the topics have changed."""
        if not isinstance(self.pattern, re.Pattern):
            return False
        found = frozenset(
            topic.name
            for topic in topics
            if not topic.error and self.pattern.fullmatch(topic.name) and not (self._exclude_internal and topic.is_internal)
        )
        changed = found != self.topics
        self.topics = found
        return changed

    def subscribed(self) -> Subscribed:
        """Return the subscription as a group membership takes it."""
        return Subscribed(self.topics, self.pattern.pattern if isinstance(self.pattern, SubscriptionPattern) else None)


def _names(topics: Iterable[str]) -> list[str]:
    if isinstance(topics, str):
        raise TypeError("subscribe() takes a list of topics: subscribe(['topic'])")
    names = list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"a topic to subscribe to must be a name, not {name!r}")
        checked_topic(name)
    return names
