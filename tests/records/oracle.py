"""The JVM's own record classes behind one process (jvm/RecordsOracle.java)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LIBS = os.environ.get("ODRADEK_JVM_LIBS", str(_ROOT / ".cache/jvm/libs"))


class Oracle:
    """Questions to the JVM, a line each."""

    def __init__(self) -> None:
        source = Path(__file__).with_name("jvm") / "RecordsOracle.java"
        command = ["java", "-cp", f"{_LIBS}/*", str(source)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().rstrip("\n")
        assert answer, "the JVM has gone"
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)
