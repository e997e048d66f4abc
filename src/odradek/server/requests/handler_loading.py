"""Import of handlers before their first request.

Imports would make the start slower. So they begin `FIRST_AFTER_S` after the node is ready: one API after the other, in the loop's executor.
The first client of an API then does not wait for its import. A request also finds its handler when no free descriptor is left to import it
with.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from odradek.base.timing import Alarm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from odradek.base.clock import Clock
    from odradek.server.requests.dispatch import Route

logger = logging.getLogger(__name__)

FIRST_AFTER_S: Final = 1.0
PAUSE_S: Final = 0.02
"""Seconds between the imports of two APIs; imports then cost the first clients at most half of a core."""


class HandlerLoader:
    """Loader of routes, active from `start` to `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, routes: Iterable[Route]) -> None:
        self._loop = loop
        self._routes = iter(routes)
        self._alarm = Alarm(clock, self._next)
        self._stopped = False

    def start(self) -> None:
        """Begin to import after `FIRST_AFTER_S` seconds."""
        self._alarm.set(FIRST_AFTER_S)

    def stop(self) -> None:
        """Begin no further import; an import under way runs to its end."""
        self._stopped = True
        self._alarm.close()

    def _next(self) -> None:
        route = next((each for each in self._routes if each.function is None), None)
        if route is not None:
            self._loop.run_in_executor(None, route.import_modules).add_done_callback(lambda done: self._imported(route, done))

    def _imported(self, route: Route, done: asyncio.Future[None]) -> None:
        if self._stopped or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            # The first request of the API tries again, and gets the error.
            logger.warning("the handler of %s cannot be imported yet: %s", route.api_key.name, error)
        elif route.function is None:
            route.load()
        self._alarm.set(PAUSE_S)
