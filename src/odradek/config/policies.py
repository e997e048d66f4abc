"""Keys of policies: the names of their classes, and settings that only the policy itself knows."""

from __future__ import annotations

from typing import Final

from odradek.config.references import is_provider_setting

CREATE_TOPIC: Final = "create.topic.policy.class.name"
ALTER_CONFIG: Final = "alter.config.policy.class.name"
_PREFIXES: Final = {"create.topic.policy.": CREATE_TOPIC, "alter.config.policy.": ALTER_CONFIG}


def policy_of_setting(name: str) -> str | None:
    """Return the key of the policy that a setting is for; None for any other setting."""
    for prefix, key in _PREFIXES.items():
        if name.startswith(prefix) and name != key and len(name) > len(prefix):
            return key
    return None


def is_of_plugins(name: str) -> bool:
    """Return whether a setting is for a configuration provider or a policy, and not for the node itself."""
    return is_provider_setting(name) or policy_of_setting(name) is not None
