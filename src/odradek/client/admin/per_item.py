"""Two forms of an admin call for several items: `try_x` returns a result or a KafkaError per item, `x` raises the first error.

Only `try_x` is written by hand; the decorators of this module derive `x`. (`blocking` derives the blocking methods of both.)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from odradek.base.errors import KafkaError
from odradek.client.admin.items import results

S = TypeVar("S")
P = ParamSpec("P")
K = TypeVar("K")
V = TypeVar("V")


def raising(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, dict[K, V | KafkaError]]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, dict[K, V]]]:
    """Return the plain form of a `try_` method: it returns only results, and raises the first error after every item is settled."""

    @wraps(method)
    async def plain(self: S, /, *arguments: P.args, **keywords: P.kwargs) -> dict[K, V]:
        return results(await method(self, *arguments, **keywords))

    return _named(plain, method)


def raising_only(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, dict[K, KafkaError | None]]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, None]]:
    """Return the plain form, as `raising` does, of a `try_` method whose items have no result."""

    @wraps(method)
    async def plain(self: S, /, *arguments: P.args, **keywords: P.kwargs) -> None:
        results(await method(self, *arguments, **keywords))

    return _named(plain, method)


F = TypeVar("F", bound=Callable[..., Any])
_RAISES = "Raises the KafkaError of the first item that failed; the other items may have succeeded."


def _named(plain: F, method: Callable[..., Any]) -> F:
    plain.__name__ = method.__name__.removeprefix("try_")
    plain.__qualname__ = method.__qualname__.replace("try_", "", 1)
    plain.__doc__ = f"{(method.__doc__ or '').rstrip()}\n\n        {_RAISES}\n        "
    result = str(method.__annotations__["return"])
    given = "None" if result.endswith(", None]") else result.replace("Outcomes[", "dict[", 1)
    plain.__annotations__ = {**method.__annotations__, "return": given}
    plain.__signature__ = signature(method).replace(return_annotation=given)  # type: ignore[attr-defined]
    return plain
