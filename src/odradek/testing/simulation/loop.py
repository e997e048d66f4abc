"""Event loop on virtual time.

`SimulatedLoop` is asyncio's selector event loop with three parts replaced. Its clock is a number that jumps to the next timer when nothing
is ready to run. Its executor runs calls inline. Its network is `testing.simulation.network`. A virtual hour takes microseconds, and only
the program and the seed decide the order of events. Callbacks and tasks of a `SimulatedProcess` end when the process ends, and wait while
the process is paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import math
import random
import selectors
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack

from odradek.base.clock import TimerHandle
from odradek.testing.simulation.network import VirtualNetwork
from odradek.testing.simulation.process import ProcessHandle, ProcessTimer, SimulatedProcess, process_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_MS = 1_700_000_000_000
"""Wall-clock milliseconds at virtual time zero."""


class SimulationStalled(RuntimeError):
    """Program that can make no progress. Nothing is ready to run and no timer is set, or callbacks run without end while the clock stands
    still.
    """


_RESOLUTION_S = 1e-9
_TICK_S = 2 * _RESOLUTION_S
_CLOSING_S = 1.0
"""Virtual seconds that clean-up may take when `run` ends."""
_SPINS = 200_000
"""Iterations of the loop in which the clock may stand still. A program with more work at one moment is in an endless loop."""


class _JumpingSelector(selectors.BaseSelector):
    """Selector without file descriptors. To wait is to move the virtual clock forward."""

    def __init__(self) -> None:
        self.now = 0.0
        self.end = math.inf
        """Virtual seconds at which the clock stops."""
        self.turns = 0
        self._spins = 0
        self._map: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # The loop registers its wake-up pipe here. The pipe is never used, because everything runs in one thread.
        key = selectors.SelectorKey(fileobj, 0, events, data)
        self._map[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if timeout is None:
            raise SimulationStalled(f"at virtual second {self.now:.6f}")
        if timeout > 0:
            if self.now >= self.end:
                raise SimulationStalled(f"the end at virtual second {self.now:.6f}")
            self.now += timeout
            self._spins = 0
        else:
            self._spins += 1
            if self._spins > _SPINS:
                raise SimulationStalled(f"the clock does not advance beyond virtual second {self.now:.6f}")
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._map


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop with one thread, virtual time, inline executor and virtual network. Use `run` or asyncio.Runner(loop_factory=...)."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    """asyncio's own lists: handles to run in this iteration, and the heap of timers."""

    def __init__(self, network: VirtualNetwork | None = None) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = _RESOLUTION_S
        self.network = network or VirtualNetwork()
        self.network.attach(self)
        self.processes: list[SimulatedProcess] = []
        self._job_random = random.Random(0)
        self._job_latency_s: tuple[float, float] | None = None

    def time(self) -> float:
        return self._jumping.now

    @property
    def turns(self) -> int:
        """Number of iterations of the loop so far. An idle program makes few iterations in a virtual minute."""
        return self._jumping.turns

    def new_process(self, name: str) -> SimulatedProcess:
        """Return a new process. The loop runs its callbacks and tasks until the process is killed."""
        process = SimulatedProcess(name)
        self.processes.append(process)
        return process

    def release_dead(self) -> None:
        """End the simulation: let the remaining steps of killed processes run, so that their tasks can be cancelled.

        The clock stops one virtual second later: live nodes would serve each other as long as some clean-up waits for an event that never
        comes.
        """
        self._jumping.end = self.time() + _CLOSING_S
        for process in self.processes:
            self._ready.extend(process.release())

    def pause(self, process: SimulatedProcess) -> None:
        """Pause the process (SIGSTOP). Bytes for the process wait in its sockets until their buffers are full."""
        process.pause()

    def resume(self, process: SimulatedProcess) -> None:
        """Resume the process (SIGCONT): first handles that were ready, then events of its sockets, then due timers."""
        super().call_soon(process.go_on, context=contextvars.Context())

    # Callbacks of a process need handles that check whether the process runs. asyncio's own methods make plain handles only.

    def call_soon(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None) -> asyncio.Handle:
        process = process_of(context)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        handle = ProcessHandle(callback, args, self, context)
        handle.process = process
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        # There is only one thread.
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        # A timer within the clock's resolution would run while the clock stands still, and might set the same timer again.
        return self.call_at(self.time() + (max(delay, _TICK_S) if delay > 0 else delay), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        process = process_of(context)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        timer = ProcessTimer(when, callback, args, self, context)
        timer.process = process
        heapq.heappush(self._scheduled, timer)
        timer.note_scheduled()
        return timer

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        task = super().create_task(coro, name=name, context=context)
        process = process_of(context)
        if process is not None:
            process.keep(task)
        return task

    def slow_jobs(self, seed: int | str, latency_s: tuple[float, float]) -> None:
        """Make executor calls take time, `latency_s` (least, most) virtual seconds; `seed` decides when each call does its work.

        A call does its work at the start or at the end of its latency. In both cases the loop goes on and calls may overtake each other, as
        with threads. `SimulatedProcess.job_latency_s` overrides the latency for one process.
        """
        self._job_random = random.Random(seed)
        self._job_latency_s = latency_s

    def run_in_executor(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Run the call at once. The result is seen in the loop's next iteration, as with a real executor, or later (`slow_jobs`)."""
        job = _Job(self.create_future(), partial(func, *args))
        process = process_of(None)
        latency_s = self._job_latency_s if process is None or process.job_latency_s is None else process.job_latency_s
        if latency_s is None:
            job.tell()
            return job.future
        delay = self._job_random.uniform(*latency_s)
        if self._job_random.random() < 0.5:
            job.work()
        elif process is not None:
            context = contextvars.copy_context()
            super().call_at(self.time() + delay, lambda: context.run(self._work_while_paused, process, job), context=contextvars.Context())
        self.call_later(delay, job.tell)
        return job.future

    def _work_while_paused(self, process: SimulatedProcess, job: _Job[Any]) -> None:
        """Run a call of a paused process with probability 1/2, as the system may. The process sees the result after it resumes."""
        if process.alive and not process.running and self._job_random.random() < 0.5:
            job.work()

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("sock") is not None or kwargs.get("ssl"):
            raise NotImplementedError("the virtual network has neither real sockets nor TLS")
        serving, backlog = kwargs.get("start_serving", True), kwargs.get("backlog", 100)
        return self.network.listen(protocol_factory, host, port, serving=serving, backlog=backlog)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("sock") is not None or kwargs.get("ssl"):
            raise NotImplementedError("the virtual network has neither real sockets nor TLS")
        return await self.network.connect(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **kwargs: Any) -> Any:
        found = self.network.names.get(host, [host])
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        address, port = sockaddr[:2]
        return next((name for name, found in self.network.names.items() if address in found), address), str(port)

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Do nothing: a simulation has no signals."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False


class SimulatedClock:
    """`base.clock.Clock` on a simulated loop. Its wall clock can be set apart from the monotonic clock."""

    def __init__(self, loop: SimulatedLoop, epoch_ms: int = EPOCH_MS) -> None:
        self._loop = loop
        self.epoch_ms = epoch_ms

    def time_ms(self) -> int:
        return self.epoch_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        return self._loop.call_later(max(0.0, delay_s), callback, *args)


class _Job(Generic[T]):
    """Executor call. Its work is done once; its result becomes known then or later."""

    __slots__ = ("_done", "_func", "future")

    def __init__(self, future: asyncio.Future[T], func: Callable[[], T]) -> None:
        self.future = future
        self._func = func
        self._done: Callable[[], None] | None = None

    def work(self) -> None:
        """Do the work, unless the work is done or the future was cancelled."""
        if self._done is not None or self.future.cancelled():
            return
        try:
            self._done = partial(self.future.set_result, self._func())
        except Exception as error:
            self._done = partial(self.future.set_exception, error)

    def tell(self) -> None:
        """Do the work if it is not done, and set the future's result."""
        self.work()
        if self._done is not None and not self.future.cancelled():
            self._done()


def run(main: Callable[[SimulatedLoop], Coroutine[Any, Any, T]], network: VirtualNetwork | None = None) -> T:
    """Run `main(loop)` to its end on a new simulated loop, and return its result."""
    loop = SimulatedLoop(network)
    runner = asyncio.Runner(loop_factory=lambda: loop)
    try:
        return runner.run(main(loop))
    finally:
        loop.set_exception_handler(_ignore)
        loop.release_dead()
        # The clean-up of a killed process may wait for messages that never arrive. The simulation has ended, so the stall does not matter.
        with contextlib.suppress(SimulationStalled):
            runner.close()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors after the end of the simulation: tasks of killed processes may find their connections and disks gone."""
