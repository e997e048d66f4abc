"""Patterns from clients, matched in time linear in the name (RE2, as Kafka's RE2/J)."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError

_MEMORY = 1 << 20
"""Most bytes that RE2 may use for a compiled pattern; larger patterns are refused."""
LONGEST = 10_000
"""Most characters of a pattern."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole name matches the pattern.

    Raises KafkaError with INVALID_REGULAR_EXPRESSION for an invalid or too large pattern.
    """
    import re2

    if len(pattern) > LONGEST:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"a pattern must not have more than {LONGEST} characters, this pattern has {len(pattern)}"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern[:100]!r} is not a valid pattern: {why}") from None
    return lambda name: compiled.fullmatch(name) is not None
