"""Consumer protocol: subscriptions in JoinGroup, assignments in SyncGroup (ConsumerProtocol; KIP-429, KIP-792, KIP-881)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from odradek.base.errors import ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.assignors.spec import UNKNOWN_GENERATION
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_VERSION = struct.Struct(">h")
_GENERATION_SINCE = 2
_LATEST = 3


class Subscription(NamedTuple):
    """Subscription that a member sends when it joins; `user_data` belongs to its assignor."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = UNKNOWN_GENERATION
    rack: str | None = None
    user_data: bytes | None = None


class Assigned(NamedTuple):
    """Assignment that the leader sends to a member."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode in the latest version, as Java's clients do. Older members read the fields that they know."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in _by_topic(subscription.owned)
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(_LATEST) + message.encode(_LATEST)


def decode_subscription(data: bytes | memoryview) -> Subscription:
    """Decode a subscription. Fields of newer versions are ignored. Raises ProtocolError for invalid bytes."""
    message = ConsumerProtocolSubscription.decode(memoryview(data)[_VERSION.size :], _version(data))
    owned = [TopicPartition(each.topic, number) for each in message.owned_partitions for number in each.partitions]
    return Subscription(message.topics, owned, message.generation_id, message.rack_id, message.user_data)


def encode_assignment(assigned: Assigned) -> bytes:
    """Encode in the latest version, as Java's clients do."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in _by_topic(assigned.partitions)
        ],
        user_data=assigned.user_data,
    )
    return _VERSION.pack(_LATEST) + message.encode(_LATEST)


def decode_assignment(data: bytes | memoryview) -> Assigned:
    """Decode an assignment. Raises ProtocolError for invalid bytes.

    Empty bytes mean no partitions: the leader has left the member out of its assignments.
    """
    if not data:
        return Assigned(())
    message = ConsumerProtocolAssignment.decode(memoryview(data)[_VERSION.size :], _version(data))
    partitions = [TopicPartition(each.topic, number) for each in message.assigned_partitions for number in each.partitions]
    return Assigned(partitions, message.user_data)


def _version(data: bytes | memoryview) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError("a member's metadata in the consumer protocol has no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version} of the consumer protocol is not supported")
    return min(version, _LATEST)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [(topic, [each.partition for each in group]) for topic, group in groupby(sorted(partitions), key=lambda each: each.topic)]
