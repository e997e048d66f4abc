"""References in values: `${PROVIDER:[PATH:]KEY}` is replaced by the value that a configuration provider has for the key.

(org.apache.kafka.common.config.ConfigTransformer, KIP-297, KIP-421)

This module finds references and replaces them; `odradek.providers` reads files and the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.base.errors import ConfigError

PROVIDERS: Final = "config.providers"
PROVIDERS_PREFIX: Final = f"{PROVIDERS}."
AUTOMATIC: Final = "org.apache.kafka.automatic.config.providers"
"""Key of a broker's file with the allowed classes of providers; in Kafka a property of the JVM, for clients only."""
_PARAMETER: Final = "param."
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_SHORT: Final = 4
"""Shorter values are hidden only where they are whole words: they may be a part of any word."""
_SETTING: Final = re.compile(r"config\.providers\.[^.]+\.(class|param\..+)")

Lookup = Callable[[str, str, str], str | None]
"""Function that returns a provider's value (from its name, a path, a key); None without a value or without the provider. Raises
ConfigError.
"""


class ProviderSettings(NamedTuple):
    """Settings of one provider."""

    name: str
    class_name: str
    parameters: Mapping[str, str]

    def shown(self, parameter: str) -> str:
        """Return the full name of a parameter's setting."""
        return f"{PROVIDERS_PREFIX}{self.name}.{_PARAMETER}{parameter}"


class Resolved(dict[str, Any]):
    """Settings with resolved references. Each value is the effective one.

    `references` has, by key, the original values that contained references; `found` has the reference by inserted value.
    """

    def __init__(self, settings: Mapping[str, Any], references: Mapping[str, str], found: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.references = dict(references)
        self.found = dict(found)

    def over(self, settings: Mapping[str, Any]) -> Resolved:
        """Return these settings over `settings`, which must not contain references."""
        return Resolved({**settings, **self}, self.references, self.found)

    def hide(self, line: str) -> str:
        """Return the line with the values found here hidden, as `hide` does."""
        return hide(self.found, line)


def hide(found: Mapping[str, str], line: str) -> str:
    """Return the line with values replaced by their references: a value may be secret, and lines are logged.

    `found` maps values to references.
    """
    for value, reference in sorted(found.items(), key=lambda each: -len(each[0])):
        for shown in filter(None, dict.fromkeys((" ".join(value.split()), value.strip()))):
            alone = rf"(?<!\w){re.escape(shown)}(?!\w)" if len(shown) < _SHORT else re.escape(shown)
            line = reference.join(re.split(alone, line, flags=re.IGNORECASE))
    return line


def is_provider_setting(name: str) -> bool:
    """Return whether a key has the form config.providers.NAME.class or config.providers.NAME.param.PARAMETER."""
    return _SETTING.fullmatch(name) is not None


def is_of_providers(name: str) -> bool:
    """Return whether a key names or configures providers."""
    return name == PROVIDERS or name.startswith(PROVIDERS_PREFIX)


def provider_settings(settings: Mapping[str, str]) -> list[ProviderSettings]:
    """Return the providers that config.providers names. Raises ConfigError for a provider without a class."""
    found: list[ProviderSettings] = []
    for name in (each.strip() for each in settings.get(PROVIDERS, "").split(",")):
        if not name:
            continue
        key = f"{PROVIDERS_PREFIX}{name}.class"
        if key not in settings:
            raise ConfigError(f"{PROVIDERS} names {name}, but {key} is missing")
        prefix = f"{PROVIDERS_PREFIX}{name}.{_PARAMETER}"
        parameters = {each.removeprefix(prefix): text for each, text in settings.items() if each.startswith(prefix)}
        found.append(ProviderSettings(name, settings[key].strip(), parameters))
    return found


def has_reference(text: str) -> bool:
    """Return whether a value contains the form of a reference."""
    return "${" in text and _REFERENCE.search(text) is not None


def substitute(text: str, lookup: Lookup, put_in: dict[str, str]) -> str:
    """Return the text with references replaced by their values. Inserted values are not searched for references.

    A reference without a value is kept. `put_in` receives each inserted value with its reference.
    """

    def found(match: re.Match[str]) -> str:
        value = lookup(match[1], match[2] or "", match[3])
        if value is None:
            return match[0]
        put_in[value] = match[0]
        return value

    return _REFERENCE.sub(found, text)
