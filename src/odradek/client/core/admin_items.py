"""One call for several items: what came of each, what is asked again, and what it is given up with.

An item (a topic, a group, a partition, a broker) is settled on its own: by a result, by an error that asking again cannot mend, or by its
last error when the time is over. One item that fails neither fails nor delays the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from odradek.base.errors import ErrorCode, KafkaError, code_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Outcomes: TypeAlias = dict[K, V | KafkaError]
"""Item -> its result, or why there is none."""

NOTHING: frozenset[ErrorCode] = frozenset()

CONTROLLER_ERRORS = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Of one item, after which a controller is asked for it again."""

COORDINATOR_ERRORS = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Of one item, after which its coordinator is found and asked again."""

RETRIABLE_ERRORS = frozenset(code for code in ErrorCode if code.retriable)


class NotHeard(KafkaError):
    """Nothing came back of a node: no error of the broker's, and always worth another question."""


def outcome(code: int, message: str | None, what: str) -> KafkaError | None:
    """None for code 0; else the error, with the broker's message or with `what` it is about."""
    return KafkaError(code_of(code), message or what) if code else None


class Items(Generic[K, V]):
    """The items of one call, each once, in the order given."""

    __slots__ = ("_done", "_last", "_name", "_order", "_retried")

    def __init__(self, keys: Iterable[K], retried: Collection[ErrorCode], name: Callable[[K], str]) -> None:
        self._order = list(dict.fromkeys(keys))
        self._retried = retried
        self._name = name
        self._done: Outcomes[K, V] = {}
        self._last: dict[K, KafkaError] = {}

    @property
    def left(self) -> list[K]:
        """The items that are not settled."""
        return [key for key in self._order if key not in self._done]

    def answered(self, asked: Iterable[K], answers: Mapping[K, V | KafkaError]) -> list[K]:
        """Takes the answers for the items that were asked for; returns those to ask again. What an answer leaves out is an error."""
        again: list[K] = []
        for key in asked:
            if key not in answers:
                self._done[key] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves out {self._name(key)}")
                continue
            answer = answers[key]
            if isinstance(answer, NotHeard) or (isinstance(answer, KafkaError) and answer.code in self._retried):
                self._last[key] = answer
                again.append(key)
            else:
                self._done[key] = answer
        return again

    def lost(self, keys: Iterable[K], error: KafkaError) -> None:
        """Nothing was heard of these items; they are asked for again."""
        for key in keys:
            self._last[key] = error

    def refused(self, keys: Iterable[K], error: KafkaError) -> None:
        """These items are settled by an error that has nothing to do with any of them."""
        self._done.update(dict.fromkeys(keys, error))

    def give_up(self, keys: Iterable[K], after: str) -> None:
        """They are not asked for again, `after` so long or so often: these items are settled by their last errors."""
        for key in keys:
            last = self._last[key]
            if isinstance(last, NotHeard):
                last = KafkaError(last.code, f"{self._name(key)}: {last.message} (gave up after {after})")
            self._done[key] = last

    def outcomes(self) -> Outcomes[K, V]:
        """What came of every item, in the order given."""
        return {key: self._done[key] for key in self._order}


def results(outcomes: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The results alone; raises the first error, in the order in which the items were given."""
    found: dict[K, V] = {}
    for key, each in outcomes.items():
        if isinstance(each, KafkaError):
            raise each
        found[key] = each
    return found
