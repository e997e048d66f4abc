"""Which nodes of a simulated story are deposed coordinators that do not know it."""

from __future__ import annotations

from odradek.base.ids import TopicPartition
from tests.simulation.whole.invariants.deposed import DeposedLeaders, Leadership

GROUPS = TopicPartition("__consumer_offsets", 2)
AT_ONE, AT_TWO, AT_ONE_AGAIN = ({GROUPS: Leadership(leader, epoch)} for leader, epoch in ((1, 4), (2, 5), (1, 6)))


def test_a_leader_is_unaware_from_when_anybody_has_read_of_the_next_until_it_has() -> None:
    deposed = DeposedLeaders()
    deposed.read(1, AT_ONE, 10.0)
    deposed.read(2, AT_ONE, 10.0)
    assert not deposed.was_unaware(1, GROUPS, 10.0)
    deposed.read(2, AT_TWO, 20.0)
    assert deposed.was_unaware(1, GROUPS, 21.0)
    assert not deposed.was_unaware(2, GROUPS, 10.0), "it leads"
    deposed.read(1, AT_TWO, 30.0)
    assert deposed.was_unaware(1, GROUPS, 29.9), "the question came before it knew"
    assert not deposed.was_unaware(1, GROUPS, 30.1)


def test_whoever_has_read_less_but_never_led_is_not_unaware() -> None:
    deposed = DeposedLeaders()
    deposed.read(3, AT_ONE, 10.0)
    deposed.read(2, AT_TWO, 20.0)
    assert not deposed.was_unaware(3, GROUPS, 10.0)
    assert not deposed.was_unaware(4, GROUPS, 10.0)


def test_a_leader_that_has_missed_its_own_next_election_is_not_deposed() -> None:
    deposed = DeposedLeaders()
    deposed.read(1, AT_ONE, 10.0)
    deposed.read(2, AT_ONE_AGAIN, 20.0)
    assert not deposed.was_unaware(1, GROUPS, 10.0)


def test_an_old_image_of_another_node_changes_nothing() -> None:
    deposed = DeposedLeaders()
    deposed.read(2, AT_TWO, 10.0)
    deposed.read(3, AT_ONE, 20.0)
    assert not deposed.was_unaware(2, GROUPS, 0.0)
