"""A whole node in a simulation, which can be killed, paused and cut off from power at any moment, and started again on what its disk kept.

The node is the one that `odradek start` runs, with the simulation's clock, disk, randomness and loop in place of the system's.
`SimulatedBroker` is one that is all of its cluster, `SimulatedCluster` has several.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.base.errors import OdradekError
from odradek.config.broker import standalone_config
from odradek.server.broker import Broker
from odradek.testing.disk import PowerCut, VirtualDisk
from odradek.testing.loop import SimulatedClock, SimulatedLoop
from odradek.testing.network import on_host
from odradek.testing.process import SimulatedProcess
from odradek.testing.trace import Trace

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

T = TypeVar("T")


class BrokerDied(OdradekError):
    """The simulated broker was killed while something waited for it."""


class SimulatedNode:
    """One node, through all its lives. `disk` is what the running (or next) life works on."""

    def __init__(
        self,
        loop: SimulatedLoop,
        host: str,
        new_config: Callable[[], BrokerConfig],
        *,
        seed: int | str = 0,
        disk: VirtualDisk | None = None,
        trace: Trace | None = None,
        format_if_empty: bool = False,
    ) -> None:
        """`new_config` is asked at each start. Without a `trace` nothing is written down, and what the disk does takes less time."""
        self.loop = loop
        self.host = host
        self.clock = SimulatedClock(loop)
        """This node's own: its wall clock may be wrong (`SimulatedClock.epoch_ms`)."""
        self.trace = trace
        self.lives = 0
        self.disk = disk or VirtualDisk(time_ms=self.clock.time_ms)
        self.broker: Broker | None = None
        self.death: asyncio.Future[str] = loop.create_future()
        """Done, with the way it went, when the running life ends by force; a new one with every `start`."""
        self.page_cache = self.disk
        """The files as the last life that was ended by force saw them, to compare with what the next one finds."""
        self.fatal: OdradekError | None = None
        """What the running (or last) life said when it could not go on."""
        self.on_fatal: Callable[[OdradekError], object] | None = None
        """Told of that; a process would end now."""
        self.job_latency_s: tuple[float, float] | None = None
        """How long jobs of the executor take here, least and most, from the next start on; None: as for all of the loop."""
        self._seed = seed
        self._random = random.Random(f"disk {seed}")
        self._new_config = new_config
        self._format_if_empty = format_if_empty
        self._process: SimulatedProcess | None = None
        self._end_at: tuple[int, bool] | None = None
        self._watch(self.disk)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Start with these settings over those that it was made with, from the next life on."""
        before = self._new_config
        self._new_config = lambda: standalone_config({**before().given, **settings})

    @property
    def alive(self) -> bool:
        """Whether a life is running (booting, serving, stopping) or paused."""
        return self._process is not None

    @property
    def paused(self) -> bool:
        return self._process is not None and not self._process.running

    def note(self, what: str) -> None:
        """Adds what happens to this node to the trace."""
        if self.trace is not None:
            self.trace.record(self.host, what)

    async def start(self) -> None:
        """Begins a life; returns when clients are served. BrokerDied when it ended before that; what `Broker.start` raises."""
        if self._process is not None:
            raise RuntimeError(f"{self.host} is running")
        self.lives += 1
        self.fatal = None
        self.death = self.loop.create_future()
        with on_host(self.host):
            self._process = self.loop.new_process(f"{self.host}#{self.lives}")
        self._process.job_latency_s = self.job_latency_s
        self.note(f"start of life {self.lives}")
        process = self._process
        self.broker = process.run(self._new_broker)
        await self._as(process, self.broker.start())
        self.note("serving")

    def _new_broker(self) -> Broker:
        broker = Broker(
            self._new_config(),
            disk=self.disk,
            clock=self.clock,
            rng=random.Random(f"broker {self._seed} {self.lives}"),
            loop=self.loop,
            format_if_empty=self._format_if_empty,
        )
        broker.on_fatal = self._failed
        return broker

    def _failed(self, error: OdradekError) -> None:
        self.fatal = error
        self.note(f"fatal: {error}")
        if self.on_fatal is not None:
            self.on_fatal(error)

    async def stop(self) -> None:
        """An orderly shutdown, as after SIGTERM. BrokerDied when it was killed on the way."""
        process, broker = self._process, self.broker
        if process is None or broker is None:
            raise RuntimeError(f"{self.host} is not running")
        self.note("stopping")
        await self._as(process, broker.stop())
        process.kill()
        self._process = None
        self.loop.network.leave_host(self.host)
        self.note("stopped")

    async def _as(self, process: SimulatedProcess, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine as part of the process; BrokerDied when the process dies first."""
        task = self.loop.create_task(work, context=process.context())
        await asyncio.wait((task, self.death), return_when=asyncio.FIRST_COMPLETED)
        if self.death.done():
            if task.done() and not task.cancelled():
                task.exception()
            raise BrokerDied(self.death.result())
        return task.result()

    # -- what can happen to a life ---------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """SIGSTOP: nothing of the process runs, its sockets go on receiving."""
        self.loop.pause(self._running())
        self.note("paused")

    def resume(self) -> None:
        """SIGCONT: it goes on with what waits in its sockets, then with the timers that have become due."""
        self.loop.resume(self._running())
        self.note("resumed")

    def slow_jobs(self, latency_s: tuple[float, float] | None) -> None:
        """Jobs of the executor take so long here from now on (a slow disk); None: as for all of the loop."""
        self.job_latency_s = latency_s
        if self._process is not None:
            self._process.job_latency_s = latency_s

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs on; all that it wrote is in the page cache, and so on the disk of its next life."""
        self._end("killed", self.disk.kill())

    def power_cut(self) -> None:
        """The machine loses power: what was not synced may be lost, in any combination the disk model allows."""
        self._end("power cut", self.disk.crash(self._random))

    def end_at_step(self, steps: int, *, power: bool = False) -> None:
        """Arms the end of a life (`power_cut` or `kill`) before the disk operation that is `steps` ahead; also during a boot."""
        self._end_at = (self.disk.steps + steps, power)
        self._watch(self.disk)

    @property
    def armed(self) -> bool:
        """Whether an end that `end_at_step` has armed is still to come."""
        return self._end_at is not None

    def disarm(self) -> None:
        """Takes `end_at_step` back."""
        self._end_at = None
        self._watch(self.disk)

    def _running(self) -> SimulatedProcess:
        if self._process is None:
            raise RuntimeError(f"{self.host} is not running")
        return self._process

    def _end(self, how: str, disk: VirtualDisk) -> None:
        process, dead = self._running(), self.disk
        process.kill()
        self._process = self._end_at = None
        dead.fault = _gone
        self.page_cache = dead.kill()
        self.disk = disk
        self._watch(disk)
        self.loop.network.crash_host(self.host)
        self.note(f"{how} after {dead.steps} disk steps")
        self.death.set_result(how)

    def _watch(self, disk: VirtualDisk) -> None:
        """Has the disk's operations written down and counted, where somebody asks for that."""
        if self.trace is None and self._end_at is None:
            disk.fault = None
            return

        def before(operation: str, path: str) -> None:
            if self.trace is not None:
                self.trace.record(f"{self.host} disk", f"{operation} {path}")
            if self._end_at is not None and operation != "read" and disk.steps >= self._end_at[0] and self._process is not None:
                if self._end_at[1]:
                    self.power_cut()
                else:
                    self.kill()
                raise PowerCut

        disk.fault = before


def _gone(operation: str, path: str) -> None:
    """The disk of a life that has ended."""
    raise PowerCut
