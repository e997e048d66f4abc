"""Reports of nodes that a command's clients cannot reach.

The clients of a command retry until they time out, perhaps after minutes. After `PATIENCE_S` the command prints the address and the reason
of the failure on standard error, once for each address, and continues.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click

from odradek.client import connection_attempts

PATIENCE_S: Final = 7.0
"""Seconds until a report: longer than the 5 s after which most commands time out, and shorter than a user's 10 s of patience."""


class Reporter:
    """Watcher that prints one line for each address to which there has been no connection for `patience_s` seconds."""

    def __init__(self, command: str, patience_s: float = PATIENCE_S) -> None:
        self._command = command
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._timers: dict[int, threading.Timer] = {}
        self._problems: dict[int, tuple[str, str]] = {}
        """Last tried address and reason of the failure, by node id. The reason is "" until the first failure."""
        self._told: set[str] = set()

    def dialling(self, node_id: int, where: str) -> None:
        with self._lock:
            reason = self._problems.get(node_id, ("", ""))[1]
            self._problems[node_id] = (where, reason)
            if node_id not in self._timers:
                timer = self._timers[node_id] = threading.Timer(self._patience_s, self._report, (node_id,))
                timer.daemon = True
                timer.start()

    def failed(self, node_id: int, where: str, reason: str) -> None:
        with self._lock:
            self._problems[node_id] = (where, reason)

    def connected(self, node_id: int) -> None:
        with self._lock:
            self._problems.pop(node_id, None)
            timer = self._timers.pop(node_id, None)
        if timer is not None:
            timer.cancel()

    given_up = connected

    def close(self) -> None:
        """Print nothing from now on."""
        with self._lock:
            timers, self._timers = self._timers, {}
            self._problems = {}
        for timer in timers.values():
            timer.cancel()

    def _report(self, node_id: int) -> None:
        with self._lock:
            # The next attempt starts a new timer.
            self._timers.pop(node_id, None)
            where, reason = self._problems.get(node_id, ("", ""))
            if not where or where in self._told:
                return
            self._told.add(where)
        what = reason or f"{where} has not answered for {self._patience_s:.0f} s"
        whose = f"; broker {node_id} says that clients reach it there (advertised.listeners)" if node_id >= 0 else ""
        click.echo(f"{self._command}: {what}{whose}; trying again until it works", err=True)


@contextmanager
def told_of_trouble(command: str) -> Generator[None]:
    """Report, within the block, the addresses that clients of this process cannot reach."""
    reporter = Reporter(command)
    connection_attempts.watchers.append(reporter)
    try:
        yield
    finally:
        connection_attempts.watchers.remove(reporter)
        reporter.close()
