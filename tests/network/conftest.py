"""Fixtures for tests of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from odradek.server.start.process import new_event_loop
from tests.network.checked_states import CheckedStates
from tests.network.support import Run


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return a function that runs a coroutine on uvloop or asyncio, for at most 20 seconds."""
    factory = new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop_runner:
            loop_runner.run(asyncio.wait_for(main, 20))

    return runner


@pytest.fixture(autouse=True)
def states(monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckedStates]:
    """Check each transition of each connection of the test."""
    checked = CheckedStates(monkeypatch)
    yield checked
    checked.check()
