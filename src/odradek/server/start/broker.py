"""A node: `server.start.boot` starts it, one step after the other; it stops in the reverse order.

`Broker(config).start()` serves a whole broker (and its controller) inside any event loop. Tests and the simulator pass their own clock,
disk and random source, and a loop with their own network and executor.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.errors import OdradekError
from odradek.config.keys.cluster import SERVER_MAX_STARTUP_TIME_MS
from odradek.config.without_effect import ineffective
from odradek.handlers.scopes import BROKER
from odradek.server.clock import LoopClock
from odradek.server.cluster.lifecycle import BrokerState, BrokerStateMachine
from odradek.server.start.boot import start_node
from odradek.server.start.node import Node, problem_of
from odradek.server.step import StartError, Startup

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.network.acceptor import BoundListener
    from odradek.server.start.node import DispatcherWrapper

logger = logging.getLogger(__name__)

_FOREVER_MS = 2**53
"""Milliseconds; a configured time above this value means no limit."""


class Broker:
    """Node of a cluster, with the roles of its configuration."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        format_if_empty: bool = False,
        wrap_dispatcher: DispatcherWrapper | None = None,
    ) -> None:
        """Make a node without starting it.

        `loop` (default: the running loop) also brings the network and the executor. `format_if_empty`: the node formats its directories as
        a new cluster when all of them are unformatted. `wrap_dispatcher` returns a frame handler that takes the requests of all listeners
        in the dispatcher's place, for tests.
        """
        self.config = config
        self.loop = loop or asyncio.get_running_loop()
        self.clock: Clock = clock or LoopClock(self.loop)
        if disk is None:
            from odradek.storage.disk import OsDisk

            disk = OsDisk()
        self.states = BrokerStateMachine()
        self.start_seconds = 0.0
        self.on_fatal: Callable[[OdradekError], object] | None = None
        """Called when a started node cannot go on, because its last log directory or its metadata log has failed."""
        self._format_if_empty = format_if_empty
        self._startup = Startup()
        self._fault: asyncio.Future[OdradekError] = self.loop.create_future()
        """First fatal problem of a background part; ends the start, or the started node."""
        self._started = False
        self._stopping: asyncio.Future[None] | None = None
        self.node = Node(
            config,
            loop=self.loop,
            clock=self.clock,
            disk=disk,
            rng=rng or random.Random(),
            states=self.states,
            fatal=self._fatal,
            wrap_dispatcher=wrap_dispatcher,
        )
        self.services = self.node.services

    @property
    def bound_listeners(self) -> list[BoundListener]:
        """Listeners with their ports, in the order of the configuration."""
        return self.node.bound_listeners

    def port(self, listener: str | None = None) -> int:
        """Return the port of a listener, by default of the first listener for clients."""
        return next(bound.port for bound in self.bound_listeners if (bound.scope == BROKER if listener is None else bound.name == listener))

    async def start(self) -> None:
        """Start the node; return when it serves clients.

        A part that fails in the background (the metadata log, the last log directory) ends the start at once; so does
        server.max.startup.time.ms. Raises OdradekError with a one-line message when the node cannot start; call `stop` then, too.
        """
        begin = self.clock.monotonic()
        for line in ineffective(self.config.given):
            logger.warning("%s", self.config.hide(line))
        self.states.to(BrokerState.STARTING)
        steps = self.loop.create_task(start_node(self._startup, self.node, format_if_empty=self._format_if_empty))
        longest_ms = self.config[SERVER_MAX_STARTUP_TIME_MS]
        late: StartError | None = None
        try:
            timeout_s = longest_ms / 1000 if longest_ms < _FOREVER_MS else None
            done, _ = await asyncio.wait((steps, self._fault), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                late = StartError(f"not started within server.max.startup.time.ms={longest_ms}: waiting for {self._startup.waits_for()}")
        finally:
            if not steps.done():
                steps.cancel()
                await asyncio.wait((steps,))
        if late is not None:
            raise late
        if self._fault.done():
            raise self._fault.result()
        if not steps.cancelled() and (error := steps.exception()) is not None:
            raise problem_of(error) if isinstance(error, OSError | OdradekError) else error
        self._started = True
        self.start_seconds = self.clock.monotonic() - begin

    async def stop(self) -> None:
        """Stop all started parts in order. A second call waits for the first."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            return
        self._stopping = self.loop.create_future()
        try:
            await self._startup.stop()
            if self.states.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
                self.states.to(BrokerState.SHUTTING_DOWN)
            if self.states.state is BrokerState.SHUTTING_DOWN:
                self.states.to(BrokerState.NOT_RUNNING)
        finally:
            self._stopping.set_result(None)

    def hurry(self) -> None:
        """Keep a stop from waiting for other nodes: for a controller that moves leaders away, or for a controller that takes over the
        quorum.
        """
        self.node.hurry()

    def _fatal(self, error: BaseException) -> None:
        if self._fault.done():
            return
        problem = problem_of(error)
        self._fault.set_result(problem)
        if not self._started:
            return
        # Log at once: an orderly end may take minutes.
        logger.critical("this node cannot continue and shuts down: %s", problem)
        if self.on_fatal is not None:
            self.on_fatal(problem)
