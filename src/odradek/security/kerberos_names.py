"""Rules of sasl.kerberos.principal.to.local.rules, which map names of Kerberos principals to names of Kafka principals.

`RULE:[n:format](match)s/pattern/replacement/g/L` applies to names of n components. In the format `$0` stands for the realm, `$1` and `$2`
for the components. The formatted text has to match `match` as a whole; then `pattern` is replaced, everywhere with `g`. `L` and `U` change
the result to lower or upper case. `DEFAULT` returns the first component of a name in the default realm. The first rule that applies
decides. Patterns are RE2's (`security.java_regex`).

(org.apache.kafka.common.security.kerberos: KerberosName, KerberosRule, KerberosShortNamer)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.security.java_regex import Template, compile_pattern, parse_replacement, replace

_PARSER = re.compile(r"((DEFAULT)|((RULE:\[(\d*):([^\]]*)](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?)))", re.ASCII)
_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER = re.compile(r"\$([0-9]*)")


class NoRuleApplies(ValueError):
    """Error of a principal that the rules do not map to a simple name."""


class KerberosName(NamedTuple):
    """Name of a Kerberos principal: service/host@REALM, or user@REALM."""

    service: str
    host: str | None
    realm: str | None

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" if self.realm is None else f"{self.service}{host}@{self.realm}"


class _Rule(NamedTuple):
    components: int = -1
    """Number of components of the names that the rule applies to; -1 for DEFAULT."""
    form: tuple[str | int, ...] = ()
    match: Any = None
    pattern: Any = None
    template: Template = ()
    everywhere: bool = False
    case: str = ""


def parse_name(text: str) -> KerberosName:
    """Return the parts of a Kerberos name. Raises ValueError for a malformed name with an "@"."""
    match = _NAME.fullmatch(text)
    if match is None:
        if "@" in text:
            raise ValueError(f"Malformed Kerberos name: {text}")
        return KerberosName(text, None, None)
    return KerberosName(match[1], match[2], match[3])


class KerberosShortNamer:
    """Parsed rules. Raises ValueError with a single line for invalid rules, and without a rule."""

    __slots__ = ("_default_realm", "_rules", "_text")

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._text = ",".join(rules)
        self._rules = [_parse(rule) for rule in rules]
        self._default_realm = default_realm
        if not self._rules:
            raise ValueError("there are no rules, so that no principal could have a name")

    def __repr__(self) -> str:
        return f"KerberosShortNamer({self._text!r})"

    def name(self, principal: str) -> str:
        """Return the short name of a principal; a name without host and realm stays as it is.

        Raises NoRuleApplies when the rules do not give a simple name, and ValueError for a malformed Kerberos name.
        """
        name = parse_name(principal)
        if name.host is None and name.realm is None:
            return name.service
        parts = [name.realm or "", name.service]
        if name.host is not None:
            parts.append(name.host)
        for rule in self._rules:
            short = self._apply(rule, parts)
            if short is None:
                continue
            if "/" in short or "@" in short:
                raise NoRuleApplies(f"Non-simple name {short} after the rules {self._text}")
            return short.lower() if rule.case == "L" else short.upper() if rule.case == "U" else short
        raise NoRuleApplies(f"No rules apply to {principal}, rules {self._text}")

    def _apply(self, rule: _Rule, parts: list[str]) -> str | None:
        if rule.components < 0:
            return parts[1] if parts[0] == self._default_realm else None
        if rule.components != len(parts) - 1:
            return None
        base = "".join(parts[part] if isinstance(part, int) else part for part in rule.form)
        if rule.match is not None and rule.match.fullmatch(base) is None:
            return None
        return base if rule.pattern is None else replace(rule.pattern, rule.template, base, once=not rule.everywhere)


def _parse(text: str) -> _Rule:
    match = _PARSER.match(text)
    if match is None:
        raise ValueError(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[2] is not None:
        return _Rule()
    if not match[5]:
        raise ValueError(f"Invalid rule: `{text}` does not contain the number of components of a name")
    components = int(match[5])
    pattern = None if match[10] is None else compile_pattern(match[10])
    return _Rule(
        components,
        tuple(_form(match[6], components)),
        None if match[8] is None else compile_pattern(match[8]),
        pattern,
        () if pattern is None else _template(match[11], pattern),
        match[12] == "g",
        match[13] or "",
    )


def _form(form: str, components: int) -> list[str | int]:
    """Return the parts of a format. Raises ValueError for a format with which Kafka would fail for each name (BadFormatString)."""
    parts: list[str | int] = []
    at = 0
    for match in _PARAMETER.finditer(form):
        parts.append(form[at : match.start()])
        at = match.end()
        if not match[1]:
            raise ValueError(f"Invalid rule: bad format in username mapping in {form}: a $ without a number")
        number = int(match[1])
        if number > components:
            raise ValueError(f"Invalid rule: index {number} from {form} is outside of the valid range 0 to {components}")
        parts.append(number)
    parts.append(form[at:])
    return parts


def _template(replacement: str, pattern: Any) -> Template:
    template = tuple(parse_replacement(replacement, pattern))
    for part in template:
        if isinstance(part, str) and part.startswith("$") and len(part) > 1:
            raise ValueError(f"Invalid rule: `{replacement}` contains {part}, but the group does not exist")
    return template
