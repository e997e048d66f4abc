"""Text of a certificate's name in Java's form of RFC 2253 (javax.security.auth.x500.X500Principal.getName).

The text equals Java's character for character, because ACLs and mapping rules written for a JVM broker contain such names.
"""

from __future__ import annotations

from typing import Final

from odradek.security.x509 import oid_text, values

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute types with a keyword in RFC 2253; other types are written as dotted numbers."""

_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""Tags of UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString and BMPString."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_WHITE: Final = " \r"


def rfc2253(name: bytes) -> str:
    """Return the text of a Name in DER, with the last part of the name first. Raises ValueError for a malformed Name."""
    ((_, parts, _),) = values(name)
    written: list[str] = []
    for _, part, _ in values(parts):
        written.append("+".join(_attribute(attribute) for _, attribute, _ in values(part)))
    return ",".join(reversed(written))


def _attribute(content: bytes) -> str:
    (_, oid, _), (tag, value, whole) = values(content)
    dotted = oid_text(oid)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or dotted}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Return the text with RFC 2253's escapes. The caller decodes every kind of string as UTF-8, as Java does."""
    out = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    lead = len(out) - len(out.lstrip(_WHITE))
    trail = len(out.rstrip(_WHITE))
    return "".join("\\" + each if at < lead or at >= trail else each for at, each in enumerate(out))
