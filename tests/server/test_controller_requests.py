"""Requests to the active controller: they wait for one, follow it, and end in time."""

from __future__ import annotations

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.schema import Message
from tests.server.controller_support import FIRST, NOT_CONTROLLER, OK, SECOND, ControllerRequestsWorld, code


def test_the_controller_answers() -> None:
    world = ControllerRequestsWorld()
    answer = world.send()
    world.sent[0][2].complete(OK)
    assert answer.result() is OK
    assert len(world.requests) == 0
    world.clock.advance_s(100)
    assert world.asked == [FIRST]


def test_without_a_controller_it_waits_and_goes_out_as_soon_as_one_is_known() -> None:
    world = ControllerRequestsWorld(None)
    answer = world.send()
    world.clock.advance_s(20)
    assert world.sent == []
    world.elect(SECOND)
    assert world.asked == [SECOND]
    world.sent[0][2].complete(OK)
    assert answer.result() is OK


def test_a_controller_whose_address_becomes_known_without_an_election_is_found() -> None:
    world = ControllerRequestsWorld(None)
    world.send()
    world.controller = FIRST
    world.clock.advance_s(0.5)
    assert world.asked == [FIRST]


def test_it_is_sent_again_when_nobody_can_have_answered() -> None:
    for code_ in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT):
        world = ControllerRequestsWorld()
        answer = world.send()
        world.fail(code_)
        assert not answer.done
        world.clock.advance_s(0.05)
        assert world.asked == [FIRST, FIRST]
        world.sent[1][2].complete(OK)
        assert answer.result() is OK


def test_who_is_no_controller_is_asked_again_in_growing_intervals_until_another_is_known() -> None:
    world = ControllerRequestsWorld()
    answer = world.send()
    for _ in range(30):
        world.sent[-1][2].complete(NOT_CONTROLLER)
        world.clock.advance_s(0.4)
    assert 20 < len(world.sent) <= 31
    world.sent[-1][2].complete(NOT_CONTROLLER)
    before = len(world.sent)
    world.elect(SECOND)
    assert world.asked[before:] == [SECOND], "at once"
    world.sent[-1][2].complete(OK)
    assert answer.result() is OK
    world.clock.advance_s(100)
    assert len(world.sent) == before + 1, "the pause that was running is over"


def test_a_controller_that_stays_silent_is_left_for_the_next_one() -> None:
    """A stopped process keeps its connections: nothing would end the wait for it but time."""
    world = ControllerRequestsWorld()
    answer = world.send()
    world.elect(None)
    assert world.asked == [FIRST], "nobody else to ask yet"
    world.elect(SECOND)
    assert world.asked == [FIRST, SECOND]
    world.sent[0][2].fail(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    world.clock.advance_s(1)
    assert world.asked == [FIRST, SECOND], "what the former one says does not send it a third time"
    world.sent[1][2].complete(OK)
    assert answer.result() is OK


def test_an_answer_of_the_former_controller_is_one() -> None:
    world = ControllerRequestsWorld()
    answer = world.send()
    world.elect(SECOND)
    world.sent[0][2].complete(OK)
    assert answer.result() is OK
    world.sent[1][2].complete(NOT_CONTROLLER)
    world.clock.advance_s(10)
    assert len(world.sent) == 2


def test_the_same_controller_again_is_not_asked_twice() -> None:
    world = ControllerRequestsWorld()
    world.send()
    world.elect(None)
    world.elect(FIRST)
    assert world.asked == [FIRST]


def test_the_deadline_ends_it_wherever_it_is() -> None:
    for controller in (None, FIRST):
        world = ControllerRequestsWorld(controller)
        answer = world.send(timeout_s=5)
        world.clock.advance_s(4.9)
        assert not answer.done
        world.clock.advance_s(0.2)
        assert code(answer) is ErrorCode.REQUEST_TIMED_OUT
        assert len(world.requests) == 0
        sent = len(world.sent)
        world.elect(SECOND)
        world.clock.advance_s(10)
        assert len(world.sent) == sent


def test_what_went_wrong_last_is_told_at_the_deadline() -> None:
    world = ControllerRequestsWorld()
    answer = world.send(timeout_s=5)
    while not answer.done:
        world.fail()
        world.clock.advance_s(0.4)
    assert "made to fail" in str(answer.error)


def test_an_attempt_has_the_time_that_is_left_and_no_more_than_its_own() -> None:
    world = ControllerRequestsWorld()
    world.send(timeout_s=60)
    assert world.sent[0][1] == 30
    world.clock.advance_s(40)
    world.fail()
    world.clock.advance_s(0.05)
    assert 19.9 < world.sent[1][1] <= 20


def test_what_asking_again_does_not_mend_ends_it() -> None:
    world = ControllerRequestsWorld()
    answer = world.send()
    world.fail(ErrorCode.UNSUPPORTED_VERSION)
    assert code(answer) is ErrorCode.UNSUPPORTED_VERSION
    assert len(world.requests) == 0


def test_too_many_are_refused() -> None:
    world = ControllerRequestsWorld(None)
    waiting = [world.send() for _ in range(10_000)]
    assert code(world.send()) is ErrorCode.NETWORK_EXCEPTION
    assert not any(each.done for each in waiting)


def test_closing_fails_what_waits_and_lets_what_is_under_way_end() -> None:
    world = ControllerRequestsWorld()
    under_way = world.send()
    world.controller = None
    waiting = world.send()
    world.requests.close()
    assert code(waiting) is ErrorCode.NETWORK_EXCEPTION
    assert not under_way.done
    world.sent[0][2].complete(OK)
    assert under_way.result() is OK


@pytest.mark.parametrize("answered", ["failed", "not controller", "elected"])
def test_once_closed_no_request_is_sent_again(answered: str) -> None:
    world = ControllerRequestsWorld()
    under_way = world.send()
    world.requests.close()
    if answered == "failed":
        world.fail()
        assert code(under_way) is ErrorCode.NETWORK_EXCEPTION
    elif answered == "not controller":
        world.sent[0][2].complete(NOT_CONTROLLER)
        assert code(under_way) is ErrorCode.NOT_CONTROLLER
    else:
        world.elect(SECOND)
        assert not under_way.done
    world.clock.advance_s(1)
    assert code(world.send()) is ErrorCode.NETWORK_EXCEPTION
    assert world.asked == [FIRST]


def test_a_request_that_the_callback_of_a_closed_one_sends_fails() -> None:
    world = ControllerRequestsWorld(None)
    second: list[Deferred[Message]] = []
    world.send().add_callback(lambda _: second.append(world.send()))
    world.requests.close()
    assert code(second[0]) is ErrorCode.NETWORK_EXCEPTION
    assert len(world.requests) == 0
