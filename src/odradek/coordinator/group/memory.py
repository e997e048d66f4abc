"""A bound on what the members of all groups of a broker take: their metadata and assignments are soft state that anybody may send.

Kafka has none: members come until the heap is full. Sessions may last half an hour and a request a hundred megabytes, so that a single
misbehaving client can get there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.classic.member import ClassicMember, Protocols
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import ConsumerMember
from odradek.coordinator.group.group import Group

logger = logging.getLogger(__name__)

LIMIT_BYTES = 512 * 1024 * 1024
"""About 170,000 members of groups of their own."""
GROUP_BYTES, PENDING_BYTES, MEMBER_BYTES, PARTITION_BYTES = 1024, 1536, 3072, 100
"""What each takes besides what the client sent, as measured, timers included."""
_COUNT_AGAIN_S = 1.0
_COUNT_SHARE = 30
"""Counting takes at most one part in so many of the loop's time."""


def protocol_bytes(protocols: Protocols) -> int:
    return sum([len(name) + len(metadata) for name, metadata in protocols])


def bytes_of(member: ClassicMember | ConsumerMember) -> int:
    """What the member takes, roughly."""
    if isinstance(member, ClassicMember):
        return MEMBER_BYTES + protocol_bytes(member.protocols) + len(member.assignment)
    size = MEMBER_BYTES + sum(map(len, member.topic_names)) + len(member.topic_regex or "")
    size += PARTITION_BYTES * sum([len(partitions) for partitions in member.assigned.values()])
    return size if member.classic is None else size + protocol_bytes(member.classic.protocols)


def group_bytes(group: Group) -> int:
    """What the group and its members take, roughly, but for its offsets."""
    if isinstance(group, ClassicGroup):
        size = GROUP_BYTES + PENDING_BYTES * len(group.pending_join)
        return size + sum([bytes_of(member) for member in group.members.values()])
    if isinstance(group, ConsumerGroup):
        return GROUP_BYTES + sum([bytes_of(member) for member in group.members.values()])
    return GROUP_BYTES


class MemberMemory:
    """One per broker, shared by its shards.

    Additions are summed up, and only when the sum reaches the limit it is looked what is there in truth: `count`.
    """

    def __init__(self, monotonic: Callable[[], float], limit: int = LIMIT_BYTES) -> None:
        self._monotonic = monotonic
        self.limit = limit
        """How many bytes the members of all groups may take."""
        self.most = 0
        """There is not more than this: all that has been loaded and admitted since it was last counted."""
        self._count_at = 0.0
        self.count: Callable[[], int] = lambda: 0

    def admit(self, size: int) -> None:
        """COORDINATOR_NOT_AVAILABLE, which clients retry, when there is no room for so many bytes more."""
        if self.most + size > self.limit:
            self._look()
            if self.most + size > self.limit:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the members of all groups have the {self.limit} bytes they may have"
                )
        self.most += size

    def loaded(self, size: int) -> None:
        """What the log holds is taken, however much it is."""
        self.most += size

    def _look(self) -> None:
        begin = self._monotonic()
        if begin < self._count_at:
            return
        self.most = self.count()
        end = self._monotonic()
        self._count_at = end + max(_COUNT_AGAIN_S, _COUNT_SHARE * (end - begin))
        level = logging.WARNING if self.most > self.limit // 2 else logging.INFO
        logger.log(level, "the members of groups take %d of %d bytes", self.most, self.limit)
