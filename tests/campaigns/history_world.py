"""A small Kafka without errors, and clients that record their operations: clean histories for tests of the checker.

Producers with and without transactions (some abort, some never learn the outcome), consumers that assign themselves partitions (at both
isolation levels), a group of copiers from "in" to "out" (members are killed, paused, and restarted as static members), a compacted topic
and a topic with retention, and a final read. The seed decides everything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.testing.history import Assigned, Commit, Event, Poll, Revoked, Send
from odradek.testing.history.events import NOTHING, Function, Kind, MicroOperation, Value

PARTITIONS = [("in", 0), ("in", 1), ("out", 0), ("out", 1), ("compacted", 0), ("short", 0)]
GROUP = "copiers"
OPTIONS = {"removal": {"compacted": "compact", "short": "delete"}}
"""Options of the checker for these histories."""


def copied(value: Value) -> Value:
    """Return the copiers' output of a value."""
    return f"{value}'"


@dataclass
class Transaction:
    partitions: set[tuple[str, int]] = field(default_factory=set)
    state: str = "open"


@dataclass
class Entry:
    offset: int
    value: Value
    key: Value | None
    transaction: Transaction | None


class Log:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0

    def append(self, value: Value, key: Value | None, transaction: Transaction | None) -> int:
        self.entries.append(Entry(self.end, value, key, transaction))
        self.end += 1
        return self.end - 1

    def stable(self) -> int:
        return min((each.offset for each in self.entries if each.transaction and each.transaction.state == "open"), default=self.end)

    def read(self, offset: int, count: int, *, committed: bool) -> tuple[list[Entry], int]:
        """Return records from an offset, and the next offset."""
        end = self.stable() if committed else self.end
        found: list[Entry] = []
        for entry in self.entries:
            if offset <= entry.offset < end and (not committed or entry.transaction is None or entry.transaction.state == "committed"):
                if len(found) == count:
                    return found, entry.offset
                found.append(entry)
        return found, max(offset, end)

    def compact(self, below: int) -> None:
        last = {entry.key: entry.offset for entry in self.entries if entry.offset < below}
        self.entries = [entry for entry in self.entries if entry.offset >= below or last[entry.key] == entry.offset]

    def shorten(self, start: int) -> None:
        self.start = max(self.start, start)
        self.entries = [entry for entry in self.entries if entry.offset >= self.start]


@dataclass
class Member:
    name: str
    process: str
    static: bool
    generation: int = -1
    """Generation that the member knows."""
    holds: list[int] = field(default_factory=list)
    joined: bool = False
    alive: bool = True
    paused: bool = False
    expelled: bool = False
    silent: int = 0
    transaction: Transaction | None = None
    run: Iterator[None] | None = None


class HistoryWorld:
    """Simulation of clients and a group. `events` is the history when `play` has returned."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: list[Event] = []
        self.time = self.random.uniform(0, 1e6)
        self.logs = {partition: Log() for partition in PARTITIONS}
        self.value = 0
        self.generation = 0
        self.assignment: dict[str, list[int]] = {}
        self.rebalancing = False
        self.positions = {0: 0, 1: 0}
        self.members: list[Member] = []
        self.lives = 0

    # -- recording ------------------------------------------------------------------------------------------------------------------

    def record(self, who: str, kind: Kind, function: Function, /, *micro_operations: MicroOperation, **extra: object) -> None:
        self.time += self.random.uniform(0.0001, 0.01)
        self.events.append(Event(self.time, who, kind, function, micro_operations, extra or NOTHING))

    def watermarks(self, *partitions: tuple[str, int]) -> list[list[object]]:
        return [[*each, self.logs[each].start, self.logs[each].end, self.logs[each].stable()] for each in partitions]

    def new_value(self) -> Value:
        self.value += 1
        return self.value if self.value % 3 else f"v{self.value}"

    def close(self, transaction: Transaction, state: str) -> None:
        if transaction.state == "open":
            transaction.state = state
            for partition in transaction.partitions:
                self.logs[partition].end += 1  # the marker's offset

    # -- clients --------------------------------------------------------------------------------------------------------------------

    def producer(self, name: str, topics: list[str], count: int) -> Iterator[None]:
        for _ in range(count):
            topic, partition = self.random.choice([each for each in PARTITIONS if each[0] in topics])
            value, key = self.new_value(), self.random.randrange(3) if topic == "compacted" else None
            self.record(name, "invoke", "send", Send(topic, partition, None, value, key))
            yield
            outcome = self.random.choices(("ok", "fail", "info", "lost"), (20, 1, 1, 1))[0]
            offset = self.logs[(topic, partition)].append(value, key, None) if outcome in ("ok", "info") else None
            yield
            if outcome == "ok":
                self.record(name, "ok", "send", Send(topic, partition, offset, value, key))
            else:
                self.record(name, "fail" if outcome == "fail" else "info", "send", Send(topic, partition, None, value, key), error="x")
            yield

    def transactions(self, name: str, count: int) -> Iterator[None]:
        for _ in range(count):
            places = self.random.choices([("in", 0), ("in", 1)], k=self.random.randint(1, 4))
            plan = [Send(*place, None, self.new_value()) for place in places]
            self.record(name, "invoke", "txn", *plan)
            transaction = Transaction()
            sent: list[Send] = []
            for send in plan:
                yield
                transaction.partitions.add((send.topic, send.partition))
                sent.append(send._replace(offset=self.logs[(send.topic, send.partition)].append(send.value, None, transaction)))
            yield
            outcome = self.random.choices(("ok", "fail", "info", "lost"), (12, 2, 1, 1))[0]
            self.close(transaction, "committed" if outcome in ("ok", "info") else "aborted")
            yield
            self.record(name, "ok" if outcome == "ok" else "fail" if outcome == "fail" else "info", "txn", *sent)

    def reader(self, name: str, *, committed: bool, count: int) -> Iterator[None]:
        extra: dict[str, object] = {"isolation": "read_committed" if committed else "read_uncommitted"}
        mine = self.random.sample(PARTITIONS, 3)
        self.record(name, "invoke", "assign")
        self.record(name, "ok", "assign", *(Assigned(None, *each, None) for each in mine))
        positions = dict.fromkeys(mine, 0)
        for _ in range(count):
            self.record(name, "invoke", "poll")
            yield
            found, told = dict(positions), list[Poll]()
            for place in self.random.sample(mine, self.random.randint(1, 3)):
                entries, found[place] = self.logs[place].read(positions[place], self.random.randint(1, 6), committed=committed)
                told += [Poll(*place, entry.offset, entry.value, entry.key) for entry in entries]
            marks = self.watermarks(*mine)
            yield
            if self.random.random() < 0.9:
                positions = found
                self.record(name, "ok", "poll", *told, **extra, watermarks=marks)
            else:
                self.record(name, "info", "poll", *told, **extra)
            yield

    def cleaner(self, count: int) -> Iterator[None]:
        for _ in range(count):
            yield
            if self.random.random() < 0.1:
                self.logs[("compacted", 0)].compact(self.random.randint(0, self.logs[("compacted", 0)].end))
                self.logs[("short", 0)].shorten(self.random.randint(0, self.logs[("short", 0)].end))

    # -- the group ------------------------------------------------------------------------------------------------------------------

    def member(self, member: Member) -> Iterator[None]:
        extra: dict[str, object] = {"static": member.name} if member.static else {}
        self.record(member.process, "invoke", "subscribe", **extra)
        self.record(member.process, "ok", "subscribe", topics=["in"], **extra)
        while True:
            yield
            if member.expelled:
                if member.holds:
                    yield from self.zombie_commit(member, extra)
                    self.told(member, Revoked, extra | {"lost": True})
                member.expelled, member.holds, member.joined = False, [], False
            elif self.rebalancing and not member.joined:
                if member.holds:
                    self.told(member, Revoked, extra)
                member.holds, member.joined = [], True
            elif not self.rebalancing and member.generation != self.generation and member.name in self.assignment:
                member.generation = self.generation
                member.holds = list(self.assignment[member.name])
                self.told(member, Assigned, extra)
            elif member.holds and not self.rebalancing:
                yield from self.copy(member, extra)

    def told(self, member: Member, kind: type[Assigned] | type[Revoked], extra: dict[str, object]) -> None:
        told = [kind(GROUP, "in", partition, member.generation) for partition in member.holds]
        self.record(member.process, "info", "rebalance", *told, group=GROUP, generation=member.generation, **extra)

    def copy(self, member: Member, extra: dict[str, object]) -> Iterator[None]:
        partition = self.random.choice(member.holds)
        start = self.positions[partition]
        entries, position = self.logs[("in", partition)].read(start, self.random.randint(1, 4), committed=True)
        planned = [Send("out", partition, None, copied(entry.value)) for entry in entries]
        self.record(
            member.process, "invoke", "txn", *planned, Commit(GROUP, "in", partition, position), generation=member.generation, **extra
        )
        transaction = member.transaction = Transaction()
        done: list[MicroOperation] = [Poll("in", partition, entry.offset, entry.value) for entry in entries]
        for entry in entries:
            yield
            if transaction.state == "open":
                transaction.partitions.add(("out", partition))
                done.append(
                    Send(
                        "out", partition, self.logs[("out", partition)].append(copied(entry.value), None, transaction), copied(entry.value)
                    )
                )
        yield
        done.append(Commit(GROUP, "in", partition, position))
        known = {"isolation": "read_committed", "watermarks": self.watermarks(("in", partition)), **extra}
        if transaction.state != "open" or member.expelled or self.random.random() < 0.1:
            self.close(transaction, "aborted")
            self.record(member.process, "fail", "txn", *done, **known)
            return
        self.close(transaction, "committed")
        self.positions[partition] = position
        member.transaction = None
        yield
        self.record(member.process, "ok" if self.random.random() < 0.95 else "info", "txn", *done, **known)

    def zombie_commit(self, member: Member, extra: dict[str, object]) -> Iterator[None]:
        commit = Commit(GROUP, "in", member.holds[0], self.positions[member.holds[0]] + 1)
        self.record(member.process, "invoke", "commit", commit, generation=member.generation, **extra)
        yield
        self.record(member.process, "fail", "commit", commit, error="ILLEGAL_GENERATION", **extra)

    def join(self, name: str, *, static: bool) -> Member:
        self.lives += 1
        member = Member(name, f"{name}#{self.lives}", static)
        member.run = self.member(member)
        self.members.append(member)
        return member

    def coordinator(self) -> None:
        """Remove members that were silent for long, and assign the partitions when all remaining members have joined."""
        for member in self.members:
            member.silent = member.silent + 1 if member.paused or not member.alive else 0
            if member.silent > 12 and not member.expelled and member.name in self.assignment:
                self.expel(member)
        present = [member for member in self.members if member.alive and not member.paused and not member.expelled]
        names = {member.name for member in present}
        away = {member.name for member in self.members if not member.alive or member.paused} & self.assignment.keys()
        if not self.rebalancing and (names | away) != self.assignment.keys() and present:
            self.rebalancing = True
            for member in self.members:
                member.joined = False
        if self.rebalancing and not away and present and all(member.joined for member in present):
            self.generation += 1
            self.assignment = {member.name: [] for member in present}
            for partition in (0, 1):
                self.assignment[self.random.choice(present).name].append(partition)
            self.rebalancing = False

    def expel(self, member: Member) -> None:
        self.assignment.pop(member.name, None)
        self.rebalancing = True
        for each in self.members:
            each.joined = False
        if member.transaction is not None:
            self.close(member.transaction, "aborted")
        if member.alive:
            member.expelled = True
        else:
            self.members.remove(member)

    def driver(self) -> None:
        """Kill, pause and restart members now and then."""
        chance = self.random.random()
        steady = not self.rebalancing and all(
            each.generation == self.generation and each.alive and not each.paused for each in self.members
        )
        member = self.random.choice(self.members)
        if chance < 0.01 and member.alive and not member.paused and not member.static:
            member.alive, member.run = False, None
            self.record("driver", "info", "crash", process=member.process, how="kill")
        elif chance < 0.03 and member.alive and not member.static:
            member.paused = not member.paused
            self.record("driver", "info", "crash", process=member.process, how="pause" if member.paused else "resume")
        elif chance < 0.04 and len([each for each in self.members if each.alive]) < 3:
            self.join(f"m{self.lives}", static=False)
        elif chance < 0.06 and steady and member.static:
            self.bounce(member)

    def bounce(self, member: Member) -> None:
        """Kill a static member, and restart it before its session ends: it continues in the same generation with its partitions."""
        if member.transaction is not None:
            self.close(member.transaction, "aborted")
        self.record("driver", "info", "crash", process=member.process, how="kill")
        self.lives += 1
        member.process = f"{member.name}#{self.lives}"
        member.generation = -1
        member.run = self.member(member)
        next(member.run)
        next(member.run)

    # -- all together -----------------------------------------------------------------------------------------------------------------

    def play(self, steps: int = 250) -> list[Event]:
        """Run all clients in turns, and read everything at the end."""
        clients = [
            self.producer("producer-1", ["in", "compacted"], 12),
            self.producer("producer-2", ["in", "short"], 12),
            self.transactions("transactions-1", 8),
            self.transactions("transactions-2", 8),
            self.reader("reader-1", committed=True, count=7),
            self.reader("reader-2", committed=True, count=7),
            self.reader("reader-3", committed=False, count=7),
            self.cleaner(60),
        ]
        self.join("static", static=True)
        self.join("m0", static=False)
        for _ in range(steps):
            runnable = [each.run for each in self.members if each.run is not None and not each.paused]
            turn = self.random.choice([*clients, *runnable])
            if next(turn, self) is self and turn in clients:
                clients.remove(turn)
            self.coordinator()
            self.driver()
        for client in clients:
            for _ in client:
                pass
        self._settle()
        self._final_read()
        return self.events

    def _settle(self) -> None:
        """End all faults, and wait until the copiers have caught up."""
        for member in self.members:
            if member.paused:
                member.paused = False
                self.record("driver", "info", "crash", process=member.process, how="resume")
        for _ in range(3000):
            for each in [each for each in self.members if each.run is not None]:
                assert each.run is not None
                next(each.run)
            self.coordinator()
            ends = all(self.positions[each] >= self.logs[("in", each)].end for each in (0, 1))
            if ends and all(each.transaction is None or each.transaction.state != "open" for each in self.members):
                break
        else:
            raise AssertionError("the copiers do not catch up")
        committed = [[GROUP, "in", partition, offset] for partition, offset in self.positions.items()]
        self.record("admin", "invoke", "commit")
        self.record("admin", "ok", "commit", committed=committed)

    def _final_read(self) -> None:
        assigned = [Assigned(None, *each, None) for each in PARTITIONS]
        self.record("final", "ok", "assign", *assigned, final=True, watermarks=self.watermarks(*PARTITIONS))
        for place in PARTITIONS:
            position = 0
            while position < self.logs[place].end:
                self.record("final", "invoke", "poll")
                entries, position = self.logs[place].read(position, 7, committed=True)
                told = [Poll(*place, entry.offset, entry.value, entry.key) for entry in entries]
                self.record("final", "ok", "poll", *told, final=True, isolation="read_committed")


def clean_history(seed: int) -> list[Event]:
    """Return a history without anomalies."""
    return HistoryWorld(seed).play()
