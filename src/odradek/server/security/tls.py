"""TLS of a node: contexts of its listeners and of its connections to others, and certificate renewal at run time
(kafka.server.DynamicBrokerConfig, org.apache.kafka.common.security.ssl.SslFactory).

A changed store makes a new context for new connections; existing connections keep theirs. An unusable change is refused before it is
written to the metadata:

- the store cannot be read;
- the new certificate has another name, or lacks a name of the old;
- the trust store of the inter-broker listener does not accept its own certificate.
"""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG
from odradek.config.dynamic import RELOADED_FOR_LISTENERS
from odradek.config.keys.security import (
    SSL_ALLOW_DN_CHANGES,
    SSL_ALLOW_SAN_CHANGES,
    SSL_CLIENT_AUTH,
    SSL_KEYSTORE_LOCATION,
    SSL_PRINCIPAL_MAPPING_RULES,
    SSL_TRUSTSTORE_LOCATION,
)
from odradek.config.listener_settings import is_set_for, listener_key, listener_value, own_value
from odradek.security.principal import ANONYMOUS, USER, Principal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.network.secure import TlsServing
    from odradek.network.tls import Identity, ServerTls

logger = logging.getLogger(__name__)

_PROTOCOLS = ("SSL", "SASL_SSL")
_FILES = (SSL_KEYSTORE_LOCATION, SSL_TRUSTSTORE_LOCATION)
Fingerprint = tuple[object, ...]


class ListenerKeys:
    """`network.keystores.TlsKeys` of one listener.

    The stores come from `config`. Other settings come from `created_with`, the configuration at the listener's creation, because only
    stores change for an existing listener (SslFactory.createNewSslEngineFactory).
    """

    def __init__(self, config: BrokerConfig, listener: str, created_with: BrokerConfig | None = None) -> None:
        self._config = config
        self._created_with = created_with or config
        self._listener = listener

    def _of(self, key: str) -> BrokerConfig:
        return self._config if key in RELOADED_FOR_LISTENERS else self._created_with

    def text(self, key: str) -> str | None:
        """Return the value. ssl.key.location, librdkafka's key for a separate key file, has no value on brokers."""
        if key == "ssl.key.location":
            return None
        if key == "ssl.client.auth" and self._created_with.listener_security_protocols[self._listener] == "SASL_SSL":
            # SaslChannelBuilder ignores the key for all listeners here.
            own = own_value(self._created_with, self._listener, SSL_CLIENT_AUTH)
            return "none" if own is None else own
        value = listener_value(self._of(key), self._listener, BROKER_CONFIG[key])
        return None if value is None else str(value)

    def items(self, key: str) -> list[str]:
        return cast("list[str] | None", listener_value(self._of(key), self._listener, BROKER_CONFIG[key])) or []

    def given(self, key: str) -> bool:
        return key != "ssl.key.location" and is_set_for(self._of(key), self._listener, BROKER_CONFIG[key])

    def shown(self, key: str) -> str:
        own = listener_key(self._listener, key)
        return own if own in self._config.given else key


class _Made(NamedTuple):
    """Contexts and facts made from the stores of a listener."""

    fingerprint: Fingerprint
    server: ServerTls
    client: ssl.SSLContext
    principal: Principal
    """Principal of this node's own certificate."""
    created_with: BrokerConfig
    """Configuration at the listener's creation."""


class NodeTls:
    """TLS contexts of a node, by the names of listeners."""

    def __init__(self, dynamic: DynamicBrokerConfig) -> None:
        self._dynamic = dynamic
        self._serving: dict[str, TlsServing] = {}
        self._made: dict[str, _Made] = {}
        self._towards: dict[str, ssl.SSLContext] = {}
        dynamic.validators.append(self._check)
        dynamic.renewals.append(self._renewal)

    def serving(self, listener: str) -> TlsServing | None:
        """Return the TLS of connections to a listener of this node; None without TLS.

        Raises ConfigError with a one-line message for unusable settings. Opens files: while the node runs, use `read` (off the loop) and
        `serve` instead.
        """
        return self.serve(listener, self.read(self._dynamic.current, listener))

    def read(self, config: BrokerConfig, listener: str) -> _Made | None:
        """Read the files that `serve` needs, in any thread; return None without TLS. Raises ConfigError as `serving`."""
        return _make(config, listener, None) if config.listener_security_protocols[listener] in _PROTOCOLS else None

    def serve(self, listener: str, made: _Made | None) -> TlsServing | None:
        """Return the TLS of connections to the listener, from the result of `read` for the current configuration."""
        if made is None:
            return None
        from odradek.network.secure import TlsServing

        self._made[listener] = made
        config = made.created_with
        names = _principals(config, listener) if config.listener_security_protocols[listener] == "SSL" else None
        serving = self._serving[listener] = TlsServing(made.server.context, names)
        return serving

    def try_serving(self, config: BrokerConfig, listener: str) -> None:
        """Raise ConfigError when `serving` could not serve the listener with this configuration."""
        self.read(config, listener)

    def forget(self, listener: str) -> None:
        """Forget a removed listener."""
        self._serving.pop(listener, None)
        self._made.pop(listener, None)

    def towards(self, listener: str) -> ssl.SSLContext | None:
        """Return the context for connections to listeners of that name on other nodes; None without TLS."""
        config = self._dynamic.current
        if config.listener_security_protocols.get(listener) not in _PROTOCOLS:
            return None
        made = self._made.get(listener)
        if made is not None:
            return made.client
        known = self._towards.get(listener)
        if known is None:
            known = self._towards[listener] = _dialling(config, listener)
        return known

    def principal(self, listener: str) -> Principal:
        """Return the principal of this node's own certificate on that listener; ANONYMOUS when clients show no certificate.

        The access checks of a node's requests to itself then match those of its requests to others. The first key of a key store with
        several keys counts.
        """
        made = self._made.get(listener)
        return ANONYMOUS if made is None else made.principal

    def check(self) -> None:
        """Make the contexts of connections to other nodes at the start, so that errors show early. Raises ConfigError."""
        config = self._dynamic.static
        if config.is_broker:
            self.towards(config.inter_broker_listener_name)
        for name in config.controller_listener_names[:1]:
            self.towards(name)

    # -- while the node runs ---------------------------------------------------------------------------------------------------------------

    def _check(self, config: BrokerConfig) -> None:
        """Check a change before it is made: `DynamicBrokerConfig.validators`. Raises ConfigError."""
        for listener, made in list(self._made.items()):
            if _has(config, listener) and _fingerprint(config, listener) != made.fingerprint:
                _make(config, listener, made)

    def _renewal(self, config: BrokerConfig) -> Callable[[], None]:
        """Read the stores of `config`, including files that changed under the same name: `DynamicBrokerConfig.renewals`.

        Return a function that applies the renewal; unusable stores leave the contexts unchanged.
        """
        found: list[tuple[str, _Made, _Made | ConfigError]] = []
        for listener, made in list(self._made.items()):
            if _has(config, listener) and _fingerprint(config, listener) != made.fingerprint:
                try:
                    found.append((listener, made, _make(config, listener, made)))
                except ConfigError as error:
                    found.append((listener, made, error))
        towards: dict[str, ssl.SSLContext | ConfigError] = {}
        for listener in list(self._towards):
            try:
                towards[listener] = _dialling(config, listener)
            except ConfigError as error:
                towards[listener] = error
        return lambda: self._renew(config, found, towards)

    def _renew(
        self,
        config: BrokerConfig,
        found: list[tuple[str, _Made, _Made | ConfigError]],
        towards: Mapping[str, ssl.SSLContext | ConfigError],
    ) -> None:
        for listener, context in towards.items():
            if isinstance(context, ConfigError):
                logger.error("connections to listener %s keep their previous settings: %s", listener, config.hide(str(context)))
            else:
                self._towards[listener] = context
        for listener, made, new in found:
            if isinstance(new, ConfigError):
                logger.error("listener %s keeps its certificates: %s", listener, config.hide(str(new)))
            elif self._made.get(listener) is made:  # the listener may have been removed while files were read
                self._made[listener] = new
                self._serving[listener].context = new.server.context
                logger.info("listener %s has new certificates", listener)


def _dialling(config: BrokerConfig, listener: str) -> ssl.SSLContext:
    from odradek.network.tls import client_context

    return client_context(ListenerKeys(config, listener))


def _has(config: BrokerConfig, listener: str) -> bool:
    """Return whether the listener still exists."""
    return any(each.listener == listener for each in config.listeners)


def _make(config: BrokerConfig, listener: str, before: _Made | None) -> _Made:
    """Return the contexts of a listener. Raises ConfigError for unusable settings, or for a change that `before` does not allow."""
    from odradek.network.tls import client_context, server_tls, try_handshake

    created_with = config if before is None else before.created_with
    keys = ListenerKeys(config, listener, created_with)
    fingerprint = _fingerprint(config, listener)
    server, client = server_tls(keys), client_context(keys)
    if before is not None:
        _check_change(config, before.server, server, keys)
    if config.is_broker and listener == config.inter_broker_listener_name:
        problem = try_handshake(server.context, client)
        if problem is not None:
            raise ConfigError(
                "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created with those "
                f"settings: the trust store of listener {listener} ({keys.shown('ssl.truststore.location')}) does not accept the "
                f"listener's own certificate, which brokers show to one another: {problem}"
            )
    return _Made(fingerprint, server, client, _own_principal(created_with, listener, server), created_with)


def _own_principal(config: BrokerConfig, listener: str, server: ServerTls) -> Principal:
    shown = config.listener_security_protocols[listener] == "SSL" and listener_value(config, listener, SSL_CLIENT_AUTH) != "none"
    if not shown or not server.identities:
        return ANONYMOUS
    try:
        return _names_of(config, listener)(server.identities[0].subject)
    except ValueError:
        return ANONYMOUS


def _check_change(config: BrokerConfig, old: ServerTls, new: ServerTls, keys: ListenerKeys) -> None:
    """Check the new stores against the old (SslFactory.createNewSslEngineFactory, CertificateEntries.ensureCompatible, KIP-978). Raises
    ConfigError.
    """
    if new.trusts and not old.trusts:
        raise ConfigError("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    dns, sans = config[SSL_ALLOW_DN_CHANGES], config[SSL_ALLOW_SAN_CHANGES]
    if dns and sans:
        return
    if len(old.identities) != len(new.identities):
        raise ConfigError(
            f"Keystore entries do not match, existing store contains {len(old.identities)} entries, "
            f"new store contains {len(new.identities)} entries"
        )
    where = keys.shown("ssl.keystore.location")
    for one, other in zip(_by_alias(old.identities), _by_alias(new.identities), strict=True):
        if not dns and one.subject != other.subject:
            raise ConfigError(
                f"Keystore DistinguishedName does not match:  existing={{alias={one.alias}, DN={_name(one.subject)}}}, "
                f"new={{alias={other.alias}, DN={_name(other.subject)}}} ({where}; ssl.allow.dn.changes=true allows it)"
            )
        if not sans and not one.names <= other.names:
            raise ConfigError(
                f"Keystore SubjectAltNames do not match:  existing={{alias={one.alias}, SAN={_names(one)}}}, "
                f"new={{alias={other.alias}, SAN={_names(other)}}} ({where}; ssl.allow.san.changes=true allows it)"
            )


def _by_alias(identities: tuple[Identity, ...]) -> list[Identity]:
    return sorted(identities, key=lambda each: each.alias)


def _name(subject: bytes) -> str:
    from odradek.security.distinguished_name import rfc2253

    return rfc2253(subject)


def _names(identity: Identity) -> str:
    from odradek.security.x509 import read_value

    return "[" + ", ".join(sorted(read_value(each)[1].decode("ascii", "backslashreplace") for each in identity.names)) + "]"


def _fingerprint(config: BrokerConfig, listener: str) -> Fingerprint:
    """Return a value that changes with the stores: a hash of their settings, and age, size and inode of their files."""
    settings = repr([listener_value(config, listener, BROKER_CONFIG[key]) for key in sorted(RELOADED_FOR_LISTENERS)])
    files: list[object] = []
    for key in _FILES:
        location = listener_value(config, listener, key)
        if location:
            try:
                status = os.stat(location)
                files.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                files.append(None)
    return (hashlib.sha256(settings.encode()).digest(), *files)


def _principals(config: BrokerConfig, listener: str) -> Callable[[bytes | None], Principal]:
    """Return a function from a client's certificate to its principal (DefaultKafkaPrincipalBuilder)."""
    from odradek.security.x509 import subject

    named = _names_of(config, listener)
    return lambda certificate: ANONYMOUS if certificate is None else named(subject(certificate))


def _names_of(config: BrokerConfig, listener: str) -> Callable[[bytes], Principal]:
    """Return a function from a subject (DER) to its principal. The function raises ValueError when no mapping rule applies."""
    from odradek.security.distinguished_name import rfc2253
    from odradek.security.ssl_principal import NoRuleApplies, SslPrincipalMapper

    key = SSL_PRINCIPAL_MAPPING_RULES
    try:
        mapper = SslPrincipalMapper(listener_value(config, listener, key))
    except ValueError as error:
        raise ConfigError(f"{ListenerKeys(config, listener).shown(key.name)}: {error}") from None

    def principal(subject: bytes) -> Principal:
        name = rfc2253(subject)
        try:
            return Principal(USER, mapper.name(name))
        except NoRuleApplies:
            raise ValueError(f"Failed to map name for '{name}' based on SslPrincipalMapper rules ({key})") from None

    return principal
