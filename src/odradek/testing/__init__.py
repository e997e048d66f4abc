"""Test brokers: real brokers in the test's process or beside it, and a simulation on virtual time that one seed repeats.

    from odradek.testing import EmbeddedBroker

The names of this module are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.kit.aio import AsyncEmbeddedBroker, AsyncEmbeddedCluster
    from odradek.testing.kit.controls import Fault
    from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster, EmbeddedNode, TestingError, Topic
    from odradek.testing.kit.faults import FaultError
    from odradek.testing.kit.schema_registry import SchemaRegistryServer

_PLACES = {
    "AsyncEmbeddedBroker": "aio",
    "AsyncEmbeddedCluster": "aio",
    "EmbeddedBroker": "embedded",
    "EmbeddedCluster": "embedded",
    "EmbeddedNode": "embedded",
    "Fault": "controls",
    "FaultError": "faults",
    "SchemaRegistryServer": "schema_registry",
    "TestingError": "embedded",
    "Topic": "embedded",
}

__all__ = [
    "AsyncEmbeddedBroker",
    "AsyncEmbeddedCluster",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "EmbeddedNode",
    "Fault",
    "FaultError",
    "SchemaRegistryServer",
    "TestingError",
    "Topic",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.kit.{place}"), name)
