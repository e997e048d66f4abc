"""Reports of nodes that a command's clients cannot reach.

The clients of a command retry until they time out, perhaps after minutes. After `REPORT_AFTER_S` the command prints the address and the
reason of the failure on standard error, once for each address, and continues.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import click

from odradek.client.network import connection_attempts

REPORT_AFTER_S: Final = 7.0
"""Seconds until a report: longer than the 5 s after which most commands time out, and shorter than a user's 10 s of patience."""


class Reporter:
    """Watcher that prints one line for each address to which there has been no connection for `report_after_s` seconds."""

    def __init__(self, command: str, report_after_s: float = REPORT_AFTER_S) -> None:
        self._command = command
        self._report_after_s = report_after_s
        self._lock = threading.Lock()
        self._timers: dict[int, threading.Timer] = {}
        self._problems: dict[int, tuple[str, str]] = {}
        """Last tried address and reason of the failure, by node id. The reason is "" until the first failure."""
        self._reported: set[str] = set()

    def dialling(self, node_id: int, where: str) -> None:
        with self._lock:
            reason = self._problems.get(node_id, ("", ""))[1]
            self._problems[node_id] = (where, reason)
            if node_id not in self._timers:
                timer = self._timers[node_id] = threading.Timer(self._report_after_s, self._report, (node_id,))
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
            if not where or where in self._reported:
                return
            self._reported.add(where)
        problem = reason or f"{where} has not responded for {self._report_after_s:.0f} s"
        advertised = f"; broker {node_id} advertises this address (advertised.listeners)" if node_id >= 0 else ""
        click.echo(f"{self._command}: {problem}{advertised}; retrying", err=True)


@contextmanager
def report_unreachable(command: str) -> Generator[None]:
    """Report, within the block, the addresses that clients of this process cannot reach."""
    reporter = Reporter(command)
    connection_attempts.watchers.append(reporter)
    try:
        yield
    finally:
        connection_attempts.watchers.remove(reporter)
        reporter.close()
