"""Whole node in a simulation. A test can kill, pause or power-cut the node at any moment, and start it again on what its disk kept.

The node is the one that `odradek start` runs. Clock, disk, random source and event loop are the simulation's. `SimulatedBroker` is a
single-node cluster; `SimulatedCluster` has several nodes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.base.errors import OdradekError
from odradek.config.broker import standalone_config
from odradek.server.start.broker import Broker
from odradek.testing.simulation.disk import PowerCut, VirtualDisk
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from odradek.testing.simulation.network import on_host
from odradek.testing.simulation.process import SimulatedProcess
from odradek.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig

T = TypeVar("T")


class BrokerDied(OdradekError):
    """End of a simulated node by force, while a call waited for the node."""


class SimulatedNode:
    """Simulated node, through several lives. `disk` is the disk of the running life, or of the next life."""

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
        """Make a node. `new_config` is called at each start. Without a `trace` nothing is recorded, and disk operations take less real
        time.
        """
        self.loop = loop
        self.host = host
        self.clock = SimulatedClock(loop)
        """Clock of this node. Its wall clock may be wrong (`SimulatedClock.epoch_ms`)."""
        self.trace = trace
        self.lives = 0
        self.disk = disk or VirtualDisk(time_ms=self.clock.time_ms)
        self.broker: Broker | None = None
        self.death: asyncio.Future[str] = loop.create_future()
        """Future that is set to "killed" or "power cut" when the running life ends by force. Every `start` makes a new future."""
        self.page_cache = self.disk
        """Disk as the last life that ended by force saw it, for a comparison with the next life's disk."""
        self.fatal: OdradekError | None = None
        """Fatal error of the running or last life."""
        self.on_fatal: Callable[[OdradekError], object] | None = None
        """Called with a fatal error, after which a real process would end."""
        self.job_latency_s: tuple[float, float] | None = None
        """Latency of executor calls from the next start on (least, most, in seconds). None: the latency of the whole loop."""
        self._seed = seed
        self._random = random.Random(f"disk {seed}")
        self._new_config = new_config
        self._format_if_empty = format_if_empty
        self._process: SimulatedProcess | None = None
        self._end_at: tuple[int, bool] | None = None
        self._watch(self.disk)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Apply these settings over the node's own from the next life on."""
        before = self._new_config
        self._new_config = lambda: standalone_config({**before().given, **settings})

    @property
    def alive(self) -> bool:
        """True while a life is running (starting, serving, stopping) or paused."""
        return self._process is not None

    @property
    def paused(self) -> bool:
        return self._process is not None and not self._process.running

    def note(self, what: str) -> None:
        """Record an event of this node in the trace."""
        if self.trace is not None:
            self.trace.record(self.host, what)

    async def start(self) -> None:
        """Begin a life, and wait until the node serves clients. Raises BrokerDied when the life ended first, and the errors of
        `Broker.start`.
        """
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
        try:
            self.broker = process.run(self._new_broker)
        except Exception:
            process.kill()
            self._process = None
            raise
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
        """Shut down in order, as after SIGTERM. Raises BrokerDied when the node was killed during the shutdown."""
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
        """Run a coroutine as part of the process. Raises BrokerDied when the process dies first."""
        task = self.loop.create_task(work, context=process.context())
        await asyncio.wait((task, self.death), return_when=asyncio.FIRST_COMPLETED)
        if self.death.done():
            if task.done() and not task.cancelled():
                task.exception()
            raise BrokerDied(self.death.result())
        return task.result()

    # -- faults of a life ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Pause the process (SIGSTOP). Nothing of the process runs; its sockets still receive bytes."""
        self.loop.pause(self._running())
        self.note("paused")

    def resume(self) -> None:
        """Resume the process (SIGCONT): first events of its sockets, then due timers."""
        self.loop.resume(self._running())
        self.note("resumed")

    def slow_jobs(self, latency_s: tuple[float, float] | None) -> None:
        """Set the latency of executor calls of this node (least, most, in seconds), as with a slow disk. None: the latency of the whole
        loop.
        """
        self.job_latency_s = latency_s
        if self._process is not None:
            self._process.job_latency_s = latency_s

    def kill(self) -> None:
        """Kill the process (SIGKILL). Its writes are in the page cache, and therefore on the disk of the next life."""
        self._end("killed", self.disk.kill())

    def power_cut(self) -> None:
        """Cut the machine's power. Unsynced changes may be lost, in any combination that the disk's model allows.

        While the node is down, unsynced changes of its last life are lost.
        """
        survivor = self.disk.crash(self._random)
        if self._process is not None:
            self._end("power cut", survivor)
            return
        self._end_at = None
        self.disk = survivor
        self._watch(survivor)
        self.note("power cut while down")

    def end_at_step(self, steps: int, *, power: bool = False) -> None:
        """Arm an end of the life (`power_cut` or `kill`) before the disk operation that is `steps` operations ahead, also during a
        start.
        """
        self._end_at = (self.disk.steps + steps, power)
        self._watch(self.disk)

    @property
    def armed(self) -> bool:
        """True while an end armed by `end_at_step` is still to come."""
        return self._end_at is not None

    def disarm(self) -> None:
        """Disarm `end_at_step`."""
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
        """Install the fault hook that records disk operations and ends the life at a step. Without trace and armed end, install none."""
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
    """Fail every operation of a life that has ended."""
    raise PowerCut
