"""Dispatcher behind a real listener, with an empty cluster image and a quorum of kraft.version 0, without a broker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

from odradek.handlers.scopes import BROKER
from odradek.handlers.services import Services
from odradek.metadata.image import EMPTY
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.limits import AcceptorLimits
from odradek.protocol.headers import encode_request_header
from odradek.server.clock import LoopClock
from odradek.server.cluster.metadata_cache import MetadataCache
from odradek.server.requests.dispatch import Dispatcher


def bare_services() -> Services:
    """Return services for APIs that need only the cluster image."""
    services = Services()
    services.clock = LoopClock(asyncio.get_running_loop())
    services.metadata = MetadataCache(EMPTY)
    services.kraft = SimpleNamespace(kraft_version=0)  # type: ignore[assignment]
    services.node_id = 1
    services.dispatcher = Dispatcher(services)
    return services


@asynccontextmanager
async def dispatching(limits: AcceptorLimits | None = None, scope: str = BROKER) -> AsyncIterator[tuple[Acceptor, BoundListener]]:
    services = bare_services()
    acceptor = Acceptor(asyncio.get_running_loop(), services.clock, services.dispatcher, limits or AcceptorLimits())
    bound = await acceptor.bind(Listener("PLAINTEXT", scope, "127.0.0.1", 0))
    await acceptor.serve(bound)
    try:
        yield acceptor, bound
    finally:
        await acceptor.close()


def request(api_key: int, version: int, body: bytes = b"", *, correlation_id: int = 7, client_id: str | None = "test") -> bytes:
    """Return an encoded request without its size."""
    return encode_request_header(api_key, version, correlation_id, client_id) + body


def api_versions(version: int = 0) -> bytes:
    """Return an encoded ApiVersions request without its size."""
    return request(18, version, b"" if version < 3 else b"\x05test\x021\x00")


def response_error(frame: bytes) -> tuple[int, int]:
    """Return the correlation id and the error code of an ApiVersions response."""
    return struct.unpack(">ih", frame[:6])
