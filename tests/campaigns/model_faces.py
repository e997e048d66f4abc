"""Blocking and asyncio clients in one form, for the models of the clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar

from tests.client.interrupts import CtrlC

T = TypeVar("T")
LIMIT_S = 60.0
"""How long a client may take for a call, or hand out nothing, before it counts as stuck."""


def drive(action: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, without an event loop."""
    try:
        action.send(None)
    except StopIteration as result:
        return result.value  # type: ignore[no-any-return]
    raise AssertionError("a blocking call has waited in an event loop")


class Face(Protocol):
    """Client of either form, as the models use it."""

    client: Any

    async def start(self) -> None: ...

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any: ...

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        """Make a call that ends early, at a place that `at` chooses. Return whether it returned, and its result."""
        ...


class Blocking:
    """Blocking client; a call ends early by Ctrl-C, at the line `at` of those that it runs in `modules`."""

    modules: ClassVar[tuple[ModuleType, ...]]

    def __init__(self, client: Any) -> None:
        self.client = client

    async def start(self) -> None:
        """Do nothing: the client has begun."""

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        return getattr(self.client, method)(*arguments, **named)

    async def left(self, method: str, at: int, *arguments: Any, **named: Any) -> tuple[bool, Any]:
        try:
            return True, CtrlC(at, self.modules).during(lambda: getattr(self.client, method)(*arguments, **named))
        except KeyboardInterrupt:
            return False, None


class Coroutines:
    """Asyncio client; a call is cancelled after `at` turns of the loop, which stands still between two steps."""

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
