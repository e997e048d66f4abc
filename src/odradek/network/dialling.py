"""Connection that is dialled when a request needs it: performs what `network.dialled` decides.

`network.peers` is its face for nodes, on Deferred; `client.network.connections` its face for clients, on asyncio.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek import __version__
from odradek.base.timing import Alarm
from odradek.network.dialled import Dialled, DialState, Verdict, renewal_in_s
from odradek.network.transport import ClientConnection, ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.negotiation import ApiVersionTable, Negotiation

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from odradek.base.clock import Clock
    from odradek.base.deferred import Deferred

R = TypeVar("R")


class DialledConnection(Generic[R]):
    """Connection to a node, from one dial to the next. A face says how to connect and log in, and what requests that waited get."""

    __slots__ = ("_clock", "_idle", "_renewal", "_rng", "_task", "_timeout_s", "connection", "life", "versions")

    def __init__(self, clock: Clock, life: Dialled[Deferred[R]], timeout_s: float | None = None, rng: random.Random | None = None) -> None:
        """Create an idle connection.

        `timeout_s` is the time limit of each response before the connection is ready (default: that of the attempt to connect). `rng`
        spreads the renewals of sessions.
        """
        self._clock = clock
        self.life = life
        self._timeout_s = timeout_s
        self._rng = rng
        self._task: asyncio.Task[None] | None = None
        """Task that dials or authenticates again."""
        self._idle = Alarm(clock, self._check_idle)
        self._renewal = Alarm(clock, self._renew)
        self.connection: ClientConnection | None = None
        """Connection that is ready."""
        self.versions: ApiVersionTable | None = None
        """API versions of the node; None until the connection is ready."""

    # -- of a face -----------------------------------------------------------------------------------------------------------------

    async def _open(self, timeout_s: float) -> int:
        """Make a connection within `timeout_s`, and return the result of `_greet`. Raises the reason of a failure."""
        raise NotImplementedError

    async def _log_in(self, connection: ClientConnection, versions: ApiVersionTable, timeout_s: float) -> int:
        """Authenticate the connection, and return the lifetime of its session in milliseconds (0: unlimited)."""
        raise NotImplementedError

    def _opened(self, connection: ClientConnection, versions: ApiVersionTable) -> R:
        """Note that the connection is ready; return the result of `ask`."""
        raise NotImplementedError

    def _ended(self, error: BaseException, *, opened: bool) -> None:
        """Note that the connection or the attempt is over; `opened`: it was ready."""
        raise NotImplementedError

    # -- life ----------------------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent without `ask`."""
        return self.connection is not None and not self.connection.closed

    def ask(self, request: Deferred[R]) -> Verdict:
        """Return how to treat a request, and begin to dial if needed. After WAIT or DIAL, the request is completed or fails."""
        connection = self.connection
        if connection is not None and connection.closed:
            self._lost(connection, ConnectionLost("the connection is gone"))
        verdict = self.life.ask(request, self._clock.monotonic())
        if verdict is Verdict.DIAL:
            self._start(self._dial)
        return verdict

    def _start(self, authenticate: Callable[[], Awaitable[int]]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._make_ready(authenticate))

    async def _make_ready(self, authenticate: Callable[[], Awaitable[int]]) -> None:
        try:
            lifetime_ms = await authenticate()
        except Exception as error:
            # Not only OdradekError and ProtocolError: resolvers and the libraries of SASL mechanisms raise other errors.
            self._task = None
            self.end(error)
            return
        self._task = None
        connection, versions = self.connection, self.versions
        assert connection is not None
        assert versions is not None
        renewed = self.life.state is DialState.RENEWING
        waiting = self.life.ready()
        if lifetime_ms > 0:
            self._renewal.set(renewal_in_s(lifetime_ms, self._rng))
        if renewed:
            connection.resume()
            return
        result = self._opened(connection, versions)
        self._idle.set_at(self._clock.monotonic() + self.life.idle_s)
        for request in waiting:
            request.complete(result)
        connection.on_close(partial(self._lost, connection))

    async def _dial(self) -> int:
        attempts = self.life.attempts
        pause_s = attempts.pause_s(self._clock.monotonic())
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        return await self._open(attempts.timeout_s())

    async def _greet(self, connection: ClientConnection) -> int:
        """Ask for the API versions and authenticate; return the lifetime of the session in milliseconds. Closes a connection that fails."""
        self.life.enter(DialState.GREETING)
        timeout_s = self._timeout_s or self.life.attempts.timeout_s()
        negotiation, versions = Negotiation(__version__), None
        try:
            while versions is None:
                question = [negotiation.question()]
                body = await connection.send(ApiKey.API_VERSIONS, negotiation.version, question, timeout_s=timeout_s)
                versions = negotiation.answered(body)
            lifetime_ms = await self._log_in(connection, versions, timeout_s)
        except BaseException:
            connection.close()
            raise
        self.connection, self.versions = connection, versions
        return lifetime_ms

    def _renew(self) -> None:
        connection, versions = self.connection, self.versions
        assert connection is not None
        assert versions is not None
        if self.life.enter(DialState.RENEWING):
            connection.pause()
            self._start(partial(self._log_in_again, connection, versions))

    async def _log_in_again(self, connection: ClientConnection, versions: ApiVersionTable) -> int:
        """Authenticate again. Other requests wait, because the other side accepts none during the exchange."""
        # An authentication is no use of the connection, which may become idle.
        used_s = self._clock.monotonic() if connection.in_flight else connection.active_s
        lifetime_ms = await self._log_in(connection, versions, self._timeout_s or self.life.attempts.timeout_s())
        connection.active_s = used_s
        return lifetime_ms

    def _check_idle(self) -> None:
        connection = self.connection
        assert connection is not None
        now_s = self._clock.monotonic()
        rest_s = self.life.idle_in_s(now_s, connection.active_s, connection.in_flight)
        if rest_s > 0:
            self._idle.set_at(now_s + rest_s)
        else:
            connection.close()

    # -- end -----------------------------------------------------------------------------------------------------------------------

    def _lost(self, connection: ClientConnection, error: ConnectionLost) -> None:
        if self.connection is connection:
            self.end(error, harm=bool(connection.lost_requests or connection.in_flight))

    def end(self, error: BaseException, *, harm: bool = True) -> None:
        """Close the connection, or give up the attempt to connect. Requests that wait fail with `error`."""
        self._take_down(error, self.life.ended(self._clock.monotonic(), harm=harm))

    def close(self, error: BaseException) -> asyncio.Task[None] | None:
        """Close for good. Return the task that was cancelled, if any."""
        task = self._task
        self._take_down(error, self.life.close())
        self._idle.close()
        self._renewal.close()
        return task

    def _take_down(self, error: BaseException, waiting: list[Deferred[R]]) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        connection, self.connection, self.versions = self.connection, None, None
        self._idle.cancel()
        self._renewal.cancel()
        self._ended(error, opened=connection is not None)
        for request in waiting:
            request.fail(error)
        if connection is not None and not connection.closed:
            connection.close()
