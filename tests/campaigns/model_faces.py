"""Blocking and asyncio clients with one interface, for the models of the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar

from tests.client.interrupts import CtrlC

T = TypeVar("T")
LIMIT_S = 60.0
"""Seconds that a client may take for a call, or return no record, before it counts as stuck."""


def drive(action: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop. Raises AssertionError when it waits."""
    try:
        action.send(None)
    except StopIteration as result:
        return result.value  # type: ignore[no-any-return]
    raise AssertionError("a blocking call has waited in an event loop")


class Face(Protocol):
    """Interface of a client of either kind, for the models."""

    client: Any

    async def start(self) -> None: ...

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any: ...

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        """Make a call that ends early, at a point that `at` chooses. Return whether the call returned, and its result."""
        ...


class Blocking:
    """Blocking client. A call ends early by Ctrl-C, at the `at`th line that it runs in `modules`."""

    modules: ClassVar[tuple[ModuleType, ...]]

    def __init__(self, client: Any) -> None:
        self.client = client

    async def start(self) -> None:
        """Do nothing: the client starts itself."""

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self.client, method)(*arguments, **named)

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        try:
            return True, CtrlC(at, self.modules).during(lambda: getattr(self.client, method)(*arguments, **named))
        except KeyboardInterrupt:
            return False, None


class Coroutines:
    """Asyncio client. A call is cancelled after `at` iterations of the event loop, which runs only during steps."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def start(self) -> None:
        await self.client.start()

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        result = getattr(self.client, method)(*arguments, **named)
        return await asyncio.wait_for(result, LIMIT_S) if asyncio.iscoroutine(result) else result

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        calling = asyncio.ensure_future(getattr(self.client, method)(*arguments, **named))
        for _ in range(at):
            await asyncio.sleep(0)
        calling.cancel()
        try:
            return True, await calling
        except asyncio.CancelledError:
            return False, None
