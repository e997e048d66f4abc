"""Stores in Java's own format, written here for those who read it, and who reads them."""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from pathlib import Path

import pytest

from odradek.network import keystores
from tests.client.certificates import openssl


def der_of(path: Path) -> bytes:
    """The first certificate of a PEM file."""
    body = path.read_text().partition("-----BEGIN CERTIFICATE-----")[2].partition("-----END")[0]
    return base64.b64decode(body)


def pkcs8(key: Path) -> bytes:
    """A private key as PrivateKeyInfo."""
    out = key.with_suffix(".der")
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", str(key), "-outform", "DER", "-out", str(out))
    return out.read_bytes()


def jks(
    password: str,
    keys: list[tuple[str, bytes, str, list[bytes]]],
    trusted: list[tuple[str, bytes]],
    *,
    version: int = 2,
) -> bytes:
    """`keys`: alias, PrivateKeyInfo, password, chain."""
    out = struct.pack(">4sII", b"\xfe\xed\xfe\xed", version, len(keys) + len(trusted))
    for alias, key, own, chain in keys:
        protected = _protected(key, own)
        out += struct.pack(">I", 1) + _text(alias) + struct.pack(">qI", 1234, len(protected)) + protected + struct.pack(">I", len(chain))
        out += b"".join(_certificate(each, version) for each in chain)
    for alias, certificate in trusted:
        out += struct.pack(">I", 2) + _text(alias) + struct.pack(">q", 1234) + _certificate(certificate, version)
    return out + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + out).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _certificate(content: bytes, version: int) -> bytes:
    return (_text("X.509") if version == 2 else b"") + struct.pack(">I", len(content)) + content


def _protected(key: bytes, password: str) -> bytes:
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    content = salt + bytes(a ^ b for a, b in zip(key, stream, strict=False)) + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    octets = b"\x04\x82" + struct.pack(">H", len(content)) + content
    return b"\x30\x82" + struct.pack(">H", len(algorithm) + len(octets)) + algorithm + octets


def readers_of_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that read stores from now on."""
    readers: list[str] = []
    read = keystores.read_file

    def noted(path: str) -> bytes:
        readers.append(threading.current_thread().name)
        return read(path)

    monkeypatch.setattr(keystores, "read_file", noted)
    return readers
