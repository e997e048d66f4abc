"""Admin call for several items: results, retries, and the errors with which an item is given up.

An item (a topic, a group, a partition, a broker) is settled independently: by a result, by an error that a retry cannot mend, or by its
last error when the time is over. An item that fails neither fails nor delays the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from odradek.base.errors import ErrorCode, KafkaError, code_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Outcomes: TypeAlias = dict[K, V | KafkaError]
"""Item -> its result, or the error instead of a result."""

NOTHING: frozenset[ErrorCode] = frozenset()

CONTROLLER_ERRORS = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Errors of an item after which the request is retried at the controller."""

COORDINATOR_ERRORS = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors of an item after which its coordinator is looked up again and the request retried."""

RETRIABLE_ERRORS = frozenset(code for code in ErrorCode if code.retriable)


class NotHeard(KafkaError):
    """Missing response of a node. The error is not the broker's, and a retry is always worth while."""


def outcome(code: int, message: str | None, what: str) -> KafkaError | None:
    """Return None for code 0, else the error with the broker's message, or with `what` as its message."""
    return KafkaError(code_of(code), message or what) if code else None


class Items(Generic[K, V]):
    """Items of one call, each once, in the order given."""

    __slots__ = ("_done", "_last", "_name", "_order", "_retried")

    def __init__(self, keys: Iterable[K], retried: Collection[ErrorCode], name: Callable[[K], str]) -> None:
        self._order = list(dict.fromkeys(keys))
        self._retried = retried
        self._name = name
        self._done: Outcomes[K, V] = {}
        self._last: dict[K, KafkaError] = {}

    @property
    def left(self) -> list[K]:
        """Items that are not settled."""
        return [key for key in self._order if key not in self._done]

    def answered(self, asked: Iterable[K], answers: Mapping[K, V | KafkaError]) -> list[K]:
        """Process the answers for the items in `asked`; return the items to retry.

        An item that `answers` leaves out is settled with KafkaError(UNKNOWN_SERVER_ERROR).
        """
        again: list[K] = []
        for key in asked:
            if key not in answers:
                self._done[key] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response does not contain {self._name(key)}")
                continue
            answer = answers[key]
            if isinstance(answer, NotHeard) or (isinstance(answer, KafkaError) and answer.code in self._retried):
                self._last[key] = answer
                again.append(key)
            else:
                self._done[key] = answer
        return again

    def lost(self, keys: Iterable[K], error: KafkaError) -> None:
        """Note `error` as the last error of items for which no response came; the items stay unsettled and are retried."""
        for key in keys:
            self._last[key] = error

    def refused(self, keys: Iterable[K], error: KafkaError) -> None:
        """Settle these items with an error that concerns none of them in particular."""
        self._done.update(dict.fromkeys(keys, error))

    def give_up(self, keys: Iterable[K], after: str) -> None:
        """Settle these items with their last errors. `after` is text for the message: the time or the number of attempts."""
        for key in keys:
            last = self._last[key]
            if isinstance(last, NotHeard):
                last = KafkaError(last.code, f"{self._name(key)}: {last.message} (gave up after {after})")
            self._done[key] = last

    def outcomes(self) -> Outcomes[K, V]:
        """Return the result or error of every item, in the order given."""
        return {key: self._done[key] for key in self._order}


def results(outcomes: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """Return the results alone. Raise the first error, in the order in which the items were given."""
    found: dict[K, V] = {}
    for key, each in outcomes.items():
        if isinstance(each, KafkaError):
            raise each
        found[key] = each
    return found
