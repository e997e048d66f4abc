"""Certificates and keys from PEM text (KIP-651). Line breaks may be missing, as in a properties file."""

from __future__ import annotations

import re
import textwrap

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")


class PemError(ValueError):
    """Error of a text without the expected PEM blocks; the message quotes nothing of the text."""


def certificates(text: str) -> str:
    """Return all certificates of the text in their order. Raises PemError without a certificate."""
    found = [_block(kind, body) for kind, body in _blocks(text) if kind in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")]
    if not found:
        raise PemError("it contains no certificate")
    return "".join(found)


def private_key(text: str) -> str:
    """Return the private key of the text, which may be encrypted. Raises PemError unless the text has exactly 1 private key."""
    found = [_block(kind, body) for kind, body in _blocks(text) if kind.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise PemError("it contains no private key" if not found else "it contains several private keys")
    return found[0]


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


def _block(kind: str, body: str) -> str:
    if _BASE64.fullmatch(body) is None:
        # The body has headers before the base64, as an encrypted key in the traditional format does: keep the body as it is.
        return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
    lines = textwrap.wrap("".join(body.split()), 64)
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))
