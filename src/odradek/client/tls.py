"""TLS of the clients: Java's ssl.* keys with PEM, in the words of Python's `ssl` (KIP-651 for PEM, KIP-574 for protocols).

Certificates of Java's key stores cannot be read by Python; the error says how to convert one.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from pathlib import Path

from odradek.base.errors import ConfigError, ErrorCode
from odradek.client.config import ClientConfig
from odradek.client.core.ciphers import TLS13_SUITES, openssl_name
from odradek.client.core.pem import PemError, certificates, private_key
from odradek.client.failures import AuthenticationFailed
from odradek.network.transport import TlsFailed

_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """What connections are made with; None where the security protocol has no TLS. ConfigError for what cannot be used."""
    protocol = config.text("security.protocol").upper()
    if not protocol.endswith("SSL"):
        given = next((name for name in config.given() if name.startswith("ssl.")), None)
        if given is not None:
            raise ConfigError(f"Configuration {given} has no effect with security.protocol={protocol}: it needs SSL or SASL_SSL")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.text("ssl.endpoint.identification.algorithm").lower() == "https"
    _set_protocols(context, config)
    _set_trust(context, config)
    _set_identity(context, config)
    return context


def _set_protocols(context: ssl.SSLContext, config: ClientConfig) -> None:
    enabled = config.items("ssl.enabled.protocols")
    for name in enabled:
        if name not in _PROTOCOLS:
            raise ConfigError(f"Invalid value {name} for configuration ssl.enabled.protocols: it must be of {', '.join(_PROTOCOLS)}")
    chosen = config.text("ssl.protocol")
    if chosen not in ("TLS", *_PROTOCOLS):
        raise ConfigError(f"Invalid value {chosen} for configuration ssl.protocol: it must be one of TLS, {', '.join(_PROTOCOLS)}")
    if chosen == "TLSv1.2" and not config.was_given("ssl.enabled.protocols"):
        enabled = ["TLSv1.2"]
    suites = config.items("ssl.cipher.suites")
    newest = [name for name in suites if name in TLS13_SUITES]
    if suites and not newest:
        enabled = [name for name in enabled if name != "TLSv1.3"]
    if newest and "TLSv1.3" in enabled and set(newest) != set(TLS13_SUITES):
        raise ConfigError(f"ssl.cipher.suites names some suites of TLSv1.3: Python takes all of them ({', '.join(TLS13_SUITES)}) or none")
    older = [openssl_name(name) for name in suites if name not in newest]
    if suites and not older:
        enabled = [name for name in enabled if name != "TLSv1.2"]
    if not enabled:
        raise ConfigError("ssl.enabled.protocols and ssl.cipher.suites leave no protocol")
    versions = [_PROTOCOLS[name] for name in enabled]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError(f"Invalid value {','.join(suites)} for configuration ssl.cipher.suites: OpenSSL knows none of them") from None


def _set_trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    _refuse_password(config, "ssl.truststore")
    text = _pem_of(config, "ssl.truststore", "ssl.truststore.certificates")
    if text is None:
        context.load_default_certs()
        return
    name = "ssl.truststore.certificates" if config.was_given("ssl.truststore.certificates") else "ssl.truststore.location"
    try:
        context.load_verify_locations(cadata=certificates(text))
    except (PemError, ssl.SSLError) as error:
        raise ConfigError(f"{name} holds no certificates that can be read: {_reason(error)}") from None


def _set_identity(context: ssl.SSLContext, config: ClientConfig) -> None:
    _refuse_password(config, "ssl.keystore")
    chain, key = _pem_of(config, "ssl.keystore", "ssl.keystore.certificate.chain"), None
    source = "ssl.keystore.certificate.chain and ssl.keystore.key"
    if config.was_given("ssl.keystore.certificate.chain") != config.was_given("ssl.keystore.key"):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key are given together or not at all")
    if config.was_given("ssl.keystore.key"):
        key = config.text("ssl.keystore.key")
        if config.was_given("ssl.key.location"):
            raise ConfigError("ssl.keystore.key and ssl.key.location are both given: one of them will do")
    elif config.was_given("ssl.key.location"):
        source = "ssl.certificate.location and ssl.key.location"
        key = _read(config.text("ssl.key.location"), "ssl.key.location")
        if chain is None:
            raise ConfigError("ssl.key.location needs ssl.certificate.location")
    elif chain is not None:
        source, key = "ssl.keystore.location", chain
    if chain is None or key is None:
        return
    password = config.text("ssl.key.password") if config.was_given("ssl.key.password") else None

    def ask() -> str:
        if password is None:
            raise ConfigError(f"the key of {source} is encrypted: ssl.key.password is missing")
        return password

    try:
        text = private_key(key) + certificates(chain)
        # Python loads a key from a file only: nobody else may read this one, and it is gone at once.
        with tempfile.TemporaryDirectory(prefix="odradek-") as folder:
            path = Path(folder) / "key.pem"
            path.touch(0o600)
            path.write_text(text)
            context.load_cert_chain(path, password=ask)
    except PemError as error:
        raise ConfigError(f"{source}: {error}") from None
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{source} cannot be used: {_reason(error)} (a wrong ssl.key.password, or a key of another certificate?)"
        ) from None


def _pem_of(config: ClientConfig, store: str, inline: str) -> str | None:
    """The PEM text of a store; None when none is configured."""
    kind = config.text(f"{store}.type").upper()
    location = config.text(f"{store}.location") if config.was_given(f"{store}.location") else None
    if kind != "PEM":
        raise _unreadable(store, f"{store}.type={kind}")
    if config.was_given(inline):
        if location is not None:
            raise ConfigError(f"{inline} and {store}.location are both given: one of them will do")
        return config.text(inline)
    return None if location is None else _read(location, f"{store}.location", store)


def _read(location: str, name: str, store: str = "ssl.keystore") -> str:
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"Invalid value {location} for configuration {name}: {error.strerror}") from None
    if content[:4] == b"\xfe\xed\xfe\xed" or content[:1] == b"\x30":
        raise _unreadable(store, f"{location} ({name}) is a store of Java's")
    return content.decode("utf-8", "replace")


def _unreadable(store: str, what: str) -> ConfigError:
    only = "-nokeys" if store == "ssl.truststore" else "-nodes"
    return ConfigError(
        f"{what}: this client reads PEM; convert with `keytool -importkeystore -srckeystore STORE -destkeystore s.p12"
        f" -deststoretype PKCS12` and `openssl pkcs12 -in s.p12 {only} -out s.pem`"
    )


def _refuse_password(config: ClientConfig, store: str) -> None:
    if config.was_given(f"{store}.password"):
        better = "" if store == "ssl.truststore" else "; a key's own is ssl.key.password"
        raise ConfigError(f"Configuration {store}.password has no effect: PEM has no password of the store{better}")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "OpenSSL does not take it").replace("_", " ").lower()
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def has_certificate(config: ClientConfig) -> bool:
    """Whether the client can say who it is in TLS."""
    return config.was_given("ssl.keystore.location") or config.was_given("ssl.keystore.certificate.chain")


def explained(failed: TlsFailed, where: str, *, has_certificate: bool) -> AuthenticationFailed:
    """What a failed handshake means, in one line: whose certificate was refused, and why."""
    error = failed.error
    reason = (error.reason or str(error)).upper()
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"the certificate of {where} is not accepted: {error.verify_message.rstrip('.')}"
        if "SELF" in reason or "LOCAL ISSUER" in error.verify_message.upper() or "SELF" in error.verify_message.upper():
            why += " (ssl.truststore.location has to hold its certificate authority)"
        elif "ostname" in error.verify_message or "IP address" in error.verify_message:
            why += " (ssl.endpoint.identification.algorithm= switches the check of the name off)"
    elif "CERTIFICATE_REQUIRED" in reason or ("ALERT_BAD_CERTIFICATE" in reason and not has_certificate):
        why = f"{where} demands a certificate of the client: ssl.keystore.location is missing"
    elif "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        what = "of the client" if "UNKNOWN_CA" not in reason else "of the client, or its certificate authority"
        why = f"{where} does not accept the certificate {what} (ssl.keystore.*): {_words(reason)}"
    elif "WRONG_VERSION_NUMBER" in reason or "HTTP" in reason:
        why = f"{where} does not speak TLS there; is security.protocol right?"
    elif "HANDSHAKE_FAILURE" in reason:
        why = f"{where} and the client have no cipher in common, or it demands a certificate of the client (ssl.keystore.location)"
    elif "PROTOCOL" in reason:
        why = f"{where} and the client have no TLS protocol in common (ssl.enabled.protocols): {_words(reason)}"
    else:
        why = f"TLS with {where} failed: {_words(reason)}"
    return AuthenticationFailed(why, ErrorCode.UNKNOWN_SERVER_ERROR)


def _words(reason: str) -> str:
    return re.sub(r"^(SSLV3|TLSV1|TLSV13)_ALERT_", "", reason).replace("_", " ").lower()
