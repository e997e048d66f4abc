"""What a history is made of, and reading it back from its files.

A history is a set of files, one for each process that took part, with one JSON object a line:

    {"t": seconds, "p": process, "k": kind, "f": function, "v": [micro-operations], ...extra keys}

`t` is the machine's monotonic clock, so that files of several processes can be put in one order. `k` is "invoke" when the process is about
to do something, and "ok", "fail" or "info" when it is done: it happened, it did certainly not happen, nobody knows. `f` is what it does:
"send", "poll", "txn" (the sends, polls and commits of one transaction), "assign", "subscribe", "commit", "crash", "rebalance".

A micro-operation is a list: ["send", topic, partition, offset or null, value], ["poll", topic, partition, offset, value],
["commit", group, topic, partition, offset], ["assigned" or "revoked", group or null, topic, partition, generation or null]. `send` and
`poll` may have a sixth element, the record's key, which compacted topics need. Values are unique ints or strings.

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
"""What identifies a record within its partition; JSON's ints and strings keep apart."""

KINDS: frozenset[str] = frozenset(("invoke", "ok", "fail", "info"))
FUNCTIONS: frozenset[str] = frozenset(("send", "poll", "txn", "assign", "subscribe", "commit", "crash", "rebalance"))
NOTHING: Mapping[str, object] = MappingProxyType({})


class HistoryError(OdradekError):
    """A file of a history cannot be read: which, where and why."""


class Send(NamedTuple):
    """A record that was to be written; the offset is None as long as no acknowledgement named it."""

    topic: str
    partition: int
    offset: int | None
    value: Value
    key: Value | None = None


class Poll(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    value: Value
    key: Value | None = None


class Commit(NamedTuple):
    """A group's position: the offset of the next record to read."""

    group: str
    topic: str
    partition: int
    offset: int


class Assigned(NamedTuple):
    """A member was given a partition. Without a group it took the partition itself (`assign`)."""

    group: str | None
    topic: str
    partition: int
    generation: int | None


class Revoked(NamedTuple):
    """A member gave a partition up, in the generation in which it had it."""

    group: str | None
    topic: str
    partition: int
    generation: int | None


MicroOperation: TypeAlias = Send | Poll | Commit | Assigned | Revoked

NAMES: Mapping[type[MicroOperation], str] = {Send: "send", Poll: "poll", Commit: "commit", Assigned: "assigned", Revoked: "revoked"}
"""The first element of each micro-operation's list."""


class Event(NamedTuple):
    """One line of a history. `time` is in seconds of the machine's monotonic clock."""

    time: float
    process: str
    kind: Kind
    function: Function
    micro_operations: tuple[MicroOperation, ...]
    extra: Mapping[str, object] = NOTHING


def to_list(operation: MicroOperation) -> list[object]:
    """The JSON list of a micro-operation; a key that is None is left out."""
    elements: list[object] = [NAMES[type(operation)], *operation]
    if isinstance(operation, Send | Poll) and operation.key is None:
        elements.pop()
    return elements


_MAKERS: Mapping[str, Callable[..., MicroOperation]] = {name: kind for kind, name in NAMES.items()}
_OWN_KEYS = frozenset("tpkfv")


def to_micro_operation(given: MicroOperation | Sequence[object]) -> MicroOperation:
    """The micro-operation of its JSON list, or itself. KeyError or TypeError when it is none."""
    if isinstance(given, Send | Poll | Commit | Assigned | Revoked):
        return given
    name, *rest = given
    return _MAKERS[str(name)](*rest)


def to_event(fields: Mapping[str, Any]) -> Event:
    """The event of a line's JSON object. ValueError, TypeError or KeyError when it is none."""
    kind, function = fields["k"], fields["f"]
    if kind not in KINDS or function not in FUNCTIONS:
        raise ValueError(f"no event: kind {kind!r}, function {function!r}")
    micro_operations = tuple([_MAKERS[name](*rest) for name, *rest in fields["v"]])
    extra = NOTHING if len(fields) == 5 else {key: value for key, value in fields.items() if key not in _OWN_KEYS}
    return Event(fields["t"] + 0.0, fields["p"], kind, function, micro_operations, extra)


def iterate_file(path: Path) -> Iterator[Event]:
    """The events of one file, in the order in which they were written.

    A last line without its end is what a kill leaves behind and is passed over. HistoryError for any other line that is no event.
    """
    decode = json.JSONDecoder().raw_decode
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                fields, end = decode(line)
                if end != len(line) - 1:
                    raise ValueError(f"more than an object: {line[end:]!r}")
                yield to_event(fields)
            except (ValueError, TypeError, KeyError) as error:
                raise HistoryError(f"{path}, line {number}: {error}") from error


def iterate_history(paths: Iterable[Path | str]) -> Iterator[Event]:
    """The events of several files by time, read as they are asked for; each file is in order of time already. Errors as `iterate_file`."""
    return heapq.merge(*(iterate_file(Path(path)) for path in paths), key=_time)


def _time(event: Event) -> float:
    return event.time


def read_history(paths: Iterable[Path | str]) -> list[Event]:
    """All events of several files by time. For long histories `iterate_history` needs no memory. Errors as `iterate_file`."""
    return list(iterate_history(paths))
