"""Client-metrics subscription (org.apache.kafka.server.metrics.ClientMetricsConfigs, KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.definition import INT, LIST, MEDIUM, ConfigDef, Key
from odradek.metrics.telemetry import DEFAULT_INTERVAL_MS, SELECTORS, Subscription

CLIENT_METRICS_CONFIG = ConfigDef(
    (
        Key("interval.ms", INT, "300000", MEDIUM, "Time between two pushes of a client's metrics, in ms."),
        Key("match", LIST, "", MEDIUM, "Selects the clients that push metrics, as selector=pattern."),
        Key("metrics", LIST, "", MEDIUM, "Name prefixes of the metrics that clients push."),
    )
)

SHORTEST_MS: Final = 100
LONGEST_MS: Final = 3_600_000
_MEMORY: Final = 1 << 20
_LONGEST_PATTERN: Final = 10_000


def check_client_metrics(settings: Mapping[str, str]) -> None:
    """Check the settings of a subscription. Raises KafkaError for an unknown key or an invalid value."""
    for name in settings:
        if name not in CLIENT_METRICS_CONFIG:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    subscription_of(settings)


def subscription_of(settings: Mapping[str, str]) -> Subscription:
    """Return the subscription of a resource. Raises KafkaError: INVALID_REQUEST out of bounds, INVALID_CONFIG for other invalid values."""
    text = settings.get("interval.ms", str(DEFAULT_INTERVAL_MS)).strip()
    if re.fullmatch(r"[+-]?[0-9]{1,10}", text) is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {text} for configuration interval.ms: Not a number of type INT")
    if not SHORTEST_MS <= int(text) <= LONGEST_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {text} for interval.ms, interval must be between {SHORTEST_MS} and {LONGEST_MS} (1 hour)",
        )
    return Subscription(int(text), frozenset(_items(settings.get("metrics", ""))), tuple(_selectors(settings.get("match", ""))))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _selectors(text: str) -> Iterator[tuple[str, Callable[[str], bool]]]:
    found: dict[str, Callable[[str], bool]] = {}
    for item in _items(text):
        selector, equals, pattern = item.partition("=")
        selector, pattern = selector.strip(), pattern.strip()
        if not equals or "=" in pattern or selector not in SELECTORS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item}")
        found[selector] = _pattern(pattern)
    yield from found.items()


def _pattern(pattern: str) -> Callable[[str], bool]:
    """Return a predicate on whole values, whose time is linear in the value, because clients choose the values.

    Raises KafkaError INVALID_CONFIG for an invalid pattern.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        if len(pattern) > _LONGEST_PATTERN:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"a pattern must not have more than {_LONGEST_PATTERN} characters")
        compiled = re2.compile(pattern, options=options)
    except re2.error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}") from None
    return lambda value: compiled.fullmatch(value) is not None
