"""auto.offset.reset: where reading begins without a position (org.apache.kafka.clients.consumer.internals.AutoOffsetResetStrategy)."""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.base.errors import ConfigError
from odradek.config.definition import ConfigValue

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
_BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE)


class Ago(NamedTuple):
    """Duration before the moment at which a position is needed (KIP-1106)."""

    duration_ms: int


ResetTo = int | Ago
"""EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, or a duration before now."""


def reset_of(text: str) -> ResetTo | None:
    """Return the meaning of a value of auto.offset.reset; None for "none". Raises ValueError for an invalid value."""
    if text == "none":
        return None
    if text in ("earliest", "latest"):
        return EARLIEST_TIMESTAMP if text == "earliest" else LATEST_TIMESTAMP
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION)) if text.startswith(_BY_DURATION) else None
    if found is None:
        raise ValueError(text)
    days, hours, minutes, seconds, fraction = (each or "0" for each in found.groups())
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return Ago(whole * 1000 + int(fraction.ljust(9, "0")) // 1_000_000)


class ResetPolicy:
    """Validator of auto.offset.reset."""

    def __call__(self, name: str, value: ConfigValue) -> None:
        try:
            reset_of(str(value))
        except ValueError:
            raise ConfigError(
                f"Invalid value {value} for configuration {name}: it must be earliest, latest, none,"
                " or by_duration: followed by an ISO 8601 duration such as PT1H"
            ) from None

    def __str__(self) -> str:
        return "[latest, earliest, none, by_duration:PnDTnHnMn.nS]"
