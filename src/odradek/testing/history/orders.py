"""Order of each partition: the value at each offset, as the history proves it.

As in Jepsen, an order is made of all polls and of the sends that are proven to be committed. A poll must return correct records whatever
the outcome of its transaction. A send is proven when it was acknowledged, or when its outcome is unknown and a value of its operation was
read. Offsets that no event names (transaction markers, aborted records) are left out: an index counts only the known offsets. Polls at
read_uncommitted of a value that was sent several times are left out as well: the record may belong to an aborted transaction.
"""

from __future__ import annotations

from array import array

from odradek.testing.history.table import INFO, OK, POLL, SEND, TRANSACTION, Table

READ = 1
"""Mark of a value that was read, whatever the outcome of the reader's operation."""
READ_OK = 2
"""Mark of a value that a successful operation read."""
READ_COMMITTED = 4
"""Mark of a value that a read_committed consumer read."""
FINAL = 8
"""Mark of a value that the final read contains."""


class Order:
    """Known offsets of a partition, ascending, and the values at these offsets. An index is a position in both arrays."""

    def __init__(self, offsets: array[int], values: array[int], conflicts: dict[int, list[int]]) -> None:
        self.offsets = offsets
        self.values = values
        self.conflicts = conflicts
        """Index -> all values at its offset, where there are several."""


class Orders:
    """Orders of all partitions, and the marks and positions of each value and operation."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.reads = _reads(table)
        self.proven = _proven(table, self.reads)
        """By operation: whether its sends are proven to be committed."""
        self.first_index = array("i", [-1]) * len(table.values)
        self.last_index = array("i", [-1]) * len(table.values)
        """By value: its first and last index in its partition's order; -1 for a value that is not in the order."""
        self.by_partition = self._orders()

    def _orders(self) -> list[Order]:
        table = self.table
        tags, partitions, offsets, values, starts = table.tag, table.partition, table.offset, table.value, table.starts
        proven = self.proven
        found = [array("q") for _ in table.partitions]
        standing = [array("i") for _ in table.partitions]
        for operation in range(len(table)):
            take_sends, committed = proven[operation], table.committed_reads[operation]
            for index in range(starts[operation], starts[operation + 1]):
                if tags[index] == POLL:
                    taken = committed or values[index] not in table.more_writers
                else:
                    taken = take_sends and tags[index] == SEND and offsets[index] >= 0
                if taken:
                    partition = partitions[index]
                    found[partition].append(offsets[index])
                    standing[partition].append(values[index])
        orders: list[Order] = []
        for partition, there in enumerate(found):
            orders.append(self._order(there, standing[partition]))
            found[partition] = standing[partition] = array("i")
        return orders

    def _order(self, found: array[int], standing: array[int]) -> Order:
        first_index, last_index = self.first_index, self.last_index
        places = sorted({offset << 32 | value for offset, value in zip(found, standing, strict=True)})
        offsets, values = array("q"), array("i")
        conflicts: dict[int, list[int]] = {}
        last_offset = -1
        for place in places:
            offset, value = place >> 32, place & 0xFFFFFFFF
            if offset == last_offset:
                conflicts.setdefault(len(values) - 1, [values[-1]]).append(value)
            else:
                offsets.append(offset)
                values.append(value)
                last_offset = offset
            index = len(values) - 1
            if first_index[value] < 0:
                first_index[value] = index
            last_index[value] = index
        return Order(offsets, values, conflicts)

    def visible(self, value: int) -> bool:
        """Return whether a read_committed consumer must see a value: such a consumer saw the value, or one of its writes is proven."""
        if self.reads[value] & READ_COMMITTED:
            return True
        return any(self.proven[writer] for writer in self.table.writers(value))


def _reads(table: Table) -> bytearray:
    reads = bytearray(len(table.values))
    tags, values, starts = table.tag, table.value, table.starts
    for operation in range(len(table)):
        mark = READ
        if table.outcome[operation] == OK:
            mark |= READ_OK
        if table.committed_reads[operation]:
            mark |= READ_COMMITTED
        if operation in table.extra and table.extra[operation].get("final"):
            mark |= FINAL
        for index in range(starts[operation], starts[operation + 1]):
            if tags[index] == POLL:
                reads[values[index]] |= mark
    return reads


def _proven(table: Table, reads: bytearray) -> bytearray:
    """Return, by operation, 1 when the operation succeeded, or when its outcome is unknown and one of its values was read.

    For a value that several operations sent, only the offset shows which operation is proven. Reads at read_uncommitted do not prove a
    transaction.
    """
    places = _places_of_repeated(table)
    proven = bytearray(len(table))
    for operation in range(len(table)):
        outcome = table.outcome[operation]
        if outcome == OK:
            proven[operation] = 1
        elif outcome == INFO:
            needed = READ_OK | READ_COMMITTED if table.function[operation] == TRANSACTION else READ_OK
            for index in range(table.starts[operation], table.starts[operation + 1]):
                value = table.value[index]
                if table.tag[index] != SEND or reads[value] & needed != needed:
                    continue
                if value not in table.more_writers or table.offset[index] in places.get(value, ()):
                    proven[operation] = 1
                    break
    return proven


def _places_of_repeated(table: Table) -> dict[int, set[int]]:
    """Return value -> offsets of reads, for values that were sent several times."""
    places: dict[int, set[int]] = {}
    if table.more_writers:
        for operation in range(len(table)):
            if table.outcome[operation] == OK:
                for index in range(table.starts[operation], table.starts[operation + 1]):
                    if table.tag[index] == POLL and table.value[index] in table.more_writers:
                        places.setdefault(table.value[index], set()).add(table.offset[index])
    return places
