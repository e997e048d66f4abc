"""Processes of a simulation: what runs on behalf of one stops the moment it is killed.

Everything of a simulation shares one event loop. Which process a callback or task belongs to travels in its context, as asyncio hands
contexts on: whatever a process schedules, dials or listens on is its own. After `kill` the loop runs nothing of it any more, neither
timers nor tasks nor `finally` clauses: exactly what SIGKILL leaves behind. Its tasks are kept, so that no coroutine is torn down
(and runs its clean-up) by the garbage collector in the middle of the story; `SimulatedLoop` cancels them at the end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_current: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("odradek_simulated_process", default=None)


class SimulatedProcess:
    """A program on a host of the virtual network, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.released = False
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)
        self._parked: list[Callable[[], object]] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def context(self) -> contextvars.Context:
        """A context in which code runs as part of this process (for `create_task` and `call_soon`)."""
        return self._context.copy()

    def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Calls the function as this process."""
        return self.context().run(function, *args)

    def kill(self) -> None:
        """From now on nothing of this process runs."""
        self.alive = False

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remembers a task until the simulation ends."""
        self._tasks.append(task)

    def perform(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Runs a scheduled callback of this process; of a dead one only steps of tasks, and only once they are to be cancelled."""
        if self.alive:
            callback(*args)
        elif isinstance(getattr(callback, "__self__", None), asyncio.Task):
            if self.released:
                callback(*args)
            else:
                self._parked.append(lambda: callback(*args))

    def release(self) -> list[Callable[[], object]]:
        """Steps of tasks that were kept aside, for the end of the simulation, when tasks must be able to end."""
        self.released = True
        parked, self._parked = self._parked, []
        return parked


def process_of(context: contextvars.Context | None) -> SimulatedProcess | None:
    """The process to which a context (None: the current one) belongs."""
    return _current.get() if context is None else context.get(_current)
