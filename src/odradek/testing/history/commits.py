"""Checks of committed offsets: they never decrease, and a member does not commit a partition that a newer generation gave to another
member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.events import Assigned
from odradek.testing.history.floors import Floor
from odradek.testing.history.table import COMMIT, OK, Table

Subject = tuple[str, int]
"""A group and the number of a partition."""


class Turn(NamedTuple):
    """Assignment of a partition to a member."""

    time: float
    generation: int
    member: str
    operation: int


class Commits:
    """Check of commits and assignments. A commit counts when it, or its transaction, was acknowledged.

    - commit-regression: the committed offset is below an offset that was acknowledged before the commit began. Members commit only forward;
      an intended reset of a group's offsets carries the extra key `reset`.
    - lost-commit: a sample of committed offsets (extra key `committed`: [[group, topic, partition, offset], ...]) is below an acknowledged
      commit.
    - fenced-commit-accepted: before the commit began, a newer generation had given the partition to another member. The committing member's
      generation is the extra key `generation`, or else the generation of its last assignment of the partition.
    """

    def __init__(self, table: Table, findings: Findings) -> None:
        self._table = table
        self._findings = findings
        self._floors: dict[Subject, Floor] = {}
        self._turns: dict[Subject, list[Turn]] = {}

    def check(self) -> None:
        """Check the whole table."""
        table = self._table
        for number in range(len(table)):
            if number in table.marks:
                self._assigned(number)
            if table.outcome[number] != OK:
                continue
            for index in range(table.starts[number], table.starts[number + 1]):
                if table.tag[index] == COMMIT:
                    self._committed(number, (table.groups[-1 - table.value[index]], table.partition[index]), table.offset[index])
            if number in table.extra and "committed" in table.extra[number]:
                self._sample(number)

    def _assigned(self, number: int) -> None:
        table = self._table
        for each in table.marks[number]:
            if isinstance(each, Assigned) and each.group is not None and each.generation is not None:
                subject = (each.group, table.partition_number(each.topic, each.partition))
                turn = Turn(table.completed[number], each.generation, table.member(number), number)
                self._turns.setdefault(subject, []).append(turn)

    def _committed(self, number: int, subject: Subject, offset: int) -> None:
        table = self._table
        extra: Mapping[str, object] = table.extra.get(number, {})
        floor = self._floors.setdefault(subject, Floor())
        if extra.get("reset"):
            floor.forget()
        highest, witness = floor.before(table.invoked[number])
        if offset < highest:
            text = f"{self._name(subject)}: committed {offset} after {highest} had been"
            self._findings.add("commit-regression", text, *table.operations([witness, number]))
        floor.raise_to(table.completed[number], offset, number)
        newer = self._newer_turn(number, subject, extra)
        if newer is not None:
            text = f"{self._name(subject)}: {newer.member} had it since generation {newer.generation}, {table.member(number)} committed"
            self._findings.add("fenced-commit-accepted", text, *table.operations([newer.operation, number]))

    def _newer_turn(self, number: int, subject: Subject, extra: Mapping[str, object]) -> Turn | None:
        turns = self._turns.get(subject, [])
        member, began = self._table.member(number), self._table.invoked[number]
        told = extra.get("generation")
        if isinstance(told, int):
            own = told
        else:
            own = max((turn.generation for turn in turns if turn.member == member), default=-1)
            if own < 0:
                return None
        for turn in reversed(turns):
            if turn.time < began and turn.generation > own and turn.member != member:
                return turn
            if turn.generation <= own:
                break
        return None

    def _sample(self, number: int) -> None:
        table = self._table
        for group, topic, partition, offset in cast("list[tuple[str, str, int, int | None]]", table.extra[number]["committed"]):
            subject = (group, table.partition_number(topic, partition))
            if subject in self._floors:
                highest, witness = self._floors[subject].before(table.invoked[number])
                if (-1 if offset is None else offset) < highest:
                    text = f"{self._name(subject)}: position {offset}, after {highest} had been committed"
                    self._findings.add("lost-commit", text, *table.operations([witness, number]))

    def _name(self, subject: Subject) -> str:
        return f"{subject[0]} {self._table.partition_name(subject[1])}"
