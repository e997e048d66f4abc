"""Long answers are made in turns of the loop: counted, on a clock that tests turn by hand."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.context import RequestContext
from odradek.handlers.entries import Entries
from odradek.handlers.scopes import BROKER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_groups import DescribeGroupsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from odradek.server.requests import long_answers
from odradek.server.requests.long_answers import ITERATION_BYTES, ITERATION_S, REQUEST_BYTES, STEPS_PER_LOOK, LongAnswers
from tests.clock import ManualClock

Group = DescribeGroupsResponse.DescribedGroup
LARGE = 100_000
VERSION = 5


class Line:
    """Answers on a clock, and how many of their structs have been made."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answers = LongAnswers(self.clock)
        self.made: dict[str, int] = {}
        self.errors: dict[int, int] = {}
        """What has been counted, by error code."""

    def group(self, name: str, size: int) -> Group:
        self.made[name] = self.made.get(name, 0) + 1
        return Group(group_id=name, members=[DescribeGroupsResponse.DescribedGroupMember(member_metadata=b"m" * size)])

    def steps(self, name: str, count: int, size: int, takes_s: float) -> Entries[DescribeGroupsResponse]:
        for _ in range(count):
            self.clock.now_s += takes_s
            yield self.group(name, size)
        return DescribeGroupsResponse(throttle_time_ms=7)

    def ask(self, name: str = "g", count: int = 40, size: int = LARGE, takes_s: float = 0.0, **request: Any) -> Deferred[Any]:
        return self.serve(self.steps(name, count, size, takes_s), **request)

    def serve(self, steps: Entries[Any], connection: Any = None, request_size: int = 100) -> Deferred[Any]:
        context = RequestContext(ApiKey.DESCRIBE_GROUPS, VERSION, 1, "c", "id", "PLAINTEXT", BROKER, "host", 0.0, Mock())
        context.connection = connection
        context.measured = Mock(errors=self.errors)
        return self.answers.serve(context, request_size, steps)

    def turns(self, answer: Deferred[Any]) -> int:
        """Turn the loop until the answer is there; returns how often."""
        for number in range(1000):
            if answer.done:
                return number
            self.clock.turn()
        raise AssertionError("the answer never came")


@pytest.fixture
def line() -> Line:
    return Line()


def groups_of(answer: Deferred[Any]) -> list[Group]:
    decoded = DescribeGroupsResponse.decode(b"".join(answer.result().encode_chunks(VERSION)), VERSION)
    assert decoded.throttle_time_ms == 7
    return decoded.groups


def test_a_short_answer_is_there_at_once(line: Line) -> None:
    answer = line.ask(count=3, size=10)
    assert [group.group_id for group in groups_of(answer)] == ["g"] * 3
    assert line.errors == {0: 3}
    assert len(line.answers) == 0


def test_error_codes_of_structs_are_counted_and_none_of_the_response(line: Line) -> None:
    def steps() -> Entries[DescribeLogDirsResponse]:
        for code in (0, ErrorCode.KAFKA_STORAGE_ERROR, 0):
            yield DescribeLogDirsResponse.DescribeLogDirsResult(error_code=code, log_dir="d")
        return DescribeLogDirsResponse()

    assert line.serve(steps()).done
    assert line.errors == {0: 2, ErrorCode.KAFKA_STORAGE_ERROR: 1}  # the response's own code is counted when it is complete


def test_a_turn_has_a_share_of_the_bytes(line: Line) -> None:
    answer = line.ask(count=40)
    a_turn = ITERATION_BYTES // LARGE + 1
    assert line.made["g"] == a_turn
    assert line.turns(answer) == -(-(40 - a_turn) // a_turn)
    assert [len(group.members[0].member_metadata) for group in groups_of(answer)] == [LARGE] * 40
    assert line.errors == {0: 40}


def test_requests_that_wait_have_a_bound_in_bytes(line: Line) -> None:
    large = REQUEST_BYTES // 2 + 1
    first = line.ask("first", request_size=large)
    assert line.ask("small").done is False
    assert len(groups_of(line.ask("second", takes_s=ITERATION_S, request_size=large))) == 40  # in one go
    assert not first.done
    line.turns(first)
    assert not line.ask("other").done
    assert not line.ask("third", request_size=large).done


def test_one_large_request_alone_is_answered_in_turns(line: Line) -> None:
    assert not line.ask(request_size=2 * REQUEST_BYTES).done


def test_a_turn_has_a_share_of_the_time(line: Line) -> None:
    answer = line.ask(count=10, size=1, takes_s=2 * ITERATION_S)
    assert line.made["g"] == 1
    assert line.turns(answer) >= 9


def test_the_clock_is_read_once_in_a_few_steps_that_make_no_struct(line: Line) -> None:
    class Counted(ManualClock):
        readings = 0

        def monotonic(self) -> float:
            self.readings += 1
            return super().monotonic()

    def steps() -> Entries[DescribeGroupsResponse]:
        for _ in range(400):
            yield None
        yield from line.steps("g", 3, 10, 0.0)
        return DescribeGroupsResponse(throttle_time_ms=7)

    clock = line.clock = Counted()
    line.answers = LongAnswers(clock)
    assert len(groups_of(line.serve(steps()))) == 3
    assert clock.readings <= 400 // STEPS_PER_LOOK + 3 + 2


@pytest.mark.parametrize("structs_before", [0, 1, 2])
def test_steps_that_make_no_struct_have_a_share_of_the_time(line: Line, structs_before: int) -> None:
    taken = 0

    def steps() -> Entries[DescribeGroupsResponse]:
        nonlocal taken
        yield from line.steps("g", structs_before, 10, 0.0)
        for _ in range(40):
            line.clock.now_s += 2 * ITERATION_S
            taken += 1
            yield None
        return DescribeGroupsResponse(throttle_time_ms=7)

    answer = line.serve(steps())
    assert taken == STEPS_PER_LOOK
    line.clock.turn()
    assert taken == 2 * STEPS_PER_LOOK
    line.turns(answer)
    assert len(groups_of(answer)) == structs_before


def test_all_that_wait_share_a_turn(line: Line) -> None:
    answers = [line.ask(name, count=20, size=1, takes_s=2 * ITERATION_S) for name in "abcdefgh"]
    before = sum(line.made.values())
    line.clock.turn()
    assert sum(line.made.values()) == before + 1
    for _ in range(40):
        line.clock.turn()
    # Nobody gets ahead of the others.
    assert max(line.made.values()) - min(line.made.values()) <= 1
    assert not any(answer.done for answer in answers)


def test_a_struct_that_comes_later_is_waited_for(line: Line) -> None:
    later: list[Deferred[Any]] = [Deferred(), Deferred()]

    def steps() -> Entries[DescribeGroupsResponse]:
        yield line.group("first", 1)
        yield from later
        yield None
        return DescribeGroupsResponse(throttle_time_ms=7)

    answer = line.serve(steps())
    line.clock.turn()
    assert not answer.done
    later[0].complete(line.group("second", 1))
    later[1].complete(line.group("third", 1))
    line.turns(answer)
    assert [group.group_id for group in groups_of(answer)] == ["first", "second", "third"]
    assert len(line.answers) == 0


def test_a_request_counts_as_waiting_from_the_first_wait_to_the_end_of_its_answer(line: Line) -> None:
    later: list[Deferred[Any]] = [Deferred(), Deferred()]

    def steps() -> Entries[DescribeGroupsResponse]:
        yield from later
        yield from line.steps("g", 40, LARGE, 0.0)
        return DescribeGroupsResponse(throttle_time_ms=7)

    def is_held() -> bool:
        return line.answers.held_requests.hold(Mock(closed=True), ApiKey.DESCRIBE_GROUPS, 10)

    assert not line.ask().done
    assert not is_held()
    answer = line.serve(steps(), request_size=REQUEST_BYTES)
    assert is_held()
    for each in later:
        each.complete(line.group("g", 1))
        line.clock.turn()
    assert not answer.done
    assert is_held()
    line.turns(answer)
    assert not is_held()


@pytest.mark.parametrize("late", [False, True])
def test_an_error_ends_the_answer(line: Line, late: bool) -> None:
    failed: Deferred[Any] = Deferred()

    def steps() -> Entries[DescribeGroupsResponse]:
        yield line.group("first", 1)
        if not late:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        yield failed
        return DescribeGroupsResponse()

    answer = line.serve(steps())
    failed.fail(KafkaError(ErrorCode.INVALID_REQUEST))
    assert isinstance(answer.error, KafkaError)
    assert len(line.answers) == 0


def test_nobody_works_for_a_connection_that_is_gone(line: Line) -> None:
    connection = Mock(closed=False)
    answer = line.ask(count=100, connection=connection)
    line.clock.turn()
    made = line.made["g"]
    connection.closed = True
    line.clock.turn()
    assert isinstance(answer.error, ProtocolError)
    assert line.made["g"] == made
    assert len(line.answers) == 0


def test_an_answer_has_a_most(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_answers, "MOST_BYTES", 20 * LARGE)
    answer = line.ask(count=100)
    line.turns(answer)
    assert isinstance(answer.error, KafkaError)
    assert answer.error.code is ErrorCode.INVALID_REQUEST
    assert line.made["g"] == 20
    assert line.turns(line.ask("other", count=15)) > 0  # nothing is left of it


@pytest.mark.parametrize("late", [False, True])
def test_refused_answers_leave_the_bound_on_all_together_as_it_is(line: Line, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    most = 10 * LARGE
    monkeypatch.setattr(long_answers, "TOGETHER_BYTES", most)
    monkeypatch.setattr(long_answers, "MOST_BYTES", LARGE)

    def waits(struct: Deferred[Any]) -> Entries[DescribeGroupsResponse]:
        yield struct
        return DescribeGroupsResponse()

    for _ in range(20):
        struct: Deferred[Any] = Deferred()
        refused = line.serve(waits(struct)) if late else line.ask("refused", count=1)
        struct.complete(line.group("late", LARGE))
        assert isinstance(refused.error, KafkaError)
    monkeypatch.undo()
    monkeypatch.setattr(long_answers, "TOGETHER_BYTES", most)
    for name in "abcd":
        line.ask(name, count=60)
    for _ in range(15):
        line.clock.turn()
    assert sum(line.made[name] for name in "bcd") * LARGE < 2 * most


def test_only_the_oldest_goes_on_while_all_hold_much(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 10 * LARGE
    monkeypatch.setattr(long_answers, "TOGETHER_BYTES", most)
    first, *others = [line.ask(name, count=60) for name in "abcd"]
    while not first.done:
        line.clock.turn()
        assert sum(line.made[name] for name in "bcd") * LARGE <= most + 4 * ITERATION_BYTES
    for other in others:
        line.turns(other)
        assert len(other.result().groups) == 60
