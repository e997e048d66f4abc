"""Turns answers into plain values in which whatever differs by nature has a name, and finds the differences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from interop.differential.peer import Peer
from odradek.protocol.schema import Struct
from odradek.records.batch import iter_headers

PRESENT_ONLY = {"error_message", "batch_index_error_message", "documentation"}
"""Sentences for people: both or neither must be there, the words may differ."""

BY_NATURE = {"port", "log_append_time_ms", "broker_epoch", "finalized_features_epoch"}
"""Numbers that two brokers can't share; only their sign is compared."""

UNORDERED = {
    "topics": ("name", "topic", "topic_id"),
    "configs": ("name",),
    "responses": ("topic", "name", "topic_id"),
    "api_keys": ("api_key",),
    "results": ("resource_type", "resource_name", "name"),
    "supported_features": ("name",),
    "finalized_features": ("name",),
}
"""Lists whose order means nothing, and the fields that identify an entry."""


class Difference(NamedTuple):
    """Where two answers part: a path such as `topics[0].error_code`, and the two values."""

    path: str
    ours: Any
    theirs: Any


def plain(value: Any, peer: Peer, field: str = "") -> Any:
    """The answer as dicts, lists and numbers, with the names of `peer` for ids."""
    if isinstance(value, UUID):
        return peer.names.get(value, "an id nobody has seen")
    if field in PRESENT_ONLY:
        return value is not None
    if field in BY_NATURE:
        return "negative" if value < 0 else "some"
    if field == "session_id":
        return "some" if value else 0
    if field == "producer_id":
        return peer.names.get(("producer", value), "some") if value >= 0 else value
    if field == "records" and value is not None:
        return records(value)
    if isinstance(value, list):
        items = [plain(item, peer) for item in value]
        keys = UNORDERED.get(field)
        return sorted(items, key=lambda item: tuple(str(item.get(key, "")) for key in keys)) if keys else items
    if isinstance(value, Struct):
        return {member.name: plain(getattr(value, member.name), peer, member.name) for member in type(value).FIELDS}
    return value


def records(data: Any) -> Any:
    """Record batches by their header fields; the payload by its bytes."""
    buffer = memoryview(bytes(data))
    batches = []
    for position, header in iter_headers(buffer):
        payload = bytes(buffer[position + 57 : position + header.size])
        log_append = bool(header.attributes & 8)
        fields = {"base_offset": header.base_offset, "epoch": header.partition_leader_epoch, "attributes": header.attributes}
        if not log_append:
            fields |= {"crc": header.crc, "base_timestamp": header.base_timestamp, "max_timestamp": header.max_timestamp}
        batches.append({**fields, "last_offset_delta": header.last_offset_delta, "payload": payload})
    return batches


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{index}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield Difference(path, ours, theirs)


class Excepted(NamedTuple):
    """A difference that has been looked at and accepted: patterns for the case and the path, and why."""

    case: str
    path: str
    why: str

    def covers(self, case: str, difference: Difference) -> bool:
        return re.search(self.case, case) is not None and re.search(self.path, difference.path) is not None
