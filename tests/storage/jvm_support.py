"""JVM Kafka's DumpLogSegments and programs against its classes."""

from __future__ import annotations

import re
from pathlib import Path

from interop.peers import run_jvm_tool

COMPLAINTS = re.compile(
    r"mismatch|Mismatch|isvalid: false|out of order|Found timestamp|non-consecutive|invalid bytes|Exception|corrupt", re.IGNORECASE
)


def java(*arguments: str) -> str:
    done = run_jvm_tool(*arguments, timeout=120)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def dump(files: list[Path], *options: str) -> str:
    """What the tool says; 4.3.1 finds "non-consecutive offsets" in every log that does not begin at 0, the JVM's own too."""
    output = java("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options)
    return re.sub(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n", "", output)
