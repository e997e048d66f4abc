"""Mapping rules with Java's regular expressions: RE2 matches the patterns, replacements follow Java's syntax.

RE2 takes time linear in the text; the names to be mapped come from outside. RE2 refuses Java's lookaheads and back-references in patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Template = tuple[str | int, ...]
"""Replacement as text and group numbers."""

_REFERENCE = re.compile(r"\$([0-9]+)")
_NAME = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}")
_MEMORY = 1 << 20
"""Most bytes that RE2 may use for a compiled pattern."""


def compile_pattern(pattern: str) -> Any:
    """Return the compiled RE2 pattern. Raises ValueError with a single line when RE2 refuses the pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"Invalid rule: the pattern {pattern} cannot be used: {why}") from None


def parse_replacement(replacement: str, pattern: Any) -> Iterator[str | int]:
    """Yield the text and the group numbers of a replacement in Java's syntax (java.util.regex.Matcher.appendReplacement).

    A reference to a missing group by number stays in the text. Raises ValueError for a trailing backslash and for a $ without a group's
    number or name.
    """
    groups: int = pattern.groups
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            if at == len(replacement):
                raise ValueError("Invalid rule: the replacement ends in a backslash")
            yield replacement[at]
            at += 1
        elif character == "$":
            number = _REFERENCE.match(replacement, at - 1)
            name = _NAME.match(replacement, at)
            if number is not None:
                digits = number[1]
                while len(digits) > 1 and int(digits) > groups:
                    digits = digits[:-1]
                yield int(digits) if int(digits) <= groups else "$" + digits
                at += len(digits)
            elif name is not None and name[1] in pattern.groupindex:
                yield pattern.groupindex[name[1]]
                at = name.end()
            else:
                raise ValueError(f"Invalid rule: `{replacement}` contains a $ that does not name a group")
        else:
            yield character


def replace(pattern: Any, template: Template, text: str, *, once: bool = False) -> str:
    """Return the text with all matches of the pattern replaced; with `once` only the first match."""
    out: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        out.append(text[at : match.start()])
        out += [(match[part] or "") if isinstance(part, int) else part for part in template]
        at = match.end()
        if once:
            break
    return "".join(out) + text[at:]
