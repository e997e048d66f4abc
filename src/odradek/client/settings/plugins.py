"""Plugins in the settings of a client: objects, classes, or import paths of them ("package.module.Class")."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from odradek.base.errors import ConfigError


def take(settings: dict[str, Any], key: str) -> Any:
    """Remove the key, spelled with dots or with underscores, from the settings and return its value; None if it is not set.

    Raises ConfigError when both spellings are given.
    """
    names = [name for name in (key, key.replace(".", "_")) if name in settings]
    if len(names) > 1:
        raise ConfigError(f"Configuration {key} is given twice")
    return settings.pop(names[0]) if names else None


def made(key: str, given: object, methods: Sequence[str]) -> Any:
    """Return the plugin; a class is called without arguments.

    Raises ConfigError for a plugin that cannot be imported or made, or that lacks all of the methods.
    """
    found = imported(key, given) if isinstance(given, str) else given
    try:
        one = found() if isinstance(found, type) else found
    except Exception as error:
        raise ConfigError(f"Invalid value {given} for configuration {key}: {error}") from error
    if not any(callable(getattr(one, method, None)) for method in methods):
        raise ConfigError(f"Invalid value {given} for configuration {key}: it must have at least one of the methods {', '.join(methods)}")
    return one


def made_all(key: str, given: Any, methods: Sequence[str], settings: dict[str, Any]) -> list[Any]:
    """Return the plugins of a value that holds one or several (text: with commas), and configure each that has `configure(settings)`.

    Raises ConfigError as `made`, and for a plugin that is named twice.
    """
    chosen: list[Any]
    if isinstance(given, str):
        chosen = [path.strip() for path in given.split(",") if path.strip()]
    elif isinstance(given, (list, tuple)):
        chosen = list(given)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    else:
        chosen = [] if given is None else [given]
    if any(chosen.count(each) > 1 for each in chosen):
        raise ConfigError(f"Invalid value for configuration {key}: an entry is named twice")
    objects = [made(key, each, methods) for each in chosen]
    for each in objects:
        configure(each, settings)
    return objects


def configure(plugin: Any, settings: dict[str, Any]) -> None:
    """Call the plugin's `configure` with a copy of the settings, if it has that method."""
    if hasattr(plugin, "configure"):
        plugin.configure(dict(settings))


def imported(key: str, path: str) -> Any:
    """Return the object at an import path. Raises ConfigError when nothing can be imported there."""
    module, _, name = path.replace(":", ".").rpartition(".")
    if not module:
        raise ConfigError(f"Invalid value {path} for configuration {key}: it must be an import path such as package.module.Name")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"Invalid value {path} for configuration {key}: {error}") from error
