"""Keys of features that are not served yet, with the values that do without the feature.

Anything else is refused at start: an operator must never believe that a setting works which does nothing.
"""

from __future__ import annotations

UNSERVED: dict[str, tuple[tuple[str, ...], str]] = {
    "remote.log.storage.system.enable": (("false",), "tiered storage"),
    "authorizer.class.name": (("",), "authorization (ACLs)"),
    "create.topic.policy.class.name": (("",), "policies for topic creation"),
    "alter.config.policy.class.name": (("",), "policies for configuration changes"),
    "client.quota.callback.class": (("",), "quota callbacks"),
    "delegation.token.secret.key": (("",), "delegation tokens"),
    "config.providers": (("",), "configuration providers"),
    "security.providers": (("",), "security providers"),
    "replica.selector.class": (("",), "replica selectors"),
    "sasl.jaas.config": (("",), "SASL"),
}
"""Key -> (allowed values as text, what is missing)."""
