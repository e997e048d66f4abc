"""Topics of the subscription that consumers send as protocol metadata (ConsumerProtocolSubscription).

Only the fields of version 0 are read, a version and a list of names: all later versions begin with these fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_HEADER = struct.Struct(">hi")
_SHORT = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str]:
    """Return the topics of all subscriptions. Raises ValueError for a malformed subscription."""
    topics: set[str] = set()
    for subscription in subscriptions:
        topics.update(_topics(subscription))
    return frozenset(topics)


def _topics(subscription: bytes) -> Iterable[str]:
    try:
        version, count = _HEADER.unpack_from(subscription)
        if version < 0 or count < 0 or count > len(subscription):
            raise ValueError(f"version {version} with {count} topics")
        position = _HEADER.size
        topics: list[str] = []
        for _ in range(count):
            (length,) = _SHORT.unpack_from(subscription, position)
            end = position + 2 + length
            if length < 0 or end > len(subscription):
                raise ValueError(f"a topic of {length} bytes")
            topics.append(subscription[position + 2 : end].decode())
            position = end
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    return topics
