"""A whole broker in a simulation, which can be killed at any moment and started again on what its disk kept.

    broker = SimulatedBroker(loop, seed=1)
    await broker.start()
    broker.kill()            # or broker.power_cut(), or broker.end_at_step(17, power=True)
    await broker.start()

The broker is the one that `odradek start` runs, with the simulation's clock, disk, randomness and loop in place of the system's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from odradek.base.errors import OdradekError
from odradek.config.broker import standalone_config
from odradek.server.broker import Broker
from odradek.testing.disk import PowerCut, VirtualDisk
from odradek.testing.loop import SimulatedClock, SimulatedLoop
from odradek.testing.network import on_host
from odradek.testing.process import SimulatedProcess
from odradek.testing.trace import Trace

T = TypeVar("T")

DATA = "/data"
PORT = 9092


class BrokerDied(OdradekError):
    """The simulated broker was killed while something waited for it."""


class SimulatedBroker:
    """One node, through all its lives. `disk` is what the running (or next) life works on."""

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        seed: int = 0,
        host: str = "broker",
        settings: Mapping[str, str] | None = None,
        disk: VirtualDisk | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.loop = loop
        self.host = host
        self.clock = SimulatedClock(loop)
        self.trace = trace or Trace(loop.time, keep=False)
        self.lives = 0
        self.disk = disk or VirtualDisk(time_ms=self.clock.time_ms)
        self.broker: Broker | None = None
        self.death: asyncio.Future[str] = loop.create_future()
        """Done, with the way it went, when the running life ends by force; a new one with every `start`."""
        self.page_cache = self.disk
        """The files as the last life that was ended by force saw them, to compare with what the next one finds."""
        self.fatal: OdradekError | None = None
        """What the broker said when it could not go on."""
        self._seed = seed
        self._random = random.Random(f"disk {seed}")
        self._settings = {
            "log.dirs": DATA,
            "listeners": f"PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:{PORT + 1}",
            "controller.quorum.bootstrap.servers": f"{host}:{PORT + 1}",
            **(settings or {}),
        }
        self._process: SimulatedProcess | None = None
        self._end_at: tuple[int, bool] | None = None
        self._watch(self.disk)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{PORT}"

    @property
    def alive(self) -> bool:
        """Whether a life is running (booting, serving or stopping)."""
        return self._process is not None

    async def start(self) -> None:
        """Begins a life; returns when clients are served. BrokerDied when it ended before that; what `Broker.start` raises."""
        if self._process is not None:
            raise RuntimeError("the broker is running")
        self.lives += 1
        self.death = self.loop.create_future()
        with on_host(self.host):
            self._process = self.loop.new_process(f"{self.host}#{self.lives}")
        self.trace.record(self.host, f"start of life {self.lives}")
        process = self._process
        self.broker = process.run(self._new_broker)
        await self._as(process, self.broker.start())
        self.trace.record(self.host, "serving")

    def _new_broker(self) -> Broker:
        broker = Broker(
            standalone_config(self._settings),
            disk=self.disk,
            clock=self.clock,
            rng=random.Random(f"broker {self._seed} {self.lives}"),
            loop=self.loop,
            format_if_empty=True,
        )
        broker.on_fatal = self._failed
        return broker

    def _failed(self, error: OdradekError) -> None:
        self.fatal = error
        self.trace.record(self.host, f"fatal: {error}")

    async def stop(self) -> None:
        """An orderly shutdown, as after SIGTERM. BrokerDied when it was killed on the way."""
        process, broker = self._process, self.broker
        if process is None or broker is None:
            raise RuntimeError("the broker is not running")
        self.trace.record(self.host, "stopping")
        await self._as(process, broker.stop())
        process.kill()
        self._process = None
        self.trace.record(self.host, "stopped")

    async def _as(self, process: SimulatedProcess, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine as part of the process; BrokerDied when the process dies first."""
        task = self.loop.create_task(work, context=process.context())
        await asyncio.wait((task, self.death), return_when=asyncio.FIRST_COMPLETED)
        if self.death.done():
            if task.done() and not task.cancelled():
                task.exception()
            raise BrokerDied(self.death.result())
        return task.result()

    # -- the ends of a life ----------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs on; all that it wrote is in the page cache, and so on the disk of its next life."""
        self._end("killed", self.disk.kill())

    def power_cut(self) -> None:
        """The machine loses power: what was not synced may be lost, in any combination the disk model allows."""
        self._end("power cut", self.disk.crash(self._random))

    def end_at_step(self, steps: int, *, power: bool = False) -> None:
        """Arms the end of a life (`power_cut` or `kill`) before the disk operation that is `steps` ahead; also during a boot."""
        self._end_at = (self.disk.steps + steps, power)

    def disarm(self) -> None:
        """Takes `end_at_step` back."""
        self._end_at = None

    def _end(self, how: str, disk: VirtualDisk) -> None:
        process, dead = self._process, self.disk
        if process is None:
            raise RuntimeError("the broker is not running")
        process.kill()
        self._process = self._end_at = None
        dead.fault = _gone
        self.page_cache = dead.kill()
        self.disk = disk
        self._watch(disk)
        self.loop.network.crash_host(self.host)
        self.trace.record(self.host, f"{how} after {dead.steps} disk steps")
        self.death.set_result(how)

    def _watch(self, disk: VirtualDisk) -> None:
        def before(operation: str, path: str) -> None:
            self.trace.record("disk", f"{operation} {path}")
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
