"""Members that join, leave, die and lose messages, topics that come, grow and go, coordinators that move: at random, in virtual time.

At all times nobody has what another one has, and epochs do not go back; in the end, when it is quiet, everybody has its share.
"""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import STATIC_LEAVE_EPOCH
from tests.coordinator.group.consumer.random_support import Client
from tests.coordinator.group.consumer.support import ConsumerWorld
from tests.coordinator.group.support import GROUP

STEPS = 160


class Story:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        interval = self.rng.choice(["0", "1000"])
        self.world = ConsumerWorld({"t1": 3, "t2": 5, "u": 2}, group_consumer_assignment_interval_ms=interval)
        self.clients: list[Client] = []
        self.away: list[Client] = []
        self.named = 0
        self.group_epoch = 0
        self.told: dict[str, int] = {}

    def new_client(self, instance: str | None = None) -> Client:
        self.named += 1
        rng, regex, topics = self.rng, None, None
        if rng.random() < 0.3:
            regex = rng.choice(["t.*", ".*", "u"])
        else:
            topics = rng.sample(["t1", "t2", "u", "later"], rng.randint(1, 4))
        return Client(self.world, f"m{self.named}", instance, topics, regex)

    def step(self) -> None:
        rng, clients = self.rng, self.clients
        kind = rng.random()
        if kind < 0.08 and len(clients) < 6:
            instance = f"i{self.named}" if rng.random() < 0.4 else None
            clients.append(self.new_client(instance))
        elif kind < 0.12 and clients:
            clients.pop(rng.randrange(len(clients))).leave()
        elif kind < 0.15 and clients:
            clients.pop(rng.randrange(len(clients)))
        elif kind < 0.20:
            self.static_steps()
        elif kind < 0.26:
            self.change_cluster()
        elif kind < 0.29:
            self.world.load()
        elif kind < 0.32:
            self.world.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
            for client in clients:
                client.beat()
            self.world.log.fail_with = None
        elif kind < 0.36 and clients:
            client = rng.choice(clients)
            client.topics, client.regex, client.says_all = self.new_client().topics, None, True
        else:
            self.world.clock.advance_s(rng.choice([0.1, 2, 5]))
            for client in clients:
                if rng.random() < 0.8:
                    client.beat(lost=rng.random() < 0.15)
                    self.check()
        self.check()

    def static_steps(self) -> None:
        here = [client for client in self.clients if client.instance is not None]
        if self.away and self.rng.random() < 0.6:
            before = self.away.pop()
            self.named += 1
            self.clients.append(Client(self.world, f"m{self.named}", before.instance, before.topics, before.regex))
        elif here:
            client = self.rng.choice(here)
            self.clients.remove(client)
            client.leave(STATIC_LEAVE_EPOCH)
            self.away.append(client)

    def change_cluster(self) -> None:
        cluster, rng = self.world.cluster, self.rng
        names = cluster.image.topics.by_name
        name = rng.choice(["t1", "t2", "u", "later"])
        if name not in names:
            self.world.publish(cluster.create(**{name: rng.randint(1, 4)}))
        elif rng.random() < 0.4:
            self.world.publish(cluster.delete(name))
        else:
            self.world.publish(cluster.grow(name, len(names[name].partitions) + 1))

    def check(self) -> None:
        group = self.world.shard.groups.find(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        assert owners.setdefault((topic_id, partition), member.member_id) == member.member_id, "two members have it"
            assert member.member_epoch <= group.epochs.target
        assert set(group.partition_epochs) == set(owners)
        assert group.epochs.target <= group.epochs.group
        assert group.epochs.group >= self.group_epoch, "the group's epoch went back"
        self.group_epoch = group.epochs.group
        self.check_clients(group, owners)

    def check_clients(self, group: ConsumerGroup, owners: dict[tuple[UUID, int], str]) -> None:
        topics = self.world.cluster.image.topics
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is None or client.epoch not in (member.member_epoch, member.previous_epoch) or client.epoch == 0:
                continue
            for name, partitions in client.owned.items():
                topic_id = topics.topic_id(name)
                if topic_id is not None:
                    for partition in partitions:
                        assert owners.get((topic_id, partition)) == client.member_id, (
                            "it is not the client's any more, who knows nothing of it"
                        )

    def settle(self) -> None:
        for _ in range(30):
            self.world.clock.advance_s(5)
            for client in self.clients:
                client.beat()
            self.check()

    def check_settled(self) -> None:
        if not self.clients:
            return
        world, group = self.world, self.world.consumers
        assert set(group.members) == {client.member_id for client in self.clients}
        assert group.state_name == "Stable"
        got: dict[tuple[str, int], str] = {}
        for client in self.clients:
            assert client.epoch == group.epochs.group
            for name, partitions in client.owned.items():
                for partition in partitions:
                    assert got.setdefault((name, partition), client.member_id) == client.member_id
        subscribed = {name for member in group.members.values() for name in group.subscribed_names(member)}
        topics = world.cluster.image.topics.by_name
        assert set(got) == {(name, partition) for name in subscribed & set(topics) for partition in topics[name].partitions}


@pytest.mark.parametrize("seed", range(25))
def test_nobody_has_what_another_has_and_all_is_shared_in_the_end(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
    story.settle()
    story.check_settled()
