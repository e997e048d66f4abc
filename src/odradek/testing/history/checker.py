"""The whole check: from events to anomalies."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.testing.history.anomalies import ALLOWED, Anomaly, Findings
from odradek.testing.history.brokers import check_acked_offsets, check_availability, check_watermarks, log_starts, longest_unavailability
from odradek.testing.history.commits import Commits
from odradek.testing.history.copies import Copy, check_copy
from odradek.testing.history.cycles import check_cycles
from odradek.testing.history.events import Event
from odradek.testing.history.operations import pair
from odradek.testing.history.orders import Orders
from odradek.testing.history.ownership import Ownership
from odradek.testing.history.positions import Positions, check_sends
from odradek.testing.history.removal import Removal
from odradek.testing.history.table import FUNCTIONS, OUTCOMES, Table
from odradek.testing.history.values import check_final, check_lost, check_places, check_reads, unseen_over_time


@dataclass
class Report:
    """Result of a check."""

    anomalies: list[Anomaly] = field(default_factory=list[Anomaly])
    """The first `limit` anomalies of each name."""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Name -> number of anomalies."""
    operations: Mapping[str, int] = field(default_factory=dict[str, int])
    """"function outcome" -> number of operations, so that an empty history is not mistaken for a correct history."""
    values: int = 0
    partitions: int = 0
    unavailable: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Partition -> longest wait for a successful send in seconds, and its end."""
    unseen: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """Number of acknowledged values that were not polled yet, over time."""


def examine(
    events: Iterable[Event],
    *,
    final_read: Iterable[Event] = (),
    read_committed: bool = False,
    removal: Mapping[str, str] | None = None,
    copies: Sequence[Copy] = (),
    allow: Collection[str] = ALLOWED,
    unavailable_after: float | None = None,
    write_edges: bool = False,
    limit: int = 100,
) -> Report:
    """Check a history. `events` are ordered by time, and are iterated once.

    - `final_read`: events of a new client that read everything from the beginning after all faults had ended. They follow all other events.
      Leave `final_read` empty when `events` contains the final read, marked by the extra key `final`.
    - `read_committed`: whether polls are read_committed when their operation has no extra key `isolation`.
    - `removal`: topic -> cleanup.policy, for topics that may lose records.
    - `copies`: pipelines whose output must contain each input once.
    - `allow`: names of anomalies that are not reported.
    - `unavailable_after`: seconds without a successful send after which a partition counts as unavailable.
    - `write_edges`: whether to search cycles through writes as well.
    - `limit`: maximum number of anomalies kept of each name.

    Raises ValueError for an unknown name in `allow`.
    """
    findings = Findings(allow=allow, limit=limit)
    collecting = gc.isenabled()
    # Disable the garbage collector: the check makes millions of small objects and no garbage, so collections would take longer than the
    # check.
    gc.disable()
    try:
        table = _read(events, final_read, read_committed=read_committed)
        orders = Orders(table)
        removed = Removal(orders, removal or {}, log_starts(table))
        check_places(orders, findings)
        check_reads(orders, findings)
        check_lost(orders, removed, findings)
        check_final(orders, removed, findings)
        Positions(orders, removed, findings).check()
        check_sends(orders, findings)
        check_cycles(orders, findings, write_edges=write_edges)
        check_acked_offsets(table, findings)
        check_watermarks(table, findings)
        Commits(table, findings).check()
        Ownership(table, findings).check()
        for copy in copies:
            check_copy(orders, copy, findings)
        unavailable = longest_unavailability(table)
        if unavailable_after is not None:
            check_availability(unavailable, findings, unavailable_after)
        return _report(table, findings, unavailable)
    finally:
        if collecting:
            gc.enable()


def check(
    history: Iterable[Event],
    *,
    final_read: Iterable[Event] = (),
    read_committed: bool = False,
    removal: Mapping[str, str] | None = None,
    copies: Sequence[Copy] = (),
    allow: Collection[str] = ALLOWED,
    unavailable_after: float | None = None,
) -> list[Anomaly]:
    """Return the anomalies of a history; see `examine`."""
    return examine(
        history,
        final_read=final_read,
        read_committed=read_committed,
        removal=removal,
        copies=copies,
        allow=allow,
        unavailable_after=unavailable_after,
    ).anomalies


def _read(events: Iterable[Event], final_read: Iterable[Event], *, read_committed: bool) -> Table:
    table = Table(read_committed=read_committed)
    for operation in pair(events):
        table.add(operation)
    for operation in pair(final_read):
        table.add(operation._replace(extra={**operation.extra, "final": True}))
    return table


def _report(table: Table, findings: Findings, unavailable: Mapping[str, tuple[float, float]]) -> Report:
    done = Counter(f"{FUNCTIONS[function]} {OUTCOMES[outcome]}" for function, outcome in zip(table.function, table.outcome, strict=True))
    return Report(
        anomalies=findings.anomalies,
        counts=dict(findings.counts),
        operations=dict(sorted(done.items())),
        values=len(table.values),
        partitions=len(table.partitions),
        unavailable=unavailable,
        unseen=unseen_over_time(table),
    )
