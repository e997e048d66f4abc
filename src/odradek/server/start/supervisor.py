"""Several nodes on one host, each a separate process, started, watched and stopped together.

- A node is ready when it prints a line that begins with `READY` on its standard output, as `odradek start` does.
- A node that ends unasked after it was ready is restarted: at once the first time, then after a pause that doubles with every end within
  `CALM_S`. A node that ends before it is ready ends the whole start: its configuration or its disk is at fault, and its last log line is
  the reason.
- The stop is in order. One node after the other gets SIGTERM and the time it needs, so that each hands its leaderships to the remaining
  nodes. The last nodes, which are just a majority, end together: without one of them, the others could not elect leaders. The very last
  node has no other node to wait for; a second SIGTERM tells it so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from odradek.base.errors import OdradekError
from odradek.base.timing import Backoff

logger = logging.getLogger(__name__)

READY = "Odradek is ready"
CALM_S = 60.0
"""Seconds of running after which earlier ends of a node no longer count."""
PATIENCE_S = 1.0
"""Seconds that the last nodes may wait for each other."""
_FIRST_PAUSE_MS = 1000
_LONGEST_PAUSE_MS = 30_000
_LAST_BYTES = 4096


class NodeEnded(OdradekError):
    """Error of a node that ended before it was ready; one line, with the last line of the node's log."""


class NodeProcess(NamedTuple):
    """Process of a node: `command`, with its standard error appended to the file `log`."""

    name: str
    command: Sequence[str]
    log: str


class Supervisor:
    """Supervisor of the nodes of one cluster; lives in one event loop."""

    def __init__(self, nodes: Sequence[NodeProcess], *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._sleep = sleep
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: list[asyncio.Task[None]] = []

    @property
    def pids(self) -> dict[str, int]:
        """Running processes, by the names of their nodes."""
        return {name: process.pid for name, process in self._running.items() if process.returncode is None}

    async def start(self) -> None:
        """Start all nodes at once; return when all are ready. Raises NodeEnded when a node ends before; call `stop` then, too."""
        starting = [asyncio.create_task(self._start(node)) for node in self._nodes.values()]
        try:
            await asyncio.gather(*starting)
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
        self._watchers = [asyncio.create_task(self._watch(node)) for node in self._nodes.values()]

    async def stop(self) -> None:
        """Stop the nodes in order; return when the last has ended. A node may take as long as its own shutdown does."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        processes = list(self._running.values())
        first = len(processes) - (len(processes) // 2 + 1)
        for process in processes[:first]:
            _terminate(process)
            await process.wait()
        await _end_together(processes[first:])

    async def _start(self, node: NodeProcess) -> None:
        log = os.open(node.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            begin = os.lseek(log, 0, os.SEEK_END)
            # In a separate session, so that Ctrl-C in a terminal reaches only this process, which then stops the nodes in order.
            process = await asyncio.create_subprocess_exec(
                *node.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        finally:
            os.close(log)
        self._running[node.name] = process
        assert process.stdout is not None
        while line := await _read_line(process.stdout):
            if line.startswith(READY.encode()):
                asyncio.create_task(_drain(process.stdout)).add_done_callback(_forget)
                return
        status = await process.wait()
        raise NodeEnded(f"{node.name} ended with status {status}: {_last_line(node.log, begin)}")

    async def _watch(self, node: NodeProcess) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        restarts = 0
        while True:
            begin = loop.time()
            status = await self._running[node.name].wait()
            if loop.time() - begin >= CALM_S:
                restarts = 0
            pause = backoff.delay_s(restarts)
            restarts += 1
            logger.warning("%s ended with status %d; restarting it%s", node.name, status, f" in {pause:g} s" if pause else "")
            await self._sleep(pause)
            try:
                await self._start(node)
            except (NodeEnded, OSError) as error:
                logger.warning("%s", error)


def _terminate(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)


async def _end_together(processes: Sequence[asyncio.subprocess.Process]) -> None:
    """Send SIGTERM to the processes, and again after `PATIENCE_S` to those still running. Return when all have ended."""
    ends = asyncio.gather(*[process.wait() for process in processes])
    for process in processes:
        _terminate(process)
    done, _ = await asyncio.wait((ends,), timeout=PATIENCE_S)
    if not done:
        for process in processes:
            _terminate(process)
        await ends


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line; empty at the end of the stream. Discard lines of more than 64 KiB, the limit of the reader."""
    while True:
        try:
            return await stream.readline()
        except ValueError:
            # The reader has discarded what it held of the line.
            continue


async def _drain(stream: asyncio.StreamReader) -> None:
    """Read and discard further output of the node, which would otherwise block when the pipe is full."""
    while await stream.read(65536):
        pass


def _forget(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def _last_line(path: str, begin: int) -> str:
    """Return the last line written to the file after position `begin`."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(begin, end - _LAST_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"it wrote no message ({path})"
