"""TLS contexts from Java's ssl.* keys, for clients and servers: protocols, cipher suites, trusted certificates, own keys.

Java and these contexts differ from OpenSSL's defaults in two points. Any certificate of the trust store ends a chain, even in the middle of
the chain. Renegotiation is refused.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from odradek.base.errors import ConfigError
from odradek.network.keystores import KeyPair, TlsKeys, pem_of, read_keys, read_trust
from odradek.security.ciphers import TLS13_SUITES, openssl_name
from odradek.security.x509 import alternative_names, subject

_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_MOST_STEPS = 20


class Identity(NamedTuple):
    """Subject and alternative names of a certificate, in DER; a new certificate is compared with them."""

    alias: str
    subject: bytes
    names: frozenset[bytes]


class ServerTls(NamedTuple):
    """TLS context of a listener, with the identities of its certificates."""

    context: ssl.SSLContext
    identities: tuple[Identity, ...]
    trusts: bool
    """Whether a trust store is configured."""


def client_context(keys: TlsKeys) -> ssl.SSLContext:
    """Return the context for connections that are made. Raises ConfigError for keys that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = (keys.text("ssl.endpoint.identification.algorithm") or "").lower() == "https"
    _set_protocols(context, keys)
    _set_trust(context, read_trust(keys), keys, ssl.Purpose.SERVER_AUTH)
    load_keys(context, read_keys(keys), keys)
    return context


def server_tls(keys: TlsKeys) -> ServerTls:
    """Return the context for connections that are accepted. Raises ConfigError for keys that cannot be used, and without a key store."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_protocols(context, keys)
    trusted = read_trust(keys)
    mode = CLIENT_AUTH[keys.text("ssl.client.auth") or "none"]
    if mode is not ssl.CERT_NONE:
        _set_trust(context, trusted, keys, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = mode
    pairs = read_keys(keys)
    if not pairs:
        raise ConfigError(f"{keys.shown('ssl.keystore.location')} is missing: a listener with TLS needs a key and a certificate")
    load_keys(context, pairs, keys)
    return ServerTls(context, tuple([_identity(pair) for pair in pairs]), trusted is not None)


def _identity(pair: KeyPair) -> Identity:
    try:
        return Identity(pair.alias, subject(pair.chain[0]), alternative_names(pair.chain[0]))
    except (ValueError, IndexError):
        raise ConfigError(f"{pair.source}: the certificate of {pair.alias} is malformed") from None


def _set_protocols(context: ssl.SSLContext, keys: TlsKeys) -> None:
    protocols, suites_key = keys.shown("ssl.enabled.protocols"), keys.shown("ssl.cipher.suites")
    enabled = keys.items("ssl.enabled.protocols")
    for name in enabled:
        if name not in _PROTOCOLS:
            raise ConfigError(f"Invalid value {name} for configuration {protocols}: it must be one of {', '.join(_PROTOCOLS)}")
    chosen = keys.text("ssl.protocol")
    if chosen not in ("TLS", *_PROTOCOLS):
        raise ConfigError(f"Invalid value {chosen} for configuration {keys.shown('ssl.protocol')}: it must be one of TLS, TLSv1.2, TLSv1.3")
    if chosen == "TLSv1.2" and not keys.given("ssl.enabled.protocols"):
        enabled = ["TLSv1.2"]
    suites = keys.items("ssl.cipher.suites")
    newest = [name for name in suites if name in TLS13_SUITES]
    if suites and not newest:
        enabled = [name for name in enabled if name != "TLSv1.3"]
    if newest and "TLSv1.3" in enabled and set(newest) != set(TLS13_SUITES):
        raise ConfigError(
            f"{suites_key} names only some cipher suites of TLSv1.3: Python allows all of them ({', '.join(TLS13_SUITES)}) or none"
        )
    older = [openssl_name(name) for name in suites if name not in newest]
    if suites and not older:
        enabled = [name for name in enabled if name != "TLSv1.2"]
    if not enabled:
        raise ConfigError(f"{protocols} and {suites_key} together allow no TLS version")
    versions = [_PROTOCOLS[name] for name in enabled]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError(
                f"Invalid value {','.join(suites)} for configuration {suites_key}: OpenSSL does not know any of these cipher suites"
            ) from None


def _set_trust(context: ssl.SSLContext, trusted: list[bytes] | None, keys: TlsKeys, purpose: ssl.Purpose) -> None:
    if trusted is None:
        context.load_default_certs(purpose)
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    inline = "ssl.truststore.certificates"
    name = keys.shown(inline if keys.given(inline) else "ssl.truststore.location")
    try:
        context.load_verify_locations(cadata=b"".join(trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"{name} contains no readable certificates: {reason_of(error)}") from None


def load_keys(context: ssl.SSLContext, pairs: list[KeyPair], keys: TlsKeys) -> None:
    """Load the private keys into the context. OpenSSL holds one key for each algorithm: the first of the store is used."""
    password_key = keys.shown("ssl.key.password")
    for pair in reversed(pairs):
        _load(context, pair, password_key)


def _load(context: ssl.SSLContext, pair: KeyPair, password_key: str) -> None:
    def ask() -> str:
        if pair.password is None:
            raise ConfigError(f"the key of {pair.source} is encrypted: {password_key} is missing")
        return pair.password

    try:
        # Python loads a key only from a file. No other user may read this file, and it is deleted at once.
        with tempfile.TemporaryDirectory(prefix="odradek-") as folder:
            path = Path(folder) / "key.pem"
            path.touch(0o600)
            path.write_text(pair.key + pem_of(pair.chain))
            context.load_cert_chain(path, password=ask)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{pair.source} cannot be used: {reason_of(error)} (a wrong {password_key}, or the key of another certificate?)"
        ) from None


def reason_of(error: Exception) -> str:
    """Return the reason of an OpenSSL or system error, in words."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "OpenSSL refuses it").replace("_", " ").lower()
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def try_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Return why a handshake between the two contexts fails, or None when it succeeds. No network is used, and no names are checked."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checked = client.check_hostname
    client.check_hostname = False
    try:
        ends = [server.wrap_bio(to_server, to_client, server_side=True), client.wrap_bio(to_client, to_server, server_side=False)]
    finally:
        client.check_hostname = checked
    for _ in range(_MOST_STEPS):
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return reason_of(error)
            ends.remove(end)
        if not ends:
            return None
    return "the handshake does not end"
