"""Dispatcher behind a real listener, with an empty cluster image and a quorum of kraft.version 0, without a broker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from odradek.base.clock import Clock
from odradek.config.broker import standalone_config
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.services import BrokerParts, ControllerParts
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.limits import AcceptorLimits
from odradek.protocol.headers import encode_request_header
from odradek.server.clock import LoopClock
from odradek.server.requests.dispatch import Dispatcher
from tests.handlers.support import new_services


def bare_dispatcher(clock: Clock | None = None) -> Dispatcher:
    """Return the dispatcher of a node on which APIs work that need only the cluster image."""
    clock = clock or LoopClock(asyncio.get_running_loop())
    dispatcher = Dispatcher(new_services(standalone_config({"node.id": "1", "log.dirs": "/data"}), clock=clock))
    kraft: Any = SimpleNamespace(kraft_version=0)
    missing: Any = dict.fromkeys(("log_manager", "replica_manager", "coordinators", "producer_ids", "channel", "forwarder"))
    dispatcher.serve(BROKER, BrokerParts(kraft=kraft, **missing))
    dispatcher.serve(CONTROLLER, ControllerParts(kraft, dispatcher))
    return dispatcher


@asynccontextmanager
async def dispatching(limits: AcceptorLimits | None = None, scope: str = BROKER) -> AsyncIterator[tuple[Acceptor, BoundListener]]:
    loop = asyncio.get_running_loop()
    acceptor = Acceptor(loop, LoopClock(loop), bare_dispatcher(), limits or AcceptorLimits())
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
