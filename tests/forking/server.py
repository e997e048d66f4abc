"""Server of forked commands: `python -m tests.forking.server ADDRESS`."""

from __future__ import annotations

import array
import gc
import importlib
import io
import marshal
import os
import pkgutil
import signal
import socket
import sys
from pathlib import Path

import odradek.cli
import odradek.client

_INTEGER = 4
_SPARK = "odradek.cli.pipelines.pipeline"
"""Prefix of the commands for Spark, which would start Spark."""


def import_commands() -> None:
    """Import the modules that commands use, so that each fork has them."""
    for package in (odradek.cli, odradek.client):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_SPARK):
                importlib.import_module(module.name)


def serve(address: str) -> None:
    """Accept requests. Return in a fork of this process that has to become the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the server does not wait for keepers
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(1, b"ready\n")
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    _keep(connection)


def _keep(connection: socket.socket) -> None:
    """Fork the command of a request, and send its exit status to the client. Return in the command only; the keeper exits."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection:
        head, ancillary, _, _ = connection.recvmsg(_INTEGER, socket.CMSG_SPACE(3 * _INTEGER), socket.MSG_WAITALL)
        streams = array.array("i", ancillary[0][2])
        size = int.from_bytes(head, "big")
        request = marshal.loads(connection.recv(size, socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(*request, streams=[*streams])
            return
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        connection.sendall(pid.to_bytes(_INTEGER, "big"))
        _, status = os.waitpid(pid, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(_INTEGER, "big", signed=True))
    os._exit(0)


def _become(arguments: list[str], folder: str, environment: dict[str, str], umask: int, ignored: list[int], *, streams: list[int]) -> None:
    """Take over the properties that a process inherits from its parent."""
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = _text(0, "r", unbuffered=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _text(1, "w", unbuffered=unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "w", unbuffered=unbuffered)  # type: ignore[misc]
    sys.argv = [str(Path(odradek.cli.__path__[0]) / "main.py"), *arguments]
    sys.path[0] = folder


def _text(stream: int, mode: str, *, unbuffered: bool) -> io.TextIOWrapper:
    """Return a standard stream in the form that the interpreter makes."""
    buffer = open(stream, f"{mode}b", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    old = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[stream]
    assert isinstance(old, io.TextIOWrapper)
    lines = stream == 2 or (mode == "w" and os.isatty(stream))
    return io.TextIOWrapper(buffer, old.encoding, old.errors, "\n", lines, unbuffered)  # type: ignore[arg-type]


def main() -> int:
    import_commands()
    gc.freeze()  # a collection in a fork would copy every page of this memory
    serve(sys.argv[1])
    from odradek.cli.main import main as command

    return command()


if __name__ == "__main__":
    sys.exit(main())
