"""Settings of GSSAPI: principal and key of a node, from Java's Krb5LoginModule, and the naming of principals.

Functions raise ConfigError, one line that names the key, for a missing or invalid option.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.base.errors import ConfigError
from odradek.security.jaas import LoginModule
from odradek.security.kerberos_names import KerberosShortNamer

_WITHOUT_MEANING = ("doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT")
"""Options whose values do not matter: there is no prompt, and the library reads its configuration and gets tickets when it needs them."""


class KerberosSettings(NamedTuple):
    """Principal of a node and its key, and the rules for the names of other principals."""

    principal: str
    keytab: str
    rules: tuple[str, ...]


def kerberos_settings(module: LoginModule, key: str, rules: Sequence[str]) -> KerberosSettings:
    """Return the settings of a listener whose JAAS line, the value of `key`, names `module`. Raises ConfigError."""
    options = dict(module.options)
    if not flag(options, "useKeyTab", key):
        raise ConfigError(f"{key} needs useKeyTab=true: a node reads its key from a keytab")
    if not flag(options, "storeKey", key):
        raise ConfigError(f"{key} needs storeKey=true: a node needs its key to read the tickets of clients")
    if flag(options, "useTicketCache", key):
        raise ConfigError(f"{key}: useTicketCache=true is not supported for nodes, which get their tickets with the keytab")
    principal, keytab = options.pop("principal", ""), options.pop("keyTab", "").removeprefix("file:")
    if not principal or principal == "*":
        raise ConfigError(f"{key} needs principal, the name of the service in the keytab, such as kafka/host@REALM")
    if not keytab:
        raise ConfigError(f"{key} needs keyTab, the file with the key of the service")
    options.pop("serviceName", None)
    check_options(options, key)
    try:
        KerberosShortNamer(rules, "")
    except ValueError as error:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {error}") from None
    return KerberosSettings(principal, keytab, tuple(rules))


def service_name(module: LoginModule, key: str, given: str | None) -> str:
    """Return the service of the other side: the line's serviceName or sasl.kerberos.service.name, which must not differ.

    Raises ConfigError without a name, or for different names.
    """
    of_line = module.options.get("serviceName")
    if of_line and given and of_line != given:
        raise ConfigError(
            f"Conflicting serviceName values found in JAAS and Kafka configs: {of_line} in {key}, sasl.kerberos.service.name={given}"
        )
    name = of_line or given
    if not name:
        raise ConfigError(f"No serviceName defined in either JAAS or Kafka config: set sasl.kerberos.service.name, or serviceName in {key}")
    return name


def flag(options: dict[str, str], name: str, key: str) -> bool:
    """Remove a boolean option and return its value, False when it is missing. Raises ConfigError for any other value."""
    text = options.pop(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: {name} must be true or false")
    return text == "true"


def check_options(options: dict[str, str], key: str) -> None:
    """Raise ConfigError for a remaining option of a Krb5LoginModule that has an effect in Java but not here."""
    for name in _WITHOUT_MEANING:
        flag(options, name, key)
    if flag(options, "debug", key):
        raise ConfigError(f"{key}: debug=true works only in Java; set KRB5_TRACE=/dev/stderr in the environment instead")
    if options:
        raise ConfigError(f"{key} has an unknown option: {sorted(options)[0]}")
