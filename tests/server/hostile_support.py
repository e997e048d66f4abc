"""Frames that JVM Kafka closes the connection for."""

from __future__ import annotations

import struct

from tests.network.support import framed
from tests.server.support import request

FIND_COORDINATOR, PRODUCE, FETCH, API_VERSIONS = 10, 0, 1, 18


def uvarint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


ONE_TAG_TOO_LONG = b"\x01" + uvarint(5) + uvarint(1000) + b"x"


CLOSES: dict[str, bytes] = {
    "negative length": struct.pack(">i", -5),
    "empty frame": struct.pack(">i", 0),
    "oversize length": struct.pack(">i", 2**31 - 1),
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "header of one byte": framed(b"\x00"),
    "header without a client id": framed(struct.pack(">hhi", 18, 0, 7)),
    "client id longer than the request": framed(struct.pack(">hhih", 18, 0, 7, 500) + b"short"),
    "client id with a negative length": framed(struct.pack(">hhih", 18, 0, 7, -2)),
    "client id that is not UTF-8": framed(struct.pack(">hhih", 18, 0, 7, 2) + b"\xff\xfe"),
    "unknown key": framed(struct.pack(">hhih", 9999, 0, 7, -1)),
    "negative key": framed(struct.pack(">hhih", -3, 0, 7, -1)),
    "key that is not served": framed(struct.pack(">hhih", 4, 0, 7, -1)),
    "version too old": framed(struct.pack(">hhih", FETCH, 3, 7, -1)),
    "version too new": framed(struct.pack(">hhih", FETCH, 19, 7, -1) + b"\x00"),
    "negative version": framed(struct.pack(">hhih", FETCH, -1, 7, -1)),
    "produce version that is advertised but not served": framed(struct.pack(">hhih", PRODUCE, 2, 7, -1)),
    "controller's API on a broker's listener": framed(struct.pack(">hhih", 52, 0, 7, -1)),
    "empty body": framed(request(FIND_COORDINATOR, 0)),
    "string longer than what is left": framed(request(FIND_COORDINATOR, 0, struct.pack(">h", 100) + b"abc")),
    "string with length -2": framed(request(FIND_COORDINATOR, 0, struct.pack(">h", -2))),
    "null where none is allowed": framed(request(FIND_COORDINATOR, 0, struct.pack(">h", -1))),
    "text that is not UTF-8": framed(request(FIND_COORDINATOR, 0, struct.pack(">h", 2) + b"\xc3\x28")),
    "array longer than what is left": framed(request(FIND_COORDINATOR, 4, b"\x00" + uvarint(1 << 31) + b"\x00")),
    "varint of six bytes": framed(request(FIND_COORDINATOR, 4, b"\x00" + b"\xff" * 5 + b"\x01\x00")),
    "null array": framed(request(FIND_COORDINATOR, 4, b"\x00\x00\x00")),
    "array of 20 million empty strings": framed(
        request(FIND_COORDINATOR, 4, b"\x00" + uvarint(20_000_001) + b"\x01" * 20_000_000 + b"\x00")
    ),
    "20 million tagged fields": framed(request(API_VERSIONS, 3, b"\x02a\x02b" + uvarint(20_000_000) + b"\x00\x00" * 10_000_000)),
    "tags out of order": framed(request(API_VERSIONS, 3, b"\x02a\x02b\x02\x05\x00\x04\x00")),
    "tag longer than what is left": framed(request(API_VERSIONS, 3, b"\x02a\x02b" + ONE_TAG_TOO_LONG)),
    "tags in the header out of bounds": framed(struct.pack(">hhih", 18, 3, 7, -1) + ONE_TAG_TOO_LONG),
    "fetch with a negative array": framed(request(FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 100, 0, -7))),
}
