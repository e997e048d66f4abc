"""What every step of a node's start is made with, and how a problem of the machine becomes one line."""

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
    from odradek.network.acceptor import FrameHandler
    from odradek.server.dispatch import Dispatcher
    from odradek.server.jobs import Jobs
    from odradek.server.lifecycle import BrokerStateMachine
    from odradek.server.services import Services

    Gate = Callable[[Services, Dispatcher], FrameHandler]
    """What stands between the listeners and the dispatcher, for tests."""


class StartError(OdradekError):
    """The node cannot be started; one line."""


class Node:
    """The configuration of a node, and the clock, disk, randomness and loop it runs on."""

    __slots__ = ("clock", "config", "disk", "fatal", "gate", "haste", "jobs", "loop", "random", "services", "states")

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
        gate: Gate | None = None,
    ) -> None:
        """`fatal` is told what keeps the node from going on: during the start it ends the start, later the node."""
        self.config = config
        self.loop = loop
        self.clock = clock
        self.disk = disk
        self.random = rng
        self.jobs = jobs
        self.services = services
        self.states = states
        self.fatal = fatal
        self.gate = gate
        self.haste: asyncio.Future[None] = loop.create_future()
        """Done when a stop is to wait for no other node any more."""

    def hurry(self) -> None:
        """Complete `haste`."""
        if not self.haste.done():
            self.haste.set_result(None)


def problem_of(error: BaseException, directory: str | None = None) -> OdradekError:
    """The error as one line. One of the disk names its file, or else `directory`, and has the OSError as its cause."""
    if isinstance(error, KafkaError) and isinstance(error.__cause__, OSError):
        # A log has turned what its disk said into an answer for clients.
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
