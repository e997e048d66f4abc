"""What a broker for tests is told to do wrong: rules that requests are held against, in the order in which they were made.

Rules are plain values and know no broker, so that they can be sent to one in another process. `testing.gate` acts on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

from odradek.base.errors import ErrorCode, OdradekError
from odradek.protocol.api_keys import ApiKey

ApiName: TypeAlias = "ApiKey | str | int"
"""An API: `ApiKey.PRODUCE`, "Produce", "PRODUCE" or 0."""

_NODE: Final = re.compile(r"node-\d+")
_BY_NAME: Final = {each.name.replace("_", "").lower(): each for each in ApiKey}


class FaultError(OdradekError):
    """A fault that cannot be, in one line."""


def api_key(api: ApiName) -> ApiKey:
    """FaultError for what is no API of Kafka's."""
    if isinstance(api, str):
        found = _BY_NAME.get(api.replace("_", "").lower())
        if found is None:
            raise FaultError(f"{api!r} is no API of Kafka's; they are called Produce, Fetch, ConsumerGroupHeartbeat, ...")
        return found
    try:
        return ApiKey(api)
    except ValueError:
        raise FaultError(f"{api} is no API key of Kafka's") from None


def error_code(error: ErrorCode | str | int) -> ErrorCode:
    """FaultError for what is no error of Kafka's, and for NONE."""
    try:
        found = ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise FaultError(f"{error!r} is no error of Kafka's") from None
    if found is ErrorCode.NONE:
        raise FaultError("NONE is no error")
    return found


def is_node(client_id: str | None) -> bool:
    """Whether a request comes from another node of the cluster."""
    return client_id is not None and _NODE.fullmatch(client_id) is not None


class Action(StrEnum):
    """What becomes of a request."""

    FAIL = "fail"
    DELAY = "delay"
    DROP = "drop"
    DISCONNECT = "disconnect"
    THROTTLE = "throttle"


class Rule(NamedTuple):
    """Which requests it is for, and what becomes of them. `times` None is without end; the first `skip` that match are let through.

    `applied`: the request takes effect before its answer is spoilt. `client_id` may have wildcards (`*`, `?`); without it the requests of
    other nodes of the cluster are let through.
    """

    action: Action
    apis: frozenset[int]
    """Empty: all of them."""
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    times: int | None = None
    skip: int = 0
    error: int = 0
    message: str | None = None
    seconds: float = 0.0
    applied: bool = False

    def is_for(self, key: int, client_id: str | None) -> bool:
        """Whether it is for requests of this API and client, as far as topics do not matter."""
        if self.apis and key not in self.apis:
            return False
        if self.client_id is None:
            return not is_node(client_id)
        return fnmatchcase(client_id or "", self.client_id)


def new_rule(
    action: Action,
    apis: ApiName | Sequence[ApiName] | None,
    *,
    topic: str | None = None,
    partition: int | None = None,
    client_id: str | None = None,
    times: int | None = None,
    skip: int = 0,
    error: ErrorCode | str | int | None = None,
    message: str | None = None,
    seconds: float = 0.0,
    applied: bool = False,
) -> Rule:
    """A rule that makes sense; FaultError says what does not."""
    named: Sequence[ApiName] = () if apis is None else [apis] if isinstance(apis, ApiKey | str | int) else apis
    if times is not None and times < 1:
        raise FaultError(f"times={times}: a fault comes at least once")
    if skip < 0:
        raise FaultError(f"skip={skip} is negative")
    if not 0 <= seconds < float("inf"):
        raise FaultError(f"seconds={seconds} is no time to wait")
    if partition is not None and topic is None:
        raise FaultError(f"partition={partition}: of which topic?")
    code = 0 if error is None else int(error_code(error))
    keys = frozenset(int(api_key(each)) for each in named)
    return Rule(action, keys, topic, partition, client_id, times, skip, code, message, seconds, applied)


class RuleBook:
    """The rules of a broker, by number, with what is left of each."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._skipped: dict[int, int] = {}
        self._hits: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, number: int, rule: Rule) -> None:
        """Holds from now on. The number is for its maker to choose, who may have had other brokers before."""
        self._rules[number] = rule
        self._hits[number] = 0

    def remove(self, number: int) -> None:
        """No error when it is gone."""
        self._rules.pop(number, None)

    def clear(self) -> None:
        self._rules.clear()

    def hits(self, number: int) -> int:
        """How many requests it has struck, also when it is gone."""
        return self._hits.get(number, 0)

    def candidates(self, key: int, client_id: str | None) -> list[tuple[int, Rule]]:
        """The rules that are for such a request, in order."""
        return [(number, rule) for number, rule in self._rules.items() if rule.is_for(key, client_id)]

    def strike(self, key: int, client_id: str | None, concerns: Callable[[Rule], bool]) -> Rule | None:
        """The first rule that is for this request, which is used up by so much. `concerns`: whether its topic and partition are named."""
        for number, rule in self.candidates(key, client_id):
            if not concerns(rule):
                continue
            skipped = self._skipped.get(number, 0)
            if skipped < rule.skip:
                self._skipped[number] = skipped + 1
                continue
            self._hits[number] += 1
            if rule.times is not None and self._hits[number] >= rule.times:
                del self._rules[number]
            return rule
        return None
