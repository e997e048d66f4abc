"""Topic partitions and Kafka's 128-bit ids."""

from __future__ import annotations

import base64
import random
from typing import NamedTuple
from uuid import UUID

ZERO_UUID = UUID(int=0)
"""Kafka's value for "no id"."""

METADATA_TOPIC_ID = UUID(int=1)
"""Topic id of `__cluster_metadata`."""

_RESERVED_BELOW = 100
"""Number of reserved ids: Kafka reserves the values 0 to 99 (org.apache.kafka.common.Uuid.RESERVED)."""


class TopicPartition(NamedTuple):
    """Partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """Partition by its topic's id and name."""

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def uuid_to_string(value: UUID) -> str:
    """Return Kafka's text form: 22 characters of unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_string(text: str) -> UUID:
    """Parse Kafka's text form. Raises ValueError when it is not 16 bytes of URL-safe base64."""
    if len(text) > 24:
        raise ValueError(f"{text[:24]!r}... is too long to be a base64-encoded UUID")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it decodes to {len(raw)} bytes instead of the 16 of a base64-encoded UUID")
    return UUID(bytes=raw)


def random_uuid(rng: random.Random) -> UUID:
    """Return a version-4 id that is not reserved and whose text form does not begin with a dash, as Kafka's Uuid.randomUuid."""
    while True:
        value = UUID(int=rng.getrandbits(128), version=4)
        if value.int >= _RESERVED_BELOW and not uuid_to_string(value).startswith("-"):
            return value
