"""Results that come later."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable

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
    with pytest.raises(RuntimeError, match="not available yet"):
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


# -- results made of results --------------------------------------------------------------------------------------------------------------

ERROR = KafkaError(ErrorCode.INVALID_REQUEST, "no")


def made(when: str, value: int | BaseException) -> tuple[Deferred[int], Callable[[], object]]:
    """Return a deferred, and what completes it: nothing when it is done `before`."""
    deferred: Deferred[int] = Deferred()

    def end() -> None:
        if isinstance(value, BaseException):
            deferred.fail(value)
        else:
            deferred.complete(value)

    if when == "before":
        end()
        return deferred, lambda: None
    return deferred, end


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("value", [3, ERROR, ValueError("a bug")])
def test_then_maps_the_value_and_passes_an_error_on(when: str, value: int | BaseException) -> None:
    called: list[int] = []
    deferred, end = made(when, value)
    mapped = deferred.then(lambda number: called.append(number) or f"<{number}>")
    twice = mapped.then(len).then(lambda length: length + 1)
    end()
    if isinstance(value, BaseException):
        assert (mapped.error, twice.error, called) == (value, value, [])
    else:
        assert (mapped.result(), twice.result(), called) == ("<3>", 4, [3])


@pytest.mark.parametrize("when", ["before", "after"])
def test_then_replaces_an_error_by_what_a_second_function_returns(when: str) -> None:
    for value, expected in ((3, "3"), (ERROR, "INVALID_REQUEST"), (ValueError("a bug"), None)):
        problem = RuntimeError("another")

        def failed(error: BaseException, problem: RuntimeError = problem) -> str:
            if isinstance(error, KafkaError):
                return error.code.name
            raise problem

        deferred, end = made(when, value)
        mapped = deferred.then(str, failed)
        end()
        assert mapped.done
        if expected is None:
            assert mapped.error is problem
        else:
            assert mapped.result() == expected


@pytest.mark.parametrize("raised", [ValueError("a bug"), ERROR, asyncio.CancelledError()])
def test_an_error_within_then_fails_its_own_result_only(raised: BaseException) -> None:
    def fail(_: int) -> int:
        raise raised

    heard: list[str] = []
    deferred: Deferred[int] = Deferred()
    mapped = deferred.then(fail)
    recovered = mapped.then(lambda number: number, lambda error: 7 if error is raised else 0)
    deferred.add_callback(lambda _: heard.append("others"))
    assert deferred.complete(1)
    assert mapped.error is raised
    assert recovered.result() == 7
    assert heard == ["others"]
    assert deferred.result() == 1


def test_a_kafka_error_within_then_does_not_hold_its_request() -> None:
    def refuse(request: Request) -> int:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request} will not do")

    gc.disable()
    try:
        request = Request()
        held = weakref.ref(request)
        deferred: Deferred[Request] = Deferred()
        mapped = deferred.then(refuse)
        deferred.complete(request)
        del request, deferred
        assert isinstance(mapped.error, KafkaError)
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("value", [3, ERROR])
def test_into_passes_on_to_one_that_is_not_done(when: str, value: int | BaseException) -> None:
    deferred, end = made(when, value)
    other: Deferred[int] = Deferred()
    done: Deferred[int] = Deferred.of(9)
    deferred.into(other)
    deferred.into(done)
    end()
    if isinstance(value, BaseException):
        assert other.error is value
    else:
        assert other.result() == value
    assert done.result() == 9


def test_a_coroutine_awaits_a_deferred() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await Deferred.of(1) == 1
        with pytest.raises(KafkaError) as refused:
            await Deferred.failed(ERROR)
        assert refused.value is ERROR
        for value in (3, ValueError("a bug")):
            deferred, end = made("after", value)
            loop.call_soon(end)
            if isinstance(value, int):
                assert await deferred == value
            else:
                with pytest.raises(ValueError, match="a bug"):
                    await deferred
        one, two = made("after", 1), made("after", 2)
        loop.call_soon(two[1])
        loop.call_soon(one[1])
        assert await asyncio.gather(one[0], two[0]) == [1, 2]

    asyncio.run(main())


def test_a_cancelled_coroutine_leaves_the_deferred_as_it_is() -> None:
    async def main() -> None:
        deferred: Deferred[int] = Deferred()

        async def wait() -> int:
            return await deferred

        waiting = [asyncio.create_task(wait()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait((waiting[0],))
        assert not deferred.done
        deferred.complete(5)
        assert await waiting[1] == 5
        assert waiting[0].cancelled()

    asyncio.run(main())


def test_a_deferred_that_is_done_needs_no_iteration_of_a_loop() -> None:
    async def main() -> int:
        return await Deferred.of(1)

    with pytest.raises(StopIteration) as returned:
        main().send(None)
    assert returned.value.value == 1
