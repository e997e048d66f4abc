"""Command lines of both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interop.peers import BrokerProcess, run_jvm_tool
from tests.interop.pair import PATIENCE_S


def odradek(broker: BrokerProcess, *arguments: str, stdin: bytes = b"", status: int = 0) -> bytes:
    """What our command line prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", *arguments, "--bootstrap-server", broker.bootstrap],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout


def dump(*paths: Path, options: tuple[str, ...] = ()) -> str:
    """JVM Kafka's DumpLogSegments; fails on whatever it complains about."""
    done = run_jvm_tool("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, paths)), *options)
    text = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, text[-3000:]
    for complaint in ("Exception", "mismatch", "isvalid: false", "corrupt", "Mismatches", "out of order", "isValid: false"):
        assert complaint not in text, text[-3000:]
    return text
