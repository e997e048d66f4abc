"""kio, an independent implementation, as a second judge: it reads what we write, and writes what it read as the same bytes."""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest

from odradek.protocol.registry import message_classes, request_class, response_class
from odradek.protocol.schema import Message
from tests.protocol.generate import RECORD_MODULES, Generator

index = importlib.import_module("kio.schema.index")
serial = importlib.import_module("kio.serial")

SAMPLES = 8


def cases() -> list[tuple[type[Message], str]]:
    """Our class and kio's name of the family, for everything that both have."""
    found: list[tuple[type[Message], str]] = []
    for key, family in index.api_key_map.items():
        found += [(request_class(key), family), (response_class(key), family)]
    data = {family for family, versions in index.schema_name_map.items() if "data" in {kind.name for kind in next(iter(versions.values()))}}
    for cls in [cls for module in RECORD_MODULES for cls in message_classes(module)]:
        family = "".join(["_" + letter.lower() if letter.isupper() else letter for letter in cls.__name__]).lstrip("_")
        if family in data:
            found.append((cls, family))
    return found


def kio_class(message: type[Message], family: str, version: int) -> Any | None:
    """kio's class for this very version, None where it has none."""
    kind = message.__name__[-8:].lower() if message.__name__.endswith("Response") else message.__name__[-7:].lower()
    for entity, path in index.schema_name_map[family].get(version, {}).items():
        if entity.name == kind or entity.name == "data":
            module, _, name = path.partition(":")
            return getattr(importlib.import_module(module), name)
    return None


@pytest.mark.parametrize(("message", "family"), cases(), ids=lambda value: value.__name__ if isinstance(value, type) else "kio")
def test_kio_agrees_in_every_version_that_it_has(message: type[Message], family: str) -> None:
    compared = 0
    for version in index.schema_name_map[family]:
        if not message.VALID_VERSIONS.includes(version):
            continue
        theirs = kio_class(message, family, version)
        assert theirs is not None, version
        read, write = serial.entity_reader(theirs), serial.entity_writer(theirs)
        for seed in range(SAMPLES):
            original = Generator((message.__name__, version, seed), version, for_kio=True).message(message)
            encoded = original.encode(version)
            value, size = read(encoded, 0)
            assert size == len(encoded), (version, seed)
            buffer = io.BytesIO()
            write(buffer, value)
            assert buffer.getvalue() == encoded, (version, seed)
            assert message.decode(buffer.getvalue(), version) == original
            compared += 1
    assert compared
