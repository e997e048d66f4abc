"""Translation of Java's names of cipher suites (the IANA names) into OpenSSL's names."""

from __future__ import annotations

import re

TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""TLS 1.3 suites that OpenSSL enables."""

_SUITE = re.compile(
    r"TLS_(?P<exchange>[A-Z0-9_]+)_WITH_(?P<cipher>[A-Z0-9]+(?:_[0-9]+)?)(?:_(?P<mode>GCM|CBC|CCM_8|CCM|POLY1305))?(?:_(?P<digest>SHA\d*))?"
)


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite: `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.

    A name of another form is returned unchanged.
    """
    match = _SUITE.fullmatch(name)
    if match is None:
        return name
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    cipher, mode, digest = match["cipher"], match["mode"], match["digest"]
    if cipher.startswith("CHACHA20"):
        return f"{exchange}CHACHA20-POLY1305"
    parts = [cipher.replace("_", "")]
    if mode in ("GCM", "CCM", "CCM_8"):
        parts.append(mode.replace("_", ""))
    if digest is not None and mode not in ("CCM", "CCM_8"):
        parts.append(digest)
    return exchange + "-".join(parts)
