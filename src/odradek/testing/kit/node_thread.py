"""Real node in a thread, for one life, which ends in order or as SIGKILL would end it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from odradek.base.clock import READING_TURNS
from odradek.base.disk import Disk
from odradek.storage.disk import OsDirectoryLock, OsDisk, OsFile
from odradek.testing.kit.node_agent import NodeAgent, NodeSpec, TestingError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK_S: Final = 0.2
"""Seconds between two checks whether a called node has ended."""
_TURNS: Final = 400
_JOB_S: Final = 0.0005
"""Seconds between two checks whether an executor call has ended."""


class NodeThread:
    """Node in a thread. Started once, then stopped, or killed if its disk is a `MortalDisk` (the default)."""

    def __init__(self, spec: NodeSpec, *, disk: Disk | None = None) -> None:
        self.ready: Future[int] = Future()
        """Port that clients connect to, or the error that stopped the start."""
        self._spec = spec
        self._disk = MortalDisk(sync=spec.sync) if disk is None else disk
        self._loop = NodeLoop()
        self._executor = ThreadPoolExecutor(10, "odradek-embedded-job")
        self._loop.set_default_executor(self._executor)
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._killed = False
        self._agent: NodeAgent | None = None
        self._going_on: threading.Event | None = None
        self._pausing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="odradek-embedded", daemon=True)
        _lives.add(self)

    def start(self) -> None:
        """Begin the start; `ready` has its result."""
        self._thread.start()

    def call(self, name: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Call a method of the node's agent and return its result.

        Raises TestingError when the node is down or ends before the result, and TimeoutError after `timeout_s` seconds.
        """
        agent = self._agent
        if agent is None or not self._thread.is_alive():
            raise TestingError("the broker is not running")
        work = agent.call(name, *arguments)
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise TestingError("the broker is not running") from None
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = _LOOK_S if deadline is None else min(_LOOK_S, max(deadline - time.monotonic(), 0.0))
            # When the thread has ended, its loop has ended, and the call will never be answered.
            gone = not self._thread.is_alive()
            try:
                return future.result(left_s)
            except CancelledError:
                raise TestingError("the broker has ended") from None
            except TimeoutError:
                if future.done():
                    raise
                if gone:
                    raise TestingError("the broker has ended") from None
                if deadline is not None and time.monotonic() >= deadline:
                    with contextlib.suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(future.cancel)
                    raise

    def pause(self) -> None:
        """Stop the node's event loop until `resume`, and wait until it stands still. Sockets still receive bytes, and executor calls
        go on.

        A second `pause` changes nothing, as a second SIGSTOP: the first `resume` ends it.
        """
        going_on, begun = threading.Event(), threading.Event()

        def stand_still() -> None:
            begun.set()
            going_on.wait()

        with self._pausing, contextlib.suppress(RuntimeError):
            if self._going_on is not None:
                return
            self._going_on = going_on
            self._loop.call_soon_threadsafe(stand_still)
            while not begun.wait(0.05) and self._thread.is_alive():
                pass

    def resume(self) -> None:
        """Let a paused node go on."""
        going_on, self._going_on = self._going_on, None
        if going_on is not None:
            going_on.set()

    def begin_stop(self) -> None:
        """Begin an orderly shutdown, even while the node is starting."""
        self.resume()
        with contextlib.suppress(RuntimeError):  # the loop is closed: the node has ended already
            self._loop.call_soon_threadsafe(self._end)

    def stop(self) -> None:
        """Shut the node down in order, and wait until all is closed."""
        self.begin_stop()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._executor.shutdown()
            self._loop.close()

    def kill(self) -> None:
        """End the node at once: connections break, locks are freed, and the node writes nothing more."""
        self._killed = True
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self.resume()
        self._thread.join()

    def forget(self) -> None:
        """Close this process's copies of the node's descriptors. For a forked process: the node belongs to the parent."""
        self._loop.forget()
        if isinstance(self._disk, MortalDisk):
            self._disk.forget()

    def _end(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            self._live(loop)
        except BaseException as error:
            if not self.ready.done():
                self.ready.set_exception(error)
        finally:
            asyncio.set_event_loop(None)
            self._agent = None
            if self._killed:
                self._close_everything(loop)
            loop.close()

    def _live(self, loop: NodeLoop) -> None:
        agent = NodeAgent(self._spec, loop, self._disk)
        starting = loop.create_task(agent.start())
        try:
            loop.run_until_complete(asyncio.wait((starting, self._stopped), return_when=asyncio.FIRST_COMPLETED))
            if starting.done():
                port = starting.result()
                self._agent = agent
                self.ready.set_result(port)
                loop.run_until_complete(self._stopped)
        finally:
            if not self._killed:
                starting.cancel()
                loop.run_until_complete(asyncio.wait((starting,)))
                loop.run_until_complete(agent.stop())
                loop.finish()

    def _close_everything(self, loop: NodeLoop) -> None:
        """Close connections and files, as the system does for a process that has ended."""
        loop.set_exception_handler(lambda loop, context: None)
        loop.break_off()
        disk = self._disk
        if isinstance(disk, MortalDisk):
            disk.die()
        # Wait for all threads before files are closed: the number of a closed descriptor may soon belong to another file.
        self._executor.shutdown(cancel_futures=True)
        if isinstance(disk, MortalDisk):
            disk.close()


_lives: weakref.WeakSet[NodeThread] = weakref.WeakSet()


def _forked() -> None:
    """Close a forked child's copies of all descriptors. Otherwise ports would stay open and locks stay held after the broker's end."""
    for life in list(_lives):
        life.forget()
    _lives.clear()


os.register_at_fork(after_in_child=_forked)


class NodeLoop(asyncio.SelectorEventLoop):
    """Event loop that knows its connections and servers."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    """asyncio's own lists: handles to run in this iteration, and the heap of timers."""

    def __init__(self) -> None:
        super().__init__()
        self.refused_port = 0
        self.refuses = False
        """Whether new connections to `refused_port` are reset."""
        self._connections: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._listening: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._jobs = 0

    def run_in_executor(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _: object) -> None:
        self._jobs -= 1

    async def settle(self) -> None:
        """Wait until nothing is ready to run and no executor call is under way. Give up after 400 iterations."""
        idle = 0
        for _ in range(_TURNS):
            await asyncio.sleep(0 if not self._jobs else _JOB_S)
            idle = 0 if self._jobs or self._ready else idle + 1
            if idle >= READING_TURNS:
                return

    def _make_socket_transport(self, *arguments: Any, **named: Any) -> Any:
        server = cast("asyncio.Server | None", named.get("server"))
        if server is not None and not server.sockets:
            # The listener was closed in the iteration that accepted the connection. asyncio would fail an assertion half-way and leave the
            # connection open.
            cast("socket.socket", arguments[0]).close()
            raise ConnectionAbortedError
        if self.refuses and server is not None and (sock := cast("socket.socket", arguments[0])).getsockname()[1] == self.refused_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            raise ConnectionAbortedError
        transport = cast("asyncio.Transport", super()._make_socket_transport(*arguments, **named))  # type: ignore[misc]
        self._connections.add(transport)
        return transport

    def _start_serving(self, protocol_factory: Any, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        self._listening.add(sock)
        super()._start_serving(protocol_factory, sock, *arguments, **named)  # type: ignore[misc]

    def break_off(self) -> None:
        """Close every socket without sending another byte. Of the ready callbacks only those of transports run; timers never run."""
        ready = [handle for handle in self._ready if isinstance(getattr(handle._callback, "__self__", None), asyncio.Transport)]  # type: ignore[attr-defined]
        self._ready.clear()
        self._ready.extend(ready)
        self._scheduled.clear()
        for listening in list(self._listening):
            self.remove_reader(listening)
            listening.close()
        for transport in list(self._connections):
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
        self.call_soon(self.stop)
        self.run_forever()

    def forget(self) -> None:
        """Close this process's copies of the loop's descriptors. The loop must not be used in this process again."""
        for listening in list(self._listening):
            listening.close()
        for transport in list(self._connections):
            sock: socket.socket | None = getattr(transport, "_sock", None)
            if sock is not None:
                sock.close()
        with contextlib.suppress(OSError):
            os.close(self._selector.fileno())  # type: ignore[attr-defined]
        own: tuple[socket.socket, socket.socket] = (self._ssock, self._csock)  # type: ignore[attr-defined]
        for end in own:
            end.close()

    def finish(self) -> None:
        """Cancel all tasks and wait for their end, as `asyncio.run` does."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())
        self.run_until_complete(self.shutdown_default_executor())


class MortalDisk(OsDisk):
    """System's disk for one life of a node. After `die` and `close` every operation that changes the disk fails with EBADF.

    With `sync` False nothing is fsynced, for directories that need not survive a power cut. A kill loses nothing in either case.
    """

    def __init__(self, *, sync: bool = True) -> None:
        super().__init__()
        self._sync = sync
        self._dead = False
        # Strong references: otherwise the files of a killed node could be collected before `close`, and their descriptors and locks would
        # stay open.
        self._open: set[_File | _Lock] = set()

    def die(self) -> None:
        """Refuse to open, create, rename or remove files from now on."""
        self._dead = True

    def close(self) -> None:
        """Close all files and free all locks. No thread may use them at that time."""
        for each in list(self._open):
            each.die()

    def forget(self) -> None:
        """Close a forked process's copies of the files. The locks stay with the parent."""
        for each in list(self._open):
            each.forget()

    def _check(self, path: str) -> None:
        if self._dead:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), path)

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> OsFile:
        self._check(path)
        flags = os.O_CLOEXEC | (os.O_RDONLY if readonly else os.O_RDWR) | (os.O_CREAT if create else 0)
        return (_File if self._sync else _UnsyncedFile)(path, os.open(path, flags, 0o644), self._open)

    def lock(self, path: str) -> OsDirectoryLock:
        self._check(path)
        return _Lock(super().lock(path), self._open)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._check(path)
        super().write_atomic(path, data, durable=durable and self._sync)

    def fsync_dir(self, path: str) -> None:
        if self._sync:
            super().fsync_dir(path)

    def makedirs(self, path: str) -> None:
        self._check(path)
        super().makedirs(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)

    def rmtree(self, path: str) -> None:
        self._check(path)
        super().rmtree(path)


class _File(OsFile):
    """File that is in the set `open_` until it is closed."""

    __slots__ = ("_open",)

    def __init__(self, path: str, descriptor: int, open_: set[_File | _Lock]) -> None:
        super().__init__(path, descriptor)
        self._open = open_
        open_.add(self)

    def close(self) -> None:
        self._open.discard(self)
        super().close()

    die = forget = close


class _UnsyncedFile(_File):
    __slots__ = ()

    def fsync(self) -> None:
        pass


class _Lock(OsDirectoryLock):
    """Lock that is in the set `open_` until it is released."""

    __slots__ = ("_open",)

    def __init__(self, lock: OsDirectoryLock, open_: set[_File | _Lock]) -> None:
        self._descriptor, lock._descriptor = lock._descriptor, -1
        self._open = open_
        open_.add(self)

    def forget(self) -> None:
        self._open.discard(self)
        super().forget()

    def die(self) -> None:
        self.release()
