"""Headers and frames: their oddities, their limits, and what is refused."""

from __future__ import annotations

import struct

import pytest

from odradek.base.errors import ProtocolError
from odradek.protocol.framing import frame, frame_chunks
from odradek.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)

API_VERSIONS, CONTROLLED_SHUTDOWN, HEARTBEAT = 18, 7, 12


class Slice:
    """A piece of a file."""

    size = 1000


def test_the_answer_to_api_versions_always_has_the_oldest_header() -> None:
    for version in range(5):
        assert encode_response_header(API_VERSIONS, version, 7) == struct.pack(">i", 7)
        assert decode_response_header(struct.pack(">i", 7) + b"\xff", API_VERSIONS, version) == (7, 4)
    assert encode_response_header(HEARTBEAT, 4, 7) == struct.pack(">i", 7) + b"\0"
    assert encode_response_header(HEARTBEAT, 3, 7) == struct.pack(">i", 7)


def test_controlled_shutdown_0_has_no_client_id() -> None:
    header = encode_request_header(CONTROLLED_SHUTDOWN, 0, 5, "me")
    assert len(header) == 8
    assert decode_request_header(header + b"xx") == (RequestHeader(CONTROLLED_SHUTDOWN, 0, 5, None), 8)


@pytest.mark.parametrize(("version", "tags"), [(3, b""), (4, b"\0")])
def test_a_client_id_is_read_to_its_last_byte_and_no_further(version: int, tags: bytes) -> None:
    fixed = struct.pack(">hhih", HEARTBEAT, version, 5, 3)
    assert decode_request_header(fixed + b"abc" + tags) == (RequestHeader(HEARTBEAT, version, 5, "abc"), 13 + len(tags))
    with pytest.raises(ProtocolError, match="longer than the request"):
        decode_request_header(fixed + b"ab")
    for size in (-2, -(1 << 15)):
        with pytest.raises(ProtocolError, match="negative"):
            decode_request_header(struct.pack(">hhih", HEARTBEAT, version, 5, size) + b"abc" + tags)
    null = struct.pack(">hhih", HEARTBEAT, version, 5, -1) + tags
    assert decode_request_header(null)[0].client_id is None


def test_a_frame_announces_all_that_follows() -> None:
    assert frame(b"ab", b"c") == b"\0\0\0\3abc"
    assert frame_chunks(b"head", [b"body"]) == [b"\0\0\0\x08headbody"]
    assert frame_chunks(b"head", []) == [b"\0\0\0\4head"]
    file = Slice()
    first, *rest = frame_chunks(b"head", [b"body", file, b"tail"])  # type: ignore[list-item]
    assert first == struct.pack(">i", 4 + 4 + 1000 + 4) + b"headbody"
    assert rest == [file, b"tail"]
    assert frame_chunks(b"head", [file])[0] == struct.pack(">i", 1004) + b"head"  # type: ignore[list-item]
