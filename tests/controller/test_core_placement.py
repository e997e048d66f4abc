"""New replicas are spread over racks and brokers (KIP-36; StripedReplicaPlacer's rules)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.placement import StripedPlacer, UsableBroker

SEEDS = range(20)


def placer(seed: int, racks: dict[str | None, list[int]], fenced: tuple[int, ...] = ()) -> StripedPlacer:
    brokers = [UsableBroker(broker, rack, broker in fenced) for rack, ids in racks.items() for broker in ids]
    return StripedPlacer(brokers, random.Random(seed))


THREE_RACKS: dict[str | None, list[int]] = {"a": [0, 3], "b": [1, 4], "c": [2, 5]}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_broker_and_no_rack_is_used_twice_while_there_are_others(seed: int) -> None:
    made = placer(seed, THREE_RACKS)
    for _ in range(24):
        replicas = made.place(3)
        assert len({broker % 3 for broker in replicas}) == 3, replicas
    for _ in range(24):
        replicas = made.place(5)
        assert len(set(replicas)) == 5
        assert max(Counter(broker % 3 for broker in replicas).values()) == 2, replicas


@pytest.mark.parametrize("seed", SEEDS)
def test_racks_of_different_sizes_are_used_up_in_turn(seed: int) -> None:
    made = placer(seed, {"a": [0], "b": [1, 2, 3], "c": [4]})
    for _ in range(12):
        replicas = made.place(3)
        assert {0, 4} <= set(replicas)


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_are_spread_evenly(seed: int) -> None:
    made = placer(seed, THREE_RACKS)
    leaders = Counter(made.place(3)[0] for _ in range(6))
    assert leaders == dict.fromkeys(range(6), 1)
    one_rack = placer(seed, {None: [0, 1, 2, 3]})
    assert Counter(one_rack.place(2)[0] for _ in range(4)) == dict.fromkeys(range(4), 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fenced_broker_never_leads_and_comes_last(seed: int) -> None:
    made = placer(seed, {"a": [0, 3], "b": [1, 4], "c": [2, 5]}, fenced=(0, 1, 4))
    for _ in range(12):
        replicas = made.place(3)
        assert replicas[0] not in (0, 1, 4)
        assert 0 not in replicas, "its rack has a broker that lives"
        assert len(set(replicas) & {1, 4}) == 1
        assert sorted(made.place(6)) == list(range(6))


@pytest.mark.parametrize("seed", SEEDS)
def test_sets_of_replicas_do_not_come_again_in_the_same_order(seed: int) -> None:
    made = placer(seed, {None: list(range(8))})
    rounds = [[tuple(made.place(3)) for _ in range(8)] for _ in range(4)]
    assert len({tuple(each) for each in rounds}) > 1


def test_as_many_replicas_as_brokers_fit_and_no_more() -> None:
    made = placer(1, {None: [0, 1, 2]}, fenced=(2,))
    assert sorted(made.place(3)) == [0, 1, 2]
    for factor in (4, 0, -1):
        with pytest.raises(KafkaError) as caught:
            made.place(factor)
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("brokers", [[], [0, 1]])
def test_without_a_living_broker_there_is_nowhere_to_go(brokers: list[int]) -> None:
    with pytest.raises(KafkaError) as caught:
        placer(1, {None: brokers}, fenced=(0, 1)).place(1)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
