"""Processes and ports for tests of commands."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def free_base_port() -> int:
    """A port such that it, its two successors and those 1000 higher were free a moment ago."""
    rng = random.Random()
    while True:
        base = rng.randrange(20_000, 30_000)
        try:
            for port in (base, base + 1, base + 2, base + 1000, base + 1001, base + 1002):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base


_INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from odradek.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""What a shell has started in the background inherits that Ctrl-C is ignored, nohup's child that SIGHUP is; these tests may run there."""


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
