"""Ownership of a group's partitions according to the members' own records, and its violations.

A member owns a partition from its assignment (record `assigned` first in the callback) until its revocation (record `revoked` last in the
callback). Kafka promises that two members never own a partition at the same time, with one exception that every user has to know: the group
continues without a member that it does not hear from. Therefore

- a member that was killed owns nothing from then on;
- a member that is paused or cut off (stopped, without CPU or network) loses a partition when a newer generation gives the partition to
  another member. The member does not know this yet; its later actions in the old generation must have no effect (its commits are refused:
  `commits`). The member counts as cut off until its next rebalance event or acknowledged commit that began after it resumed;
- a member that reports that it lost its partitions (extra key `lost` of the "revoked" event) was fenced at some earlier time. When the
  member was not killed, paused or cut off, the two ownerships are not an anomaly, but the rebalance had no reason: unexplained-fencing.

In one generation a partition has one owner, whatever happens to members: the assignment of a generation is one decision. (With KIP-848 read
"member epoch" for generation: a partition is passed on in a later epoch than the epoch in which its owner had it.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.testing.history.anomalies import Findings
from odradek.testing.history.events import NOTHING, Assigned, Revoked
from odradek.testing.history.operations import victim
from odradek.testing.history.table import COMMIT, FUNCTIONS, OK, Table

Subject = tuple[str, int]
"""A group and the number of a partition."""

_CRASH = FUNCTIONS.index("crash")


@dataclass(slots=True)
class Holding:
    """Ownership of a partition by a member."""

    generation: int | None
    operation: int
    overtaken_by: int = -1
    """Operation that gave the partition to another member. It is judged when this member records how it lost the partition."""


@dataclass(slots=True)
class Window:
    """Time in which a static member is gone and expected back."""

    operation: int
    held: frozenset[Subject]
    generation: int
    disturbed: bool = False


@dataclass(slots=True)
class Member:
    """State of a member."""

    holdings: dict[Subject, Holding] = field(default_factory=dict[Subject, Holding])
    generations: dict[str, int] = field(default_factory=dict[str, int])
    """By group: the newest generation that the member received."""
    cut_off: bool = False
    heard_after: float = float("inf")
    """While cut off: an operation that begins after this time shows that the member is back."""
    struck: bool = False
    """Whether the member was killed, paused or cut off since its last assignment."""


class Ownership:
    """Check of assignments, revocations, kills and pauses. A member is a process, or all lives of a static member."""

    def __init__(self, table: Table, findings: Findings) -> None:
        self._table = table
        self._findings = findings
        self._members: dict[str, Member] = {}
        self._owners: dict[Subject, set[str]] = {}
        self._given: dict[tuple[str, int, int], tuple[str, int]] = {}
        """(group, partition, generation) -> (member, operation)"""
        self._windows: dict[str, Window] = {}
        self._names: dict[int, str] = {}
        """By process: the static member that the process is."""

    def check(self) -> None:
        """Add two-owners, two-owners-in-generation, generation-regression, static-rebalance and unexplained-fencing."""
        table = self._table
        for number in range(len(table)):
            if number in table.marks:
                if table.function[number] == _CRASH:
                    self._struck(number)
                else:
                    self._rebalanced(number)
            elif table.outcome[number] == OK and table.has(COMMIT, number):
                member = self._members.get(self._name(number))
                if member is not None and member.cut_off and table.invoked[number] > member.heard_after:
                    member.cut_off = False
        for name, member in self._members.items():
            for subject, holding in member.holdings.items():
                if holding.overtaken_by >= 0:
                    self._two_owners(name, subject, holding)

    def _name(self, number: int) -> str:
        process = self._table.process[number]
        if "static" in self._table.extra.get(number, NOTHING):
            self._names[process] = self._table.member(number)
        return self._names.get(process, self._table.processes[process])

    # -- kills, pauses --------------------------------------------------------------------------------------------------------------

    def _struck(self, number: int) -> None:
        table = self._table
        extra = table.extra.get(number, NOTHING)
        process = victim(table.processes[table.process[number]], extra)
        known = table.process_number(process)
        name = self._names.get(known, process)
        member = self._members.get(name)
        if member is None:
            return
        how = extra.get("how", "kill")
        if how == "resume":
            member.heard_after = table.completed[number]
        elif how == "pause":
            member.struck = member.cut_off = True
            member.heard_after = float("inf")
        elif how == "kill":
            self._killed(number, name, member)

    def _killed(self, number: int, name: str, member: Member) -> None:
        member.struck = True
        self._disturb(name)
        if name in self._names.values():
            held = frozenset(member.holdings)
            self._windows[name] = Window(number, held, max(member.generations.values(), default=-1))
        for subject, holding in member.holdings.items():
            self._owners[subject].discard(name)
            if holding.overtaken_by >= 0:
                self._two_owners(name, subject, holding)
        member.holdings.clear()

    def _disturb(self, name: str) -> None:
        """Note a change of the groups by another member: later rebalances are not the fault of static members that are away."""
        for other, window in self._windows.items():
            if other != name:
                window.disturbed = True

    # -- rebalances -------------------------------------------------------------------------------------------------------------------

    def _rebalanced(self, number: int) -> None:
        table = self._table
        name = self._name(number)
        if name not in self._members:
            self._members[name] = Member()
            self._disturb(name)
        member = self._members[name]
        extra = table.extra.get(number, NOTHING)
        told = [each for each in table.marks[number] if isinstance(each, Assigned | Revoked) and each.group is not None]
        if told or "generation" in extra:
            self._check_windows(number, name, told)
            if member.cut_off and table.invoked[number] > member.heard_after:
                member.cut_off = False
        group, generation = extra.get("group"), extra.get("generation")
        if isinstance(group, str) and isinstance(generation, int):
            member.generations[group] = max(member.generations.get(group, -1), generation)
        for each in told:
            subject = (str(each.group), table.partition_number(each.topic, each.partition))
            if isinstance(each, Assigned):
                self._assigned(number, name, subject, each.generation)
            else:
                self._revoked(number, name, subject, lost=bool(extra.get("lost")))

    def _assigned(self, number: int, name: str, subject: Subject, generation: int | None) -> None:
        member = self._members[name]
        group, partition = subject
        place = f"{group} {self._table.partition_name(partition)}"
        if generation is not None:
            if generation < member.generations.get(group, -1):
                text = f"{place}: {name} was assigned it in generation {generation}, after generation {member.generations[group]}"
                self._findings.add("generation-regression", text, self._table.operation(number))
            member.generations[group] = generation
            other, before = self._given.setdefault((group, partition, generation), (name, number))
            if other != name:
                text = f"{place}: {other} and {name} were assigned it in generation {generation}"
                self._findings.add("two-owners-in-generation", text, *self._table.operations([before, number]))
        owners = self._owners.setdefault(subject, set())
        for owner in sorted(owners - {name}):
            self._overtake(owner, subject, number, generation)
        own = member.holdings.get(subject)
        if own is not None and own.overtaken_by >= 0:
            self._two_owners(name, subject, own)
        owners.add(name)
        member.holdings[subject] = Holding(generation, number)
        member.struck = member.cut_off

    def _overtake(self, owner: str, subject: Subject, number: int, generation: int | None) -> None:
        """Note that another member is given a partition that `owner` has."""
        member = self._members[owner]
        holding = member.holdings[subject]
        if holding.generation is not None and generation is not None and generation < holding.generation:
            place = f"{subject[0]} {self._table.partition_name(subject[1])}"
            text = f"{place}: assigned in generation {generation}, {owner} has it since {holding.generation}"
            self._findings.add("generation-regression", text, *self._table.operations([holding.operation, number]))
        if member.cut_off:
            del member.holdings[subject]
            self._owners[subject].discard(owner)
        elif holding.overtaken_by < 0:
            holding.overtaken_by = number

    def _revoked(self, number: int, name: str, subject: Subject, *, lost: bool) -> None:
        member = self._members[name]
        holding = member.holdings.pop(subject, None)
        if holding is None:
            return
        self._owners[subject].discard(name)
        if not lost:
            if holding.overtaken_by >= 0:
                self._two_owners(name, subject, holding)
        elif not member.struck:
            text = f"{subject[0]} {self._table.partition_name(subject[1])}: {name} lost it without being killed or paused"
            self._findings.add("unexplained-fencing", text, *self._table.operations([holding.operation, number]))

    def _two_owners(self, name: str, subject: Subject, holding: Holding) -> None:
        other = self._table.member(holding.overtaken_by)
        text = f"{subject[0]} {self._table.partition_name(subject[1])}: {name} had it when {other} was assigned it"
        self._findings.add("two-owners", text, *self._table.operations([holding.operation, holding.overtaken_by]))

    # -- static members ---------------------------------------------------------------------------------------------------------------

    def _check_windows(self, number: int, name: str, told: list[Assigned | Revoked]) -> None:
        """Check that the group does not change while a static member is away, or when the member returns."""
        table = self._table
        groups = {each.group for each in told}
        for away, window in list(self._windows.items()):
            if away == name:
                del self._windows[away]
                self._check_return(number, name, window, told)
            elif not window.disturbed and any(group in groups for group, _ in window.held):
                window.disturbed = True
                text = f"the group was rebalanced while {away} was away"
                self._findings.add("static-rebalance", text, *table.operations([window.operation, number]))

    def _check_return(self, number: int, name: str, window: Window, told: list[Assigned | Revoked]) -> None:
        if window.disturbed:
            return
        table = self._table
        given = [each for each in told if isinstance(each, Assigned)]
        now = frozenset((str(each.group), table.partition_number(each.topic, each.partition)) for each in given)
        newest = max((each.generation for each in given if each.generation is not None), default=window.generation)
        if now != window.held or newest > window.generation >= 0:
            text = f"{name} came back to {len(now)} partitions in generation {newest}, it had {len(window.held)} in {window.generation}"
            self._findings.add("static-rebalance", text, *table.operations([window.operation, number]))
