"""Broker with SASL listeners, and clients that log in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from odradek.config.broker import standalone_config
from odradek.config.sasl import ListenerSasl
from odradek.handlers.scopes import BROKER
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.security.principal import Principal
from odradek.server.clock import LoopClock
from odradek.server.requests.dispatch import Dispatcher
from odradek.server.security.authentication import SaslFrames
from odradek.server.upkeep.jobs import Jobs
from tests.handlers.support import new_services
from tests.network.support import Peer
from tests.server.sasl_support import ALICE, USERS, handshake, token
from tests.server.support import bare_dispatcher


class Served(NamedTuple):
    acceptor: Acceptor
    sasl: BoundListener
    plain: BoundListener
    frames: SaslFrames
    principals: list[Principal]
    """Of the requests that came through, ApiVersions left out."""


class Noting:
    """Notes whose requests reach the dispatcher."""

    def __init__(self, dispatcher: Dispatcher, principals: list[Principal]) -> None:
        self._dispatcher = dispatcher
        self._principals = principals

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        if frame[:2] != b"\0\x12":
            self._principals.append(connection.principal)
        return self._dispatcher.handle_frame(connection, frame)

    def may_follow(self, frame: memoryview) -> bool:
        return self._dispatcher.may_follow(frame)

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        return self._dispatcher.goes_first(connection, head)


@asynccontextmanager
async def serving(
    *,
    delay_s: float = 0.0,
    reauth_ms: int = 0,
    most: int = 512 * 1024,
    clock: LoopClock | None = None,
    limits: AcceptorLimits | None = None,
) -> AsyncIterator[Served]:
    clock = clock or LoopClock(asyncio.get_running_loop())
    services = new_services(standalone_config({"node.id": "1", "log.dirs": "/data"}), clock=clock)
    dispatcher = bare_dispatcher(clock)
    principals: list[Principal] = []
    sasl = ListenerSasl("SASL", ("PLAIN",), most, {"PLAIN": reauth_ms}, USERS)
    jobs = Jobs(asyncio.get_running_loop())
    behind = Noting(dispatcher, principals)
    frames = SaslFrames(behind, services, dispatcher.refusal, jobs, {"SASL": sasl}, request_size=1 << 20, failed_delay_s=delay_s)
    acceptor = Acceptor(asyncio.get_running_loop(), clock, frames, limits or AcceptorLimits())
    acceptor.on_connect = frames.connected
    bound = [await acceptor.bind(Listener(name, BROKER, "127.0.0.1", 0)) for name in ("SASL", "PLAINTEXT")]
    for each in bound:
        await acceptor.serve(each)
    try:
        yield Served(acceptor, bound[0], bound[1], frames, principals)
    finally:
        frames.close()
        await acceptor.close()


async def log_in(client: Peer, message: bytes = ALICE) -> SaslAuthenticateResponse:
    client.send(bytes(handshake()))
    await client.frame()
    client.send(bytes(token(message)))
    return SaslAuthenticateResponse.decode((await client.frame())[5:], 2)
