"""A step of the start, and what has been started so far.

A step is an object: it is made with what earlier steps returned, `start` returns what it made for those to come, and `stop` takes it back.
`server.boot` has all of them in their order.

- A step whose start began is stopped, whether the start succeeded or not: `stop` copes with every point at which `start` may have failed.
- Steps stop in reverse. A stop that fails or takes longer than its time limit is logged and the next one runs: what comes last (flushing
  the logs, the clean-shutdown marker, the locks) must always have its turn.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Step(ABC, Generic[T]):
    """One step; started once, then stopped once."""

    name: ClassVar[str]
    stop_timeout_s: ClassVar[float] = 5.0
    """How long `stop` may take."""

    @abstractmethod
    async def start(self) -> T:
        """Raises OdradekError or OSError when the node cannot be started."""

    def waits_for(self) -> str:
        """What a start that takes too long has been waiting for, for the message that ends it."""
        return f"the step {self.name}"

    async def stop(self) -> None:
        """Takes back what `start` has done, as far as it came. Here: nothing."""


class Startup:
    """The steps that have begun."""

    def __init__(self) -> None:
        self._begun: list[Step[Any]] = []

    async def start(self, step: Step[T]) -> T:
        """Starts the next step; what it returns and raises."""
        self._begun.append(step)
        return await step.start()

    def waits_for(self) -> str:
        """See `Step.waits_for`, of the step that is being started."""
        return self._begun[-1].waits_for() if self._begun else "its first step"

    async def stop(self) -> None:
        """Stops all that has begun, the last one first."""
        while self._begun:
            step = self._begun.pop()
            try:
                await asyncio.wait_for(step.stop(), step.stop_timeout_s)
            except TimeoutError:
                logger.error("stopping %s took longer than %.0f s; going on", step.name, step.stop_timeout_s)
            except Exception:
                logger.exception("stopping %s failed; going on", step.name)
