"""Temporary directories and ports of embedded brokers, which go with the process that made them, whichever way it ends.

1. Each process has one root directory for each kind of place (disk, memory); brokers have theirs inside.
2. With the first root a janitor starts: a shell that waits for the end of a pipe whose other end this process holds. The pipe ends when
   the process does, also by SIGKILL. The janitor then kills what brokers run as processes of their own (files `pids/<pid>`) and removes
   the root. It costs about a millisecond, once.
3. A process that was forked off has nothing of that: it removes nothing of its parent's, and makes a root of its own when it needs one.
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
"""Below those that the system gives to outgoing connections: a client that dials a broker which is down must not find itself."""


class _Root:
    """The directory of this process for its brokers, and who removes it."""

    def __init__(self, base: str) -> None:
        self.pid = os.getpid()
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        os.mkdir(os.path.join(self.path, "pids"))
        self.janitor = 0
        self.pipe = _start_janitor(self)
        atexit.register(self.remove)

    def remove(self) -> None:
        """At the end of the process that made it, and of no other."""
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
        """Closes the end of the pipe that this process has."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


def _start_janitor(root: _Root) -> int:
    """The end of the janitor's pipe; -1 where there is no shell."""
    if not os.path.exists(_SHELL):
        return -1
    reading, writing = os.pipe()
    try:
        # Its streams are not ours: whoever waits for the end of this process's output must not wait for the janitor's.
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
    """One that a child which was forked off can have anew, whoever of its parent's threads held it."""

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
    """In a child that was forked off: the parent's roots are not its own."""
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
    """The directories that this process has for its brokers."""
    return [root.path for root in _roots.values()]


def new_directory(*, memory: bool = False) -> str:
    """An empty directory; `memory`: on /dev/shm, which is memory, where the system has it, else as without."""
    base = MEMORY if memory and os.access(MEMORY, os.W_OK | os.X_OK) else tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="broker-", dir=_root(base).path)


def remove_directory(path: str) -> None:
    """Removes what `new_directory` has made; no error when it is gone, or not to be removed now: the janitor comes after us."""
    shutil.rmtree(path, ignore_errors=True)


def note_process(pid: int) -> str:
    """Has a process killed when this one ends; returns the file to remove once it has ended."""
    path = os.path.join(_root(tempfile.gettempdir()).path, "pids", str(pid))
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return path


class ReservedPort:
    """A port of 127.0.0.1 that no other program is given until `release`; a broker of ours may listen on it, and come and go.

    It is bound and not listened on: Linux then gives it to nobody who asks for any port, neither to listen nor to dial from, and a client
    that dials it while the broker is down is refused. Elsewhere a bound port cannot be shared: it is only one that was free a moment ago.
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
        """Anybody may have it now."""
        if self._held is not None:
            self._held()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different. OSError when there are not so many."""
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
