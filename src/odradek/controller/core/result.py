"""Result of a controller operation (org.apache.kafka.controller.ControllerResult)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from odradek.metadata.versioned import VersionedRecord

__all__ = ["ControllerResult", "VersionedRecord"]

T = TypeVar("T")


class ControllerResult(Generic[T]):
    """Records to replay and append at once, and the response to send after their commit.

    With `atomic` all records go into one batch; otherwise they may be split over several.
    """

    __slots__ = ("atomic", "records", "response")

    def __init__(self, records: Sequence[VersionedRecord], response: T, *, atomic: bool = False) -> None:
        self.records = list(records)
        self.response = response
        self.atomic = atomic

    def __repr__(self) -> str:
        return f"ControllerResult(records={self.records!r}, response={self.response!r}, atomic={self.atomic})"
