"""Reader of a node's server.properties for commands. Errors name the file and the line."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.base.errors import ConfigError, OdradekError
from odradek.config.properties import MalformedProperties, Setting, read_settings
from odradek.config.references import PROVIDERS

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig


class UnusableFile(OdradekError):
    """Error for a properties file that cannot be read."""


def load_server_properties(path: str, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """Return the configuration of a file, overridden by `overrides`.

    If known keys are repeated in the file, the last value counts, as in Kafka, and one line on standard error reports it. Raises
    UnusableFile for an unreadable file, ConfigError for a malformed file or an invalid configuration. An error is one line that begins
    with the file and the number of the faulty line, or with "--override".
    """
    from odradek.config.broker import BrokerConfig

    overrides = overrides or {}
    text = _text(path)
    try:
        settings = read_settings(text)
    except MalformedProperties as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from None
    lines = _lines(path, settings)
    try:
        return BrokerConfig(resolve_references({**{each.key: each.value for each in settings}, **overrides}))
    except ConfigError as error:
        key = _key_in_message(str(error), {*lines, *overrides})
        if key in overrides:
            raise ConfigError(f"--override: {error}") from None
        raise ConfigError(f"{path}:{lines[key]}: {error}" if key is not None else f"{path}: {error}") from None


def resolve_references(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with the references to configuration providers resolved. Raises ConfigError that names the setting."""
    if not settings.get(PROVIDERS):
        return settings
    from odradek.providers.resolving import resolve_broker

    return resolve_broker(settings)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UnusableFile(f"cannot read {path}: {error.strerror or error}; name a file such as server.properties") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableFile(
            f"{path}:{line}: the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8, or write the character as \\uXXXX"
        ) from None


def _lines(path: str, settings: list[Setting]) -> dict[str, int]:
    """Return the number of the effective line by key. Print a remark on standard error for repeated keys."""
    from odradek.config.broker import BROKER_CONFIG

    lines: dict[str, int] = {}
    repeated: list[str] = []
    for setting in settings:
        if setting.key in lines and setting.key in BROKER_CONFIG:
            repeated.append(
                f"{path}:{setting.line}: {setting.key} is already set in line {lines[setting.key]}; this line replaces that value"
            )
        lines[setting.key] = setting.line
    if repeated:
        print(repeated[0] + (f" ({len(repeated) - 1} more repeated lines)" if len(repeated) > 1 else ""), file=sys.stderr)
    return lines


def _key_in_message(problem: str, keys: set[str]) -> str | None:
    """Return the first of the keys that an error message names, or None. The value that the message quotes is not searched."""
    text = problem.rpartition(" for configuration ")[2]
    positions = {key: match.start() for key in keys if (match := re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-]|\.\w)", text))}
    return min(positions, key=lambda key: positions[key], default=None)
