"""Anomalies of order: a consumer continues where it stopped, and a producer's records are in the order in which they were sent.

Polls are compared by index, so that offsets without readable records (markers, aborted records) are not gaps. A process's position in a
partition follows from its last successful operation. The position is reset when the process is assigned other partitions, when a rebalance
gives or takes the partition, and when the process is killed. After an operation of unknown outcome the position may be before or after the
records that the operation polled. A subscribed process that records no rebalances may jump, as there may have been rebalances.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.orders import Order, Orders
from odradek.testing.history.removal import Removal
from odradek.testing.history.table import FAIL, FUNCTIONS, INFO, OK, POLL, SEND, Table

_ASSIGN, _SUBSCRIBE, _CRASH = (FUNCTIONS.index(name) for name in ("assign", "subscribe", "crash"))


class Positions:
    """Check of the polls of all processes."""

    def __init__(self, orders: Orders, removal: Removal, findings: Findings) -> None:
        self._orders = orders
        self._table = orders.table
        self._removal = removal
        self._findings = findings
        self._last: list[dict[int, tuple[int, int]]] = [{} for _ in self._table.processes]
        """By process: partition -> (offset, operation) of its last read."""
        self._maybe: list[dict[int, int]] = [{} for _ in self._table.processes]
        """By process: partition -> offset of its last read if a later operation of unknown outcome took effect."""
        self._subscribed: set[int] = set()
        self._telling: set[int] = set()
        """Processes that record rebalances."""
        self._changes: list[list[tuple[float, frozenset[int]]]] = [[] for _ in self._table.processes]
        """By process: times at which partitions were assigned or revoked, and those partitions."""

    def check(self) -> None:
        """Add poll-skip, nonmonotonic-poll, int-poll-skip and int-nonmonotonic-poll."""
        table = self._table
        for number in table.marks:
            if table.tells_of_group(number):
                self._telling.add(table.process[number])
                touched = frozenset((*table.assigned(number), *table.revoked(number)))
                self._changes[table.process[number]].append((table.completed[number], touched))
        marks, tags, starts = table.marks, table.tag, table.starts
        for number in range(len(table)):
            if number in marks:
                self._mark(number)
            start, end = starts[number], starts[number + 1]
            if start < end and (tags[start] == POLL or tags.find(POLL, start, end) >= 0):
                self._operation(number, start, end)

    def _mark(self, number: int) -> None:
        table = self._table
        process, function = table.process[number], table.function[number]
        if function == _CRASH:
            killed = table.killed(number)
            if killed >= 0:
                self._last[killed].clear()
            return
        if table.outcome[number] == FAIL:
            return
        last = self._last[process]
        if function in (_ASSIGN, _SUBSCRIBE) and not table.tells_of_group(number):
            if function == _SUBSCRIBE:
                self._subscribed.add(process)
                last.clear()
            else:
                self._subscribed.discard(process)
                kept = set[int]() if table.extra.get(number, {}).get("seek") else set(table.assigned(number))
                for partition in [each for each in last if each not in kept]:
                    del last[partition]
        else:
            for partition in (*table.assigned(number), *table.revoked(number)):
                last.pop(partition, None)

    def _operation(self, number: int, start: int, end: int) -> None:
        table = self._table
        process, ok = table.process[number], table.outcome[number] == OK
        last = self._last[process]
        guarded = process not in self._subscribed or process in self._telling
        rebalanced = self._rebalanced(number) if self._changes[process] else frozenset[int]()
        tags, partitions, offsets = table.tag, table.partition, table.offset
        seen: dict[int, int] = {}
        for index in range(start, end):
            if tags[index] != POLL:
                continue
            partition, offset = partitions[index], offsets[index]
            before = seen.get(partition, -1)
            seen[partition] = offset
            if before < 0:
                earlier = last.get(partition)
                if (
                    earlier is not None
                    and guarded
                    and not self._follows(self._maybe[process].get(partition, -1), partition, offset, number)
                ):
                    self._step("", partition, earlier[0], offset, [earlier[1], number])
            elif offset != before + 1 and partition not in rebalanced:
                self._step("int-", partition, before, offset, [number])
        if ok:
            for partition, offset in seen.items():
                last[partition] = (offset, number)
                self._maybe[process].pop(partition, None)
        elif table.outcome[number] == INFO:
            self._maybe[process].update(seen)

    def _rebalanced(self, number: int) -> frozenset[int]:
        """Return the partitions that were assigned or revoked while the operation ran."""
        table = self._table
        changes = self._changes[table.process[number]]
        touched: set[int] = set()
        for index in range(bisect_left(changes, (table.invoked[number], frozenset())), len(changes)):
            time, partitions = changes[index]
            if time > table.completed[number]:
                break
            touched |= partitions
        return frozenset(touched)

    def _follows(self, before: int, partition: int, now: int, number: int) -> bool:
        """Return whether offset `now` may follow offset `before` without a skipped value. False when `before` is unknown (-1)."""
        if before < 0 or now <= before:
            return False
        return not self._skipped(self._orders.by_partition[partition], before, now, committed=bool(self._table.committed_reads[number]))

    def _step(self, prefix: str, partition: int, before: int, now: int, operations: list[int]) -> None:
        if now == before + 1:
            return
        table = self._table
        name = table.partition_name(partition)
        if now <= before:
            text = f"{name}: {table.processes[table.process[operations[-1]]]} read offset {now} after {before}"
            self._findings.add(f"{prefix}nonmonotonic-poll", text, *table.operations(operations))
            return
        order = self._orders.by_partition[partition]
        skipped = self._skipped(order, before, now, committed=bool(table.committed_reads[operations[-1]]))
        if skipped:
            values = ", ".join(f"{table.values[order.values[index]]!r} at {order.offsets[index]}" for index in skipped[:5])
            text = f"{name}: {table.processes[table.process[operations[-1]]]} read offset {now} after {before}, and not {values}"
            self._findings.add(f"{prefix}poll-skip", text, *table.operations(operations))

    def _skipped(self, order: Order, before: int, now: int, *, committed: bool) -> list[int]:
        """Return the indexes between two offsets whose values a consumer had to see."""
        skipped: list[int] = []
        index = bisect_left(order.offsets, before + 1)
        while index < len(order.offsets) and order.offsets[index] < now:
            value = order.values[index]
            if (not committed or self._orders.visible(value)) and (self._removal.nothing or not self._removal.excuses(value)):
                skipped.append(index)
            index += 1
        return skipped


def check_sends(orders: Orders, findings: Findings) -> None:
    """Add nonmonotonic-send and int-nonmonotonic-send: by process and partition, in the order in which the sends were invoked.

    An unknown offset is taken from the order if only one operation sent the value. Failed operations are ignored.
    """
    table = orders.table
    last: list[dict[int, tuple[int, int]]] = [{} for _ in table.processes]
    for number in _by_invocation(table):
        if table.function[number] == _CRASH:
            killed = table.killed(number)
            if killed >= 0:
                last[killed].clear()
        elif table.outcome[number] == FAIL or not table.has(SEND, number):
            continue
        else:
            _check_sends_of(orders, number, last[table.process[number]], findings)


def _by_invocation(table: Table) -> Iterable[int]:
    invoked, begun = table.invoked, table.begun
    return sorted(range(len(table)), key=lambda number: (invoked[number], begun[number]))


def _check_sends_of(orders: Orders, number: int, last: dict[int, tuple[int, int]], findings: Findings) -> None:
    table = orders.table
    seen: dict[int, int] = {}
    for index in range(table.starts[number], table.starts[number + 1]):
        if table.tag[index] != SEND:
            continue
        offset, partition = _send_offset(orders, index), table.partition[index]
        if offset < 0:
            continue
        before = seen.get(partition, -1)
        earlier = last.get(partition) if before < 0 else None
        if offset <= before or (earlier is not None and offset <= earlier[0]):
            prefix, after = ("int-", before) if earlier is None else ("", earlier[0])
            operations = [number] if earlier is None else [earlier[1], number]
            value = table.values[table.value[index]]
            text = f"{table.partition_name(partition)}: {value!r} has offset {offset}, a value sent before it {after}"
            findings.add(f"{prefix}nonmonotonic-send", text, *table.operations(operations))
        seen[partition] = offset
    for partition, offset in seen.items():
        last[partition] = (offset, number)


def _send_offset(orders: Orders, index: int) -> int:
    table = orders.table
    offset = table.offset[index]
    if offset >= 0:
        return offset
    value = table.value[index]
    first = orders.first_index[value]
    if first < 0 or value in table.more_writers:
        return -1
    return orders.by_partition[table.value_partition[value]].offsets[first]
