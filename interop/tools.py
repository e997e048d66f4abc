"""Command line tools of JVM Kafka, many calls in one JVM (jvm/Tools.java), so that a call does not include the start of Java.

The tools are the classes of Kafka's jars, unchanged. Their streams, exits and shutdown hooks are redirected to the call that they belong
to.
"""

from __future__ import annotations

import base64
import itertools
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from interop.peers import QUICK, jvm_command

PROGRAM = Path(__file__).with_name("jvm") / "Tools.java"
TIMEOUT_S = 90.0

Done = subprocess.CompletedProcess[bytes]


class JvmTools:
    """Process that runs the tools. Calls may run at the same time. Call `close` at the end."""

    def __init__(self) -> None:
        options = (*QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "--add-opens=java.base/java.lang=ALL-UNNAMED")
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            jvm_command(str(PROGRAM), options=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints
        )
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._running: dict[int, tuple[Sequence[str], Future[Done]]] = {}
        self._reader = threading.Thread(target=self._read, name="jvm-tools", daemon=True)
        self._reader.start()

    def start(self, main_class: str, *arguments: str, stdin: bytes = b"") -> Future[Done]:
        """Begin a call. The future's result has the exit status and the output."""
        future: Future[Done] = Future()
        with self._lock:
            number = next(self._numbers)
            self._running[number] = ((main_class, *arguments), future)
            encoded = [_encoded(stdin), *(_encoded(argument.encode()) for argument in arguments)]
            assert self._process.stdin is not None
            self._process.stdin.write(f"{number} {main_class} {' '.join(encoded)}\n".encode())
            self._process.stdin.flush()
        return future

    def run(self, main_class: str, *arguments: str, stdin: bytes = b"", timeout: float = TIMEOUT_S) -> Done:
        """Run a call and return its exit status and output. Raises TimeoutError after `timeout` seconds."""
        return self.start(main_class, *arguments, stdin=stdin).result(timeout)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._complaints.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, status, stdout, stderr = line.split()
            with self._lock:
                command, future = self._running.pop(int(number))
            future.set_result(Done(command, int(status), base64.b64decode(stdout[1:]), base64.b64decode(stderr[1:])))
        self._complaints.seek(0)
        complaints = self._complaints.read()[-2_000:].decode(errors="replace")
        with self._lock:
            for command, future in self._running.values():
                future.set_exception(RuntimeError(f"the JVM ended before {command}:\n{complaints}"))


def _encoded(data: bytes) -> str:
    return "." + base64.b64encode(data).decode()
