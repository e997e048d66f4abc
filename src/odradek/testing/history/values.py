"""Anomalies of values: offsets, reads, and missing reads (Jepsen's kafka workload, with additions)."""

from __future__ import annotations

from typing import TypeAlias

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.orders import FINAL, READ, READ_OK, Orders
from odradek.testing.history.removal import Removal
from odradek.testing.history.table import FAIL, FUNCTIONS, INFO, OK, POLL, SEND, TRANSACTION, Table

Place: TypeAlias = tuple[int, int]
"""A value and an offset."""


def check_places(orders: Orders, findings: Findings) -> None:
    """Add inconsistent-offsets (several values at an offset) and duplicate (a value at several offsets)."""
    table = orders.table
    found: list[tuple[str, str, list[Place]]] = []
    for partition, order in enumerate(orders.by_partition):
        name = table.partition_name(partition)
        for index, values in order.conflicts.items():
            offset = order.offsets[index]
            text = f"{name} offset {offset} has {', '.join(repr(table.values[value]) for value in values[:10])}"
            found.append(("inconsistent-offsets", text, [(value, offset) for value in values]))
    for value, first in enumerate(orders.first_index):
        if first >= 0 and orders.last_index[value] != first:
            partition = table.value_partition[value]
            order = orders.by_partition[partition]
            offsets = [order.offsets[index] for index in (first, orders.last_index[value])]
            text = f"{table.partition_name(partition)} has {table.values[value]!r} at offsets {offsets[0]} and {offsets[1]}"
            found.append(("duplicate", text, [(value, offset) for offset in offsets]))
    witnesses = _witnesses(table, [place for _, _, places in found for place in places])
    for name, text, places in found:
        findings.add(name, text, *table.operations([witnesses[place] for place in places]))


def _witnesses(table: Table, places: list[Place]) -> dict[Place, int]:
    """Return, for each place, the first successful operation that contains the place, or else any such operation, or -1."""
    found = dict.fromkeys(places, -1)
    wanted = {value for value, _ in places}
    if wanted:
        for operation in range(len(table)):
            for index in range(table.starts[operation], table.starts[operation + 1]):
                if table.value[index] in wanted:
                    place = (table.value[index], table.offset[index])
                    if place in found and (found[place] < 0 or table.outcome[found[place]] != OK):
                        found[place] = operation
    return found


def check_reads(orders: Orders, findings: Findings) -> None:
    """Add G1a, precommitted-read and phantom.

    G1a: a successful read of a failed write. precommitted-read: a poll of the transaction's own send. phantom: a read of a value that no
    operation sent. At read_uncommitted the records of aborted and open transactions may be read. There are no phantoms in a topic without
    sends in the history. There are none either if an operation of unknown outcome did not record its sends when it was invoked.
    """
    table = orders.table
    tags, values, partitions, starts = table.tag, table.value, table.partition, table.starts
    writer, more_writers, outcome = table.writer, table.more_writers, table.outcome
    sent_to = {table.partitions[table.value_partition[value]][0] for value, first in enumerate(writer) if first >= 0}
    secretive = any(
        table.outcome[number] == INFO and FUNCTIONS[function] in ("send", "txn") and table.starts[number] == table.starts[number + 1]
        for number, function in enumerate(table.function)
    )
    known = [not secretive and topic in sent_to for topic, _ in table.partitions]
    failed_at = _failed_places(table)
    for operation in range(len(table)):
        for index in range(starts[operation], starts[operation + 1]):
            if tags[index] != POLL:
                continue
            value = values[index]
            first = writer[value]
            if first < 0:
                if known[partitions[index]]:
                    text = f"{table.partition_name(partitions[index])} offset {table.offset[index]}: {table.values[value]!r} was never sent"
                    findings.add("phantom", text, table.operation(operation))
                continue
            if first == operation or (value in more_writers and operation in more_writers[value]):
                _check_own(table, operation, index, findings)
            elif outcome[first] == FAIL or value in more_writers:
                _check_failed(table, operation, index, failed_at, findings)


def _failed_places(table: Table) -> dict[tuple[int, int], int]:
    """Return (value, offset) -> the failed operation that sent the value there, for values that were sent several times."""
    places: dict[tuple[int, int], int] = {}
    for value in table.more_writers:
        for operation in table.writers(value):
            if table.outcome[operation] == FAIL:
                for index in range(table.starts[operation], table.starts[operation + 1]):
                    if table.tag[index] == SEND and table.value[index] == value and table.offset[index] >= 0:
                        places[(value, table.offset[index])] = operation
    return places


def _check_own(table: Table, operation: int, index: int, findings: Findings) -> None:
    if not table.committed_reads[operation] or table.function[operation] != TRANSACTION:
        return
    value = table.value[index]
    if value in table.more_writers:
        own = {table.offset[each] for each in range(table.starts[operation], table.starts[operation + 1]) if table.tag[each] == SEND}
        if table.offset[index] not in own:
            return
    name = table.partition_name(table.partition[index])
    text = f"{name} offset {table.offset[index]}: {table.values[value]!r} was polled by the transaction that sent it"
    findings.add("precommitted-read", text, table.operation(operation))


def _check_failed(table: Table, operation: int, index: int, failed_at: dict[tuple[int, int], int], findings: Findings) -> None:
    if table.outcome[operation] != OK:
        return
    value, offset = table.value[index], table.offset[index]
    writers = table.writers(value)
    failed = failed_at.get((value, offset), -1)
    if failed < 0:
        if any(table.outcome[writer] != FAIL for writer in writers):
            return
        failed = writers[0]
    if table.function[failed] == TRANSACTION and not table.committed_reads[operation]:
        return
    text = f"{table.partition_name(table.partition[index])} offset {offset}: {table.values[value]!r} was read, its write failed"
    findings.add("G1a", text, *table.operations([failed, operation]))


def check_lost(orders: Orders, removal: Removal, findings: Findings) -> None:
    """Add lost-write: a value that is proven to be committed was never read, although a later value was.

    Later means: the lost value's last index is at most the largest first index of a value that was read in the partition. This rule finds
    torn transactions: the values of a transaction that were read prove the other values.
    """
    table = orders.table
    reads, first_index = orders.reads, orders.first_index
    bounds = [-1] * len(table.partitions)
    bound_values = [-1] * len(table.partitions)
    for value, mark in enumerate(reads):
        if mark & READ_OK:
            partition = table.value_partition[value]
            if first_index[value] > bounds[partition]:
                bounds[partition] = first_index[value]
                bound_values[partition] = value
    tops = [
        (bound_values[partition], orders.by_partition[partition].offsets[bound]) if bound >= 0 else (-1, -1)
        for partition, bound in enumerate(bounds)
    ]
    lost: list[tuple[int, int]] = []
    for value, index in enumerate(orders.last_index):
        if reads[value] & READ or index < 0 or index > bounds[table.value_partition[value]]:
            continue
        writer = next((writer for writer in table.writers(value) if orders.proven[writer]), -1)
        if writer >= 0 and not removal.excuses(value):
            lost.append((value, writer))
    witnesses = _witnesses(table, [tops[table.value_partition[value]] for value, _ in lost])
    for value, writer in lost:
        partition = table.value_partition[value]
        top, later = tops[partition]
        offset = orders.by_partition[partition].offsets[orders.last_index[value]]
        place = f"{table.partition_name(partition)} offset {offset}"
        text = f"{place}: {table.values[value]!r} was not read, but {table.values[top]!r} at {later} was"
        findings.add("lost-write", text, *table.operations([writer, witnesses[tops[partition]]]))


def check_final(orders: Orders, removal: Removal, findings: Findings) -> None:
    """Add unseen and vanished, for the partitions that the final read covered.

    unseen: an acknowledged value was never polled, not even by the final read. vanished: a value was acknowledged or read (committed)
    before, and is missing in the final read.
    """
    table = orders.table
    covered = finally_read(table)
    if not covered:
        return
    for value, mark in enumerate(orders.reads):
        if mark & FINAL or table.value_partition[value] not in covered:
            continue
        acked = [writer for writer in table.writers(value) if table.outcome[writer] == OK]
        if not acked and not (mark & READ_OK and orders.visible(value)):
            continue
        offset = _acked_offset(table, acked, value)
        if removal.excuses(value, offset):
            continue
        name = table.partition_name(table.value_partition[value])
        place = f"{name} offset {offset}" if offset >= 0 else name
        if mark & READ:
            findings.add("vanished", f"{place}: {table.values[value]!r} is missing in the final read", *table.operations(acked))
        else:
            findings.add("unseen", f"{place}: {table.values[value]!r} was acknowledged and never polled", *table.operations(acked))


def finally_read(table: Table) -> set[int]:
    """Return the partitions that the final read was assigned, or polled values of."""
    covered: set[int] = set()
    for operation, extra in table.extra.items():
        if extra.get("final"):
            covered.update(table.partition[table.starts[operation] : table.starts[operation + 1]])
            covered.update(table.assigned(operation))
    return covered


def _acked_offset(table: Table, writers: list[int], value: int) -> int:
    for operation in writers:
        for index in range(table.starts[operation], table.starts[operation + 1]):
            if table.tag[index] == SEND and table.value[index] == value and table.offset[index] >= 0:
                return table.offset[index]
    return -1


def unseen_over_time(table: Table, points: int = 100) -> list[tuple[float, int]]:
    """Return (time, number of acknowledged values that were not polled yet) at about `points` evenly spread completions, to be plotted as
    in Jepsen.
    """
    sent: set[int] = set()
    polled: set[int] = set()
    series: list[tuple[float, int]] = []
    every = max(1, len(table) // points)
    for operation in range(len(table)):
        if table.outcome[operation] == OK:
            for index in range(table.starts[operation], table.starts[operation + 1]):
                value = table.value[index]
                if table.tag[index] == POLL:
                    polled.add(value)
                    sent.discard(value)
                elif table.tag[index] == SEND and value not in polled:
                    sent.add(value)
        if operation % every == 0 or operation == len(table) - 1:
            series.append((table.completed[operation], len(sent)))
    return series
