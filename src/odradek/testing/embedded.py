"""A real broker inside a test process: its own thread, a temporary directory, a free port.

    with EmbeddedBroker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)

Any Kafka client can talk to it. The directory goes when the broker stops, unless it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from odradek.base.disk import Disk
from odradek.config.broker import standalone_config
from odradek.server.broker import Broker


class EmbeddedBroker:
    """A single-node cluster on 127.0.0.1; `settings` are Kafka's broker keys. Start and stop it once."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, directory: str | None = None, disk: Disk | None = None) -> None:
        """`disk`: in place of the system's, for tests of a disk that fails."""
        self._disk = disk
        self._own = None if directory else tempfile.TemporaryDirectory(prefix="odradek-")
        self.directory = directory or (self._own.name if self._own else "")
        self._settings = {
            "log.dirs": self.directory,
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            **(settings or {}),
        }
        self._ready: Future[int] = Future()
        self._stopping = False
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="odradek-embedded", daemon=True)

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self._ready.result(0)

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given."""
        return f"127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 30.0) -> Self:
        """Returns when clients are served; raises what kept the broker from starting, TimeoutError after `timeout_s`."""
        self._thread.start()
        try:
            self._ready.result(timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """An orderly shutdown, also of a broker that is still starting; returns when all is closed."""
        self._stopping = True
        if self._thread.is_alive():
            loop, stop = self._loop, self._stop
            if loop is not None and stop is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(stop.set)
            self._thread.join()
        if self._own is not None:
            self._own.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        broker = Broker(standalone_config(self._settings), disk=self._disk, format_if_empty=True)
        starting = asyncio.ensure_future(broker.start())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            if self._stopping:  # before there was a loop to be told
                self._stop.set()
            await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._ready.set_result(broker.port())
                await stopped
        finally:
            for task in (starting, stopped):
                task.cancel()
            await asyncio.wait((starting, stopped))
            await broker.stop()
