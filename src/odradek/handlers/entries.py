"""Type of the responses that handlers make in slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from odradek.base.deferred import Deferred
from odradek.protocol.schema import Message, Struct

M = TypeVar("M", bound=Message)
Entries: TypeAlias = Generator[Struct | Deferred[Any] | None, None, M]
"""Return type of a handler that makes its response in slices; `server.requests.long_answers` says what it yields."""
