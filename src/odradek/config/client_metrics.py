"""Client-metrics subscription (org.apache.kafka.server.metrics.ClientMetricsConfigs, KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.config.definition import INT, LIST, MEDIUM, Config, ConfigDef, Key
from odradek.metrics.telemetry import DEFAULT_INTERVAL_MS, SELECTORS, Subscription

INTERVAL_MS = Key("interval.ms", INT, str(DEFAULT_INTERVAL_MS), MEDIUM, "Time between two pushes of a client's metrics, in ms.")
MATCH = Key("match", LIST, "", MEDIUM, "Selects the clients that push metrics, as selector=pattern.")
METRICS = Key("metrics", LIST, "", MEDIUM, "Name prefixes of the metrics that clients push.")
CLIENT_METRICS_CONFIG = ConfigDef((INTERVAL_MS, MATCH, METRICS))

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
    try:
        config = Config(CLIENT_METRICS_CONFIG, CLIENT_METRICS_CONFIG.parse(settings))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = config[INTERVAL_MS]
    if not SHORTEST_MS <= interval_ms <= LONGEST_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {SHORTEST_MS} and {LONGEST_MS} (1 hour)",
        )
    return Subscription(interval_ms, frozenset(filter(None, config[METRICS])), tuple(_selectors(config[MATCH])))


def _selectors(items: Iterable[str]) -> Iterator[tuple[str, Callable[[str], bool]]]:
    found: dict[str, Callable[[str], bool]] = {}
    for item in filter(None, items):
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
