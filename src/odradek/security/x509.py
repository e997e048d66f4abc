"""Parser of the parts of an X.509 certificate in DER that access control needs: subject, issuer and alternative names (RFC 5280).

Certificates were accepted by OpenSSL before. Malformed data raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SEQUENCE: Final = 0x30
_OID: Final = 0x06
_OCTET_STRING: Final = 0x04
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_SUBJECT_ALTERNATIVE_NAME: Final = b"\x55\x1d\x11"


def read_value(data: bytes, at: int = 0) -> tuple[int, bytes, int]:
    """Return (tag, content, end) of the DER value that begins at `at`.

    Raises ValueError for a truncated value, an invalid length, and a tag of several bytes.
    """
    if at + 2 > len(data):
        raise ValueError("a value is truncated")
    tag, length, at = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise ValueError("a tag of several bytes")
    if length >= 0x80:
        count = length & 0x7F
        if not 0 < count <= 4 or at + count > len(data):
            raise ValueError("an invalid length")
        length, at = int.from_bytes(data[at : at + count], "big"), at + count
    if at + length > len(data):
        raise ValueError("a value is truncated")
    return tag, data[at : at + length], at + length


def values(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (tag, content, whole encoding) of each value of a SEQUENCE or SET."""
    at = 0
    while at < len(content):
        tag, inner, end = read_value(content, at)
        yield tag, inner, content[at:end]
        at = end


def subject(certificate: bytes) -> bytes:
    """Return the subject's Name in DER."""
    fields = _fields(certificate)
    if len(fields) < 6 or fields[4][0] != _SEQUENCE:
        raise ValueError("a certificate without a subject")
    return fields[4][2]


def issuer(certificate: bytes) -> bytes:
    """Return the issuer's Name in DER."""
    fields = _fields(certificate)
    if len(fields) < 6:
        raise ValueError("a certificate without an issuer")
    return fields[2][2]


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """Return the subject's alternative names, each in DER. The first byte gives the kind: 0x82 for a host name, 0x87 for an address."""
    for tag, content, _ in _fields(certificate)[6:]:
        if tag == _EXTENSIONS:
            (_, extensions, _), *_rest = values(content)
            for _, extension, _ in values(extensions):
                (kind, oid, _), *others = values(extension)
                if kind == _OID and oid == _SUBJECT_ALTERNATIVE_NAME:
                    octets = next((inner for kind, inner, _ in others if kind == _OCTET_STRING), None)
                    if octets is None:
                        raise ValueError("alternative names without a value")
                    return frozenset(whole for _, _, whole in values(read_value(octets)[1]))
    return frozenset()


def _fields(certificate: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return the parts of the certificate without the optional version: serial number, algorithm, issuer, validity, subject, ..."""
    tag, content, _ = read_value(certificate)
    if tag != _SEQUENCE:
        raise ValueError("not a certificate")
    fields = list(values(read_value(content)[1]))
    return fields[1:] if fields and fields[0][0] == _VERSION else fields


def oid_text(content: bytes) -> str:
    """Return the dotted form of an OBJECT IDENTIFIER's content. Raises ValueError for empty or incomplete content."""
    if not content or content[-1] & 0x80:
        raise ValueError("an invalid object identifier")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
