"""Rules for faults of a test broker, and the match of requests against the rules in the order in which they were added.

Rules are plain values without a reference to a broker, so that they can be sent to a broker in another process. `testing.kit.gate` acts on
them.
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
    """Invalid arguments of a fault; the message is one line."""


def api_key(api: ApiName) -> ApiKey:
    """Return the API key of a name or number. Raises FaultError for an API that Kafka does not have."""
    if isinstance(api, str):
        found = _BY_NAME.get(api.replace("_", "").lower())
        if found is None:
            raise FaultError(f"{api!r} is not the name of an API of Kafka; names are Produce, Fetch, ConsumerGroupHeartbeat, ...")
        return found
    try:
        return ApiKey(api)
    except ValueError:
        raise FaultError(f"{api} is not an API key of Kafka") from None


def error_code(error: ErrorCode | str | int) -> ErrorCode:
    """Return the error code of a name or number. Raises FaultError for an error that Kafka does not have, and for NONE."""
    try:
        found = ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise FaultError(f"{error!r} is not an error of Kafka") from None
    if found is ErrorCode.NONE:
        raise FaultError("NONE is not an error")
    return found


def is_node(client_id: str | None) -> bool:
    """Return whether a client id belongs to another node of the cluster."""
    return client_id is not None and _NODE.fullmatch(client_id) is not None


class Action(StrEnum):
    """Effect of a fault on a request."""

    FAIL = "fail"
    DELAY = "delay"
    DROP = "drop"
    DISCONNECT = "disconnect"
    THROTTLE = "throttle"


class Rule(NamedTuple):
    """Condition and effect of one fault.

    The first `skip` matching requests are let through. The fault ends after `times` requests; None is without end. `applied`: the request
    takes effect before its response is changed or lost. `client_id` may have wildcards (`*`, `?`); without `client_id`, requests of other
    nodes of the cluster are let through.
    """

    action: Action
    apis: frozenset[int]
    """API keys; empty is every API."""
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
        """Return whether the API and the client id match, whatever the topics of the request."""
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
    """Return a rule. Raises FaultError for arguments that exclude each other or are out of range."""
    named: Sequence[ApiName] = () if apis is None else [apis] if isinstance(apis, ApiKey | str | int) else apis
    if times is not None and times < 1:
        raise FaultError(f"times={times}: it must be at least 1")
    if skip < 0:
        raise FaultError(f"skip={skip}: it must not be negative")
    if not 0 <= seconds < float("inf"):
        raise FaultError(f"seconds={seconds}: it must be a finite time of at least 0")
    if partition is not None and topic is None:
        raise FaultError(f"partition={partition} needs topic=")
    code = 0 if error is None else int(error_code(error))
    keys = frozenset(int(api_key(each)) for each in named)
    return Rule(action, keys, topic, partition, client_id, times, skip, code, message, seconds, applied)


class RuleBook:
    """Rules of a broker by number, with the requests that each has skipped and hit."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._skipped: dict[int, int] = {}
        self._hits: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, number: int, rule: Rule) -> None:
        """Add a rule. The caller chooses the number, which must be unique among all brokers that the caller has used."""
        self._rules[number] = rule
        self._hits[number] = 0

    def remove(self, number: int) -> None:
        """Remove a rule. No error when the rule has ended."""
        self._rules.pop(number, None)

    def clear(self) -> None:
        self._rules.clear()

    def hits(self, number: int) -> int:
        """Return the number of requests that a rule has hit, also after its end."""
        return self._hits.get(number, 0)

    def candidates(self, key: int, client_id: str | None) -> list[tuple[int, Rule]]:
        """Return the rules that match the API and the client id, in the order in which they were added."""
        return [(number, rule) for number, rule in self._rules.items() if rule.is_for(key, client_id)]

    def strike(self, key: int, client_id: str | None, concerns: Callable[[Rule], bool]) -> Rule | None:
        """Return the first rule that applies to this request, or None, and count the request for that rule.

        `concerns` returns whether the request names the rule's topic and partition. A rule that still skips requests counts a skip.
        """
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
