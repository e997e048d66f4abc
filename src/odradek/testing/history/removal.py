"""Records that a topic's cleanup.policy may remove. The offsets and the order of records do not change by a removal."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.testing.history.events import Value
from odradek.testing.history.orders import Orders
from odradek.testing.history.table import POLL, Table


class Removal:
    """Values that may have been removed."""

    def __init__(self, orders: Orders, policies: Mapping[str, str], log_starts: Mapping[tuple[str, int], int]) -> None:
        """Collect the removable values.

        `policies`: topic -> cleanup.policy ("compact", "delete", "compact,delete"); other topics keep all records. `log_starts`: the
        highest known log start of each partition.
        """
        table = orders.table
        self._orders = orders
        self._compacted: set[int] = set()
        self._starts: dict[int, int] = {}
        self._last_of_key: dict[tuple[int, Value], int] = {}
        """Last index of a key in its partition."""
        deleting: set[int] = set()
        for partition, (topic, number) in enumerate(table.partitions):
            policy = policies.get(topic, "").split(",")
            if "compact" in policy:
                self._compacted.add(partition)
            if "delete" in policy:
                deleting.add(partition)
                self._starts[partition] = log_starts.get((topic, number), 0)
        if deleting:
            self._raise_to_final_reads(table, deleting)
        if self._compacted:
            for value, key in table.keys.items():
                place = (table.value_partition[value], key)
                self._last_of_key[place] = max(self._last_of_key.get(place, -1), orders.last_index[value])

    def _raise_to_final_reads(self, table: Table, deleting: set[int]) -> None:
        lowest: dict[int, int] = {}
        for operation, extra in table.extra.items():
            if extra.get("final"):
                for index in range(table.starts[operation], table.starts[operation + 1]):
                    partition = table.partition[index]
                    if table.tag[index] == POLL and partition in deleting:
                        lowest[partition] = min(lowest.get(partition, table.offset[index]), table.offset[index])
        for partition, offset in lowest.items():
            self._starts[partition] = max(self._starts[partition], offset)

    def excuses(self, value: int, offset: int = -1) -> bool:
        """Return whether a value may be gone: its offset is below the log start, or a compacted partition has a later value of its key.

        `offset` is the value's offset if the order does not contain the value.
        """
        orders, table = self._orders, self._orders.table
        partition = table.value_partition[value]
        index = orders.last_index[value]
        if index >= 0:
            offset = orders.by_partition[partition].offsets[index]
        if partition in self._starts and 0 <= offset < self._starts[partition]:
            return True
        if partition in self._compacted and value in table.keys:
            return self._last_of_key[(partition, table.keys[value])] > index >= 0
        return False

    @property
    def nothing(self) -> bool:
        """True if no topic may lose records."""
        return not self._starts and not self._compacted
