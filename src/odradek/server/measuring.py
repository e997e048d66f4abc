"""Counting what the dispatcher answers: the error codes of a response, and what is written about a request in the logs.

A response counts each of its error codes, zeros too (ErrorsPerSec of RequestMetrics, AbstractResponse.errorCounts).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.schema import Array, Struct

if TYPE_CHECKING:
    from odradek.server.context import RequestContext

REQUEST_LOGGER: Final = "kafka.request.logger"
"""Each request, with its header and times, at DEBUG. The name that Kafka's configurations of loggers have."""
SLOW_LOGGER: Final = "odradek.slow_requests"

request_log = logging.getLogger(REQUEST_LOGGER)
request_log.setLevel(logging.WARNING)  # whatever the level of the loggers above it
slow_log = logging.getLogger(SLOW_LOGGER)

WAITS_AS_ASKED: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose requests wait because their clients want them to."""
MOST: Final = 100
EACH_S: Final = 10.0

Errors = dict[int, int]
CountErrors = Callable[[Any, Errors], None]

_NOT_INTO: Final = frozenset({"MetadataResponseTopic.partitions", "DescribeTopicPartitionsResponseTopic.partitions"})
"""Lists that are not counted, unlike in Kafka: there may be hundreds of thousands of them in one answer."""


def count_nothing(response: Any, errors: Errors) -> None:
    """For a response without an error code."""


@cache
def error_counter(response: type[Struct]) -> CountErrors:
    """Return a function that adds the error codes of a response, or of a struct in it, to what it is given.

    The function is generated, as the codecs are: a loop over the lists that have codes, and nothing else. Zeros, which nearly all codes
    are, are added together.
    """
    lines: list[str] = []
    _count_struct(response, "response", 1, lines)
    if not lines:
        return count_nothing
    last = ["    if zeros:", "        errors[0] = errors.get(0, 0) + zeros"]
    source = "\n".join(["def count(response, errors):", "    zeros = 0", *lines, *last])
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    count: CountErrors = namespace["count"]
    return count


def _count_struct(struct: type[Struct], name: str, depth: int, lines: list[str]) -> None:
    indent = "    " * depth
    for field in struct.FIELDS:
        if field.name == "error_code":
            lines.append(f"{indent}code = {name}.error_code")
            lines.append(f"{indent}if code:")
            lines.append(f"{indent}    errors[code] = errors.get(code, 0) + 1")
            lines.append(f"{indent}else:")
            lines.append(f"{indent}    zeros += 1")
        elif isinstance(field.type, Array) and isinstance(field.type.element, str):
            if f"{struct.__name__}.{field.name}" in _NOT_INTO:
                continue
            inner: list[str] = []
            _count_struct(struct.struct(field.type.element), f"each{depth}", depth + 1, inner)
            if inner:
                lines.append(f"{indent}for each{depth} in {name}.{field.name} or ():")
                if depth == 1:
                    # Encoded, and counted, already (`server.long_answers`).
                    lines.append(f"{indent}    if each1.__class__ is bytes: continue")
                lines += inner


def times_of(context: RequestContext, size: int, parked: float, now: float) -> dict[str, object]:
    """A request as the logs tell of it: where it came from and how long it took, in ms. Never its fields, which may be secrets."""
    return {
        "api": API_INFO[ApiKey(context.api_key)].name,
        "version": context.api_version,
        "correlation_id": context.correlation_id,
        "client_id": context.client_id,
        "connection": context.connection_id,
        "listener": context.listener_name,
        "principal": str(context.principal),
        "request_bytes": size,
        "total_ms": round((now - context.received_at) * 1000, 3),
        "local_ms": round((parked - context.received_at) * 1000, 3),
        "remote_ms": round((now - parked) * 1000, 3),
    }


def _as_text(told: dict[str, object]) -> str:
    return " ".join(f"{key}={value!r}" for key, value in told.items())


def log_request(context: RequestContext, size: int, parked: float, now: float) -> None:
    """What kafka.request.logger says at DEBUG."""
    told = times_of(context, size, parked, now)
    request_log.debug("Completed request: %s", _as_text(told), extra={"fields": told})


class SlowRequests:
    """Tells of requests that took longer than `threshold_s`, but of no more than `MOST` in `EACH_S`: when all is slow, a few say enough."""

    __slots__ = ("_begun", "_held_back", "_told", "threshold_s")

    def __init__(self, threshold_s: float = float("inf")) -> None:
        self.threshold_s = threshold_s
        self._begun = float("-inf")
        self._told = 0
        self._held_back = 0

    def look(self, context: RequestContext, size: int, parked: float, now: float) -> None:
        """The request has taken longer than the threshold, all in all; is it the broker that is slow?"""
        if context.api_key in WAITS_AS_ASKED and parked - context.received_at <= self.threshold_s:
            return
        if now - self._begun >= EACH_S:
            if self._held_back:
                slow_log.warning("%d more slow requests were not told of", self._held_back)
            self._begun, self._told, self._held_back = now, 0, 0
        if self._told >= MOST:
            self._held_back += 1
            return
        self._told += 1
        told = times_of(context, size, parked, now)
        slow_log.warning("Slow request: %s", _as_text(told), extra={"fields": told})
