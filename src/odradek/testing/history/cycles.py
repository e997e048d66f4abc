"""Cycles: operations that depend on each other in a circle.

An edge leads from an operation to an operation that depends on it. "wr": the second reads a value that the first wrote. "ww" (optional):
the second's value follows the first's in the log. Process order: one process did the second after the first. Real time: the first ended
before the second began. An operation that can be reached from itself is in a cycle (a strongly connected component).

Kafka does not isolate writes, so G0, and G1c through ww edges, are allowed. Read_committed operations must not form a cycle of wr edges.
Edges from reads to later writes (rw) are left out, as in Jepsen: a read promises nothing about later writes.

Real time is a chain of marks, one for each completion, instead of an edge for each pair. An operation leads to the mark of its completion;
a mark leads to the next mark, and to the operations that begin before the next mark.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.orders import Orders
from odradek.testing.history.table import FAIL, OK, POLL, Table


class Graph:
    """Directed edges between numbered nodes, stored in arrays."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._head = array("i", [-1]) * nodes
        self._next = array("i")
        self._target = array("i")

    def link(self, source: int, target: int) -> None:
        """Add an edge."""
        self._next.append(self._head[source])
        self._head[source] = len(self._target)
        self._target.append(target)

    def targets(self, source: int) -> list[int]:
        """Return the targets of a node's edges."""
        found: list[int] = []
        edge = self._head[source]
        while edge >= 0:
            found.append(self._target[edge])
            edge = self._next[edge]
        return found

    def circular(self) -> list[int]:
        """Return the nodes that are in cycles or on a path between two cycles. All other nodes are removed from both ends."""
        return sorted(self._peel(self._peel(range(self.nodes), forward=True), forward=False))

    def _peel(self, nodes: Sequence[int], *, forward: bool) -> list[int]:
        """Remove nodes without incoming edges (without outgoing edges if not `forward`) until none is left, and return the rest."""
        graph = self if forward else self._turned(nodes)
        degree = array("i", [0]) * self.nodes
        inside = bytearray(self.nodes)
        for node in nodes:
            inside[node] = 1
        heads, following, target = graph._head, graph._next, graph._target
        for node in nodes:
            edge = heads[node]
            while edge >= 0:
                degree[target[edge]] += 1
                edge = following[edge]
        free = [node for node in nodes if not degree[node]]
        while free:
            node = free.pop()
            inside[node] = 0
            edge = heads[node]
            while edge >= 0:
                other = target[edge]
                degree[other] -= 1
                if not degree[other] and inside[other]:
                    free.append(other)
                edge = following[edge]
        return [node for node in nodes if inside[node]]

    def _turned(self, nodes: Sequence[int]) -> Graph:
        """Return a graph with the reversed edges among some nodes."""
        inside = bytearray(self.nodes)
        for node in nodes:
            inside[node] = 1
        turned = Graph(self.nodes)
        for node in nodes:
            for other in self.targets(node):
                if inside[other]:
                    turned.link(other, node)
        return turned

    def components(self, nodes: Sequence[int]) -> list[list[int]]:
        """Return the strongly connected components of more than one node among `nodes` (Tarjan's algorithm, without recursion)."""
        inside = set(nodes)
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        path: list[int] = []
        on_path: set[int] = set()
        found: list[list[int]] = []
        for root in nodes:
            if root in order:
                continue
            order[root] = low[root] = len(order)
            path.append(root)
            on_path.add(root)
            work = [(root, iter(self.targets(root)))]
            while work:
                node, targets = work[-1]
                for other in targets:
                    if other not in inside:
                        continue
                    if other not in order:
                        order[other] = low[other] = len(order)
                        path.append(other)
                        on_path.add(other)
                        work.append((other, iter(self.targets(other))))
                        break
                    if other in on_path:
                        low[node] = min(low[node], order[other])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == order[node]:
                        cut = len(path) - 1
                        while path[cut] != node:
                            cut -= 1
                        component = path[cut:]
                        del path[cut:]
                        on_path.difference_update(component)
                        if len(component) > 1:
                            found.append(component)
        return found


def check_cycles(orders: Orders, findings: Findings, *, write_edges: bool = False) -> None:
    """Add G1c, G1c-process and G1c-realtime over wr edges. With `write_edges` use ww edges as well, and add G0.

    Only committed operations take part, and only their read_committed reads.
    """
    table = orders.table
    members = bytearray(len(table))
    for number in range(len(table)):
        members[number] = orders.proven[number] and table.starts[number] < table.starts[number + 1]
    data = _data_edges(orders, members, write_edges=write_edges)
    graph = Graph(2 * len(table))
    for source, target in zip(*data, strict=True):
        graph.link(source, target)
    _link_time(table, members, graph)
    suspects = [node for node in graph.circular() if node < len(table)]
    if not suspects:
        return
    reported: set[int] = set()
    inside = set(suspects)
    edges = [(source, target) for source, target in zip(*data, strict=True) if source in inside and target in inside]
    writes = set(_pairs(_write_edges(orders, members))) if write_edges else set[tuple[int, int]]()
    part = Graph(2 * len(table))
    for source, target in edges:
        part.link(source, target)
    _report(table, part, edges, writes, "", reported, findings)
    _link_processes(table, suspects, part)
    _report(table, part, edges, writes, "-process", reported, findings)
    _link_time(table, members, part)
    _report(table, part, edges, writes, "-realtime", reported, findings)


def _report(
    table: Table,
    part: Graph,
    edges: list[tuple[int, int]],
    writes: set[tuple[int, int]],
    suffix: str,
    reported: set[int],
    findings: Findings,
) -> None:
    for component in part.components(part.circular()):
        operations = sorted(node for node in component if node < len(table))
        if len(operations) < 2 or not reported.isdisjoint(operations):
            continue
        reported.update(operations)
        inside = set(component)
        only_writes = all(edge in writes for edge in edges if edge[0] in inside and edge[1] in inside)
        name = "G0" if only_writes else f"G1c{suffix}"
        text = f"{len(operations)} operations depend on each other in a circle"
        findings.add(name, text, *table.operations(operations))


def _pairs(columns: tuple[array[int], array[int]]) -> list[tuple[int, int]]:
    return list(zip(*columns, strict=True))


def _writer_of(orders: Orders, value: int, members: bytearray) -> int:
    """Return the committed operation that wrote a value, or -1 without such an operation or when several are possible."""
    writers = orders.table.writers(value)
    if len(writers) == 1:
        return writers[0] if members[writers[0]] else -1
    committed = [writer for writer in writers if members[writer]]
    return committed[0] if len(committed) == 1 else -1


def _data_edges(orders: Orders, members: bytearray, *, write_edges: bool) -> tuple[array[int], array[int]]:
    table = orders.table
    sources, targets = _write_edges(orders, members) if write_edges else (array("i"), array("i"))
    tags, values, starts = table.tag, table.value, table.starts
    writer, more_writers = table.writer, table.more_writers
    for number in range(len(table)):
        if table.outcome[number] != OK or not table.committed_reads[number]:
            continue
        last = -1
        for index in range(starts[number], starts[number + 1]):
            if tags[index] == POLL:
                value = values[index]
                source = writer[value]
                if value in more_writers:
                    source = _writer_of(orders, value, members)
                if source >= 0 and source not in (last, number) and members[source]:
                    sources.append(source)
                    targets.append(number)
                    last = source
    return sources, targets


def _write_edges(orders: Orders, members: bytearray) -> tuple[array[int], array[int]]:
    sources, targets = array("i"), array("i")
    for order in orders.by_partition:
        before = -1
        for value in order.values:
            writer = _writer_of(orders, value, members)
            if before >= 0 and writer >= 0 and writer != before:
                sources.append(before)
                targets.append(writer)
            before = writer
    return sources, targets


def _link_processes(table: Table, suspects: Sequence[int], graph: Graph) -> None:
    """Link the operations of one process: each to the operations that began after its end."""
    last: dict[int, int] = {}
    for number in suspects:
        process = table.process[number]
        if process in last and table.completed[last[process]] < table.invoked[number]:
            graph.link(last[process], number)
        if table.outcome[number] == OK:
            last[process] = number


def _link_time(table: Table, members: bytearray, graph: Graph) -> None:
    """Link operations by real time, with a chain of marks: node `len(table) + n` is the completion of operation n."""
    size = len(table)
    ended = [number for number in range(size) if members[number] and table.outcome[number] != FAIL and table.completed[number] != inf]
    times = array("d", [table.completed[number] for number in ended])
    before = -1
    for number in ended:
        graph.link(number, size + number)
        if before >= 0:
            graph.link(size + before, size + number)
        before = number
    for number in range(size):
        if members[number]:
            place = bisect_left(times, table.invoked[number])
            if place:
                graph.link(size + ended[place - 1], number)
