"""Sessions of brokers, and when one that wants to go may go."""

from __future__ import annotations

import pytest

from odradek.controller.core.heartbeats import ControlState, Heartbeats

TIMEOUT_S = 10.0


@pytest.fixture
def heartbeats() -> Heartbeats:
    return Heartbeats(TIMEOUT_S)


def live(heartbeats: Heartbeats, *broker_ids: int, offset: int = 50, at: float = 0.0) -> None:
    for broker_id in broker_ids:
        heartbeats.touch(broker_id, fenced=False, metadata_offset=offset, now_s=at)


class TestSessions:
    def test_a_session_lasts_for_its_timeout_and_not_longer(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, at=100.0)
        assert heartbeats.has_valid_session(1, 100.0 + TIMEOUT_S)
        assert heartbeats.stale_brokers(100.0 + TIMEOUT_S) == []
        assert not heartbeats.has_valid_session(1, 100.1 + TIMEOUT_S)
        assert heartbeats.stale_brokers(100.1 + TIMEOUT_S) == [1]

    def test_the_longest_silent_comes_first(self, heartbeats: Heartbeats) -> None:
        for broker_id, at in ((1, 5.0), (2, 1.0), (3, 3.0)):
            live(heartbeats, broker_id, at=at)
        assert heartbeats.stale_brokers(100.0) == [2, 3, 1]

    def test_who_is_fenced_has_no_session_to_lose(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2)
        heartbeats.fence(1)
        assert heartbeats.stale_brokers(100.0) == [2]
        assert not heartbeats.has_valid_session(1, 0.0)
        assert heartbeats.state_of(1) is ControlState.FENCED

    def test_it_begins_with_a_heartbeat_and_not_with_a_registration(self, heartbeats: Heartbeats) -> None:
        heartbeats.register(1, fenced=True)
        assert not heartbeats.has_valid_session(1, 0.0)
        heartbeats.touch(1, fenced=True, metadata_offset=0, now_s=0.0)
        assert heartbeats.has_valid_session(1, TIMEOUT_S), "fenced or not"
        heartbeats.touch(1, fenced=False, metadata_offset=7, now_s=1.0)
        heartbeats.register(1, fenced=False)
        assert heartbeats.next_check_s() == 1.0 + TIMEOUT_S, "the same registration again"

    def test_who_is_not_registered_has_none(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1)
        heartbeats.remove(1)
        assert heartbeats.next_check_s() is None
        assert not heartbeats.has_valid_session(1, 0.0)
        heartbeats.fence(1)
        heartbeats.remove(1)
        assert heartbeats.state_of(1) is ControlState.FENCED

    def test_the_next_check_is_when_the_first_session_may_be_over(self, heartbeats: Heartbeats) -> None:
        assert heartbeats.next_check_s() is None
        live(heartbeats, 1, at=5.0)
        live(heartbeats, 2, at=2.0)
        heartbeats.touch(3, fenced=True, metadata_offset=0, now_s=0.0)
        assert heartbeats.next_check_s() == 2.0 + TIMEOUT_S
        live(heartbeats, 2, at=9.0)
        assert heartbeats.next_check_s() == 5.0 + TIMEOUT_S


class TestControlledShutdown:
    def test_it_is_seen_by_who_has_come_to_its_very_offset(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2, offset=49)
        heartbeats.begin_shutdown(1, 50)
        assert not heartbeats.all_others_have_seen_shutdown(1)
        live(heartbeats, 2, offset=50)
        assert heartbeats.all_others_have_seen_shutdown(1)

    def test_everybody_has_to_see_it(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2, 3)
        live(heartbeats, 4, offset=10)
        heartbeats.begin_shutdown(1, 50)
        assert not heartbeats.all_others_have_seen_shutdown(1)

    def test_the_dead_do_not_hold_it_up(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2)
        heartbeats.touch(3, fenced=True, metadata_offset=0, now_s=0.0)
        heartbeats.begin_shutdown(1, 50)
        assert heartbeats.all_others_have_seen_shutdown(1)

    def test_nobody_waits_for_another_that_is_going(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2, offset=49)
        heartbeats.begin_shutdown(1, 50)
        heartbeats.begin_shutdown(2, 51)
        assert heartbeats.all_others_have_seen_shutdown(1)
        assert heartbeats.all_others_have_seen_shutdown(2)

    def test_the_last_one_need_not_wait(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, offset=0)
        heartbeats.begin_shutdown(1, 50)
        assert heartbeats.all_others_have_seen_shutdown(1)

    def test_its_offset_is_that_of_its_beginning(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1, 2, offset=50)
        heartbeats.begin_shutdown(1, 50)
        heartbeats.begin_shutdown(1, 90)
        assert heartbeats.all_others_have_seen_shutdown(1)

    @pytest.mark.parametrize("by", ["a heartbeat", "its session"])
    def test_it_is_over_when_the_broker_is_fenced(self, heartbeats: Heartbeats, by: str) -> None:
        live(heartbeats, 1)
        heartbeats.begin_shutdown(1, 50)
        assert (heartbeats.is_shutting_down(1), heartbeats.state_of(1)) == (True, ControlState.CONTROLLED_SHUTDOWN)
        if by == "a heartbeat":
            heartbeats.touch(1, fenced=True, metadata_offset=50, now_s=1.0)
        else:
            heartbeats.fence(1)
        assert (heartbeats.is_shutting_down(1), heartbeats.state_of(1)) == (False, ControlState.FENCED)

    def test_a_heartbeat_does_not_end_it(self, heartbeats: Heartbeats) -> None:
        live(heartbeats, 1)
        heartbeats.begin_shutdown(1, 50)
        live(heartbeats, 1, at=1.0)
        assert heartbeats.state_of(1) is ControlState.CONTROLLED_SHUTDOWN
