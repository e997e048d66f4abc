"""Reading from the nearest replica (KIP-392), and how far behind the reader is: the fetcher without IO."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.client.core.fetcher import FetchedPartition
from tests.client.fetcher_support import A, FetcherWorld, data, fetched

LEADER, NEARER = 1, 2
PREFERENCE_MS = 300_000
REFERRED = FetchedPartition(ErrorCode.NONE, (), memoryview(b""), 10, NEARER)


def referred() -> FetcherWorld:
    world = FetcherWorld()
    plan = world.plan()
    assert plan.node_id == LEADER
    world.answer(REFERRED, plan=plan)
    return world


def test_the_replica_that_the_leader_names_is_read_from() -> None:
    world = referred()
    plan = world.plan()
    assert (plan.node_id, plan.targets[0].offset) == (NEARER, 0)
    world.answer(fetched(data(0, b"a")), plan=plan)
    assert world.plan().node_id == NEARER


def test_after_a_while_the_leader_is_asked_again() -> None:
    world = referred()
    world.now += PREFERENCE_MS - 1
    plan = world.plan()
    assert plan.node_id == NEARER
    world.answer(fetched(), plan=plan)
    world.now += 1
    assert world.plan().node_id == LEADER


def test_what_the_nearer_replica_does_not_have_the_leader_is_asked_for() -> None:
    world = referred()
    world.answer(fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    plan = world.plan()
    assert (plan.node_id, plan.targets[0].offset) == (LEADER, 0)
    assert world.fetcher.resets() == []


def test_a_nearer_replica_that_fails_is_left() -> None:
    for error in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE):
        world = referred()
        assert world.answer(fetched(error=error)), "metadata is out of date"
        assert world.plans() == [], "not at once"
        world.now += 1000
        assert world.plan().node_id == LEADER


def test_a_nearer_replica_that_is_gone_is_left() -> None:
    world = referred()
    world.fetcher.positions[A].preferred = 9
    assert world.plan().node_id == LEADER


def test_the_end_of_the_partition_is_known_from_every_answer() -> None:
    world = FetcherWorld()
    assert world.fetcher.positions[A].end_offset == -1
    world.answer(REFERRED)
    assert world.fetcher.positions[A].end_offset == 10
    world.answer(fetched())
    assert world.fetcher.positions[A].end_offset == 10
