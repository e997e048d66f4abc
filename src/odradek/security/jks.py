"""Reader of Java's key store format JKS: keys under a password, and certificates (sun.security.provider.JavaKeyStore).

The only key protection of the format is sun.security.provider.KeyProtector. pyjks, the only library for the format, has not been maintained
since 2020. It also builds two compiled ciphers for store types other than JKS, while JKS needs only SHA-1.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct, error
from typing import NamedTuple

from odradek.security.x509 import oid_text, read_value, values

MAGIC = b"\xfe\xed\xfe\xed"
_WHITENER = b"Mighty Aphrodite"
_DIGEST = 20
_SALT = 20
_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"
_KEY, _TRUSTED = 1, 2
_INT, _LONG, _SHORT = Struct(">I"), Struct(">q"), Struct(">H")


class JksError(ValueError):
    """Error of an unreadable store; the message quotes nothing of the store."""


class KeyEntry(NamedTuple):
    """Private key and certificate chain. `protected` is the stored key, an EncryptedPrivateKeyInfo; the chain begins with the key's
    certificate.
    """

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


class Store(NamedTuple):
    """Entries of a store in the order of the file; certificates are DER."""

    keys: list[KeyEntry]
    trusted: list[tuple[str, bytes]]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        content = self._data[self._at : self._at + size]
        if len(content) < size:
            raise JksError("it is cut off")
        self._at += size
        return content

    def number(self, struct: Struct) -> int:
        return int(struct.unpack(self.take(struct.size))[0])

    def text(self) -> str:
        return self.take(self.number(_SHORT)).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.number(_INT))

    def certificate(self, version: int) -> bytes:
        if version == 2 and self.text() != "X.509":
            raise JksError("it has a certificate that is not X.509")
        return self.block()


def read_store(data: bytes, password: str | None) -> Store:
    """Return the entries of a store. Without a password the store's integrity is not checked, as in Java.

    Raises JksError when the data is not a JKS store, or the password is wrong.
    """
    if password is not None:
        whole, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not hmac.compare_digest(hashlib.sha1(_bytes(password) + _WHITENER + whole).digest(), digest):
            raise JksError("the password is wrong, or the file was modified")
    reader = _Reader(data[:-_DIGEST])
    try:
        if reader.take(4) != MAGIC:
            raise JksError("it is not a JKS keystore")
        version = reader.number(_INT)
        if version not in (1, 2):
            raise JksError(f"version {version} is not supported")
        return _entries(reader, version)
    except error:
        raise JksError("it is cut off") from None


def _entries(reader: _Reader, version: int) -> Store:
    store = Store([], [])
    for _ in range(reader.number(_INT)):
        kind, alias = reader.number(_INT), reader.text()
        reader.number(_LONG)  # creation time
        if kind == _KEY:
            protected = reader.block()
            chain = tuple([reader.certificate(version) for _ in range(reader.number(_INT))])
            store.keys.append(KeyEntry(alias, protected, chain))
        elif kind == _TRUSTED:
            store.trusted.append((alias, reader.certificate(version)))
        else:
            raise JksError(f"it has an entry of the unknown kind {kind}")
    return store


def unprotect(protected: bytes, password: str) -> bytes:
    """Return the decrypted key as PKCS#8 (PrivateKeyInfo, DER). Raises JksError for a wrong password or a malformed key."""
    try:
        (_, algorithm, _), (_, content, _) = values(read_value(protected)[1])
        oid = oid_text(read_value(algorithm)[1])
    except ValueError:
        raise JksError("its key is malformed") from None
    if oid != _PROTECTOR or len(content) < _SALT + _DIGEST:
        raise JksError("its key is protected by an unknown algorithm")
    secret = _bytes(password)
    salt, encrypted, check = content[:_SALT], content[_SALT:-_DIGEST], content[-_DIGEST:]
    stream, block = bytearray(), salt
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(each ^ mask for each, mask in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError("the password of its key is wrong")
    return key


def _bytes(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
