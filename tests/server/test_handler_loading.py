"""Handlers are imported one after the other when the node has been ready for a moment."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any, cast

import pytest

from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.metrics.requests import Requests
from odradek.server.requests.dispatch import Route, build_routes
from odradek.server.requests.handler_loading import FIRST_AFTER_S, PAUSE_S, HandlerLoader
from tests.clock import ManualClock
from tests.waiting import until


class FakeRoute:
    def __init__(self, name: str, *errors: Exception) -> None:
        self.api_key: Any = type("Key", (), {"name": name})
        self.errors = list(errors)
        self.function: object = None
        self.imported = 0

    def import_modules(self) -> None:
        self.imported += 1
        if self.errors:
            raise self.errors.pop(0)

    def load(self) -> None:
        assert self.imported
        self.function = self


def loader(clock: ManualClock, routes: list[FakeRoute]) -> HandlerLoader:
    return HandlerLoader(asyncio.get_running_loop(), clock, cast(list[Route], routes))


def test_routes_are_loaded_one_after_the_other() -> None:
    async def main() -> None:
        clock = ManualClock()
        routes = [FakeRoute("A"), FakeRoute("B"), FakeRoute("C")]
        routes[1].function = "asked for before"
        loader(clock, routes).start()
        clock.advance_s(FIRST_AFTER_S - 0.001)
        assert [route.imported for route in routes] == [0, 0, 0]
        clock.advance_s(0.001)
        await until(lambda: bool(clock.pending))
        assert [bool(route.function) for route in routes] == [True, True, False]
        clock.advance_s(PAUSE_S)
        await until(lambda: bool(clock.pending))
        assert [route.imported for route in routes] == [1, 0, 1]
        assert routes[1].function == "asked for before"
        clock.advance_s(PAUSE_S)
        assert not clock.pending

    asyncio.run(main())


def test_one_that_cannot_be_imported_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = ManualClock()
        routes = [FakeRoute("A", OSError(errno.EMFILE, "Too many open files")), FakeRoute("B")]
        loader(clock, routes).start()
        for wait_s in (FIRST_AFTER_S, PAUSE_S):
            clock.advance_s(wait_s)
            await until(lambda: bool(clock.pending))
        assert [bool(route.function) for route in routes] == [False, True]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == ["the handler of A cannot be imported yet: [Errno 24] Too many open files"]


def test_nothing_is_begun_after_the_end() -> None:
    async def main() -> None:
        clock = ManualClock()
        routes = [FakeRoute("A"), FakeRoute("B")]
        early = loader(clock, routes)
        early.start()
        early.stop()
        clock.advance_s(10)
        assert [route.imported for route in routes] == [0, 0]
        late = loader(clock, routes)
        late.start()
        clock.advance_s(FIRST_AFTER_S)
        late.stop()
        await until(lambda: routes[0].imported == 1)
        clock.advance_s(10)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        assert (routes[1].imported, clock.pending) == (0, [])

    asyncio.run(main())


@pytest.mark.parametrize("scope", [BROKER, CONTROLLER])
def test_what_is_imported_is_what_answers(scope: str) -> None:
    routes, _ = build_routes(scope, unstable=True, requests=Requests(), optional=True)
    for route in routes.values():
        route.import_modules()
        route.load()
        assert route.function is not None
