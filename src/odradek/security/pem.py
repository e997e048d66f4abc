"""Certificates and keys out of PEM text, also where its lines were joined, as in a properties file (KIP-651)."""

from __future__ import annotations

import re
import textwrap

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")


class PemError(ValueError):
    """The text holds not what it should; the message quotes nothing of it."""


def certificates(text: str) -> str:
    """All certificates of the text, in their order; PemError when there is none."""
    found = [_block(kind, body) for kind, body in _blocks(text) if kind in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")]
    if not found:
        raise PemError("there is no certificate in it")
    return "".join(found)


def private_key(text: str) -> str:
    """The one private key of the text, encrypted or not; PemError when it is not one."""
    found = [_block(kind, body) for kind, body in _blocks(text) if kind.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise PemError("there is no private key in it" if not found else "there are several private keys in it")
    return found[0]


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


def _block(kind: str, body: str) -> str:
    if _BASE64.fullmatch(body) is None:
        # The headers of an old encrypted key stand before its base64.
        return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
    lines = textwrap.wrap("".join(body.split()), 64)
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))
