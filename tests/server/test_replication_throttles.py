"""Replicas that catch up are held back by either side (KIP-73), those in sync never, and nobody asks in vain all the time."""

from __future__ import annotations

import pytest

from odradek.base.ids import TopicPartition
from odradek.protocol.messages.metadata_records import ConfigRecord
from odradek.server.upkeep.replication_throttles import ReplicationThrottles
from tests.replication.fetching_cluster import FetchCluster, Node
from tests.replication.support import batch

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("other", 0)
VALUE = b"v" * 10_000
FITS = str(len(batch(VALUE)) + 10)
"""Bytes that hold one batch, and next to nothing of another, which would count as well."""
UNLIMITED = str(2**63 - 1)


class ReplicationThrottlesWorld:
    """A leader whose follower has fallen out of the ISR and has nothing yet, of a throttled topic and of another."""

    def __init__(self, *, isr: tuple[int, ...] = (1,)) -> None:
        self.cluster = FetchCluster(1, 2, replica_fetch_max_bytes=FITS)
        self.cluster.clock.advance_s(100)
        ids = [self.cluster.create(name, leader=1, number=number, told=(1,)) for number, name in ((1, "orders"), (2, "other"))]
        for id_ in ids:
            self.cluster.elect(id_, 1, 1, isr=isr)
        for side in ("leader", "follower"):
            key = f"{side}.replication.throttled.replicas"
            self.cluster.records.append(ConfigRecord(resource_type=2, resource_name="orders", name=key, value="0:1,0:2"))
        self.throttles = {number: self._throttles(node) for number, node in self.cluster.nodes.items()}

    def _throttles(self, node: Node) -> ReplicationThrottles:
        return ReplicationThrottles(node.services.dynamic_config, node.clock, node.manager, node.fetchers)

    def limit(self, side: str, rate: str = "20000") -> None:
        """On the broker whose side it is; the follower begins to follow."""
        self.cluster.tell()
        for number, node in self.cluster.nodes.items():
            given = {f"{side}.replication.throttled.rate": rate} if number == (1 if side == "leader" else 2) else {}
            assert node.services.dynamic_config.update(given, {}) == []
            self.throttles[number].configure(node.services.metadata.image)

    def copied(self, topic_partition: TopicPartition = TP) -> int:
        return self.cluster[2].log(topic_partition).log_end_offset

    def seconds_to_copy(self, count: int) -> float:
        begin = self.cluster.clock.monotonic()
        self.cluster.run_until(lambda: self.copied() == count, seconds=200)
        return self.cluster.clock.monotonic() - begin


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_comes_at_the_rate_of_either_side(side: str) -> None:
    world = ReplicationThrottlesWorld()
    for _ in range(60):
        world.cluster[1].lead(TP, VALUE)
        world.cluster[1].lead(OTHER, VALUE)
    world.limit(side)
    world.cluster.run(300)
    assert world.copied(OTHER) == 60, "what is not throttled is not held back"
    assert world.copied() < 60
    assert world.seconds_to_copy(60) == pytest.approx(600_000 / 20_000, rel=0.25)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_without_a_rate_nobody_is_held_back(side: str) -> None:
    world = ReplicationThrottlesWorld()
    for _ in range(60):
        world.cluster[1].lead(TP, VALUE)
    world.limit(side, UNLIMITED)
    assert world.cluster[1].manager.reader.withholds is None
    assert world.cluster[1].manager.leader_quota is None
    assert world.cluster[2].fetchers.quota is None
    assert world.seconds_to_copy(60) < 1


def test_a_rate_that_goes_lets_the_rest_through() -> None:
    world = ReplicationThrottlesWorld()
    for _ in range(60):
        world.cluster[1].lead(TP, VALUE)
    world.limit("leader")
    world.cluster.run(1000)
    assert world.copied() < 60
    world.limit("leader", UNLIMITED)
    assert world.seconds_to_copy(60) < 1


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_in_sync_is_never_held_back(side: str) -> None:
    world = ReplicationThrottlesWorld(isr=(1, 2))
    world.limit(side, "1")
    world.cluster.run(2000)
    for number in range(1, 30):
        asked = world.cluster[1].lead(TP, VALUE, acks=-1)
        world.cluster.run(20)
        assert asked.done, f"after {number} records"


def test_a_follower_that_is_held_back_is_not_answered_with_nothing_by_every_append() -> None:
    world = ReplicationThrottlesWorld()
    for _ in range(60):
        world.cluster[1].lead(TP, VALUE)
    world.limit("leader")
    world.cluster.run(1000)
    before = len(world.cluster.wire.fetches(2, 1))
    for _ in range(200):
        world.cluster[1].lead(TP, b"more")
        world.cluster.run(5)
    assert len(world.cluster.wire.fetches(2, 1)) - before < 10


def test_a_topic_that_is_not_throttled_any_more_is_not_held_back_and_may_be_again() -> None:
    world = ReplicationThrottlesWorld()
    world.limit("leader", "1")
    quota = world.cluster[1].manager.leader_quota
    for value in ("", "0:1", "", "*", "", "0:1,0:2"):
        world.cluster.records.append(
            ConfigRecord(resource_type=2, resource_name="orders", name="leader.replication.throttled.replicas", value=value or None)
        )
        world.limit("leader", "1")
        assert quota is not None
        assert quota.holds_for("orders", 0) is bool(value)
        assert not quota.holds_for("other", 0)


def test_what_names_no_replica_of_this_broker_holds_nobody_back() -> None:
    world = ReplicationThrottlesWorld()
    world.cluster.records.append(
        ConfigRecord(resource_type=2, resource_name="orders", name="leader.replication.throttled.replicas", value="0:7")
    )
    world.limit("leader", "1")
    assert world.cluster[1].manager.leader_quota is None
