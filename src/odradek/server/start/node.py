"""State shared by all steps of a node's start, and the conversion of machine errors to one-line errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError, OdradekError, StorageError

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable

    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.handlers.services import Services
    from odradek.network.inbound import FrameHandler
    from odradek.server.cluster.lifecycle import BrokerStateMachine
    from odradek.server.requests.dispatch import Dispatcher
    from odradek.server.upkeep.jobs import Jobs

    DispatcherWrapper = Callable[[Services, Dispatcher], FrameHandler]
    """Factory of a frame handler between the listeners and the dispatcher, for tests."""


class Node:
    """Configuration of a node, and the clock, disk, random source and event loop on which the node runs."""

    __slots__ = ("clock", "config", "disk", "fatal", "hurried", "jobs", "loop", "random", "services", "states", "wrap_dispatcher")

    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        rng: random.Random,
        jobs: Jobs,
        services: Services,
        states: BrokerStateMachine,
        fatal: Callable[[BaseException], None],
        wrap_dispatcher: DispatcherWrapper | None = None,
    ) -> None:
        """`fatal` is called with each error after which the node cannot go on. The error ends the start, or later the node."""
        self.config = config
        self.loop = loop
        self.clock = clock
        self.disk = disk
        self.random = rng
        self.jobs = jobs
        self.services = services
        self.states = states
        self.fatal = fatal
        self.wrap_dispatcher = wrap_dispatcher
        self.hurried: asyncio.Future[None] = loop.create_future()
        """Completed when a stop must no longer wait for other nodes."""

    def hurry(self) -> None:
        """Complete `hurried`, so that a stop waits for no other node."""
        if not self.hurried.done():
            self.hurried.set_result(None)


def problem_of(error: BaseException, directory: str | None = None) -> OdradekError:
    """Return the error as an OdradekError with a one-line message. For an OSError the message begins with its file name, or else with
    `directory`, and the OSError is its cause.
    """
    if isinstance(error, KafkaError) and isinstance(error.__cause__, OSError):
        # A log has converted the OSError of its disk into an error for clients.
        error = error.__cause__
    if isinstance(error, OdradekError):
        return error
    if not isinstance(error, OSError):
        return StorageError(f"{type(error).__name__}: {error}")
    where = error.filename or directory
    reason = error.strerror or str(error)
    problem = StorageError(f"{where}: {reason}" if where else reason)
    problem.__cause__ = error
    return problem
