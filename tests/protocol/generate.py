"""Random messages made from the declarations, and all messages there are."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import message_classes, request_class, response_class
from odradek.protocol.schema import Array, Field, Message, Scalar, Struct

RECORD_MODULES = (
    "metadata_records",
    "raft_records",
    "group_records",
    "consumer_group_records",
    "share_group_records",
    "streams_group_records",
    "transaction_records",
    "share_records",
    "remote_log_records",
    "consumer_protocol",
    "control_records",
    "default_principal",
    "producer_snapshot",
)
RANGES = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "H": (0, 2**16 - 1),
    "I": (0, 2**32 - 1),
}
TEXTS = ("", "a", "topic-7", "Σίσυφος", "x" * 126, "y" * 127, "z" * 200, "🜁" * 40)
BLOBS = (b"", b"\0", bytes(range(256)), bytes(127), bytes(5000))


def all_messages() -> list[type[Message]]:
    """Every message class: requests, responses, stored records."""
    rpc = [cls for key in ApiKey for cls in (request_class(key), response_class(key))]
    return rpc + [cls for module in RECORD_MODULES for cls in message_classes(module)]


def versions_of(cls: type[Message]) -> range:
    return range(cls.VALID_VERSIONS.low, cls.VALID_VERSIONS.high + 1)


class Generator:
    """Makes messages whose every field the given version can carry; the same seed makes the same message.

    With `for_kio` numbers stay within what kio's richer types (error codes, datetimes, timedeltas) can hold.
    """

    def __init__(self, seed: object, version: int, *, for_kio: bool = False) -> None:
        self.random = random.Random(str(seed))
        self.version = version
        self.for_kio = for_kio

    def message(self, cls: type[Message]) -> Message:
        message = self.struct(cls)
        assert isinstance(message, Message)
        return message

    def struct(self, cls: type[Struct], depth: int = 0) -> Struct:
        values: dict[str, Any] = {}
        for item in cls.FIELDS:
            if not item.versions.includes(self.version):
                continue
            default_fits = not item.default_is_none or item.nullable.includes(self.version)
            if not default_fits or self.random.random() < 0.9:
                values[item.name] = self.value(cls, item, depth)
        return cls(**values)

    def value(self, cls: type[Struct], item: Field, depth: int) -> Any:
        if item.nullable.includes(self.version) and self.random.random() < 0.25:
            return None
        if isinstance(item.type, Array):
            count = self.random.choice((0, 1, 1, 2, 3)) if depth < 3 else self.random.choice((0, 1))
            if depth == 0 and self.random.random() < 0.03:
                count = 130
            element = item.type.element
            if isinstance(element, str):
                return [self.struct(cls.struct(element), depth + 1) for _ in range(count)]
            return [self.scalar(element, item.name) for _ in range(count)]
        if isinstance(item.type, str):
            return self.struct(cls.struct(item.type), depth + 1)
        return self.scalar(item.type, item.name)

    def scalar(self, wire_type: Scalar, name: str) -> Any:
        if wire_type.name == "Bool":
            return self.random.random() < 0.5
        if wire_type.name == "Float64":
            return self.random.choice((0.0, -1.5, 1e300))
        if wire_type.name == "Uuid":
            return UUID(int=self.random.choice((0, 1, self.random.getrandbits(128))))
        if wire_type.name == "String":
            return self.random.choice(TEXTS)
        if not wire_type.code:
            return self.random.choice(BLOBS)
        if self.for_kio and wire_type.code == "q":
            return self.random.randrange(2**41)
        if self.for_kio and name.endswith("error_code"):
            return self.random.randrange(134)
        low, high = RANGES[wire_type.code]
        return self.random.choice((low, high, 0, 1, min(max(-1, low), high), self.random.randint(low, high)))
