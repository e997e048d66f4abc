"""References in values: `${PROVIDER:[PATH:]KEY}` stands for what a configuration provider has under the key
(org.apache.kafka.common.config.ConfigTransformer, KIP-297, KIP-421).

Here is what is a reference and where values are put in; `odradek.providers` reads files and the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.base.errors import ConfigError

PROVIDERS: Final = "config.providers"
PROVIDERS_PREFIX: Final = f"{PROVIDERS}."
AUTOMATIC: Final = "org.apache.kafka.automatic.config.providers"
"""The key of a broker's file that says which classes may be named; Kafka has it as a property of the JVM, for clients."""
_PARAMETER: Final = "param."
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_SHORT: Final = 4
"""What is shorter is hidden where it stands alone: it may be a part of any word."""
_SETTING: Final = re.compile(r"config\.providers\.[^.]+\.(class|param\..+)")

Lookup = Callable[[str, str, str], str | None]
"""What a provider (its name, a path, a key) has; None where it has nothing, and for a name that is no provider. Raises ConfigError."""


class ProviderSettings(NamedTuple):
    """What the settings say of one provider."""

    name: str
    class_name: str
    parameters: Mapping[str, str]

    def shown(self, parameter: str) -> str:
        """The setting that a parameter is."""
        return f"{PROVIDERS_PREFIX}{self.name}.{_PARAMETER}{parameter}"


class Resolved(dict[str, Any]):
    """Settings whose references were followed: each value as it holds. `references` has, by key, those that were given otherwise; `found`
    the values that were put in, and the references that they stand for.
    """

    def __init__(self, settings: Mapping[str, Any], references: Mapping[str, str], found: Mapping[str, str]) -> None:
        super().__init__(settings)
        self.references = dict(references)
        self.found = dict(found)

    def over(self, settings: Mapping[str, Any]) -> Resolved:
        """These above others, which have no references of their own."""
        return Resolved({**settings, **self}, self.references, self.found)

    def hide(self, line: str) -> str:
        """As `hide` of what was found here."""
        return hide(self.found, line)


def hide(found: Mapping[str, str], line: str) -> str:
    """The line with references in the place of what they stand for: it may be a secret, and lines are logged.

    `found`: value -> reference.
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
    """Return whether a key says which providers there are."""
    return name == PROVIDERS or name.startswith(PROVIDERS_PREFIX)


def provider_settings(settings: Mapping[str, str]) -> list[ProviderSettings]:
    """The providers that config.providers names; ConfigError for one that has no class."""
    found: list[ProviderSettings] = []
    for name in (each.strip() for each in settings.get(PROVIDERS, "").split(",")):
        if not name:
            continue
        key = f"{PROVIDERS_PREFIX}{name}.class"
        if key not in settings:
            raise ConfigError(f"{PROVIDERS} names {name}, and {key} is missing")
        prefix = f"{PROVIDERS_PREFIX}{name}.{_PARAMETER}"
        parameters = {each.removeprefix(prefix): text for each, text in settings.items() if each.startswith(prefix)}
        found.append(ProviderSettings(name, settings[key].strip(), parameters))
    return found


def has_reference(text: str) -> bool:
    """Return whether a value has the form of a reference in it."""
    return "${" in text and _REFERENCE.search(text) is not None


def substitute(text: str, lookup: Lookup, put_in: dict[str, str]) -> str:
    """The text with values in the place of references. One that leads nowhere stays as it is; what is put in is not looked at again.

    `put_in` takes up each value that was, and its reference.
    """

    def found(match: re.Match[str]) -> str:
        value = lookup(match[1], match[2] or "", match[3])
        if value is None:
            return match[0]
        put_in[value] = match[0]
        return value

    return _REFERENCE.sub(found, text)
