"""Process of a test broker: `python -m odradek.testing.kit.node_child FD`, started by `testing.kit.node_process`.

The process serves until the parent tells it to stop, or until the parent is gone: then the socket to the parent ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from odradek.network.descriptors import raise_limit
from odradek.testing.kit.node_agent import NodeAgent, NodeSpec
from odradek.testing.kit.node_thread import MortalDisk, NodeLoop
from odradek.testing.kit.pipe import Unpacker, packed, packed_error

_PIECE: Final = 65_536
_ORPHAN_S: Final = 1.0

_logger = logging.getLogger(__name__)


class _Child:
    """Node, and its end of the socket to the parent."""

    def __init__(self, loop: NodeLoop, parent: socket.socket) -> None:
        self._loop = loop
        self._parent = parent
        self._parent_pid = os.getppid()
        self._unpacker = Unpacker()
        self._agent: NodeAgent | None = None
        self._ending = loop.create_future()
        self._calls: dict[int, asyncio.Task[None]] = {}
        """By the parent's number; an entry goes when its call ends."""

    async def run(self) -> None:
        """Serve until an orderly shutdown."""
        spec = await self._first()
        reading = self._loop.create_task(self._read())
        self._watch_parent()
        try:
            self._agent = NodeAgent(spec, self._loop, MortalDisk(sync=spec.sync))
            starting = self._loop.create_task(self._agent.start())
            await asyncio.wait((starting, self._ending), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await self._say("ready", starting.result())
                await self._ending
            else:
                starting.cancel()
                await asyncio.wait((starting,))
        except BaseException as error:
            await self._say("failed", packed_error(error))
        finally:
            if self._agent is not None:
                await self._agent.stop()
            reading.cancel()

    async def _first(self) -> NodeSpec:
        while True:
            data = await self._loop.sock_recv(self._parent, _PIECE)
            if not data:
                os._exit(0)
            for message in self._unpacker.feed(data):
                assert isinstance(message, NodeSpec)
                return message

    async def _read(self) -> None:
        while True:
            try:
                data = await self._loop.sock_recv(self._parent, _PIECE)
            except OSError:
                data = b""
            if not data:
                os._exit(0)  # without a parent, the broker and its files have no user
            for message in self._unpacker.feed(data):
                if message == "stop":
                    if not self._ending.done():
                        self._ending.set_result(None)
                elif isinstance(message, int):
                    # The parent gave the call up.
                    if message in self._calls:
                        self._calls[message].cancel()
                else:
                    self._begin(*message)

    def _begin(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        task = self._calls[number] = self._loop.create_task(self._answer(number, name, arguments))
        task.add_done_callback(lambda _: self._calls.pop(number))

    def _watch_parent(self) -> None:
        """Exit when the parent is gone. The socket alone is not enough: another forked child of the parent may keep the parent's end
        open.
        """
        if os.getppid() != self._parent_pid:
            os._exit(0)
        self._loop.call_later(_ORPHAN_S, self._watch_parent)

    async def _answer(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        assert self._agent is not None
        try:
            value, error = await self._agent.call(name, *arguments), None
        except asyncio.CancelledError:
            _logger.info("the call %s was cancelled", name)
            raise
        except Exception as problem:
            value, error = None, packed_error(problem)
        await self._say("answer", (number, value, error))

    async def _say(self, kind: str, value: object) -> None:
        with contextlib.suppress(OSError):
            await self._loop.sock_sendall(self._parent, packed((kind, value)))


def main() -> None:
    """Run a node for the parent process."""
    # Ctrl-C is for the parent, which then stops its brokers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_limit()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    parent = socket.socket(fileno=int(sys.argv[1]))
    parent.setblocking(False)
    loop = NodeLoop()
    loop.set_default_executor(ThreadPoolExecutor(10, "odradek-job"))
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_Child(loop, parent).run())
    loop.finish()
    loop.close()


if __name__ == "__main__":
    main()
