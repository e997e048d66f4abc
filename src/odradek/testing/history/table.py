"""Table of all sends, polls and commits of a history, in columns: a million operations take a few hundred megabytes instead of gigabytes.

Operations, processes, partitions and values are numbers. The number of a value belongs to the value in one partition.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from odradek.testing.history.events import NOTHING, Assigned, Commit, Function, MicroOperation, Poll, Revoked, Send, Value
from odradek.testing.history.operations import Operation, Outcome, victim

SEND, POLL, COMMIT = range(3)
OUTCOMES: tuple[Outcome, ...] = ("ok", "fail", "info")
OK, FAIL, INFO = range(3)
FUNCTIONS: tuple[Function, ...] = ("send", "poll", "txn", "assign", "subscribe", "commit", "crash", "rebalance")
TRANSACTION = FUNCTIONS.index("txn")
_OUTCOME_NUMBERS: Mapping[str, int] = {name: number for number, name in enumerate(OUTCOMES)}
_FUNCTION_NUMBERS: Mapping[str, int] = {name: number for number, name in enumerate(FUNCTIONS)}
_MARKS = frozenset(("assign", "subscribe", "crash", "rebalance"))


class Table:
    """Columns of a history. Operation n has the micro-operations `starts[n]` to `starts[n + 1]`. Operations are in the order of their
    completion.
    """

    def __init__(self, *, read_committed: bool) -> None:
        """Make an empty table. `read_committed`: whether polls are read_committed when their operation has no extra key `isolation`."""
        self.processes: list[str] = []
        self.partitions: list[tuple[str, int]] = []
        self.values: list[Value] = []
        self.groups: list[str] = []
        # by operation
        self.process = array("i")
        self.function = bytearray()
        self.outcome = bytearray()
        self.committed_reads = bytearray()
        self.invoked = array("d")
        self.completed = array("d")
        self.begun = array("q")
        self.starts = array("q", [0])
        self.extra: dict[int, Mapping[str, object]] = {}
        self.marks: dict[int, tuple[MicroOperation, ...]] = {}
        """Micro-operations by operation, for "assign", "subscribe", "crash", "rebalance" and other operations with assignments."""
        # by micro-operation
        self.tag = bytearray()
        self.partition = array("i")
        self.offset = array("q")
        """Offset, or -1 when it is unknown."""
        self.value = array("i")
        """Number of the value; for commits, -1 minus the number of the group."""
        # by value
        self.keys: dict[int, Value] = {}
        self.value_partition = array("i")
        self.writer = array("i")
        """First operation that sent the value; -1 without such an operation."""
        self.more_writers: dict[int, list[int]] = {}
        """Other operations that sent the value: a value is sent again after an aborted transaction."""
        self._process_numbers: dict[str, int] = {}
        self._partition_numbers: dict[tuple[str, int], int] = {}
        self._group_numbers: dict[str, int] = {}
        self._value_numbers: list[dict[Value, int]] = []
        self._read_committed = read_committed

    def __len__(self) -> int:
        return len(self.process)

    def partition_number(self, topic: str, partition: int) -> int:
        """Return the number of a partition; assign a number to a new partition."""
        name = (topic, partition)
        number = self._partition_numbers.get(name)
        if number is None:
            number = self._partition_numbers[name] = len(self.partitions)
            self.partitions.append(name)
            self._value_numbers.append({})
        return number

    def value_number(self, partition: int, value: Value) -> int:
        """Return the number of a value in a partition; assign a number to a new value."""
        numbers = self._value_numbers[partition]
        number = numbers.get(value)
        if number is None:
            number = numbers[value] = len(self.values)
            self.values.append(value)
            self.value_partition.append(partition)
            self.writer.append(-1)
        return number

    def add(self, operation: Operation) -> int:
        """Append an operation and return its number."""
        number = len(self.process)
        process = self._process_numbers.setdefault(operation.process, len(self.processes))
        if process == len(self.processes):
            self.processes.append(operation.process)
        self.process.append(process)
        self.function.append(_FUNCTION_NUMBERS[operation.function])
        self.outcome.append(_OUTCOME_NUMBERS[operation.outcome])
        self.invoked.append(operation.invoked)
        self.completed.append(operation.completed)
        self.begun.append(operation.begun)
        committed = self._read_committed
        if operation.extra:
            self.extra[number] = operation.extra
            if "isolation" in operation.extra:
                committed = operation.extra["isolation"] == "read_committed"
        self.committed_reads.append(committed)
        if operation.function in _MARKS:
            self.marks[number] = operation.micro_operations
        if operation.micro_operations:
            self._add_micro_operations(number, operation.micro_operations)
        self.starts.append(len(self.tag))
        return number

    def _add_micro_operations(self, number: int, micro_operations: tuple[MicroOperation, ...]) -> None:
        partition_numbers, value_numbers = self._partition_numbers, self._value_numbers
        tags, partitions, offsets, values = self.tag, self.partition, self.offset, self.value
        for each in micro_operations:
            if isinstance(each, Assigned | Revoked):
                self.partition_number(each.topic, each.partition)
                self.marks[number] = micro_operations
                continue
            if isinstance(each, Commit):
                self._add_commit(each)
                continue
            topic, place, offset, value, key = each
            partition = partition_numbers.get((topic, place), -1)
            if partition < 0:
                partition = self.partition_number(topic, place)
            known = value_numbers[partition].get(value, -1)
            if known < 0:
                known = self.value_number(partition, value)
            if key is not None:
                self.keys[known] = key
            partitions.append(partition)
            values.append(known)
            offsets.append(-1 if offset is None else offset)
            if isinstance(each, Poll):
                tags.append(POLL)
            else:
                tags.append(SEND)
                self._add_writer(number, known)

    def _add_commit(self, commit: Commit) -> None:
        group = self._group_numbers.setdefault(commit.group, len(self.groups))
        if group == len(self.groups):
            self.groups.append(commit.group)
        self.tag.append(COMMIT)
        self.partition.append(self.partition_number(commit.topic, commit.partition))
        self.offset.append(commit.offset)
        self.value.append(-1 - group)

    def _add_writer(self, number: int, value: int) -> None:
        first = self.writer[value]
        if first < 0:
            self.writer[value] = number
        elif first != number:
            others = self.more_writers.setdefault(value, [])
            if number not in others:
                others.append(number)

    def has(self, tag: int, number: int) -> bool:
        """Return whether an operation has micro-operations of a kind (SEND, POLL, COMMIT)."""
        return self.tag.find(tag, self.starts[number], self.starts[number + 1]) >= 0

    def writers(self, value: int) -> list[int]:
        """Return all operations that sent a value."""
        first = self.writer[value]
        return [] if first < 0 else [first, *self.more_writers.get(value, ())]

    def assigned(self, number: int) -> list[int]:
        """Return the partitions that an operation assigned to its process."""
        micro_operations = self.marks.get(number, ())
        return [self.partition_number(each.topic, each.partition) for each in micro_operations if isinstance(each, Assigned)]

    def revoked(self, number: int) -> list[int]:
        """Return the partitions that an operation revoked from its process."""
        micro_operations = self.marks.get(number, ())
        return [self.partition_number(each.topic, each.partition) for each in micro_operations if isinstance(each, Revoked)]

    def tells_of_group(self, number: int) -> bool:
        """Return whether an operation reports an assignment or a revocation by a group."""
        return any(isinstance(each, Assigned | Revoked) and each.group is not None for each in self.marks.get(number, ()))

    def process_number(self, name: str) -> int:
        """Return the number of a process, or -1 for a process without operations."""
        return self._process_numbers.get(name, -1)

    def member(self, number: int) -> str:
        """Return the group member that did an operation. A static member (extra key `static`: its instance id) is the same member in all
        its lives.
        """
        return str(self.extra.get(number, NOTHING).get("static", self.processes[self.process[number]]))

    def killed(self, number: int) -> int:
        """Return the process that a "crash" killed, or -1 when the event is not a kill or the process has no operations."""
        extra = self.extra.get(number, NOTHING)
        if extra.get("how", "kill") != "kill":
            return -1
        return self.process_number(victim(self.processes[self.process[number]], extra))

    def partition_name(self, partition: int) -> str:
        """Return `topic-partition`, as Kafka prints it."""
        topic, number = self.partitions[partition]
        return f"{topic}-{number}"

    def operation(self, number: int) -> Operation:
        """Return an operation as it was added, without the keys of its records."""
        micro_operations: list[MicroOperation] = []
        for index in range(self.starts[number], self.starts[number + 1]):
            topic, partition = self.partitions[self.partition[index]]
            offset, value = self.offset[index], self.value[index]
            if self.tag[index] == POLL:
                micro_operations.append(Poll(topic, partition, offset, self.values[value]))
            elif self.tag[index] == SEND:
                micro_operations.append(Send(topic, partition, None if offset < 0 else offset, self.values[value]))
            else:
                micro_operations.append(Commit(self.groups[-1 - value], topic, partition, offset))
        return Operation(
            self.processes[self.process[number]],
            FUNCTIONS[self.function[number]],
            OUTCOMES[self.outcome[number]],
            self.invoked[number],
            self.completed[number],
            (*micro_operations, *(each for each in self.marks.get(number, ()) if isinstance(each, Assigned | Revoked))),
            self.extra.get(number, NOTHING),
            self.begun[number],
        )

    def operations(self, numbers: list[int], limit: int = 6) -> tuple[Operation, ...]:
        """Return the first `limit` of these operations."""
        return tuple(self.operation(number) for number in numbers[:limit] if number >= 0)
