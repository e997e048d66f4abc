"""Events of a history, and the reader of history files.

A history is a set of files, one per process, with one JSON object per line:

    {"t": seconds, "p": process, "k": kind, "f": function, "v": [micro-operations], ...extra keys}

`t` is the machine's monotonic clock, so that the files of several processes can be merged by time. `k` is "invoke" before the process acts,
and "ok" (the action happened), "fail" (the action certainly did not happen) or "info" (the outcome is unknown) at the end. `f` is the
action: "send", "poll", "txn" (the sends, polls and commits of one transaction), "assign", "subscribe", "commit", "crash", "rebalance".

A micro-operation is a list: ["send", topic, partition, offset or null, value], ["poll", topic, partition, offset, value], ["commit", group,
topic, partition, offset], ["assigned" or "revoked", group or null, topic, partition, generation or null]. `send` and `poll` may have a
sixth element, the record's key, which compacted topics need. Values are unique ints or strings.

The form follows Jepsen's histories (the `jepsen.tests.kafka` workload: invocations, completions, micro-operations).
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from odradek.base.errors import OdradekError

Kind: TypeAlias = Literal["invoke", "ok", "fail", "info"]
Function: TypeAlias = Literal["send", "poll", "txn", "assign", "subscribe", "commit", "crash", "rebalance"]
Value: TypeAlias = int | str
"""Identity of a record within its partition. An int and a string are different values."""

KINDS: frozenset[str] = frozenset(("invoke", "ok", "fail", "info"))
FUNCTIONS: frozenset[str] = frozenset(("send", "poll", "txn", "assign", "subscribe", "commit", "crash", "rebalance"))
NOTHING: Mapping[str, object] = MappingProxyType({})


class HistoryError(OdradekError):
    """Unreadable line of a history file; the message names file, line and reason."""


class Send(NamedTuple):
    """Record to write. The offset is None until an acknowledgement names the offset."""

    topic: str
    partition: int
    offset: int | None
    value: Value
    key: Value | None = None


class Poll(NamedTuple):
    """Record that was read."""

    topic: str
    partition: int
    offset: int
    value: Value
    key: Value | None = None


class Commit(NamedTuple):
    """Committed offset of a group: the offset of the next record to read."""

    group: str
    topic: str
    partition: int
    offset: int


class Assigned(NamedTuple):
    """Assignment of a partition to a member. `group` is None when a consumer assigned itself the partition (`assign`)."""

    group: str | None
    topic: str
    partition: int
    generation: int | None


class Revoked(NamedTuple):
    """Revocation of a partition. `generation` is the generation in which the member had the partition."""

    group: str | None
    topic: str
    partition: int
    generation: int | None


MicroOperation: TypeAlias = Send | Poll | Commit | Assigned | Revoked

NAMES: Mapping[type[MicroOperation], str] = {Send: "send", Poll: "poll", Commit: "commit", Assigned: "assigned", Revoked: "revoked"}
"""First element of each micro-operation's list."""


class Event(NamedTuple):
    """Line of a history. `time` is in seconds of the machine's monotonic clock."""

    time: float
    process: str
    kind: Kind
    function: Function
    micro_operations: tuple[MicroOperation, ...]
    extra: Mapping[str, object] = NOTHING


def to_list(operation: MicroOperation) -> list[object]:
    """Return the JSON list of a micro-operation. A key of None is left out."""
    elements: list[object] = [NAMES[type(operation)], *operation]
    if isinstance(operation, Send | Poll) and operation.key is None:
        elements.pop()
    return elements


_MAKERS: Mapping[str, Callable[..., MicroOperation]] = {name: kind for kind, name in NAMES.items()}
_OWN_KEYS = frozenset("tpkfv")


def to_micro_operation(given: MicroOperation | Sequence[object]) -> MicroOperation:
    """Return the micro-operation of a JSON list; return a micro-operation as it is. Raises KeyError or TypeError for an invalid list."""
    if isinstance(given, Send | Poll | Commit | Assigned | Revoked):
        return given
    name, *rest = given
    return _MAKERS[str(name)](*rest)


def to_event(fields: Mapping[str, Any]) -> Event:
    """Return the event of a line's JSON object. Raises ValueError, TypeError or KeyError for an invalid object."""
    kind, function = fields["k"], fields["f"]
    if kind not in KINDS or function not in FUNCTIONS:
        raise ValueError(f"unknown event: kind {kind!r}, function {function!r}")
    micro_operations = tuple([_MAKERS[name](*rest) for name, *rest in fields["v"]])
    extra = NOTHING if len(fields) == 5 else {key: value for key, value in fields.items() if key not in _OWN_KEYS}
    return Event(fields["t"] + 0.0, fields["p"], kind, function, micro_operations, extra)


def iterate_file(path: Path) -> Iterator[Event]:
    """Yield the events of one file, in the order in which they were written.

    Ignore a last line without a line end, which a kill leaves behind. Raises HistoryError for any other invalid line.
    """
    decode = json.JSONDecoder().raw_decode
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                fields, end = decode(line)
                if end != len(line) - 1:
                    raise ValueError(f"there is text after the object: {line[end:]!r}")
                yield to_event(fields)
            except (ValueError, TypeError, KeyError) as error:
                raise HistoryError(f"{path}, line {number}: {error}") from error


def iterate_history(paths: Iterable[Path | str]) -> Iterator[Event]:
    """Yield the events of several files by time, without reading whole files into memory. Each file must be in order of time.

    Raises HistoryError as `iterate_file` does.
    """
    return heapq.merge(*(iterate_file(Path(path)) for path in paths), key=_time)


def _time(event: Event) -> float:
    return event.time


def read_history(paths: Iterable[Path | str]) -> list[Event]:
    """Return all events of several files by time. For long histories use `iterate_history`. Raises HistoryError as `iterate_file` does."""
    return list(iterate_history(paths))
