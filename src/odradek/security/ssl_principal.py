"""ssl.principal.mapping.rules: from the name in a certificate to the name of a principal
(org.apache.kafka.common.security.ssl.SslPrincipalMapper, KIP-371).

Rules are parted by commas: `DEFAULT` takes the name as it is, `RULE:pattern/replacement/` the replacement where the pattern matches all of
the name, `/L` and `/U` behind it put it in lower or upper case. The first rule that applies wins. Patterns are RE2's, which take time
linear in the name, since names come from outside; Java's lookaheads and references back within a pattern are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(r"\s*(" + _RULE + r")\s*(,\s*|\Z)", re.ASCII)
_PARSER = re.compile(_RULE, re.ASCII)
_REFERENCE = re.compile(r"\$([0-9]+)")
_NAME = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}")
_MEMORY = 1 << 20
"""Bytes that a compiled pattern may take."""


class NoRuleApplies(ValueError):
    """None of the rules has a name for the certificate's."""


class _Rule(NamedTuple):
    pattern: Any
    """RE2's; None for DEFAULT."""
    template: tuple[str | int, ...] = ()
    """Text, and numbers of groups."""
    case: str = ""


class SslPrincipalMapper:
    """The rules, read once. ValueError, one line, for rules that cannot be."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = [_parse(rule) for rule in _split(text) if rule]
        if not self._rules:
            raise ValueError("there is no rule, so that nobody would have a name")

    def __repr__(self) -> str:
        return f"SslPrincipalMapper({self._text!r})"

    def name(self, distinguished_name: str) -> str:
        """The principal's name; NoRuleApplies."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name) is None:
                continue
            mapped = _replace_all(rule, distinguished_name)
            return mapped.lower() if rule.case == "L" else mapped.upper() if rule.case == "U" else mapped
        raise NoRuleApplies(f"No rules apply to {distinguished_name}, rules {self._text}")


def _split(text: str) -> Iterator[str]:
    at, trimmed = 0, text.strip()
    while at <= len(trimmed):
        match = _SPLITTER.match(trimmed, at)
        if match is None:
            return
        yield match[1]
        if match.end() == at:
            return
        at = match.end()
        if at == len(trimmed) and not match[6]:
            return


def _parse(rule: str) -> _Rule:
    match = _PARSER.match(rule)
    if match is None:
        raise ValueError(f"Invalid rule: {rule}")
    if match.end() != len(rule):
        raise ValueError(f"Invalid rule: `{rule}`, unmatched substring: `{rule[match.end() :]}`")
    if match[1] is not None:
        return _Rule(None)
    pattern = _compile(match[2])
    return _Rule(pattern, tuple(_template(match[3], pattern)), match[4] or "")


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"Invalid rule: the pattern {pattern} cannot be used: {why}") from None


def _template(replacement: str, pattern: Any) -> Iterator[str | int]:
    """Java's words for a replacement (java.util.regex.Matcher.appendReplacement). A number that no group has stays as text, as in Kafka."""
    groups: int = pattern.groups
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            if at == len(replacement):
                raise ValueError("Invalid rule: a replacement ends in a backslash")
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
                raise ValueError(f"Invalid rule: `{replacement}` holds a $ that names no group")
        else:
            yield character


def _replace_all(rule: _Rule, text: str) -> str:
    out: list[str] = []
    at = 0
    for match in rule.pattern.finditer(text):
        out.append(text[at : match.start()])
        out += [(match[part] or "") if isinstance(part, int) else part for part in rule.template]
        at = match.end()
    return "".join(out) + text[at:]
