"""Loading of policies by their names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from odradek.base.errors import ConfigError

logger = logging.getLogger(__name__)

GROUP: Final = "odradek.policies"
"""Group of entry points."""


def load(key: str, name: str, configs: Mapping[str, str]) -> Any:
    """Return the configured policy that a key names.

    Raises ConfigError with a single line when the policy is not found, cannot be created, or refuses its configuration.
    """
    made = _named(key, name)
    try:
        policy = made() if isinstance(made, type) else made
    except Exception as error:
        raise ConfigError(f"{key}={name}: the policy cannot be created: {_line(error)}") from error
    if not callable(getattr(policy, "validate", None)):
        raise ConfigError(f"{key}={name}: this class is not a policy: it has no method validate(request)")
    configure = getattr(policy, "configure", None)
    if configure is not None:
        try:
            configure(dict(configs))
        except Exception as error:
            raise ConfigError(f"{key}={name}: the policy refuses its configuration: {_line(error)}") from error
    return policy


def close(policy: Any) -> None:
    """Close a policy, and log its exception."""
    try:
        getattr(policy, "close", lambda: None)()
    except Exception:
        logger.error("a policy failed to close", exc_info=True)


def _named(key: str, name: str) -> Any:
    for each in entry_points(group=GROUP, name=name):
        try:
            return each.load()
        except Exception as error:
            raise ConfigError(f"{key}={name}: the entry point {each.value} cannot be loaded: {_line(error)}") from error
    module, colon, member = name.partition(":")
    if not colon:
        raise ConfigError(
            f"{key}={name}: the group {GROUP} has no entry point of this name, and Java classes cannot run here; install a package "
            "that has it, or name a Python class, package.module:Class"
        )
    try:
        found: Any = import_module(module)
        for part in member.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ConfigError(f"{key}={name}: {_line(error)}") from error
    return found


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
