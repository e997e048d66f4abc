"""Results that come later."""

from __future__ import annotations

import gc
import weakref

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError


class Request:
    """Something large."""


@pytest.mark.parametrize("way", ["fail", "failed"])
def test_an_answer_that_is_an_error_does_not_hold_what_was_asked(way: str) -> None:
    asked: list[weakref.ref[Request]] = []

    def refuse(request: Request) -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request} will not do")

    def handle(request: Request) -> Deferred[None]:
        asked.append(weakref.ref(request))
        result: Deferred[None] = Deferred()
        try:
            refuse(request)
        except KafkaError as error:
            if way == "fail":
                result.fail(error)
            else:
                result = Deferred.failed(error)
        return result

    gc.disable()
    try:
        answer = handle(Request())
        assert isinstance(answer.error, KafkaError)
        assert asked[0]() is None
    finally:
        gc.enable()


def test_other_exceptions_keep_where_they_came_from() -> None:
    result: Deferred[None] = Deferred()
    try:
        raise ValueError("a bug")
    except ValueError as error:
        result.fail(error)
    assert result.error is not None
    assert result.error.__traceback__ is not None


def test_the_first_result_stays_and_everybody_hears_it_once_in_order() -> None:
    heard: list[tuple[str, int]] = []
    deferred: Deferred[int] = Deferred()
    deferred.add_callback(lambda done: heard.append(("first", done.result())))
    deferred.add_callback(lambda done: heard.append(("second", done.result())))
    with pytest.raises(RuntimeError, match="not there yet"):
        deferred.result()
    assert deferred.complete(1)
    assert not deferred.complete(2)
    assert not deferred.fail(KafkaError(ErrorCode.INVALID_REQUEST))
    deferred.add_callback(lambda done: heard.append(("late", done.result())))
    assert heard == [("first", 1), ("second", 1), ("late", 1)]
    assert deferred.result() == 1
    assert deferred.error is None


def test_a_failure_stays_a_failure() -> None:
    deferred: Deferred[int] = Deferred()
    error = ValueError("no")
    assert deferred.fail(error)
    assert not deferred.complete(1)
    assert deferred.error is error
    with pytest.raises(ValueError, match="no"):
        deferred.result()


def test_a_result_does_not_hold_those_who_waited_for_it() -> None:
    request = Request()
    held = weakref.ref(request)
    deferred: Deferred[int] = Deferred()
    deferred.add_callback(lambda done, request=request: None)  # type: ignore[misc]
    del request
    gc.disable()
    try:
        deferred.complete(1)
        assert held() is None
    finally:
        gc.enable()
