"""Rules of ssl.principal.mapping.rules, which map the name in a certificate to the name of a principal.

Rules are separated by commas. `DEFAULT` returns the name unchanged. `RULE:pattern/replacement/` returns the replacement when the pattern
matches the whole name; `/L` and `/U` after the rule change the result to lower or upper case. The first rule that applies decides. RE2
matches the patterns in time linear in the name, because names come from outside. RE2 refuses Java's lookaheads and back-references.

(org.apache.kafka.common.security.ssl.SslPrincipalMapper, KIP-371)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.security.java_regex import Template, compile_pattern, parse_replacement, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(r"\s*(" + _RULE + r")\s*(,\s*|\Z)", re.ASCII)
_PARSER = re.compile(_RULE, re.ASCII)


class NoRuleApplies(ValueError):
    """Error of a certificate's name that no rule maps."""


class _Rule(NamedTuple):
    pattern: Any
    """Compiled RE2 pattern; None for DEFAULT."""
    template: Template = ()
    case: str = ""


class SslPrincipalMapper:
    """Parsed rules. Raises ValueError with a single line for invalid rules, and without a rule."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules = [_parse(rule) for rule in _split(text) if rule]
        if not self._rules:
            raise ValueError("there are no rules, so that no principal could have a name")

    def __repr__(self) -> str:
        return f"SslPrincipalMapper({self._text!r})"

    def name(self, distinguished_name: str) -> str:
        """Return the principal's name. Raises NoRuleApplies."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name) is None:
                continue
            mapped = replace(rule.pattern, rule.template, distinguished_name)
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
    pattern = compile_pattern(match[2])
    return _Rule(pattern, tuple(parse_replacement(match[3], pattern)), match[4] or "")
