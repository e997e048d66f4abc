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
