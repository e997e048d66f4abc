"""Interleavings of members of a classic group, of commits of others, and of coordinators that follow one another.

Besides those of `groups`: one-owner-per-generation, one-living-owner, generation-monotonic, static-return-without-rebalance,
rebalances-end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.classic.state import ClassicState
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.service import GroupCoordinator
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.campaigns.interleavings.groups import GROUP, RETRIED, GroupStory, plain_commit, settings
from tests.campaigns.interleavings.world import expect
from tests.coordinator.group.support import subscription

PARTITIONS = range(4)
SESSION_S, REBALANCE_S, PATIENCE_S = 10.0, 20.0, 4.0
_SUBSCRIPTION = subscription("t")


class Member:
    """A consumer that follows the eager protocol: it gives everything up before it joins, and when its session may have ended.

    It is more careful than Kafka's, which relies on the answer to a SyncGroup. A stable group answers a SyncGroup without restarting the
    session (classicGroupSyncToClassicGroup), so this one uses such an assignment only after a heartbeat has shown that the session lives.
    A coordinator that was deposed and has not heard of it answers heartbeats from memory; these count as no sign of life here.
    """

    def __init__(self, story: Story, name: str, *, static: bool) -> None:
        self.story = story
        self.name = name
        self.instance = name if static else None
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[int, ...] = ()
        self.given: tuple[int, ...] | None = None
        """An assignment that waits for a sign of life."""
        self.heard_at = 0.0
        """A time no later than that at which the coordinator last restarted the session."""
        self.joined_at: GroupCoordinator | None = None
        """Who answered the JoinGroup of its generation."""
        self.waiting: object | None = None
        self.step: Callable[[], None] = self.join
        self.alive = True

    def turn(self) -> None:
        if self.owned and self.story.clock.now_s - self.heard_at >= SESSION_S:
            self.owned = ()
            self.step = self.join
        if self.waiting is None and self.alive:
            self.step()

    def _ask(self, call: Callable[[], Deferred[Any]], then: Callable[[Any, float], None], patience: float = PATIENCE_S) -> None:
        story, sent_at = self.story, self.story.clock.now_s
        token = self.waiting = object()

        def gave_up() -> None:
            if self.waiting is token:
                self.waiting = None

        def arrived(done: Deferred[Any]) -> None:
            if self.waiting is token and self.alive and done.result() is not None:
                self.waiting = None
                then(done.result(), sent_at)

        story.clock.call_later(patience, gave_up)
        story.net.call(call, arrived)

    def hears(self, sent_at: float) -> None:
        """Notes that a request sent at that time has restarted the session."""
        self.heard_at = sent_at
        if self.given is not None and self.story.clock.now_s - sent_at < SESSION_S:
            self.owned, self.given = self.given, None
            self.story.owns(self)

    def join(self) -> None:
        self.owned, self.given = (), None
        self.step = self.join
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
        )

        def joined(response: Any, sent_at: float) -> None:
            code = response.error_code
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""
            elif code == ErrorCode.NONE:
                self.member_id, self.generation = response.member_id, response.generation_id
                self.joined_at = next(coordinator for answer, coordinator in self.story.joins if answer is response)
                members = sorted(member.member_id for member in response.members)
                leads = response.leader == response.member_id and not response.skip_assignment
                self.step = lambda: self.sync(members if leads else [])

        patience = REBALANCE_S + 5 if self.story.settling else self.story.rng.choice((3.0, REBALANCE_S + 5))
        answered_in: set[int] = set()

        def call() -> Deferred[Any]:
            # A copy that gets there when the member has its answer from the coordinator before: the two may count the same generation for
            # other members, as in Kafka, and a client that has its answer has closed the connection over which it asked in vain.
            epoch = self.story.log.leader_epoch
            if answered_in - {epoch}:
                return Deferred.of(None)
            answer = self.story.join(self, request)
            answer.add_callback(lambda _: answered_in.add(epoch))
            return answer

        self._ask(call, joined, patience)

    def sync(self, members: list[str]) -> None:
        shares = [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member, assignment=bytes(each for each in PARTITIONS if each % len(members) == index)
            )
            for index, member in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )
        generation, story = self.generation, self.story
        parked = False

        def call() -> Deferred[Any]:
            nonlocal parked
            coordinator = story.coordinator
            if coordinator is not self.joined_at:
                # A client that finds another coordinator joins again. The two may count the same generation for other members, as in Kafka.
                return Deferred.of(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
            group = story.group_of(coordinator)
            parked = parked or (group is not None and group.state is ClassicState.COMPLETING_REBALANCE)
            answer = coordinator.sync_group(request)
            answer.add_callback(lambda done: story.assigned(self.name, generation, coordinator, done.result()))
            return answer

        def synced(response: Any, sent_at: float) -> None:
            if response.error_code == ErrorCode.NONE and story.clock.now_s - sent_at < SESSION_S:
                self.step = self.work
                self.given = tuple(response.assignment)
                if parked:
                    self.hears(sent_at)
            else:
                self._failed(response.error_code)

        self._ask(call, synced, REBALANCE_S)

    def _failed(self, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        self.owned, self.given = (), None
        self.step = self.join

    def work(self) -> None:
        if self.owned and self.story.rng.random() < 0.4:
            self._commit(self.story.rng.choice(self.owned))
        else:
            self._heartbeat()

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance)
        story, leads = self.story, True

        def call() -> Deferred[Any]:
            nonlocal leads
            coordinator = story.coordinator
            leads = leads and story.leads(coordinator)
            return coordinator.heartbeat(request)

        def heard(response: Any, sent_at: float) -> None:
            if response.error_code == ErrorCode.NONE:
                if leads:
                    self.hears(sent_at)
            elif response.error_code not in RETRIED:
                self._failed(response.error_code)

        self._ask(call, heard)

    def _commit(self, partition: int) -> None:
        story = self.story
        value = story.next_value()
        request = plain_commit(GROUP, "t", partition, value, member=self.member_id, epoch=self.generation, instance=self.instance)

        def call() -> Deferred[Any]:
            answer = story.coordinator.commit_offsets(Caller(9), request)
            return story.watched(answer, (GROUP, "t", partition), value, _code)

        def answered(response: Any, sent_at: float) -> None:
            if _code(response) == ErrorCode.NONE:
                self.hears(sent_at)
            elif _code(response) not in RETRIED:
                self._failed(_code(response))

        self._ask(call, answered)

    def leave(self) -> None:
        self.owned, self.given = (), None
        self.alive = False
        if self.member_id:
            identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
            request = LeaveGroupRequest(group_id=GROUP, members=[identity])
            self.story.net.call(lambda: self.story.coordinator.leave_group(request), lambda _: None)


class Story(GroupStory):
    def __init__(self, rng: random.Random) -> None:
        configured = settings(
            group_initial_rebalance_delay_ms=rng.choice(("0", "3000")),
            group_max_size=rng.choice(("2147483647", "2147483647", "2")),
            offsets_retention_check_interval_ms="86400000",
        )
        super().__init__(rng, configured)
        self.members: list[Member] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.joins: list[tuple[Any, GroupCoordinator]] = []
        """Answers to JoinGroup, and who gave them."""
        self.told: dict[GroupCoordinator, int] = {}
        """The last generation that a coordinator gave an assignment for."""
        self.told_generation = 0
        """The last generation given by a coordinator that led at that time."""
        self.seen: tuple[ClassicGroup | None, int] = (None, 0)
        self.named = 0
        self.settling = False
        self.move()
        for _ in range(rng.choice((1, 2, 3))):
            self.new_member()

    # -- what is seen ----------------------------------------------------------------------------------------------------------------

    def leads(self, coordinator: GroupCoordinator) -> bool:
        """Whether this is the last coordinator; those before it may still take themselves for the leader."""
        return coordinator is self.nodes[-1].coordinator

    def group_of(self, coordinator: GroupCoordinator) -> ClassicGroup | None:
        context = next(node.context for node in self.nodes if node.coordinator is coordinator)
        return None if context is None else context.shard.groups.find_classic(GROUP)

    def assigned(self, name: str, generation: int, coordinator: GroupCoordinator, response: Any) -> None:
        """A coordinator answered a SyncGroup."""
        if response.error_code != ErrorCode.NONE:
            return
        told = self.told.get(coordinator, 0)
        if self.leads(coordinator):
            # One that was deposed and has not heard of it tells a stable group's assignment from memory, whatever has come since:
            # nothing is appended for that, in JVM Kafka neither, and nobody can refuse it.
            told = max(told, self.told_generation)
            self.told_generation = generation
        expect(generation >= told, "generation-monotonic", f"{generation} after {told}")
        self.told[coordinator] = generation
        for partition in response.assignment:
            owner = self.owners.setdefault((generation, partition), name)
            expect(owner == name, "one-owner-per-generation", f"{partition} in generation {generation}: {owner} and {name}")

    def owns(self, member: Member) -> None:
        for other in self.members:
            if other.alive and other is not member and self.clock.now_s - other.heard_at < SESSION_S:
                both = set(member.owned) & set(other.owned)
                expect(not both, "one-living-owner", f"{member.name} and {other.name} own {both}")

    def join(self, member: Member, request: JoinGroupRequest) -> Deferred[Any]:
        coordinator = self.coordinator
        node = self.nodes[-1]
        context = node.context
        group = None if context is None or coordinator is not node.coordinator else context.shard.groups.find_classic(GROUP)
        known = member.instance is not None and not request.member_id and group is not None
        stable = known and group is not None and group.state is ClassicState.STABLE and group.static_member_id(member.instance) is not None
        answer = coordinator.join_group(Caller(9, "c", "/h"), request)
        answer.add_callback(lambda done: self.joins.append((done.result(), coordinator)))
        if stable and group is not None:
            expect(group.state is ClassicState.STABLE, "static-return-without-rebalance", f"{member.name}: {group}")
        return answer

    def check(self) -> None:
        context = self.nodes[-1].context
        group = None if context is None else context.shard.groups.find(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        seen, generation = self.seen
        expect(seen is not group or group.generation_id >= generation, "generation-monotonic", group)
        self.seen = (group, group.generation_id)
        parked = sum(member.awaiting_join is not None for member in group.members.values())
        expect(group.awaiting_join_count == parked, "every-awaiting-member-answered-once", group)
        expect(group.leader_id is None or group.leader_id in group.members, "memory-bounded", group)
        expect(len(group.pending_join) <= 2 * self.named + len(self.net.asked), "memory-bounded", group)

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def new_member(self, before: Member | None = None) -> None:
        self.named += 1
        name = before.name if before is not None else f"m{self.named}"
        self.members.append(Member(self, name, static=before is not None or self.rng.random() < 0.35))

    def living(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    def everybody(self) -> None:
        for member in self.living():
            member.turn()

    def step(self) -> None:
        rng = self.rng
        living = self.living()
        roll = rng.random()
        if roll < 0.40:
            self.everybody()
        elif roll < 0.58 and living:
            rng.choice(living).turn()
        elif roll < 0.66:
            self.commit_outside()
        elif roll < 0.76:
            self.troubled(self.all_at_once)
        elif roll < 0.81:
            self.move()
        elif roll < 0.84 and len(living) < 4:
            self.new_member()
        elif roll < 0.89 and living:
            self._depart(rng.choice(living))
        else:
            self.advance_s(rng.choice((0.3, 1.0, 3.0, 6.0, 12.0, 25.0)))
        self.advance_s(0.05)
        self.check()

    def _depart(self, member: Member) -> None:
        if self.rng.random() < 0.5:
            member.leave()
            return
        member.alive = False
        member.owned = ()
        if member.instance is not None and self.rng.random() < 0.8:
            self.new_member(member)

    def end(self) -> None:
        self.come_to_rest()
        self._settle()
        self.check_rest()
        for member in self.members:
            member.alive = False
        self.clock.advance_s(400)
        self.net.check_all_answered()
        group = self.context.shard.groups.find_classic(GROUP)
        expect(group is None or group.state is ClassicState.EMPTY, "rebalances-end", group)
        expect(group is None or not group.pending_join, "memory-bounded", group)
        if self.rng.random() < 0.1:
            self.clock.advance_s(9 * 86_400)
            shard = self.context.shard
            expect(len(shard.groups) == 0 and len(shard.offsets.offsets) == 0, "memory-bounded", f"{shard.groups.ids()} have not expired")
        self.close()

    def _settle(self) -> None:
        """Whoever is there shares all partitions in the end."""
        self.settling = True
        living = self.living()
        crowded = len(living) > self.settings.max_size
        for _ in range(60):
            self.everybody()
            self.everybody()
            self.clock.advance_s(2.0)
            self.check()
            owned = sorted(partition for member in living for partition in member.owned)
            if owned == list(PARTITIONS) or not living:
                return
        expect(crowded, "rebalances-end", f"{owned} are owned; {self.context.shard.groups.find(GROUP)}")


def _code(response: Any) -> int:
    return int(response.topics[0].partitions[0].error_code)
