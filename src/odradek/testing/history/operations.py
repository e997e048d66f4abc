"""Events become operations: an invocation together with its completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Literal, NamedTuple, TypeAlias, cast

from odradek.testing.history.events import NOTHING, Event, Function, MicroOperation, to_list

Outcome: TypeAlias = Literal["ok", "fail", "info"]

DATA: frozenset[str] = frozenset(("send", "poll", "txn", "commit"))
"""Functions that take time: without a recorded invocation they may have begun at any moment."""


class Operation(NamedTuple):
    """Something a process did. What was invoked and never completed is "info" and completes at infinity."""

    process: str
    function: Function
    outcome: Outcome
    invoked: float
    completed: float
    micro_operations: tuple[MicroOperation, ...]
    extra: Mapping[str, object] = NOTHING
    begun: int = -1
    """The number of the event that it was invoked with: what came first among operations of one time."""

    def text(self) -> str:
        """One line for people."""
        lists = [to_list(each) for each in self.micro_operations[:20]]
        more = f" and {len(self.micro_operations) - 20} more" if len(self.micro_operations) > 20 else ""
        extra = "".join(f" {key}={value}" for key, value in self.extra.items())
        end = "never" if self.completed == inf else f"{self.completed:.6f}"
        return f"{self.invoked:.6f} to {end} {self.process} {self.function} {self.outcome} {lists}{more}{extra}"


def pair(events: Iterable[Event]) -> Iterator[Operation]:
    """The operations of events that come by time, each when it completes; those that never do at a crash of their process, or at the end.

    A completion belongs to the open invocation of its process with the same function and the same extra key `id` (or none). A process
    that invokes again what is still open has given the older invocation up. Extra keys of invocation and completion are put together.
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
    """Whom a "crash" struck: the extra key `process`, or without it the process that tells of it."""
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
