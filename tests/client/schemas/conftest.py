"""What the tests of schemas share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client.schemas import SchemaRegistry
from odradek.testing import SchemaRegistryServer


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running


@pytest.fixture
def registry(server: SchemaRegistryServer) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(server.url, retries_wait_ms=0) as client:
        yield client
