"""Processes of a simulation: what runs on behalf of one stops the moment it is killed, and stands still while it is paused.

Everything of a simulation shares one event loop. Which process a callback or task belongs to travels in its context, as asyncio hands
contexts on: whatever a process schedules, dials or listens on is its own. After `kill` the loop runs nothing of it any more, neither
timers nor tasks nor `finally` clauses: exactly what SIGKILL leaves behind. Its tasks are kept, so that no coroutine is torn down
(and runs its clean-up) by the garbage collector in the middle of the story; `SimulatedLoop` cancels them at the end.

A paused process (SIGSTOP, a virtual machine that is suspended) runs nothing, while its sockets go on receiving (`testing.network`) and the
clock goes on. When it continues, the order is that of a loop which was stopped while it waited for events: what was ready, then what waits
in its sockets, then the timers that have become due.
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
        self.running = True
        """Alive and not paused."""
        self.released = False
        self.job_latency_s: tuple[float, float] | None = None
        """How long jobs of the executor take (least, most); None: as `SimulatedLoop.slow_jobs` says for all."""
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._ready: list[asyncio.Handle] = []
        self._sockets: list[asyncio.Handle] = []
        self._due: list[asyncio.Handle] = []

    def context(self) -> contextvars.Context:
        """A context in which code runs as part of this process (for `create_task` and `call_soon`)."""
        return self._context.copy()

    def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Calls the function as this process."""
        return self.context().run(function, *args)

    def kill(self) -> None:
        """From now on nothing of this process runs."""
        self.alive = self.running = False
        # Steps of tasks stay: the tasks must be able to end when the simulation does.
        self._ready = [handle for handle in (*self._ready, *self._due) if _is_step(handle)]
        self._sockets.clear()
        self._due.clear()

    def pause(self) -> None:
        """From now on nothing of this process runs until `SimulatedLoop.resume`."""
        self.running = False

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remembers a task until the simulation ends."""
        self._tasks.append(task)

    def runs(self, handle: asyncio.Handle) -> bool:
        """Whether the callback may run now. At the end of the simulation, when tasks must be able to end, all but timers may: a task that
        waits for another is woken by a callback that is no step of either.
        """
        return self.running or (self.released and not isinstance(handle, asyncio.TimerHandle))

    # -- what a process that does not run is left with --------------------------------------------------------------------------------

    def hold(self, handle: asyncio.Handle) -> None:
        """Takes a callback that is to run now: for later while the process is paused, for the end of the simulation when it is dead."""
        if self.alive:
            (self._due if isinstance(handle, asyncio.TimerHandle) else self._ready).append(handle)
        elif _is_step(handle):
            self._ready.append(handle)

    def hold_event(self, handle: asyncio.Handle) -> None:
        """Takes what is to be done about an event on one of the process's sockets."""
        if self.alive:
            self._sockets.append(handle)

    def go_on(self) -> None:
        """Continues after `pause` (from the loop; see `SimulatedLoop.resume`)."""
        if not self.alive:
            return
        self.running = True
        held = (*self._ready, *self._sockets, *self._due)
        self._ready, self._sockets, self._due = [], [], []
        for handle in held:
            if not handle.cancelled():
                handle._run()

    def release(self) -> list[asyncio.Handle]:
        """Steps of tasks that were kept aside, for the end of the simulation, when tasks must be able to end."""
        if not self.running:
            self.kill()
        self.released = True
        steps, self._ready = self._ready, []
        return steps


class ProcessHandle(asyncio.Handle):
    """A callback of a process."""

    __slots__ = ("process",)

    process: SimulatedProcess

    def _run(self) -> None:
        if self.process.runs(self):
            super()._run()
        else:
            self.process.hold(self)


class ProcessTimer(asyncio.TimerHandle):
    """A timer of a process."""

    __slots__ = ("process",)

    process: SimulatedProcess
    _scheduled: bool

    def note_scheduled(self) -> None:
        """It stands in the loop's heap: the loop counts those that are cancelled there."""
        self._scheduled = True

    def _run(self) -> None:
        if self.process.runs(self):
            super()._run()
        else:
            self.process.hold(self)


def _is_step(handle: asyncio.Handle) -> bool:
    """Whether it is the next step of a task."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)  # type: ignore[attr-defined]


def process_of(context: contextvars.Context | None) -> SimulatedProcess | None:
    """The process to which a context (None: the current one) belongs."""
    return _current.get() if context is None else context.get(_current)
