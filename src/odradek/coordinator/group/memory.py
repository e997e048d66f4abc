"""Bound on the memory of the members of all groups of a broker: any client can send metadata and assignments.

Kafka has no such bound: members are accepted until the heap is full. A session may last half an hour, and a request may have a hundred
megabytes, so a single misbehaving client can fill the memory.
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
"""About 130,000 groups with 1 member each, without the data of the clients."""
GROUP_BYTES, PENDING_BYTES, MEMBER_BYTES, PARTITION_BYTES = 1024, 1536, 3072, 100
"""Measured bytes of each object without the data that the client sent; timers are included."""
_COUNT_AGAIN_S = 1.0
_COUNT_SHARE = 30
"""Divisor of the event loop's time: counting takes at most 1/30 of it."""


def text_bytes(*texts: str | None) -> int:
    """Return the size of texts that a client chose. Each may have 32 KiB."""
    return sum([len(text) for text in texts if text])


def protocol_bytes(protocols: Protocols) -> int:
    return sum([len(name) + len(metadata) for name, metadata in protocols])


def bytes_of(member: ClassicMember | ConsumerMember) -> int:
    """Return an estimate of the member's size in bytes."""
    if isinstance(member, ClassicMember):
        size = MEMBER_BYTES + text_bytes(member.member_id, member.client_id, member.group_instance_id)
        return size + protocol_bytes(member.protocols) + len(member.assignment)
    size = MEMBER_BYTES + text_bytes(member.member_id, member.client_id, member.instance_id, member.rack_id, member.topic_regex)
    size += sum(map(len, member.topic_names))
    size += PARTITION_BYTES * sum([len(partitions) for partitions in member.assigned.values()])
    return size if member.classic is None else size + protocol_bytes(member.classic.protocols)


def group_bytes(group: Group) -> int:
    """Return an estimate of the group's and its members' size in bytes, without offsets."""
    size = GROUP_BYTES + len(group.group_id)
    if isinstance(group, ClassicGroup):
        size += PENDING_BYTES * len(group.pending_join) + text_bytes(*group.pending_join)
    if isinstance(group, (ClassicGroup, ConsumerGroup)):
        size += sum([bytes_of(member) for member in group.members.values()])
    return size


class MemberMemory:
    """Memory of all members of one broker; all shards share it.

    The bytes of admitted members are added up. Only when the sum reaches the limit, `count` measures the actual size.
    """

    def __init__(self, monotonic: Callable[[], float], limit: int = LIMIT_BYTES) -> None:
        self._monotonic = monotonic
        self.limit = limit
        """Most bytes of the members of all groups."""
        self.most = 0
        """Upper bound of the current size: the last count, and all members loaded and admitted since."""
        self._count_at = 0.0
        self.count: Callable[[], int] = lambda: 0

    def admit(self, size: int) -> None:
        """Add the bytes of a new member. Raises KafkaError with COORDINATOR_NOT_AVAILABLE, which clients retry, above the limit."""
        if self.most + size > self.limit:
            self._look()
            if self.most + size > self.limit:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the members of all groups use all of the {self.limit} bytes that are allowed"
                )
        self.most += size

    def loaded(self, size: int) -> None:
        """Add the bytes of a loaded member, even above the limit."""
        self.most += size

    def _look(self) -> None:
        begin = self._monotonic()
        if begin < self._count_at:
            return
        self.most = self.count()
        end = self._monotonic()
        self._count_at = end + max(_COUNT_AGAIN_S, _COUNT_SHARE * (end - begin))
        level = logging.WARNING if self.most > self.limit // 2 else logging.INFO
        logger.log(level, "the members of groups use %d of %d bytes", self.most, self.limit)
