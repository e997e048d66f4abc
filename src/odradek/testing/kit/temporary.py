"""Temporary directories and ports of embedded brokers. They are removed when their process ends, in whatever way the process ends.

1. Each process has one root directory for each kind of storage (disk, memory). The brokers' directories are inside the root.
2. With each root a janitor starts: a shell that waits for the end of a pipe whose other end this process holds. The pipe ends when the
   process ends, even by SIGKILL. The janitor then kills brokers that run in separate processes (files `pids/<pid>`) and removes the root.
   To start the janitor takes about a millisecond.
3. A forked process does not own its parent's roots: it removes nothing of them, and makes another root when it needs one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import weakref
from typing import Final

HOST: Final = "127.0.0.1"
MEMORY: Final = "/dev/shm"
_PREFIX: Final = "odradek-"
_SHELL: Final = "/bin/sh"
_JANITOR: Final = """
cat >/dev/null
cd /
for each in "$1"/pids/*; do
    [ -e "$each" ] && kill -9 "${each##*/}" 2>/dev/null
done
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -rf -- "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 0.1
done
"""
_PORTS: Final = (20_000, 32_000)
"""Ports below the range that the system uses for outgoing connections. Otherwise a client that dials a dead broker could connect to
itself.
"""


class _Root:
    """Root directory of this process's brokers, with the janitor that removes the directory."""

    def __init__(self, base: str) -> None:
        self.pid = os.getpid()
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        os.mkdir(os.path.join(self.path, "pids"))
        self.janitor = 0
        self.pipe = _start_janitor(self)
        atexit.register(self.remove)

    def remove(self) -> None:
        """Remove the root when its process exits. Do nothing in a forked process."""
        if os.getpid() != self.pid:
            return
        for pid in os.listdir(os.path.join(self.path, "pids")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()
        if self.janitor:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.janitor, os.WNOHANG)

    def let_go(self) -> None:
        """Close this process's end of the pipe."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


def _start_janitor(root: _Root) -> int:
    """Start the janitor and return the writing end of its pipe, or -1 without a shell or when the start fails."""
    if not os.path.exists(_SHELL):
        return -1
    reading, writing = os.pipe()
    try:
        # The janitor must not inherit stdout and stderr: a program that waits for the end of this process's output would wait for the
        # janitor, too.
        actions = [
            (os.POSIX_SPAWN_DUP2, reading, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        arguments = ["sh", "-c", _JANITOR, "odradek-janitor", root.path]
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        try:
            root.janitor = os.posix_spawn(_SHELL, arguments, environment, file_actions=actions, setsid=True)
        except NotImplementedError:
            root.janitor = os.posix_spawn(_SHELL, arguments, environment, file_actions=actions, setpgroup=0)
    except OSError:
        os.close(writing)
        return -1
    finally:
        os.close(reading)
    return writing


class _Lock:
    """Lock that a forked child can replace, as a thread of the parent may have held the lock at the fork."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_roots: dict[str, _Root] = {}
_lock = _Lock()


def _forked() -> None:
    """Forget the parent's roots in a forked child."""
    _lock.renew()
    for root in _roots.values():
        root.let_go()
        atexit.unregister(root.remove)
    _roots.clear()


os.register_at_fork(after_in_child=_forked)


def _root(base: str) -> _Root:
    with _lock:
        if base not in _roots:
            _roots[base] = _Root(base)
        return _roots[base]


def roots() -> list[str]:
    """Return the root directories of this process."""
    return [root.path for root in _roots.values()]


def new_directory(*, memory: bool = False) -> str:
    """Return a new empty directory. With `memory` the directory is on /dev/shm (memory) where that is writable, otherwise on disk."""
    base = MEMORY if memory and os.access(MEMORY, os.W_OK | os.X_OK) else tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="broker-", dir=_root(base).path)


def remove_directory(path: str) -> None:
    """Remove a directory made by `new_directory`. Errors are ignored: the janitor removes the rest later."""
    shutil.rmtree(path, ignore_errors=True)


def note_process(pid: int) -> str:
    """Make the janitor kill a process when this process ends. Return the file to remove when that process has ended."""
    path = os.path.join(_root(tempfile.gettempdir()).path, "pids", str(pid))
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return path


class ReservedPort:
    """Port of 127.0.0.1 that the system gives to no other program until `release`. Brokers of this process may listen on the port in turn.

    The port is bound without listening. Linux then never gives the port to a program that asks for any port, to listen or to dial. A client
    that dials the port while the broker is down is refused. On other systems a bound port cannot be shared: there the port was only free a
    moment ago.
    """

    def __init__(self) -> None:
        with socket.socket() as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((HOST, 0))
            self.port: int = bound.getsockname()[1]
            self._held: weakref.finalize[..., ReservedPort] | None = None
            if sys.platform == "linux":
                self._held = weakref.finalize(self, os.close, bound.detach())

    def release(self) -> None:
        """Give the port back to the system."""
        if self._held is not None:
            self._held()


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 on which no program listens now. Raises OSError when there are fewer than `count`."""
    found: list[int] = []
    for port in random.sample(range(*_PORTS), k=_PORTS[1] - _PORTS[0]):
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {_PORTS[0]} to {_PORTS[1]}")
