"""Decorators for tests that are coroutines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from odradek.server.start.process import run_loop
from odradek.testing.simulation.loop import run

Test = Callable[..., Coroutine[Any, Any, None]]


def told_by(run: Callable[..., object], *more: object, **settings: object) -> Callable[[Test], Callable[..., None]]:
    """Return a decorator for tests whose first argument comes from `run`, the others from fixtures and parameters.

    `run` takes a coroutine function, `more` and the settings.
    """

    def decorate(test: Test) -> Callable[..., None]:
        @wraps(test)
        def told(*values: object, **fixtures: object) -> None:
            run(lambda first: test(first, *values, **fixtures), *more, **settings)

        told.__signature__ = inspect.Signature(list(inspect.signature(test).parameters.values())[1:])  # type: ignore[attr-defined]
        return told

    return decorate


in_virtual_time = told_by(run)
"""Decorator for tests that run on a `SimulatedLoop`, their first argument."""


def on_each_loop(test: Test) -> Callable[..., None]:
    """Run the test with the fixture `run`, on each kind of loop that the fixture has."""

    @wraps(test)
    def told(run: Callable[[Coroutine[Any, Any, None]], object], **fixtures: object) -> None:
        run(test(**fixtures))

    parameter = inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    told.__signature__ = inspect.Signature([parameter, *inspect.signature(test).parameters.values()])  # type: ignore[attr-defined]
    return told


def on_loop(test: Test) -> Callable[..., None]:
    """Run the test on a loop like the broker's."""

    @wraps(test)
    def told(*values: object, **fixtures: object) -> None:
        run_loop(test(*values, **fixtures))

    return told
