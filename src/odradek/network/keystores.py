"""Key stores and trust stores of clients and servers: PEM (in a file or in the configuration, KIP-651), PKCS#12 and JKS.

As in Java, a store of the type JKS may be PKCS#12 and the other way round; without a type, the file's content decides. `cryptography` (the
extra `security`) reads PKCS#12; it is imported when a file needs it.
"""

from __future__ import annotations

import base64
import textwrap
from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.base.errors import ConfigError
from odradek.network.files import read_file
from odradek.security import jks
from odradek.security.pem import PemError, certificates, private_key
from odradek.security.x509 import issuer, subject

if TYPE_CHECKING:
    from odradek.security.jks import Store

_TYPES = ("PEM", "JKS", "PKCS12")
_DER = b"\x30"


class TlsKeys(Protocol):
    """Source of the ssl.* keys: a client's configuration, or the configuration of a listener."""

    def text(self, key: str) -> str | None:
        """Return the value of a text key, or its default when the key is not set; None or "" when it has no default."""
        ...

    def items(self, key: str) -> list[str]:
        """Return the value of a list key."""
        ...

    def given(self, key: str) -> bool:
        """Return whether the key is set, rather than defaulted."""
        ...

    def shown(self, key: str) -> str:
        """Return the key's name in the configuration that was given."""
        ...


class KeyPair(NamedTuple):
    """Private key with its certificates, the key's own certificate first. `password` decrypts the key; None when it needs none."""

    alias: str
    key: str
    """Private key in PEM."""
    chain: tuple[bytes, ...]
    """Certificates in DER."""
    password: str | None
    source: str
    """Configuration keys that the pair came from, for messages."""

    def __repr__(self) -> str:
        return f"KeyPair({self.alias!r})"


def read_trust(keys: TlsKeys) -> list[bytes] | None:
    """Return the trusted certificates in DER, or None when no trust store is configured.

    Raises ConfigError for a store that cannot be read or holds no certificates, and for keys that contradict each other.
    """
    kind = _type(keys, "ssl.truststore.type")
    inline = _optional(keys, "ssl.truststore.certificates")
    location = _optional(keys, "ssl.truststore.location")
    password = _optional(keys, "ssl.truststore.password")
    name = keys.shown
    if inline is not None:
        if kind not in (None, "PEM"):
            raise ConfigError(f"{name('ssl.truststore.certificates')} is PEM, but {name('ssl.truststore.type')}={kind}")
        if location is not None:
            raise _both(keys, "ssl.truststore.certificates", "ssl.truststore.location")
        if password is not None:
            raise _no_password(keys, "ssl.truststore")
        return _trusted_pem(inline, name("ssl.truststore.certificates"))
    if location is None:
        if password is not None:
            raise ConfigError(f"{name('ssl.truststore.password')} has no effect without {name('ssl.truststore.location')}")
        return None
    content = _read(location, name("ssl.truststore.location"))
    kind = _kind(keys, "ssl.truststore", kind, content, location)
    if kind == "PEM":
        if password is not None:
            raise _no_password(keys, "ssl.truststore")
        return _trusted_pem(content.decode("utf-8", "replace"), name("ssl.truststore.location"))
    if kind == "JKS":
        store = _jks(keys, "ssl.truststore", content, location, password)
        found = [certificate for _, certificate in store.trusted] + [entry.chain[0] for entry in store.keys if entry.chain]
    else:
        _, found = _pkcs12(keys, "ssl.truststore", content, location, password)
    if not found:
        raise ConfigError(f"{location} ({name('ssl.truststore.location')}) contains no certificates")
    return found


def read_keys(keys: TlsKeys) -> list[KeyPair]:
    """Return the private keys in the order of the store; none when no key store is configured.

    Raises ConfigError for a store that cannot be used, and for keys that contradict each other.
    """
    name = keys.shown
    kind = _type(keys, "ssl.keystore.type")
    chain, key = _optional(keys, "ssl.keystore.certificate.chain"), _optional(keys, "ssl.keystore.key")
    location, own = _optional(keys, "ssl.keystore.location"), _optional(keys, "ssl.key.location")
    password, key_password = _optional(keys, "ssl.keystore.password"), _optional(keys, "ssl.key.password")
    if (chain is None) != (key is None):
        raise ConfigError(f"{name('ssl.keystore.certificate.chain')} and {name('ssl.keystore.key')} need each other")
    if chain is not None and key is not None:
        if kind not in (None, "PEM"):
            raise ConfigError(f"{name('ssl.keystore.key')} is PEM, but {name('ssl.keystore.type')}={kind}")
        for other in ("ssl.keystore.location", "ssl.key.location"):
            if keys.given(other):
                raise _both(keys, "ssl.keystore.key", other)
        if password is not None:
            raise _no_password(keys, "ssl.keystore")
        return [_pem_pair(chain, key, key_password, f"{name('ssl.keystore.certificate.chain')} and {name('ssl.keystore.key')}")]
    if location is None:
        if own is not None:
            raise ConfigError(f"{name('ssl.key.location')} needs ssl.certificate.location")
        if password is not None:
            raise ConfigError(f"{name('ssl.keystore.password')} has no effect without {name('ssl.keystore.location')}")
        return []
    content = _read(location, name("ssl.keystore.location"))
    kind = _kind(keys, "ssl.keystore", kind, content, location)
    if kind == "PEM":
        if password is not None:
            raise _no_password(keys, "ssl.keystore")
        text = content.decode("utf-8", "replace")
        if own is None:
            return [_pem_pair(text, text, key_password, name("ssl.keystore.location"))]
        other = _read(own, name("ssl.key.location")).decode("utf-8", "replace")
        return [_pem_pair(text, other, key_password, "ssl.certificate.location and ssl.key.location")]
    if own is not None:
        raise _both(keys, "ssl.keystore.location", "ssl.key.location")
    if password is None:
        raise ConfigError(f"{name('ssl.keystore.password')} is missing: {location} is a keystore of type {kind}")
    if kind == "JKS":
        found = _jks_pairs(keys, content, location, password, key_password or password)
    else:
        if key_password not in (None, password):
            raise ConfigError(
                f"{name('ssl.key.password')} differs from {name('ssl.keystore.password')}: a PKCS12 keystore has a single password"
            )
        found, _ = _pkcs12(keys, "ssl.keystore", content, location, password)
    if not found:
        raise ConfigError(f"{location} ({name('ssl.keystore.location')}) contains no private key")
    return found


def pem_of(chain: tuple[bytes, ...]) -> str:
    """Return certificates as PEM."""
    return "".join(_pem("CERTIFICATE", each) for each in chain)


def _pem(kind: str, content: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(content).decode(), 64)
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))


def der_of(text: str) -> tuple[bytes, ...]:
    """Return the certificates of PEM text in DER, in their order. Raises PemError for text that is malformed."""
    bodies = [block.rpartition("-----\n")[2] for block in certificates(text).split("\n-----END ")[:-1]]
    try:
        return tuple([base64.b64decode(body, validate=False) for body in bodies])
    except ValueError:
        raise PemError("a certificate in the file is malformed") from None


# -- configuration ------------------------------------------------------------------------------------------------------------------------


def _type(keys: TlsKeys, key: str) -> str | None:
    kind = keys.text(key)
    if not kind:
        return None
    kind = {"PKCS#12": "PKCS12", "P12": "PKCS12"}.get(kind.upper(), kind.upper())
    if kind not in _TYPES:
        raise ConfigError(f"Invalid value {kind} for configuration {keys.shown(key)}: it must be one of {', '.join(_TYPES)}")
    # A default type does not conflict with PEM text in the configuration: Kafka refuses its own default there, Odradek does not.
    return kind


def _optional(keys: TlsKeys, key: str) -> str | None:
    return (keys.text(key) or None) if keys.given(key) else None


def _kind(keys: TlsKeys, store: str, kind: str | None, content: bytes, location: str) -> str:
    """Return the type of the file. Raises ConfigError when its content contradicts the configured type."""
    found = "JKS" if content.startswith(jks.MAGIC) else "PKCS12" if content.startswith(_DER) else "PEM"
    if kind is None or kind == found or "PEM" not in (kind, found):
        return found
    shown = keys.shown(f"{store}.type")
    raise ConfigError(f"{location} ({keys.shown(f'{store}.location')}) looks like {found}, but {shown}={kind}: {shown}={found} is missing")


def _both(keys: TlsKeys, one: str, other: str) -> ConfigError:
    return ConfigError(f"{keys.shown(one)} and {keys.shown(other)} are both given: remove one of them")


def _no_password(keys: TlsKeys, store: str) -> ConfigError:
    better = "" if store == "ssl.truststore" else f"; the password of the key is {keys.shown('ssl.key.password')}"
    return ConfigError(f"Configuration {keys.shown(f'{store}.password')} has no effect: a PEM file has no password{better}")


def _read(location: str, name: str) -> bytes:
    try:
        return read_file(location)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"Invalid value {location} for configuration {name}: {reason}") from None


# -- the formats --------------------------------------------------------------------------------------------------------------------------


def _trusted_pem(text: str, name: str) -> list[bytes]:
    try:
        return list(der_of(text))
    except PemError as error:
        raise ConfigError(f"{name} contains no readable certificates: {error}") from None


def _pem_pair(chain: str, key: str, password: str | None, source: str) -> KeyPair:
    try:
        return KeyPair("kafka", private_key(key), der_of(chain), password, source)
    except PemError as error:
        raise ConfigError(f"{source}: {error}") from None


def _jks(keys: TlsKeys, store: str, content: bytes, location: str, password: str | None) -> Store:
    try:
        return jks.read_store(content, password)
    except jks.JksError as error:
        raise ConfigError(f"{location} ({keys.shown(f'{store}.location')}) cannot be read: {error}") from None


def _jks_pairs(keys: TlsKeys, content: bytes, location: str, password: str, key_password: str) -> list[KeyPair]:
    source = keys.shown("ssl.keystore.location")
    found: list[KeyPair] = []
    for entry in _jks(keys, "ssl.keystore", content, location, password).keys:
        try:
            key = _pem("PRIVATE KEY", jks.unprotect(entry.protected, key_password))
        except jks.JksError as error:
            raise ConfigError(f"{location} ({source}): {error} ({keys.shown('ssl.key.password')})") from None
        found.append(KeyPair(entry.alias, key, entry.chain, None, source))
    return found


def _pkcs12(keys: TlsKeys, store: str, content: bytes, location: str, password: str | None) -> tuple[list[KeyPair], list[bytes]]:
    """Return the private key with its chain, if there is one, and all certificates in DER."""
    source = keys.shown(f"{store}.location")
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(f"{location} ({source}) is PKCS12, which needs cryptography: pip install 'odradek[security]'") from None
    try:
        loaded = load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError):
        which = keys.shown(f"{store}.password")
        raise ConfigError(f"{location} ({source}) cannot be read as PKCS12: {which} is missing or wrong, or the file is damaged") from None
    others = [each.certificate.public_bytes(Encoding.DER) for each in loaded.additional_certs]
    own = loaded.cert.certificate.public_bytes(Encoding.DER) if loaded.cert is not None else None
    if loaded.key is None or own is None:
        return [], ([] if own is None else [own]) + others
    alias = (loaded.cert.friendly_name or b"1").decode("utf-8", "replace") if loaded.cert is not None else "1"
    key = loaded.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return [KeyPair(alias, key, _chain(own, others), None, source)], [own, *others]


def _chain(own: bytes, others: list[bytes]) -> tuple[bytes, ...]:
    """Return the certificate and its issuers in order. A PKCS12 store has them in any order, among other certificates."""
    chain = [own]
    try:
        by_subject = {subject(each): each for each in others}
        while (above := by_subject.pop(issuer(chain[-1]), None)) is not None:
            chain.append(above)
    except ValueError:
        pass  # OpenSSL reports the malformed certificate later
    return tuple(chain)
