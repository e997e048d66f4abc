"""Resolution of the references in settings (org.apache.kafka.common.config.AbstractConfig.resolveConfigVariables).

The settings themselves define the providers: config.providers names them, config.providers.NAME.class is the class of each, and
config.providers.NAME.param.* are its parameters.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from odradek.base.errors import ConfigError
from odradek.config.references import (
    AUTOMATIC,
    PROVIDERS,
    PROVIDERS_PREFIX,
    ProviderSettings,
    Resolved,
    has_reference,
    provider_settings,
    substitute,
)
from odradek.providers.readers import DirectoryReader, EnvironmentReader, FileReader, Reader

logger = logging.getLogger(__name__)

_PACKAGE: Final = "org.apache.kafka.common.config.provider"
CLASSES: Final[Mapping[str, Callable[[ProviderSettings], Reader]]] = {
    f"{_PACKAGE}.FileConfigProvider": FileReader,
    f"{_PACKAGE}.DirectoryConfigProvider": DirectoryReader,
    f"{_PACKAGE}.EnvVarConfigProvider": EnvironmentReader,
}
"""Providers by Kafka's class name."""

AUTOMATIC_VARIABLE: Final = "ODRADEK_AUTOMATIC_CONFIG_PROVIDERS"
"""Environment variable with the allowed classes for clients: the author of a client's settings may not be the operator of its process."""


def resolve(settings: Mapping[str, Any], providers: Mapping[str, str] | None = None, allowed: Collection[str] | None = None) -> Resolved:
    """Return the settings with their references resolved. Only text can contain references.

    `providers` are the settings that name the providers, if not `settings` itself. `allowed` are the allowed classes, None for all.

    Raises ConfigError, one line, for a provider that is unknown or not allowed, and for a value that cannot be read.
    """
    named = {name: value for name, value in settings.items() if isinstance(value, str)} if providers is None else providers
    if not named.get(PROVIDERS):
        return Resolved(settings, {}, {})
    readers = {each.name: _reader(each, allowed) for each in provider_settings(named)}
    references: dict[str, str] = {}
    found: dict[str, str] = {}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        values[key] = value
        if isinstance(value, str) and has_reference(value) and not key.startswith(PROVIDERS_PREFIX) and key != PROVIDERS:
            here: dict[str, str] = {}
            values[key] = substitute(value, partial(_value, readers, key), here)
            if here:
                references[key] = value
                found |= here
    return Resolved(values, references, found)


def resolve_broker(settings: Mapping[str, str], providers: Mapping[str, str] | None = None) -> Resolved:
    """Resolve the settings of a broker, whose file may limit the classes (`AUTOMATIC`), as `resolve` does."""
    named = settings if providers is None else providers
    text = named.get(AUTOMATIC)
    return resolve(settings, providers, None if text is None else _classes(text))


def resolve_client(settings: Mapping[str, Any], providers: Mapping[str, str]) -> Resolved:
    """Resolve the settings of a client, whose environment may limit the classes (`AUTOMATIC_VARIABLE`), as `resolve` does."""
    text = os.environ.get(AUTOMATIC_VARIABLE)
    return resolve(settings, providers, None if text is None else _classes(text))


def _classes(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def _reader(provider: ProviderSettings, allowed: Collection[str] | None) -> Reader:
    key = f"{PROVIDERS_PREFIX}{provider.name}.class"
    if allowed is not None and provider.class_name not in allowed:
        raise ConfigError(f"{key}: {provider.class_name} is not allowed. Update '{AUTOMATIC}' to allow {provider.class_name}")
    if provider.class_name not in CLASSES:
        raise ConfigError(f"{key}={provider.class_name}: Java classes cannot run here; the supported classes are {', '.join(CLASSES)}")
    return CLASSES[provider.class_name](provider)


def _value(readers: Mapping[str, Reader], key: str, name: str, path: str, of: str) -> str | None:
    reader = readers.get(name)
    if reader is None:
        return None
    try:
        value = reader.get(path, of)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
    if value is None:
        logger.warning("%s: the provider %s has no value for %s; the reference is not replaced", key, name, of)
    return value
