"""Shared parts of the admin client's requests: partitions by topic, operations as bits, words for states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import TypeVar

from odradek.base.ids import TopicPartition
from odradek.client.admin.types.security import AclOperation

_NOT_ASKED = -(1 << 31)

Word = TypeVar("Word", bound=StrEnum)
Number = TypeVar("Number", bound=IntEnum)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return topic -> its partitions, each once, in the order given."""
    topics: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for topic, partition in partitions:
        topics[topic][partition] = None
    return {topic: list(numbers) for topic, numbers in topics.items()}


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations whose bits are set, except those of a later Kafka; None if the request did not ask for them (KIP-430)."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ANY and bits >> operation & 1)


def word(kind: type[Word], text: str) -> Word:
    """Return the member whose value is `text` in any case; the member "Unknown" for a word of a later Kafka."""
    lowered = text.lower()
    return next((each for each in kind if each.value.lower() == lowered), kind("Unknown"))


def known(kind: type[Word], text: str) -> Word:
    """Return the member whose value is the user's `text` in any case. Raise ValueError, with the valid words, for any other text."""
    found = word(kind, text)
    if found.value == "Unknown" and text.lower() != "unknown":
        words = ", ".join(each.value for each in kind if each.value != "Unknown")
        raise ValueError(f"{text!r} must be one of {words}")
    return found


def number(kind: type[Number], value: int) -> Number:
    """Return the member with that number; member 0 (UNKNOWN) for a number of a later Kafka."""
    return kind(value) if value in kind._value2member_map_ else kind(0)


def present(value: int) -> int | None:
    """Return `value`, or None if it is negative (Kafka's -1 for a missing value)."""
    return None if value < 0 else value
