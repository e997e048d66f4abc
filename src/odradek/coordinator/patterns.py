"""Patterns that clients send: matched in time linear in the name, whatever the pattern (RE2, as Kafka's RE2/J)."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError

_MEMORY = 1 << 20
"""Bytes that a compiled pattern may take; larger ones are refused."""
LONGEST = 10_000
"""Characters of a pattern."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Whether a whole name matches. KafkaError INVALID_REGULAR_EXPRESSION for what is no pattern or too large a one."""
    import re2

    if len(pattern) > LONGEST:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"a pattern may have {LONGEST} characters, this one has {len(pattern)}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern[:100]!r} is no valid pattern: {why}") from None
    return lambda name: compiled.fullmatch(name) is not None
