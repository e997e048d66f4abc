"""History of a cluster's clients, with the checker that finds anomalies in the history.

A history records requests of clients and their responses as they happen. `recorder` writes a history (one file per process), `events` reads
the files, and `checker.check` returns the anomalies. See docs/history-checker.md.
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
