"""Policies are found by their names and made."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from odradek.base.errors import ConfigError

logger = logging.getLogger(__name__)

GROUP: Final = "odradek.policies"
"""Of entry points."""


def load(key: str, name: str, configs: Mapping[str, str]) -> Any:
    """The policy that a key names, configured. ConfigError, one line, for one that is not there or cannot be made."""
    made = _named(key, name)
    try:
        policy = made() if isinstance(made, type) else made
    except Exception as error:
        raise ConfigError(f"{key}={name}: the policy cannot be made: {_line(error)}") from error
    if not callable(getattr(policy, "validate", None)):
        raise ConfigError(f"{key}={name}: this is no policy, for it has no validate(request)")
    configure = getattr(policy, "configure", None)
    if configure is not None:
        try:
            configure(dict(configs))
        except Exception as error:
            raise ConfigError(f"{key}={name}: the policy does not take its configuration: {_line(error)}") from error
    return policy


def close(policy: Any) -> None:
    """Ends a policy; what it raises is logged."""
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
            f"{key}={name}: there is no entry point of this name in the group {GROUP}, and classes of Java cannot run here; install a "
            f"package that has it, or name a class of Python, package.module:Class"
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
