"""What an application hands to a client in its settings: objects, classes, or import paths of them ("package.module.Class")."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from odradek.base.errors import ConfigError


def take(settings: dict[str, Any], key: str) -> Any:
    """Takes what was given for the key, in either spelling, out of the settings; None without it, ConfigError when it is given twice."""
    names = [name for name in (key, key.replace(".", "_")) if name in settings]
    if len(names) > 1:
        raise ConfigError(f"Configuration {key} is given twice")
    return settings.pop(names[0]) if names else None


def made(key: str, given: object, methods: Sequence[str]) -> Any:
    """The object that is meant; a class is called without arguments. ConfigError for what cannot be imported or made, or has none of the
    methods.
    """
    found = imported(key, given) if isinstance(given, str) else given
    try:
        one = found() if isinstance(found, type) else found
    except Exception as error:
        raise ConfigError(f"Invalid value {given} for configuration {key}: {error}") from error
    if not any(callable(getattr(one, method, None)) for method in methods):
        raise ConfigError(f"Invalid value {given} for configuration {key}: it has none of {', '.join(methods)}")
    return one


def made_all(key: str, given: Any, methods: Sequence[str], settings: dict[str, Any]) -> list[Any]:
    """As `made` for one or several (in text with commas), each of which may have `configure(settings)`; ConfigError for one named twice."""
    chosen: list[Any]
    if isinstance(given, str):
        chosen = [path.strip() for path in given.split(",") if path.strip()]
    elif isinstance(given, (list, tuple)):
        chosen = list(given)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    else:
        chosen = [] if given is None else [given]
    if any(chosen.count(each) > 1 for each in chosen):
        raise ConfigError(f"Invalid value for configuration {key}: one is named twice")
    objects = [made(key, each, methods) for each in chosen]
    for each in objects:
        configure(each, settings)
    return objects


def configure(plugin: Any, settings: dict[str, Any]) -> None:
    """Gives an object that asks for them the other settings."""
    if hasattr(plugin, "configure"):
        plugin.configure(dict(settings))


def imported(key: str, path: str) -> Any:
    """What stands at an import path; ConfigError where nothing does."""
    module, _, name = path.replace(":", ".").rpartition(".")
    if not module:
        raise ConfigError(f"Invalid value {path} for configuration {key}: an import path is such as package.module.Name")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"Invalid value {path} for configuration {key}: {error}") from error
