"""Commands of `odradek` as forks of a server that has imported their modules. They need a sixth of the CPU time of separate processes.

1. `Forks` starts `server`, which imports the command line and its clients, and listens at a Unix socket.
2. A script runs `client` instead of `odradek`. The client sends its arguments, environment, folder and standard streams to the server.
3. The server forks twice: a keeper, and the command. The command has the client's standard streams and ends as a process does. The keeper
   sends the command's exit status to the client.
4. The client passes signals on to the command, and ends as the command did.

A fork does not show how a process starts: missing imports, standard streams that are closed, flags of the interpreter.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_CLIENT = Path(__file__).parent / "client.py"


def own_process() -> str:
    """Return a line of sh that runs `odradek` with the script's arguments in a separate process."""
    return f'exec {shlex.quote(sys.executable)} -m odradek.cli.main "$@"'


class Forks:
    """Server of forked commands. `close` ends the server and the commands that still run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="odradek-forks-")
        self._address = f"{self._folder.name}/server"
        words = [sys.executable, "-m", "tests.forking.server", self._address]
        # In a new session, so that `close` can kill the whole process group.
        self._process = subprocess.Popen(words, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.close()
            raise AssertionError("the server of forked commands has not started")

    def line(self) -> str:
        """Return a line of sh that runs `odradek` with the script's arguments as a fork."""
        return f'exec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(_CLIENT))} {shlex.quote(self._address)} "$@"'

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()
