"""Step of the start, and the list of begun steps.

A step is an object. It is made with the results of earlier steps, `start` returns its result for later steps, and `stop` undoes the step.
`server.start.boot` has all steps in their order.

- A step whose start began is stopped, even if the start failed: `stop` must work after a failure at any point of `start`.
- Steps stop in reverse order. When a stop fails or exceeds its timeout, the error is logged and the next step stops. The last stops
  (flushing the logs, the clean-shutdown marker, the locks) must always run.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from odradek.base.errors import OdradekError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class StartError(OdradekError):
    """Error that prevents the start of a node; its message is one line."""


class Step(ABC, Generic[T]):
    """Step of the start; started once, then stopped once."""

    name: ClassVar[str]
    stop_timeout_s: ClassVar[float] = 5.0
    """Seconds that `stop` may take."""

    @abstractmethod
    async def start(self) -> T:
        """Start the step and return its result. Raises OdradekError or OSError when the node cannot be started."""

    def waits_for(self) -> str:
        """Return a description of the step's wait, for the error message of a start that takes too long."""
        return f"the step {self.name}"

    async def stop(self) -> None:
        """Undo `start`, as far as it came. The default does nothing."""


class Startup:
    """Begun steps."""

    def __init__(self) -> None:
        self._begun: list[Step[Any]] = []

    async def start(self, step: Step[T]) -> T:
        """Start the next step, and return its result. Raises the errors of `Step.start`."""
        self._begun.append(step)
        return await step.start()

    def waits_for(self) -> str:
        """Return `Step.waits_for` of the step that is being started."""
        return self._begun[-1].waits_for() if self._begun else "its first step"

    async def stop(self) -> None:
        """Stop all begun steps, in reverse order."""
        while self._begun:
            step = self._begun.pop()
            try:
                await asyncio.wait_for(step.stop(), step.stop_timeout_s)
            except TimeoutError:
                logger.error("stopping %s takes longer than %.0f s; continuing", step.name, step.stop_timeout_s)
            except Exception:
                logger.exception("stopping %s failed; continuing", step.name)
