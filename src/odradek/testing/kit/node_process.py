"""Node in a separate process, for one life, with the interface of `NodeThread`.

The process ends with its parent, even when the parent is killed: see `testing.kit.node_child` and `testing.kit.temporary`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import odradek
from odradek.testing.kit.node_agent import NodeSpec, TestingError
from odradek.testing.kit.pipe import Unpacker, packed
from odradek.testing.kit.temporary import note_process

_PIECE: Final = 65_536
_PATIENCE_S: Final = 30.0
"""Seconds that an orderly shutdown may take; then the process is killed."""


class NodeProcess:
    """Node in a separate process. Started once, then stopped or killed."""

    def __init__(self, spec: NodeSpec, log_path: str) -> None:
        """Make a node. The process appends its log output to the file `log_path`."""
        self.ready: Future[int] = Future()
        """Port that clients connect to, or the error that stopped the start."""
        self._spec = spec
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._noted = ""
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Id of the process, or None before the start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin the start; `ready` has its result. Raises OSError when no process can be made."""
        ours, theirs = socket.socketpair()
        package = str(Path(odradek.__file__).parents[1])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        with theirs, open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "odradek.testing.kit.node_child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._noted = note_process(self._process.pid)
        self._socket = ours
        ours.sendall(packed(self._spec))
        self._reader = threading.Thread(target=self._read, args=(ours,), name="odradek-embedded-reader", daemon=True)
        self._reader.start()

    def call(self, name: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Call a method of the node's agent and return its result.

        Raises TestingError when the node is down or ends before the result, and TimeoutError after `timeout_s` seconds.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._socket is None or not self.ready.done() or self.ready.exception() is not None:
                raise TestingError("the broker is not running")
            number = next(self._numbers)
            self._waiting[number] = future
            with contextlib.suppress(OSError):
                self._socket.sendall(packed((number, name, arguments)))
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if not future.done():
                self._give_up(number)
            raise

    def _give_up(self, number: int) -> None:
        """Forget a call and have the child cancel it."""
        with self._lock, contextlib.suppress(OSError):
            if self._waiting.pop(number, None) is not None and self._socket is not None:
                self._socket.sendall(packed(number))

    def pause(self) -> None:
        """Pause the process with SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process with SIGCONT."""
        self._signal(signal.SIGCONT)

    def begin_stop(self) -> None:
        """Begin an orderly shutdown, even while the node is starting."""
        self.resume()
        with self._lock, contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.sendall(packed("stop"))

    def stop(self) -> None:
        """Shut the node down in order, and wait for the end of the process."""
        self.begin_stop()
        if self._process is not None:
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._close_everything()

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait for its end."""
        self._signal(signal.SIGKILL)
        self._close_everything()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close_everything(self) -> None:
        if self._process is not None:
            self._process.wait()
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._noted)
        if self._reader is not None:
            self._reader.join()

    def _read(self, ours: socket.socket) -> None:
        unpacker = Unpacker()
        while True:
            try:
                data = ours.recv(_PIECE)
            except OSError:
                data = b""
            if not data:
                break
            for kind, value in unpacker.feed(data):
                if kind == "ready":
                    self.ready.set_result(value)
                elif kind == "failed":
                    self.ready.set_exception(value)
                else:
                    self._answered(*value)
        with self._lock:
            self._socket = None
            waiting, self._waiting = self._waiting, {}
        ours.close()
        if not self.ready.done():
            self.ready.set_exception(TestingError(f"the broker's process ended while it started; its log is {self._log_path}"))
        for future in waiting.values():
            future.set_exception(TestingError("the broker has ended"))

    def _answered(self, number: int, value: object, error: BaseException | None) -> None:
        with self._lock:
            future = self._waiting.pop(number, None)
        if future is None:
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
