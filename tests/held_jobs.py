"""Jobs apart from the loop, which a test holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.base.deferred import Deferred


class HeldJobs:
    """Jobs that are done when the test says so, in the order in which they were begun."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def apart(self, job: Callable[[], Any]) -> Deferred[Any]:
        result: Deferred[Any] = Deferred()

        def work() -> None:
            try:
                result.complete(job())
            except Exception as error:
                result.fail(error)

        self.held.append(work)
        return result

    def do(self) -> None:
        """Do all that are held."""
        held, self.held = self.held, []
        for each in held:
            each()
