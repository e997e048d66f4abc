"""Operations: each is an invocation event together with its completion event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Literal, NamedTuple, TypeAlias, cast

from odradek.testing.history.events import NOTHING, Event, Function, MicroOperation, to_list

Outcome: TypeAlias = Literal["ok", "fail", "info"]

DATA: frozenset[str] = frozenset(("send", "poll", "txn", "commit"))
"""Functions that take time: without a recorded invocation the operation may have begun at any time."""


class Operation(NamedTuple):
    """Action of a process. An action that was invoked and never completed has the outcome "info" and completes at infinity."""

    process: str
    function: Function
    outcome: Outcome
    invoked: float
    completed: float
    micro_operations: tuple[MicroOperation, ...]
    extra: Mapping[str, object] = NOTHING
    begun: int = -1
    """Number of the invocation event, which orders operations of equal time."""

    def text(self) -> str:
        """Return one line of text."""
        lists = [to_list(each) for each in self.micro_operations[:20]]
        more = f" and {len(self.micro_operations) - 20} more" if len(self.micro_operations) > 20 else ""
        extra = "".join(f" {key}={value}" for key, value in self.extra.items())
        end = "never" if self.completed == inf else f"{self.completed:.6f}"
        return f"{self.invoked:.6f} to {end} {self.process} {self.function} {self.outcome} {lists}{more}{extra}"


def pair(events: Iterable[Event]) -> Iterator[Operation]:
    """Yield the operations of events that are ordered by time.

    An operation is yielded at its completion. An operation without a completion is yielded at a crash of its process, or at the end. A
    completion belongs to the open invocation of its process with the same function and the same extra key `id` (or none). When a process
    repeats an open invocation, the older invocation is given up. The extra keys of invocation and completion are merged.
    """
    opened: dict[str, dict[tuple[Function, object], tuple[int, Event]]] = {}
    for number, event in enumerate(events):
        process = event.process
        if event.kind == "invoke":
            key = (event.function, event.extra.get("id"))
            mine = opened.setdefault(process, {})
            if key in mine:
                yield _given_up(*mine.pop(key))
            mine[key] = (number, event)
            continue
        if event.function == "crash" and event.extra.get("how", "kill") == "kill":
            for invocation in opened.pop(victim(event.process, event.extra), {}).values():
                yield _given_up(*invocation)
        key = (event.function, event.extra.get("id"))
        begun, invoked = opened.get(process, {}).pop(key, (number, None))
        yield _completed(begun, invoked, event)
    for mine in opened.values():
        for invocation in mine.values():
            yield _given_up(*invocation)


def victim(process: str, extra: Mapping[str, object]) -> str:
    """Return the process that a "crash" event hit: the extra key `process`, or the process that recorded the event."""
    return str(extra.get("process", process))


def _completed(begun: int, invocation: Event | None, event: Event) -> Operation:
    extra = event.extra
    micro_operations = event.micro_operations
    if invocation is None:
        invoked = -inf if event.function in DATA else event.time
    else:
        invoked = invocation.time
        if invocation.extra:
            extra = {**invocation.extra, **extra}
        if not micro_operations and event.kind != "ok":
            micro_operations = invocation.micro_operations
    return Operation(event.process, event.function, cast(Outcome, event.kind), invoked, event.time, micro_operations, extra, begun)


def _given_up(begun: int, event: Event) -> Operation:
    return Operation(event.process, event.function, "info", event.time, inf, event.micro_operations, event.extra, begun)
