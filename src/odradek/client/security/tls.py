"""TLS of the clients: its context, and messages for failed handshakes. `network.tls` reads the keys."""

from __future__ import annotations

import re
import ssl
from typing import cast

from odradek.base.errors import ConfigError, ErrorCode
from odradek.client.failures import AuthenticationFailed
from odradek.client.settings.common_keys import SECURITY_PROTOCOL, SSL_KEYSTORE_CERTIFICATE_CHAIN, SSL_KEYSTORE_LOCATION
from odradek.client.settings.config import ClientConfig
from odradek.network.tls import client_context
from odradek.network.transport import TlsFailed


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """Return the TLS context of connections; None if the security protocol has no TLS. Raises ConfigError for keys that cannot be used."""
    protocol = config[SECURITY_PROTOCOL].upper()
    if not protocol.endswith("SSL"):
        given = next((name for name in config.given() if name.startswith("ssl.")), None)
        if given is not None:
            raise ConfigError(f"Configuration {given} has no effect with security.protocol={protocol}: it needs SSL or SASL_SSL")
        return None
    return client_context(_Keys(config))


class _Keys:
    """`network.keystores.TlsKeys` of a client's configuration."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    def text(self, key: str) -> str | None:
        value: object = self._config[self._config.definition[key]]
        return None if value is None else str(value)

    def items(self, key: str) -> list[str]:
        return cast("list[str]", self._config[self._config.definition[key]])

    def given(self, key: str) -> bool:
        return self._config.is_set(self._config.definition[key])

    def shown(self, key: str) -> str:
        return key


def has_certificate(config: ClientConfig) -> bool:
    """Return whether the client has a TLS certificate."""
    return config.is_set(SSL_KEYSTORE_LOCATION) or config.is_set(SSL_KEYSTORE_CERTIFICATE_CHAIN)


def explained(failed: TlsFailed, where: str, *, has_certificate: bool) -> AuthenticationFailed:
    """Return the error for a failed handshake, in one line: whose certificate was refused, and why."""
    error = failed.error
    reason = (error.reason or str(error)).upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the certificate of {where} is not accepted: {error.verify_message.rstrip('.')}"
        if "SELF" in reason or "LOCAL ISSUER" in error.verify_message.upper() or "SELF" in error.verify_message.upper():
            why += " (ssl.truststore.location must contain its certificate authority)"
        elif "ostname" in error.verify_message or "IP address" in error.verify_message:
            why += " (ssl.endpoint.identification.algorithm= switches the check of the name off)"
    elif "CERTIFICATE_REQUIRED" in reason or ("ALERT_BAD_CERTIFICATE" in reason and not has_certificate):
        why = f"{where} requires a client certificate: ssl.keystore.location is missing"
    elif "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        what = "of the client" if "UNKNOWN_CA" not in reason else "of the client, or its certificate authority"
        why = f"{where} does not accept the certificate {what} (ssl.keystore.*): {_words(reason)}"
    elif "WRONG_VERSION_NUMBER" in reason or "HTTP" in reason:
        why = f"{where} does not speak TLS on this listener; check security.protocol"
    elif "HANDSHAKE_FAILURE" in reason:
        why = f"{where} and the client have no cipher suite in common, or it requires a client certificate (ssl.keystore.location)"
    elif "PROTOCOL" in reason:
        why = f"{where} and the client have no TLS version in common (ssl.enabled.protocols): {_words(reason)}"
    else:
        why = f"TLS with {where} failed: {_words(reason)}"
    return AuthenticationFailed(why, ErrorCode.UNKNOWN_SERVER_ERROR)


def _words(reason: str) -> str:
    return re.sub(r"^(SSLV3|TLSV1|TLSV13)_ALERT_", "", reason).replace("_", " ").lower()
