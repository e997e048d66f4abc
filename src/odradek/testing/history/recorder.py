"""Recorders: they write the history of one process as it happens, into a file or (`MemoryRecorder`) into a list.

    recorder = Recorder(directory / "producer-1.jsonl", "producer-1")
    recorder.invoke("send", [["send", "orders", 0, None, 17]])
    recorder.ok("send", [["send", "orders", 0, 4711, 17]])

A line is in the file (the page cache) when the call returns: SIGKILL of the process may tear only the line that is being written. Each
event gets its time and is written under one lock, so that a file is in order of time even when several threads write to it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from odradek.testing.history.events import (
    NOTHING,
    Assigned,
    Commit,
    Event,
    Function,
    Kind,
    MicroOperation,
    Poll,
    Revoked,
    Send,
    to_list,
    to_micro_operation,
)

Micro: TypeAlias = MicroOperation | Sequence[object]
"""Micro-operation, or its JSON list."""


class Recording(ABC):
    """Base of `Recorder` and `MemoryRecorder`: the four kinds of events.

    A process does one thing at a time: a completion belongs to the last invocation of the same function. When several operations overlap
    (pipelined sends), each invocation and its completion carry the same extra key `id`. After a kill, record "crash" or use a new process
    name: positions and open invocations of the old life end there.
    """

    def invoke(self, function: Function, micro_operations: Iterable[Micro] = (), **extra: object) -> None:
        """Record that the process is about to act, with the micro-operations that are known before."""
        self._write("invoke", function, micro_operations, extra)

    def ok(self, function: Function, micro_operations: Iterable[Micro] = (), **extra: object) -> None:
        """Record that the action happened, with all that is known now (offsets, records read)."""
        self._write("ok", function, micro_operations, extra)

    def fail(self, function: Function, micro_operations: Iterable[Micro] = (), **extra: object) -> None:
        """Record that the action certainly did not happen: the append failed for good (not authorized, too large, NOT_ENOUGH_REPLICAS), or
        the abort was acknowledged.
        """
        self._write("fail", function, micro_operations, extra)

    def info(self, function: Function, micro_operations: Iterable[Micro] = (), **extra: object) -> None:
        """Record an unknown outcome (a timeout, NOT_ENOUGH_REPLICAS_AFTER_APPEND), or an event without an invocation: "crash",
        "rebalance".
        """
        self._write("info", function, micro_operations, extra)

    @abstractmethod
    def _write(self, kind: Kind, function: Function, micro_operations: Iterable[Micro], extra: dict[str, object]) -> None: ...


class MemoryRecorder(Recording):
    """Recorder that appends the events of a process to a list. Several processes may share the list, which is then in order of time."""

    def __init__(self, events: list[Event], process: str, clock: Callable[[], float]) -> None:
        """Make a recorder. `clock` returns seconds; all processes of a history must use the same clock."""
        self.process = process
        self._events = events
        self._clock = clock

    def _write(self, kind: Kind, function: Function, micro_operations: Iterable[Micro], extra: dict[str, object]) -> None:
        made = tuple([to_micro_operation(each) for each in micro_operations])
        self._events.append(Event(self._clock(), self.process, kind, function, made, extra or NOTHING))


class Recorder(Recording):
    """Recorder that appends the events of a process to a file. A torn line that a killed process left at the end of the file is removed."""

    def __init__(self, path: Path | str, process: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file. `clock` returns seconds; all processes of a history must use the same clock. Raises OSError when the file cannot
        be opened.
        """
        self.process = process
        self._clock = clock
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        _cut_torn_line(self._file)

    def close(self) -> None:
        """Close the file. The recorder must not be used afterwards."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _write(self, kind: Kind, function: Function, micro_operations: Iterable[Micro], extra: dict[str, object]) -> None:
        lists = [to_list(each) if isinstance(each, Send | Poll | Commit | Assigned | Revoked) else each for each in micro_operations]
        rest = json.dumps({"p": self.process, "k": kind, "f": function, "v": lists, **extra}, separators=(",", ":"))[1:]
        with self._lock:
            line = f'{{"t":{self._clock():.6f},{rest}\n'.encode()
            if os.write(self._file, line) != len(line):
                raise OSError("the history's disk is full")


def _cut_torn_line(file: int) -> None:
    end = size = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
