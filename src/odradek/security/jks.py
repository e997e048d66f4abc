"""Java's own key store, JKS: keys under a password, and certificates (sun.security.provider.JavaKeyStore; its one key protection is
sun.security.provider.KeyProtector).

The only library that reads it, pyjks, has not been kept since 2020 and has two compiled ciphers built for stores that are not JKS; the
format needs SHA-1 and nothing else.
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
    """The store cannot be read; the message quotes nothing of it."""


class KeyEntry(NamedTuple):
    """`protected` is the key as the store has it: an EncryptedPrivateKeyInfo; the chain begins with the key's own certificate."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


class Store(NamedTuple):
    """In the order of the file; certificates are DER."""

    keys: list[KeyEntry]
    trusted: list[tuple[str, bytes]]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) < size:
            raise JksError("it is cut off")
        self._at += size
        return piece

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
    """JksError for what is no JKS, or has another password; without one nothing vouches for the store (as in Java)."""
    if password is not None:
        whole, digest = data[:-_DIGEST], data[-_DIGEST:]
        if not hmac.compare_digest(hashlib.sha1(_bytes(password) + _WHITENER + whole).digest(), digest):
            raise JksError("its password is another one, or it was tampered with")
    reader = _Reader(data[:-_DIGEST])
    try:
        if reader.take(4) != MAGIC:
            raise JksError("it is no JKS")
        version = reader.number(_INT)
        if version not in (1, 2):
            raise JksError(f"it is of version {version}")
        return _entries(reader, version)
    except error:
        raise JksError("it is cut off") from None


def _entries(reader: _Reader, version: int) -> Store:
    store = Store([], [])
    for _ in range(reader.number(_INT)):
        kind, alias = reader.number(_INT), reader.text()
        reader.number(_LONG)  # when it was made
        if kind == _KEY:
            protected = reader.block()
            chain = tuple([reader.certificate(version) for _ in range(reader.number(_INT))])
            store.keys.append(KeyEntry(alias, protected, chain))
        elif kind == _TRUSTED:
            store.trusted.append((alias, reader.certificate(version)))
        else:
            raise JksError(f"it has an entry of the kind {kind}")
    return store


def unprotect(protected: bytes, password: str) -> bytes:
    """The key as PKCS#8 (PrivateKeyInfo, DER); JksError when the password is another one."""
    try:
        (_, algorithm, _), (_, content, _) = values(read_value(protected)[1])
        oid = oid_text(read_value(algorithm)[1])
    except ValueError:
        raise JksError("its key is malformed") from None
    if oid != _PROTECTOR or len(content) < _SALT + _DIGEST:
        raise JksError("its key is protected in a way that JKS has not")
    secret = _bytes(password)
    salt, encrypted, check = content[:_SALT], content[_SALT:-_DIGEST], content[-_DIGEST:]
    stream, block = bytearray(), salt
    while len(stream) < len(encrypted):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(each ^ mask for each, mask in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError("the password of its key is another one")
    return key


def _bytes(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
