"""Consumers against a model of the records that they return, with real brokers. Hypothesis chooses the calls, and shrinks a failing script.

    python -m tests.campaigns.consumer_model --runs 20000 --seed 1

One run is one or two consumers (blocking or asyncio; assigned, or members of a classic or a KIP-848 group) and a script. Its steps: poll,
iterate and break, iterate and raise, chunks, calls that are interrupted or cancelled, seek, pause, position, commit, refused requests, cut
connections, leaders that move, members that join and leave, close. The model is a set of offsets for each partition, at which reading may
continue. The set has one offset, except when it is unknown whether a commit took effect.

- Each record comes once and in order (`next_record`), from the last seek or the committed offset on.
- position() is that offset, and the committed offset is that offset (`position`, `committed`).
- A partition belongs to one member at a time (`owner`).
- At the end the remaining records are read (`rest`), and close() commits them (`closed`).

Runs are played in portions of 250. A failure prints its script at once. The end prints the shortest failing script and the portion's seed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from odradek.client import AsyncConsumer, Consumer, KafkaError, Producer, RebalanceListener, TopicPartition, WakeupError
from tests.campaigns.model_faces import LIMIT_S, Blocking, Coroutines, Face, drive
from tests.campaigns.model_world import TOPIC, Model, ModelWorld, ViolationError, play
from tests.client.interrupts import READING

COUNT = 24
"""Records of a partition, in batches of six."""
STEPS = 14
_POLL_MS = 20
_LOOP_S = 1.0
"""Seconds after which wakeup() ends a loop over a consumer: its partitions may have moved to the other member."""

_HEALING = "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"
FAULTS: dict[str, tuple[str, ...]] = {
    "Fetch": (
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_SERVER_ERROR",
        "TOPIC_AUTHORIZATION_FAILED",
    ),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"),
    "OffsetForLeaderEpoch": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "OffsetFetch": _HEALING,
    "OffsetCommit": (*_HEALING, "REQUEST_TIMED_OUT", "GROUP_AUTHORIZATION_FAILED"),
    "Heartbeat": (*_HEALING, "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"),
    "JoinGroup": _HEALING,
    "SyncGroup": (*_HEALING, "REBALANCE_IN_PROGRESS"),
    "ConsumerGroupHeartbeat": (*_HEALING, "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"),
}
_UNSURE = frozenset({"GROUP_AUTHORIZATION_FAILED", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"})
"""Errors after which commits may be refused for good, and partitions may be lost."""
_TOLD = frozenset({"REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR", "TOPIC_AUTHORIZATION_FAILED", *_UNSURE})
"""Errors that the application gets."""


class Left(Exception):
    """Exception that ends a loop."""


class ConsumerFace(Face, Protocol):
    """Interface of both consumers for the model."""

    def listener(self, action: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
        """Return the value that a listener of this consumer returns to perform the action."""
        ...

    async def each(self, enough: Callable[[Any], Awaitable[bool]]) -> None:
        """Iterate until `enough` returns True for a record."""
        ...


class BlockingConsumer(Blocking):
    """Blocking consumer, interrupted in the lines through which records come."""

    modules = READING

    def listener(self, action: Coroutine[Any, Any, None]) -> None:
        drive(action)

    async def each(self, enough: Callable[[Any], Awaitable[bool]]) -> None:
        for record in self.client:
            if await enough(record):
                break


class CoroutineConsumer(Coroutines):
    """Asyncio consumer. One iteration of its loop counts as three lines of the blocking consumer."""

    def listener(self, action: Coroutine[Any, Any, None]) -> Awaitable[None]:
        return action

    async def each(self, enough: Callable[[Any], Awaitable[bool]]) -> None:
        async for record in self.client:
            if await enough(record):
                break

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        return await super().left(method, at // 3, *arguments, **named)


class Group:
    """State that the members of a run share: the offsets that may be committed, and the way of committing."""

    def __init__(self, topic: str, name: str, how: str, *, automatic: bool, in_listener: bool) -> None:
        self.name, self.how, self.automatic, self.in_listener = name, how, automatic, in_listener
        self.partitions = [TopicPartition(topic, number) for number in range(2)]
        self.kept: dict[TopicPartition, set[int]] = {where: {0} for where in self.partitions}
        self.members: list[Member] = []
        self.unsure = False
        """Whether a commit may fail for good, and a member may lose its partitions."""

    @property
    def is_assigned(self) -> bool:
        return self.how == "assigned"


class Member(RebalanceListener):
    """Consumer and its model."""

    def __init__(self, face: ConsumerFace, group: Group) -> None:
        self.face, self.group = face, group
        self.next: dict[TopicPartition, set[int]] = {}
        """Owned partition -> offsets of which one comes next."""
        self.since: dict[TopicPartition, set[int]] = {}
        """Owned partition -> positions since the assignment, which automatic commits may have committed."""
        self.paused: set[TopicPartition] = set()

    # -- rebalances -----------------------------------------------------------------------------------------------------------------

    def take(self, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self.next[where] = set(self.group.kept[where])
            self.since[where] = set()

    def give_up(self, partitions: list[TopicPartition]) -> None:
        for where in partitions:
            self.next.pop(where, None)
            self.since.pop(where, None)
            self.paused.discard(where)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        for other in self.group.members:
            if other is not self and not self.group.unsure and (twice := other.next.keys() & set(partitions)):
                raise ViolationError(f"owner: {twice} came to a member while another one has it")
        self.take(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        return self.face.listener(self._revoked(partitions))

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            if self.group.automatic:
                for where in self.next.keys() & set(partitions):
                    self.commits(where)
            elif self.group.in_listener:
                with contextlib.suppress(KafkaError):
                    # The commit is refused when close() comes while the member joins again.
                    await self.commit()
        finally:
            # A cancelled or interrupted listener counts as called.
            self.give_up(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        if not self.group.unsure:
            raise ViolationError(f"lost: {partitions} without a reason")
        if self.group.automatic:
            for where in self.next.keys() & set(partitions):
                self.group.kept[where] |= self.since[where]
        self.give_up(partitions)

    def commits(self, where: TopicPartition) -> None:
        """Note that the next offset has been committed."""
        if len(self.next[where]) == 1:
            if self.group.unsure:
                self.group.kept[where] |= self.next[where] | (self.since[where] if self.group.automatic else set())
            else:
                self.group.kept[where] = set(self.next[where])

    # -- checks ---------------------------------------------------------------------------------------------------------------------

    def goes_on(self, where: TopicPartition, offset: int) -> None:
        self.next[where] = {offset}
        self.since[where].add(offset)

    def got(self, topic: str, partition: int, offset: int) -> None:
        where = TopicPartition(topic, partition)
        if where not in self.next or where in self.paused:
            raise ViolationError(f"{where} at {offset} was handed out, and is not to be read")
        if offset not in self.next[where]:
            raise ViolationError(f"next_record: {topic}-{partition} gave offset {offset}, and {self.next[where]} is next")
        self.goes_on(where, offset + 1)

    def got_all(self, records: list[Any]) -> None:
        for record in records:
            self.got(record.topic, record.partition, record.offset)

    def got_chunk(self, chunk: Any) -> None:
        if chunk is not None:
            for offset in range(chunk.offset, chunk.end_offset):
                self.got(chunk.topic_partition.topic, chunk.topic_partition.partition, offset)

    async def check_position(self, where: TopicPartition) -> None:
        found = await self.face.call("position", where, 30_000)
        if found not in self.next[where]:
            raise ViolationError(f"position: {where} is at {found}, and {self.next[where]} is next")
        self.goes_on(where, found)

    # -- steps ----------------------------------------------------------------------------------------------------------------------

    def one(self, choice: int) -> TopicPartition:
        return sorted(self.next)[choice % len(self.next)]

    async def poll(self, limit: int | None = None) -> None:
        self.got_all(await self.face.call("poll", _POLL_MS, limit))

    async def chunk(self) -> None:
        self.got_chunk(await self.face.call("next_chunk", _POLL_MS))

    def left(self) -> int:
        """Return the number of records that the member can read without waiting for more."""
        return sum(COUNT - max(self.next[where]) for where in self.next.keys() - self.paused)

    async def iterate(self, count: int, doing: list[tuple[str, int]], *, raises: bool) -> None:
        count = min(count, self.left())
        if count < 1:
            return
        todo = iter(doing)

        async def enough(record: Any) -> bool:
            nonlocal count
            self.got_all([record])
            where = TopicPartition(record.topic, record.partition)
            what, offset = next(todo, ("", 0))
            if what == "position":
                await self.check_position(where)
            elif what == "seek":
                await self.seek(where, offset % (record.offset + 2))
            count -= 1
            if not count and raises:
                raise Left
            return not count

        waking = threading.Timer(_LOOP_S, self.face.client.wakeup)
        waking.start()
        try:
            await self.face.each(enough)
        except Left:
            pass
        finally:
            waking.cancel()
            waking.join()

    async def ends_early(self, method: str, at: int) -> bool:
        returned, result = await self.face.left(method, at, _POLL_MS)
        if returned:
            self.got_all(result) if method == "poll" else self.got_chunk(result)
        return returned

    async def left_call(self, method: str, at: int, where: TopicPartition) -> None:
        if method == "commit":
            if self.group.automatic:
                return
            before = {each: set(offsets) for each, offsets in self.group.kept.items()}
            for each in self.next:
                self.commits(each)
                self.group.kept[each] |= before[each]
            await self.face.left("commit", at)
        else:
            await self.face.left(method, at, where if method == "position" else [where])

    async def seek(self, where: TopicPartition, offset: int) -> None:
        await self.face.call("seek", where, offset)
        self.goes_on(where, offset)

    async def seek_to_beginning(self, where: TopicPartition) -> None:
        await self.face.call("seek_to_beginning", where)
        self.goes_on(where, 0)
        try:
            await self.check_position(where)
        except KafkaError:
            # The offset has not been looked up yet, so a commit leaves the partition out.
            self.group.unsure = True
            raise

    async def pause(self, where: TopicPartition) -> None:
        await self.face.call("pause", where)
        self.paused.add(where)

    async def resume(self) -> None:
        for where in sorted(self.paused):
            await self.face.call("resume", where)
            self.paused.discard(where)

    async def commit(self) -> None:
        """Commit explicitly. If the commit fails, it is unknown whether it took effect."""
        before = {where: set(offsets) for where, offsets in self.group.kept.items()}
        for where in self.next:
            self.commits(where)
        try:
            await self.face.call("commit")
        except BaseException:
            for where in self.next:
                self.group.kept[where] |= before[where]
            raise

    async def check_committed(self) -> None:
        for where, offset in (await self.face.call("committed", self.group.partitions)).items():
            self.check_kept(where, offset, "committed")

    def check_kept(self, where: TopicPartition, offset: Any, word: str) -> None:
        kept = self.group.kept[where]
        if (0 if offset is None else offset.offset) not in kept:
            raise ViolationError(f"{word}: {where} has {offset}, and {kept} was committed")

    async def close(self) -> None:
        if self.group.is_assigned and self.group.automatic:
            for where in self.next:
                self.commits(where)
        await self.face.call("close")
        if not self.group.is_assigned and self.next:
            raise ViolationError(f"closed: no listener was told of {sorted(self.next)}")


WHO = st.integers(0, 1)
AT = st.integers(1, 90)


class ConsumerModel(Model):
    """One run of one or two consumers."""

    done: ClassVar[Counter[str]] = Counter()

    @initialize(
        asynchronous=st.booleans(),
        how=st.sampled_from(("assigned", "range", "cooperative-sticky", "consumer")),
        automatic=st.booleans(),
        in_listener=st.booleans(),
        often=st.booleans(),
        records=st.sampled_from((3, 500)),
        size=st.sampled_from((150, 1 << 20)),
        moves=st.integers(0, 3).map(lambda number: number == 3),
    )
    def begin(
        self, asynchronous: bool, how: str, automatic: bool, in_listener: bool, often: bool, records: int, size: int, moves: bool
    ) -> None:
        """Make the first consumer, and wait until it has partitions."""
        self.topic = self.world.lend() if moves else TOPIC
        self.runner = asyncio.Runner() if asynchronous else None
        self.script.append(
            f"{'asyncio' if asynchronous else 'blocking'} {how} automatic={automatic} records={records} size={size} {moves=}"
        )
        self.group = Group(self.topic, f"model-{self.number}", how, automatic=automatic, in_listener=in_listener)
        self.settings: dict[str, Any] = {
            **self.client_settings(),
            "group.id": self.group.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": automatic,
            "auto.commit.interval.ms": 20 if often else 5000,
            "max.poll.records": records,
            "max.partition.fetch.bytes": size,
            "fetch.max.wait.ms": 20,
        }
        if how == "consumer":
            self.settings["group.protocol"] = "consumer"
        elif how != "assigned":
            self.settings |= {"partition.assignment.strategy": how, "heartbeat.interval.ms": 30, "session.timeout.ms": 10_000}
        self.step(self.come)

    def step(self, action: Callable[[], Awaitable[None]], name: str = "") -> None:
        """Perform a step, and catch the errors that an application may get."""
        self.script.append(name or action.__name__)
        type(self).done[(name or action.__name__).split()[0]] += 1
        try:
            self.run(self.tried(action))
        except BaseException as error:
            self.tell(error)
            raise

    async def tried(self, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await action()
        except WakeupError:
            self.done["woken"] += 1
        except KafkaError as error:
            self.done["refused"] += 1
            if error.code.name not in _TOLD:
                raise

    async def come(self) -> None:
        """Start a consumer. The first consumer waits until it has partitions."""
        group = self.group
        face: ConsumerFace = (
            BlockingConsumer(Consumer(self.settings)) if self.runner is None else CoroutineConsumer(AsyncConsumer(self.settings))
        )
        await face.start()
        member = Member(face, group)
        group.members.append(member)
        if group.is_assigned:
            await face.call("assign", group.partitions)
            member.take(group.partitions)
            return
        await face.call("subscribe", [self.topic], member)
        if len(group.members) == 1:
            await self.until(lambda: bool(member.next))

    async def until(self, done: Callable[[], bool]) -> None:
        """Poll with all members until the condition holds."""
        limit = time.monotonic() + LIMIT_S
        while not done():
            if time.monotonic() > limit:
                states = [{where: each.next[where] for where in sorted(each.next)} for each in self.group.members]
                raise ViolationError(f"rest: nothing more comes, next are {states}")
            for member in self.group.members:
                await self.tried(member.poll)

    def by(self, who: int, action: Callable[[Member], Awaitable[None]], name: str) -> None:
        """Let a member perform a step. A member without partitions polls instead."""
        member = self.group.members[who % len(self.group.members)]
        self.step(lambda: action(member) if member.next else member.poll(), name if member.next else "poll")

    # -- steps ----------------------------------------------------------------------------------------------------------------------

    @rule(who=WHO, limit=st.sampled_from((None, 1, 2, 7)))
    def poll(self, who: int, limit: int | None) -> None:
        self.by(who, lambda member: member.poll(limit), "poll")

    @rule(who=WHO)
    def chunk(self, who: int) -> None:
        self.by(who, Member.chunk, "chunk")

    @rule(
        who=WHO,
        count=st.integers(1, 8),
        doing=st.lists(st.tuples(st.sampled_from(("", "", "position", "seek")), st.integers(0, COUNT)), max_size=8),
        raises=st.booleans(),
    )
    def iterate(self, who: int, count: int, doing: list[tuple[str, int]], raises: bool) -> None:
        self.by(who, lambda member: member.iterate(count, doing, raises=raises), f"iterate {count} {doing if any(doing) else ''}")

    @rule(who=WHO, method=st.sampled_from(("poll", "poll", "next_chunk")), at=AT)
    def interrupted(self, who: int, method: str, at: int) -> None:
        async def action(member: Member) -> None:
            self.done["ended early"] += await member.ends_early(method, at)

        self.by(who, action, f"interrupted {method} at {at}")

    @rule(who=WHO, method=st.sampled_from(("position", "end_offsets", "committed", "commit")), at=AT, choice=WHO)
    def left_call(self, who: int, method: str, at: int, choice: int) -> None:
        self.by(who, lambda member: member.left_call(method, at, member.one(choice)), f"left {method} at {at}")

    @rule(who=WHO, choice=WHO, offset=st.integers(0, COUNT), checks=st.booleans())
    def seek(self, who: int, choice: int, offset: int, checks: bool) -> None:
        async def action(member: Member) -> None:
            where = member.one(choice)
            await member.seek(where, offset)
            if checks:
                await member.check_position(where)

        self.by(who, action, f"seek {offset}")

    @rule(who=WHO, choice=WHO)
    def seek_to_beginning(self, who: int, choice: int) -> None:
        self.by(who, lambda member: member.seek_to_beginning(member.one(choice)), "seek_to_beginning")

    @rule(who=WHO, choice=WHO)
    def pause(self, who: int, choice: int) -> None:
        self.by(who, lambda member: member.pause(member.one(choice)), "pause")

    @rule(who=WHO)
    def resume(self, who: int) -> None:
        self.by(who, Member.resume, "resume")

    @rule(who=WHO, choice=WHO)
    def position(self, who: int, choice: int) -> None:
        self.by(who, lambda member: member.check_position(member.one(choice)), "position")

    @rule(who=WHO)
    def commit(self, who: int) -> None:
        async def action(member: Member) -> None:
            if not self.group.automatic:
                await member.commit()
                await member.check_committed()

        self.by(who, action, "commit")

    @rule(
        what=st.sampled_from([(api, error) for api, errors in FAULTS.items() for error in (*errors, None)]),
        applied=st.booleans(),
        who=WHO,
    )
    def refused(self, what: tuple[str, str | None], applied: bool, who: int) -> None:
        """Refuse the next request of this kind, or cut its connection. A lost JoinGroup would leave a member behind."""
        api, error = what
        self.group.unsure |= error in _UNSURE
        applied &= api != "JoinGroup"
        self.world.fail(api, error, self.settings["client.id"], applied=applied, topic=self.topic if api == "Fetch" and error else None)
        self.by(who, Member.poll, f"refused {api} {error} {applied}")

    @rule()
    def cut(self) -> None:
        """Close all connections of the run."""
        self.script.append("cut")
        self.done["cut"] += 1
        self.world.cluster.faults.disconnect(self.settings["client.id"])

    @rule(choice=WHO)
    def leader_moves(self, choice: int) -> None:
        if self.topic != TOPIC:
            self.script.append(f"leader_moves {choice}")
            self.done["leader_moves"] += 1
            self.world.move(self.group.partitions[choice])

    @rule(which=st.sampled_from(((0,), (1,), (0, 1))), who=WHO)
    def reassigned(self, which: tuple[int, ...], who: int) -> None:
        """Assign other partitions, or rebalance the group."""

        async def action(member: Member) -> None:
            if not self.group.is_assigned:
                await member.face.call("enforce_rebalance")
            elif not self.group.automatic:
                chosen = [self.group.partitions[number] for number in which]
                await member.face.call("assign", chosen)
                member.take([where for where in chosen if where not in member.next])
                member.give_up([where for where in member.next if where not in chosen])

        self.by(who, action, "reassigned")

    @rule(who=WHO)
    def comes_or_goes(self, who: int) -> None:
        """Let a second member join the group, or one of two leave."""

        async def leave() -> None:
            await self.group.members.pop(who).close()

        if not self.group.is_assigned:
            if len(self.group.members) == 1:
                self.step(self.come, "joins")
            else:
                self.step(leave, "leaves")

    @rule(who=WHO)
    def subscribes_again(self, who: int) -> None:
        async def action(member: Member) -> None:
            if not self.group.is_assigned:
                await member.face.call("unsubscribe")
                await member.face.call("subscribe", [self.topic], member)

        self.by(who, action, "subscribes_again")

    # -- the end --------------------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Read the remaining records, close the consumers, and check the committed offsets."""
        if not hasattr(self, "group"):
            return
        self.world.cluster.faults.clear()
        try:
            if not self.failed:
                self.step(self.rest)
            for member in self.group.members:
                self.closes(member)
            if not self.failed:
                self.compare()
        finally:
            if self.runner is not None:
                self.runner.close()
            self.world.forget(self.group.name)

    async def rest(self) -> None:
        group = self.group
        for member in group.members:
            await member.resume()
        await self.until(lambda: {where for each in group.members for where in each.next} >= self.wanted())
        while any(min(each.next[where]) < COUNT for each in group.members for where in each.next):
            await self.until(lambda: all(max(each.next[where]) >= COUNT for each in group.members for where in each.next))
            await self.tried(self.check_positions)
        await self.tried(self.check_positions)

    async def check_positions(self) -> None:
        """Ask each member for its positions. After a commit that may have failed, the model learns the position only now."""
        for member in self.group.members:
            for where in sorted(member.next):
                await member.check_position(where)

    def wanted(self) -> set[TopicPartition]:
        return set(self.group.members[0].next if self.group.is_assigned else self.group.partitions)

    def closes(self, member: Member) -> None:
        try:
            self.run(member.close())
        except BaseException as error:
            if not self.failed:
                self.tell(error)
                raise

    def compare(self) -> None:
        found = self.world.admin.list_consumer_group_offsets([self.group.name])[self.group.name]
        for where in self.group.partitions:
            try:
                Member(None, self.group).check_kept(where, found.get(where), "closed")  # type: ignore[arg-type]
            except ViolationError as error:
                self.tell(error)
                raise


def fill(servers: str, topics: list[str]) -> None:
    """Write the records that the runs read."""
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(COUNT // 6):
            for topic in topics:
                for partition in range(2):
                    producer.send_many(topic, [b"x" * 20] * 6, partition=partition)
            producer.flush()


def campaign(runs: int, seed: int, *, lent: int = 100) -> tuple[int, Counter[str]]:
    """Play the runs. Return the number of failed portions, and the number of steps by kind."""
    done: Counter[str] = Counter()
    with ModelWorld(2, fill, lent) as world:
        return play(ConsumerModel, world, runs, seed, STEPS, done=done), done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failed, done = campaign(options.runs, options.seed)
    print(f"{options.runs} runs from seed {options.seed}, {failed} portions failed; {dict(done)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
