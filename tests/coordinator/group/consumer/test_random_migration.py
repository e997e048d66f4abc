"""Members of both protocols come and go in one group, which changes its type with them: nobody has what another has."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.classic.group import ClassicGroup
from odradek.coordinator.group.consumer.group import ConsumerGroup
from tests.coordinator.group.consumer.migration_support import MigrationWorld, assignment, partitions, subscription
from tests.coordinator.group.consumer.random_support import Client
from tests.coordinator.group.consumer.support import Owned
from tests.coordinator.group.support import GROUP, JoinReply, SyncReply


class ClassicClient:
    """Cooperative: it keeps what it has while it joins, gives up what it does not get, and then joins again."""

    def __init__(self, world: MigrationWorld) -> None:
        self.world = world
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = {}
        self.joining: JoinReply | None = None
        self.syncing: SyncReply | None = None
        self.rejoin = True

    def turn(self) -> None:
        if self.joining is not None:
            self.after_join()
        elif self.syncing is not None:
            self.after_sync()
        elif self.rejoin:
            self.joining = self.world.join(self.member_id, protocols=[("range", subscription("t", owned=self.owned))])
        else:
            code = self.world.heartbeat(self.member_id, self.generation)
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin = True
            elif code is not ErrorCode.NONE:
                self.start_anew(code)

    def start_anew(self, code: ErrorCode) -> None:
        assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS), code
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = {}
        self.rejoin = True

    def after_join(self) -> None:
        assert self.joining is not None
        if not self.joining.done:
            return
        answer, self.joining = self.joining.result(), None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error_code:
            self.start_anew(ErrorCode(answer.error_code))
            return
        self.member_id, self.generation, self.rejoin = answer.member_id, answer.generation_id, False
        shares: dict[str, bytes] = {}
        if answer.leader == answer.member_id:
            ids = sorted(member.member_id for member in answer.members)
            count = len(self.world.cluster.image.topics.by_name["t"].partitions)
            shares = {member: assignment(t=list(range(index, count, len(ids)))) for index, member in enumerate(ids)}
        self.syncing = self.world.sync(self.member_id, self.generation, shares)

    def after_sync(self) -> None:
        assert self.syncing is not None
        if not self.syncing.done:
            return
        answer, self.syncing = self.syncing.result(), None
        if answer.error_code:
            self.start_anew(ErrorCode(answer.error_code))
            return
        before, self.owned = self.owned, partitions(answer.assignment)
        lost = set(before.get("t", ())) - set(self.owned.get("t", ()))
        self.rejoin = bool(lost) and isinstance(self.world.shard.groups.find(GROUP), ConsumerGroup)


@pytest.mark.parametrize("seed", range(20))
def test_groups_change_their_type_with_their_members(seed: int) -> None:
    rng = random.Random(seed)
    world = MigrationWorld({"t": 6})
    young: list[Client] = []
    old = [ClassicClient(world)]
    types: set[str] = set()
    for number in range(140):
        kind = rng.random()
        if number < 10:
            kind = 1.0
        elif number == 20:
            kind = 0.07
        if kind < 0.05 and len(old) < 3:
            old.append(ClassicClient(world))
        elif kind < 0.10 and len(young) < 3:
            young.append(Client(world, f"m{number}", None, ["t"], None))
        elif kind < 0.15 and young:
            young.pop(rng.randrange(len(young))).leave()
        elif kind < 0.18 and old:
            gone = old.pop(rng.randrange(len(old)))
            if gone.member_id:
                world.leave((gone.member_id, None))
        elif kind < 0.20:
            world.publish(world.cluster.grow("t", len(world.cluster.image.topics.by_name["t"].partitions) + 1))
        turns(world, young, old, rng.choice([0.2, 1, 2]))
        group = world.shard.groups.find(GROUP)
        types.add(type(group).__name__)
        check(group, old)
    for _ in range(60):
        turns(world, young, old, 2)
        check(world.shard.groups.find(GROUP), old)
    assert {"ClassicGroup", "ConsumerGroup"} <= types
    everybody: list[Client | ClassicClient] = [*young, *old]
    owned = [partition for each in everybody for partition in each.owned.get("t", ())]
    count = len(world.cluster.image.topics.by_name["t"].partitions)
    group = world.shard.groups.find(GROUP)
    if young:
        assert isinstance(group, ConsumerGroup)
        assert group.state_name == "Stable"
        assert sorted(owned) == list(range(count))
    elif old and isinstance(group, ClassicGroup):
        # Who leads a classic group finds new partitions itself, which these clients do not.
        assert len(set(owned)) == len(owned)


def turns(world: MigrationWorld, young: list[Client], old: list[ClassicClient], seconds: float) -> None:
    world.clock.advance_s(seconds)
    for client in young:
        client.beat()
    for each in old:
        each.turn()
        each.turn()


def check(group: object, old: list[ClassicClient]) -> None:
    if isinstance(group, ConsumerGroup):
        found = [
            (topic_id, partition)
            for member in group.members.values()
            for owned in (member.assigned, member.pending_revocation)
            for topic_id, epochs in owned.items()
            for partition in epochs
        ]
        assert len(found) == len(set(found)), "two members have it"
        assert set(group.partition_epochs) == set(found)
        for client in old:
            member = group.members.get(client.member_id)
            if member is not None and client.generation in (member.member_epoch, member.previous_epoch):
                both = [*member.assigned.values(), *member.pending_revocation.values()]
                has = {partition for epochs in both for partition in epochs}
                assert set(client.owned.get("t", ())) <= has, "taken from the client unasked"
