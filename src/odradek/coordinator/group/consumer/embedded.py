"""Embedded consumer protocol: the contents of the classic protocol's opaque fields (ConsumerProtocol)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from uuid import UUID

from odradek.assignment.spec import Partitions
from odradek.coordinator.group.consumer.view import TopicView
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_VERSION = struct.Struct(">h")
_HIGHEST = 3


def version_of(data: bytes) -> int:
    """Return the version of an embedded message, at most the highest known one. Raises ProtocolError for a missing or negative version."""
    if len(data) < _VERSION.size:
        raise ProtocolError("an embedded message of the consumer protocol has no version")
    version = int(_VERSION.unpack_from(data)[0])
    if version < 0:
        raise ProtocolError(f"an embedded message of the consumer protocol has version {version}")
    return min(version, _HIGHEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription. Fields of later versions are ignored. Raises ProtocolError for malformed data."""
    version = version_of(data)
    body = memoryview(data)[_VERSION.size :]
    return ConsumerProtocolSubscription.decode(body, version)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment, which is empty for no bytes. Raises ProtocolError for malformed data."""
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return ConsumerProtocolAssignment.decode(memoryview(data)[_VERSION.size :], version_of(data))


def write_assignment(partitions: Partitions | Mapping[UUID, Mapping[int, int]], view: TopicView, like: bytes) -> bytes:
    """Return the encoded assignment in the version of `like`, the member's subscription. Deleted topics are left out."""
    version = version_of(like)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=numbers) for name, _, numbers in view.named(partitions)
        ]
    )
    return _VERSION.pack(version) + assignment.encode(version)
