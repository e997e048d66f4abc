"""Processes of a simulation. A killed process stops at once; a paused process stands still.

All parts of a simulation share one event loop. A callback's or task's process is in its context, which asyncio passes on: what a process
schedules, dials or listens on belongs to that process. After `kill` the loop runs no timer, task or `finally` clause of the process, as
after SIGKILL. The process keeps references to its tasks, so that the garbage collector does not close a coroutine (and run its clean-up) in
the middle of the simulation. `SimulatedLoop` cancels the tasks at the end.

A paused process (SIGSTOP, a suspended virtual machine) runs nothing, while its sockets receive bytes (`testing.simulation.network`) and the
clock goes on. It resumes like an event loop that was stopped while it waited for events: first handles that were ready, then events of its
sockets, then due timers.
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
    """Program on a host of the virtual network, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.running = True
        """Whether the process is alive and not paused."""
        self.released = False
        self.job_latency_s: tuple[float, float] | None = None
        """Virtual seconds of an executor call (least, most). None: as set by `SimulatedLoop.slow_jobs`."""
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        self._ready: list[asyncio.Handle] = []
        self._sockets: list[asyncio.Handle] = []
        self._due: list[asyncio.Handle] = []

    def context(self) -> contextvars.Context:
        """Return a context in which code runs as part of this process (for `create_task` and `call_soon`)."""
        return self._context.copy()

    def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Call the function as part of this process."""
        return self.context().run(function, *args)

    def kill(self) -> None:
        """Stop everything of this process, for good."""
        self.alive = self.running = False
        # Keep steps of tasks: the tasks must be able to end when the simulation ends.
        self._ready = [handle for handle in (*self._ready, *self._due) if _is_step(handle)]
        self._sockets.clear()
        self._due.clear()

    def pause(self) -> None:
        """Stop everything of this process until `SimulatedLoop.resume`."""
        self.running = False

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task until the simulation ends."""
        self._tasks.append(task)

    def runs(self, handle: asyncio.Handle) -> bool:
        """Return whether the callback may run now.

        At the end of the simulation, when tasks must be able to end, all callbacks except timers may run: a task that waits for another
        task is woken by a callback that is not a step of a task.
        """
        return self.running or (self.released and not isinstance(handle, asyncio.TimerHandle))

    # -- handles of a process that does not run ---------------------------------------------------------------------------------------

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep a ready callback: until the process resumes, or, for a step of a dead process's task, until the end of the simulation."""
        if self.alive:
            (self._due if isinstance(handle, asyncio.TimerHandle) else self._ready).append(handle)
        elif _is_step(handle):
            self._ready.append(handle)

    def hold_event(self, handle: asyncio.Handle) -> None:
        """Keep a callback about an event on one of the process's sockets until the process resumes. Do nothing when the process is dead."""
        if self.alive:
            self._sockets.append(handle)

    def go_on(self) -> None:
        """Resume after `pause`. Called by the loop; see `SimulatedLoop.resume`."""
        if not self.alive:
            return
        self.running = True
        held = (*self._ready, *self._sockets, *self._due)
        self._ready, self._sockets, self._due = [], [], []
        for handle in held:
            if not handle.cancelled():
                handle._run()

    def release(self) -> list[asyncio.Handle]:
        """Return the steps of tasks that were kept, so that tasks can end at the end of the simulation. Kill a paused process first."""
        if not self.running:
            self.kill()
        self.released = True
        steps, self._ready = self._ready, []
        return steps


class ProcessHandle(asyncio.Handle):
    """Callback of a process."""

    __slots__ = ("process",)

    process: SimulatedProcess

    def _run(self) -> None:
        if self.process.runs(self):
            super()._run()
        else:
            self.process.hold(self)


class ProcessTimer(asyncio.TimerHandle):
    """Timer of a process."""

    __slots__ = ("process",)

    process: SimulatedProcess
    _scheduled: bool

    def note_scheduled(self) -> None:
        """Mark the timer as part of the loop's heap, so that the loop counts a cancellation."""
        self._scheduled = True

    def _run(self) -> None:
        if self.process.runs(self):
            super()._run()
        else:
            self.process.hold(self)


def _is_step(handle: asyncio.Handle) -> bool:
    """Return whether the handle is the next step of a task."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)  # type: ignore[attr-defined]


def process_of(context: contextvars.Context | None) -> SimulatedProcess | None:
    """Return the process that a context (None: the current context) belongs to, or None."""
    return _current.get() if context is None else context.get(_current)
