"""Members at random on virtual time: requests and replies get lost, repeated and delayed, appends fail, commits lag, the coordinator moves.

Invariants:
1. A partition has one owner in a generation, and at any time at most one member that may believe to own it.
2. Within one term of a coordinator the generation never goes back.
3. Every request is answered in the end.
4. Committed offsets never go back, and what was acknowledged stays.
5. A static member that comes back to a stable group finds the generation it left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.group.support import World, subscription
from tests.coordinator.support import MemoryLog

PARTITIONS = range(6)
SESSION_S, REBALANCE_S, REQUEST_TIMEOUT_S = 10.0, 20.0, 4.0
RETRY = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class Member:
    """A consumer that follows the eager protocol: it gives everything up before it joins, and when its session may have ended."""

    def __init__(self, story: Story, name: str, *, static: bool) -> None:
        self.story = story
        self.name = name
        self.static = name if static else None
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[int, ...] = ()
        self.heard_at = 0.0
        self.waiting: object | None = None
        self.step: Callable[[], None] = self.join
        self.alive = True
        self.offsets: dict[int, int] = {}

    # -- the network ---------------------------------------------------------------------------------------------------------------

    def send(self, call: Callable[[], Deferred[Any]], then: Callable[[Any, float], None], *, patience: float = REQUEST_TIMEOUT_S) -> None:
        story, rng = self.story, self.story.rng
        token = self.waiting = object()
        sent_at = story.now
        story.world.clock.call_later(patience, self._gave_up, token)
        if rng.random() < story.loss:
            return
        replies = [call() for _ in range(2 if rng.random() < story.loss else 1)]
        story.replies += replies

        def arrived(done: Deferred[Any]) -> None:
            if rng.random() < story.loss:
                return
            story.world.clock.call_later(rng.choice((0.0, 0.0, 0.1, 1.0)), self._arrived, token, done, then, sent_at)

        replies[-1].add_callback(arrived)

    def _gave_up(self, token: object) -> None:
        if self.waiting is token:
            self.waiting = None

    def _arrived(self, token: object, done: Deferred[Any], then: Callable[[Any, float], None], sent_at: float) -> None:
        if self.waiting is token and self.alive:
            self.waiting = None
            then(done.result(), sent_at)

    # -- the protocol --------------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        if self.owned and self.story.now - self.heard_at >= SESSION_S:
            self.owned = ()
            self.step = self.join
        if self.waiting is None:
            self.step()

    def join(self) -> None:
        self.owned = ()
        self.step = self.join
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member_id,
            group_instance_id=self.static,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
        )
        stable_in = self.story.stable_generation()
        known = self.static is not None and not self.member_id and stable_in is not None and self.story.knows(self.static)
        patience = self.story.rng.choice((3.0, REBALANCE_S + 5))

        def joined(response: Any, sent_at: float) -> None:
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""
            elif response.error_code == ErrorCode.NONE:
                self.member_id, self.generation = response.member_id, response.generation_id
                self.story.saw_generation(self, response.generation_id)
                members = sorted(member.member_id for member in response.members)
                leads = response.leader == response.member_id and not response.skip_assignment
                self.step = lambda: self.sync(members if leads else [])

        def call() -> Deferred[Any]:
            reply = self.story.world.coordinator.join_group(Caller(9, "c", "/h"), request)
            if known:
                assert self.story.stable_generation() == stable_in, f"{self.name} came back and the group rebalances"
                self.story.returns += 1
            return reply

        self.send(call, joined, patience=patience)

    def sync(self, members: list[str]) -> None:
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member, assignment=bytes(each for each in PARTITIONS if each % len(members) == index)
            )
            for index, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.static,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

        def synced(response: Any, sent_at: float) -> None:
            if response.error_code == ErrorCode.NONE and self.story.now - sent_at < SESSION_S:
                self.heard_at = sent_at
                self.offsets = {}
                self.owned = tuple(response.assignment)
                self.story.owns(self)
                self.step = self.work
            else:
                self.failed(response.error_code)

        self.send(lambda: self.story.world.coordinator.sync_group(request), synced, patience=REBALANCE_S)

    def failed(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        if code != ErrorCode.NONE or self.step != self.work:
            self.owned = ()
            self.step = self.join

    def work(self) -> None:
        missing = [partition for partition in self.owned if partition not in self.offsets]
        if missing and self.story.rng.random() < 0.5:
            self.fetch(missing[0])
        elif self.offsets and self.story.rng.random() < 0.5:
            self.commit(self.story.rng.choice(sorted(self.offsets)))
        else:
            self.heartbeat()

    def heartbeat(self) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.member_id, group_instance_id=self.static)

        def heard(response: Any, sent_at: float) -> None:
            if response.error_code == ErrorCode.NONE:
                self.heard_at = sent_at
            elif response.error_code not in RETRY or response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.failed(response.error_code)

        self.send(lambda: self.story.world.coordinator.heartbeat(request), heard)

    def fetch(self, partition: int) -> None:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[partition])
        request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
        generation = self.generation

        def fetched(response: Any, _: float) -> None:
            if response.error_code == ErrorCode.NONE and self.generation == generation and partition in self.owned:
                self.offsets[partition] = max(response.topics[0].partitions[0].committed_offset, 0)

        self.send(lambda: self.story.world.coordinator.fetch_offsets(request, require_stable=True), fetched)

    def commit(self, partition: int) -> None:
        offset = self.offsets[partition] + 1
        self.offsets[partition] = offset
        generation = self.generation
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            group_instance_id=self.static,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )

        def call() -> Deferred[Any]:
            reply = self.story.world.coordinator.commit_offsets(Caller(9), request)
            reply.add_callback(lambda done: self.story.committed(partition, offset, done.result()))
            return reply

        def answered(response: Any, _: float) -> None:
            code = response.topics[0].partitions[0].error_code
            if code not in RETRY or code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.failed(code)

        self.send(call, answered)

    def leave(self) -> None:
        self.owned = ()
        self.alive = False
        request = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=self.member_id)])
        if self.member_id:
            self.story.replies.append(self.story.world.coordinator.leave_group(request))


class Story:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loss = self.rng.choice((0.0, 0.05, 0.2))
        self.troubled = self.rng.random() < 0.6
        self.world = World(MemoryLog(), group_initial_rebalance_delay_ms=self.rng.choice(("0", "3000")))
        self.members: list[Member] = []
        self.replies: list[Deferred[Any]] = []
        self.owners: dict[tuple[int, int, int], str] = {}
        self.highest: dict[int, int] = {}
        self.acked: dict[int, int] = {}
        self.names = iter(range(10_000))
        self.returns = 0
        self.generations = 0

    @property
    def now(self) -> float:
        return self.world.clock.now_s

    # -- what is seen ----------------------------------------------------------------------------------------------------------------

    def stable_generation(self) -> int | None:
        group = self.world.shard.groups.find_classic("g")
        return group.generation_id if group is not None and group.state is ClassicState.STABLE else None

    def knows(self, instance: str) -> bool:
        group = self.world.shard.groups.find_classic("g")
        return group is not None and group.static_member_id(instance) is not None

    def saw_generation(self, member: Member, generation: int) -> None:
        self.generations = max(self.generations, generation)

    def owns(self, member: Member) -> None:
        for other in self.living():
            both = set(member.owned) & set(other.owned)
            assert other is member or not both, f"{member.name} and {other.name} own {both}"
        for partition in member.owned:
            owner = self.owners.setdefault((self.world.epoch, member.generation, partition), member.name)
            assert owner == member.name, f"partition {partition} of generation {member.generation}: {owner} and {member.name}"

    def living(self) -> Iterator[Member]:
        return (member for member in self.members if member.alive and self.now - member.heard_at < SESSION_S)

    def committed(self, partition: int, offset: int, response: Any) -> None:
        if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
            assert offset >= self.acked.get(partition, 0), f"partition {partition} went from {self.acked[partition]} back to {offset}"
            self.acked[partition] = offset

    def check(self) -> None:
        group = self.world.shard.groups.find_classic("g")
        if group is not None:
            highest = self.highest.get(self.world.epoch, 0)
            assert group.generation_id >= highest, "the generation went back"
            self.highest[self.world.epoch] = group.generation_id
            assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in group.members.values())
            assert group.leader_id is None or group.leader_id in group.members

    # -- what happens ----------------------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        rng, log = self.rng, self.world.log
        roll = rng.random()
        if roll < 0.02:
            self.world.epoch += 1
            if rng.random() < 0.5:
                self.world.runtime.unload(self.world.shard.topic_partition, None)
            self.world.runtime.load(self.world.shard.topic_partition, self.world.epoch)
        elif roll < 0.04:
            log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
        elif roll < 0.10:
            log.fail_with = None
        elif roll < 0.13:
            log.auto_commit = False
        elif roll < 0.25:
            log.auto_commit = True
            log.commit(log.log_end_offset)

    def come_and_go(self) -> None:
        rng = self.rng
        living = [member for member in self.members if member.alive]
        roll = rng.random()
        if len(living) < 2 or (roll < 0.03 and len(living) < 6):
            self.members.append(Member(self, f"m{next(self.names)}", static=rng.random() < 0.4))
        elif roll < 0.05:
            rng.choice(living).leave()
        elif roll < 0.08:
            member = rng.choice(living)
            member.alive = False
            member.owned = ()
            if member.static is not None:
                self.members.append(Member(self, member.name, static=True))

    def run(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            self.come_and_go()
            if self.troubled:
                self.trouble()
            for member in self.members:
                if member.alive:
                    member.turn()
            self.world.clock.advance_s(0.5)
            self.check()

    def end(self) -> None:
        self.world.log.fail_with = None
        self.world.log.auto_commit = True
        self.world.log.commit(self.world.log.log_end_offset)
        for member in self.members:
            member.alive = False
        self.world.clock.advance_s(900)
        lost = [reply for reply in self.replies if not reply.done]
        assert not lost, f"{len(lost)} requests of {len(self.replies)} were never answered"
        for partition, offset in self.acked.items():
            assert self.world.fetch("t", partition)[0] >= offset
        self.world.load()
        for partition, offset in self.acked.items():
            assert self.world.fetch("t", partition)[0] >= offset


@pytest.mark.parametrize("seed", range(12))
def test_members_at_random(seed: int) -> None:
    story = Story(seed)
    story.run(300)
    story.end()
    assert story.generations > 3
    assert sum(story.acked.values()) > 0
