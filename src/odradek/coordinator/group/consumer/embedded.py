"""The protocol inside the classic protocol: what consumers and their leader write into the opaque fields (ConsumerProtocol)."""

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
    """ProtocolError when there is none."""
    if len(data) < _VERSION.size:
        raise ProtocolError("an embedded message of a consumer has no version")
    version = int(_VERSION.unpack_from(data)[0])
    if version < 0:
        raise ProtocolError(f"an embedded message of a consumer has version {version}")
    return min(version, _HIGHEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """ProtocolError for anything malformed; what later versions have beyond ours is not looked at."""
    version = version_of(data)
    body = memoryview(data)[_VERSION.size :]
    return ConsumerProtocolSubscription.decode(body, version)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """As `read_subscription`; an empty one for no bytes."""
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return ConsumerProtocolAssignment.decode(memoryview(data)[_VERSION.size :], version_of(data))


def write_assignment(partitions: Partitions | Mapping[UUID, Mapping[int, int]], view: TopicView, like: bytes) -> bytes:
    """In the version that the member uses in `like`, its subscription. Topics that are no more are left out."""
    version = version_of(like)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=numbers) for name, _, numbers in view.named(partitions)
        ]
    )
    return _VERSION.pack(version) + assignment.encode(version)
