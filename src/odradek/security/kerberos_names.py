"""sasl.kerberos.principal.to.local.rules: from the name of a Kerberos principal to that of a Kafka principal
(org.apache.kafka.common.security.kerberos: KerberosName, KerberosRule, KerberosShortNamer).

`RULE:[n:format](match)s/pattern/replacement/g/L` holds for names of n components: `$0` in the format is the realm, `$1` and `$2` are the
components; what comes of it has to match as a whole, and is changed; L and U put it in lower or upper case. `DEFAULT` takes the first
component of names of the default realm. The first rule that applies wins. Patterns are RE2's (`security.java_regex`).
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
    """None of the rules has a name for the principal."""


class KerberosName(NamedTuple):
    """service/host@REALM, or user@REALM."""

    service: str
    host: str | None
    realm: str | None

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" if self.realm is None else f"{self.service}{host}@{self.realm}"


class _Rule(NamedTuple):
    components: int = -1
    """-1 for DEFAULT."""
    form: tuple[str | int, ...] = ()
    match: Any = None
    pattern: Any = None
    template: Template = ()
    everywhere: bool = False
    case: str = ""


def parse_name(text: str) -> KerberosName:
    """ValueError for what is no name of Kerberos."""
    match = _NAME.fullmatch(text)
    if match is None:
        if "@" in text:
            raise ValueError(f"Malformed Kerberos name: {text}")
        return KerberosName(text, None, None)
    return KerberosName(match[1], match[2], match[3])


class KerberosShortNamer:
    """The rules, read once. ValueError, one line, for rules that cannot be."""

    __slots__ = ("_default_realm", "_rules", "_text")

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._text = ",".join(rules)
        self._rules = [_parse(rule) for rule in rules]
        self._default_realm = default_realm
        if not self._rules:
            raise ValueError("there is no rule, so that nobody would have a name")

    def __repr__(self) -> str:
        return f"KerberosShortNamer({self._text!r})"

    def name(self, principal: str) -> str:
        """The name that is left; NoRuleApplies, ValueError for what is no name of Kerberos."""
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
        raise ValueError(f"Invalid rule: `{text}` does not say how many components a name has")
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
    """ValueError where Kafka would fail for each name (BadFormatString)."""
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
            raise ValueError(f"Invalid rule: `{replacement}` holds a {part}, and there is no such group")
    return template
