"""What many requests of the admin client have in common: partitions by topic, operations as bits, words for states."""

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
    """Topic -> its partitions, each once, in the order given."""
    topics: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for topic, partition in partitions:
        topics[topic][partition] = None
    return {topic: list(numbers) for topic, numbers in topics.items()}


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations whose bits are set (KIP-430), those of a later Kafka left out; None when they were not asked for."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ANY and bits >> operation & 1)


def word(kind: type[Word], text: str) -> Word:
    """The member of that text, whatever its case; that of "Unknown" for a word of a later Kafka."""
    lowered = text.lower()
    return next((each for each in kind if each.value.lower() == lowered), kind("Unknown"))


def known(kind: type[Word], text: str) -> Word:
    """As `word`, of what a user wrote; ValueError, with the words there are, for none of them."""
    found = word(kind, text)
    if found.value == "Unknown" and text.lower() != "unknown":
        words = ", ".join(each.value for each in kind if each.value != "Unknown")
        raise ValueError(f"{text!r} is none of {words}")
    return found


def number(kind: type[Number], value: int) -> Number:
    """The member of that number; that of 0, UNKNOWN, for one of a later Kafka."""
    return kind(value) if value in kind._value2member_map_ else kind(0)


def present(value: int) -> int | None:
    """None for the -1 that stands for nothing."""
    return None if value < 0 else value
