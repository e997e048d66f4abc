"""Statistics and logs of the dispatcher's responses: error codes of a response, and log lines of a request.

Each error code of a response is counted, including zeros (ErrorsPerSec of RequestMetrics, AbstractResponse.errorCounts).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.schema import Array, Struct

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext

REQUEST_LOGGER: Final = "kafka.request.logger"
"""Logger of each request, with its header and times, at DEBUG; the name is that of Kafka's logger configurations."""
SLOW_LOGGER: Final = "odradek.slow_requests"

request_log = logging.getLogger(REQUEST_LOGGER)
request_log.setLevel(logging.WARNING)  # independent of the level of parent loggers
slow_log = logging.getLogger(SLOW_LOGGER)

WAITS_AS_ASKED: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose requests wait because their clients ask for it."""
MOST: Final = 100
EACH_S: Final = 10.0

Errors = dict[int, int]
CountErrors = Callable[[Any, Errors], None]

_NOT_INTO: Final = frozenset({"MetadataResponseTopic.partitions", "DescribeTopicPartitionsResponseTopic.partitions"})
"""Lists that are not counted, unlike in Kafka: one response may contain hundreds of thousands of them."""


def count_nothing(response: Any, errors: Errors) -> None:
    """Count nothing, for a response without an error code."""


@cache
def error_counter(response: type[Struct]) -> CountErrors:
    """Return a function that adds the error codes of a response, or of a struct in it, to a dict of counts.

    The function is generated, like the codecs: it only loops over the lists with error codes. Nearly all codes are zeros, which it adds up
    and counts once.
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
                    # Encoded and counted already (`server.requests.long_answers`).
                    lines.append(f"{indent}    if each1.__class__ is bytes: continue")
                lines += inner


def times_of(context: RequestContext, size: int, parked: float, now: float) -> dict[str, object]:
    """Return the log fields of a request: origin and times in milliseconds. Never include fields of its body, which may be secrets."""
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


def _as_text(fields: dict[str, object]) -> str:
    return " ".join(f"{key}={value!r}" for key, value in fields.items())


def log_request(context: RequestContext, size: int, parked: float, now: float) -> None:
    """Log a request to kafka.request.logger at DEBUG."""
    fields = times_of(context, size, parked, now)
    request_log.debug("Completed request: %s", _as_text(fields), extra={"fields": fields})


class SlowRequests:
    """Logger of requests that took longer than `threshold_s` seconds, at most `MOST` per `EACH_S` seconds."""

    __slots__ = ("_begun", "_held_back", "_logged", "threshold_s")

    def __init__(self, threshold_s: float = float("inf")) -> None:
        self.threshold_s = threshold_s
        self._begun = float("-inf")
        self._logged = 0
        self._held_back = 0

    def log_if_slow(self, context: RequestContext, size: int, parked: float, now: float) -> None:
        """Log a request that took longer than the threshold, unless it waited only because its client asked for that."""
        if context.api_key in WAITS_AS_ASKED and parked - context.received_at <= self.threshold_s:
            return
        if now - self._begun >= EACH_S:
            if self._held_back:
                slow_log.warning("%d more slow requests were not logged", self._held_back)
            self._begun, self._logged, self._held_back = now, 0, 0
        if self._logged >= MOST:
            self._held_back += 1
            return
        self._logged += 1
        fields = times_of(context, size, parked, now)
        slow_log.warning("Slow request: %s", _as_text(fields), extra={"fields": fields})
