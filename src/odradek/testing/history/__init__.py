"""Histories: what the clients of a cluster did and were told, written down as it happened, and the checker that judges it.

`recorder` writes a history (one file a process), `events` reads it back, `checker.check` names what must not have happened.
docs/history-checker.md tells how to read both.
"""

from __future__ import annotations

from odradek.testing.history.anomalies import Anomaly
from odradek.testing.history.checker import Report, check, examine
from odradek.testing.history.copies import Copy
from odradek.testing.history.events import Assigned, Commit, Event, MicroOperation, Poll, Revoked, Send, iterate_history, read_history
from odradek.testing.history.recorder import MemoryRecorder, Recorder

__all__ = [
    "Anomaly",
    "Assigned",
    "Commit",
    "Copy",
    "Event",
    "MemoryRecorder",
    "MicroOperation",
    "Poll",
    "Recorder",
    "Report",
    "Revoked",
    "Send",
    "check",
    "examine",
    "iterate_history",
    "read_history",
]
