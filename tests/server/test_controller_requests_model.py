"""Requests to controllers that change, refuse, are late and fail for a while, in any order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.network.peers import Address
from odradek.protocol.schema import Message
from tests.server.controller_support import FIRST, NOT_CONTROLLER, OK, SECOND, ControllerRequestsWorld

TIMEOUT_S = 5.0
LONGEST_PAUSE_S = 0.4


class Requests(RuleBasedStateMachine):
    """Each request ends with the first answer, or at its deadline; as long as there is a controller, it is soon with that one."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ControllerRequestsWorld()
        self.waiting: list[tuple[float, Deferred[Message]]] = []
        """(deadline, result) of requests that have not ended."""
        self.closed = False

    @rule()
    def send(self) -> None:
        self.waiting.append((self.world.clock.now_s + TIMEOUT_S, self.world.send(TIMEOUT_S)))

    @rule(controller=st.sampled_from((FIRST, SECOND, None)))
    def elect(self, controller: Address | None) -> None:
        self.world.elect(controller)

    @property
    def under_way(self) -> list[Deferred[Message]]:
        return [answer for _, _, answer in self.world.sent if not answer.done]

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), how=st.sampled_from(("answered", "refused", "lost", "late", "for good")))
    def end_attempt(self, data: st.DataObject, how: str) -> None:
        answer = data.draw(st.sampled_from(self.under_way))
        before = sum(not result.done for _, result in self.waiting)
        if how == "answered":
            answer.complete(OK)
        elif how == "refused":
            answer.complete(NOT_CONTROLLER)
        else:
            codes = {"lost": ErrorCode.NETWORK_EXCEPTION, "late": ErrorCode.REQUEST_TIMED_OUT, "for good": ErrorCode.UNSUPPORTED_VERSION}
            answer.fail(KafkaError(codes[how]))
        ended = before - sum(not result.done for _, result in self.waiting)
        if how in ("refused", "lost", "late"):
            assert ended == 0, "asked again"
        else:
            assert ended <= 1

    @rule(seconds=st.sampled_from((0.05, 0.4, 2.0)))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance_s(seconds)

    @rule()
    def all_are_answered(self) -> None:
        """After that it is as if there had been nothing before."""
        self.world.elect(FIRST)
        self.world.clock.advance_s(LONGEST_PAUSE_S)
        for answer in self.under_way:
            answer.complete(OK)
        assert all(result.done for _, result in self.waiting)
        assert len(self.world.requests) == 0

    @invariant()
    def holds(self) -> None:
        now_s = self.world.clock.now_s
        for deadline_s, result in self.waiting:
            assert result.done or now_s < deadline_s
            if result.done and isinstance(result.error, KafkaError) and result.error.code is ErrorCode.REQUEST_TIMED_OUT:
                assert now_s >= deadline_s, "no attempt's end is its own"
        self.waiting = [(deadline_s, result) for deadline_s, result in self.waiting if not result.done]
        assert len(self.world.requests) == len(self.waiting)
        assert all(each <= TIMEOUT_S + 1e-9 for _, each, _ in self.world.sent), "no attempt has more time than its request"


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=80, stateful_step_count=20)


def test_there_is_room_again_when_requests_have_ended() -> None:
    world = ControllerRequestsWorld(None)
    for _ in range(2):
        waiting = [world.send(1.0) for _ in range(10_000)]
        assert not any(each.done for each in waiting)
        assert world.send(1.0).done, "one too many"
        world.clock.advance_s(1.0)
        assert all(each.done for each in waiting)
    world.elect(FIRST)
    assert not world.send().done


def test_pauses_are_short_again_after_another_controller_was_known() -> None:
    world = ControllerRequestsWorld()
    world.send()
    for controller in (SECOND, FIRST):
        pauses = list[float]()
        for _ in range(4):
            count = len(world.sent)
            world.sent[-1][2].complete(NOT_CONTROLLER)
            begin = world.clock.now_s
            while len(world.sent) == count:
                world.clock.advance_to_next()
            pauses.append(round(world.clock.now_s - begin, 2))
        assert pauses == [0.05, 0.1, 0.2, 0.4]
        world.elect(controller)
