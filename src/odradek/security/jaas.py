"""Parser of Java's sasl.jaas.config: `LoginModule required name="value" ...;` (org.apache.kafka.common.security.JaasConfig)."""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.base.errors import ConfigError

_TOKEN = re.compile(
    r"""\s*(?:(?P<comment>//[^\n]*|/\*.*?\*/)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<mark>[=;])|(?P<word>[^\s=;"']+))""",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class LoginModule(NamedTuple):
    """Login module and its options. The text form omits the options, which are secrets."""

    name: str
    """Name of the class without its package."""
    options: dict[str, str]
    package: str = ""

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


def parse_jaas(line: str, key: str = "sasl.jaas.config") -> LoginModule:
    """Return the only login module of `line`, the value of the configuration `key`.

    Raises ConfigError, which quotes nothing of the line, when the line is malformed.
    """
    try:
        return _parse(line)
    except _Malformed as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: {error}") from None


class _Malformed(Exception):
    """Error of a malformed line; the message quotes nothing of the line."""


def _parse(line: str) -> LoginModule:
    tokens = _tokens(line)
    if len(tokens) < 3 or tokens[0] in ("=", ";"):
        raise _Malformed('it must be `LoginModule required name="value" ...;`')
    if tokens[1].lower() not in _FLAGS:
        raise _Malformed(f"the word after the login module must be one of {', '.join(_FLAGS)}")
    end = tokens.index(";") if ";" in tokens else -1
    if end < 0:
        raise _Malformed("it must end with a semicolon")
    if end != len(tokens) - 1:
        raise _Malformed("it must name one login module and end with a semicolon")
    options: dict[str, str] = {}
    rest = tokens[2:end]
    for index in range(0, len(rest), 3):
        name, *tail = rest[index : index + 3]
        if len(tail) != 2 or tail[0] != "=" or name == "=" or tail[1] == "=":
            raise _Malformed(f'option {index // 3 + 1} of the login module must have the form name="value"')
        options[str(name)] = str(tail[1])
    package, _, name = tokens[0].rpartition(".")
    return LoginModule(name, options, package)


def _tokens(line: str) -> list[str]:
    found: list[str] = []
    position = 0
    text = line.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _Malformed("a quotation mark is not closed")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            found.append(_Quoted(re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[1]), match[kind], flags=re.DOTALL)))
        elif kind != "comment":
            found.append(match[0].strip())
    return found


class _Quoted(str):
    """Text from quotation marks, which never equals a mark (= or ;)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Quoted) and str.__eq__(self, other)

    __hash__ = str.__hash__
