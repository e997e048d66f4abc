"""Request and response headers.

Kafka's exceptions: the client id keeps its int16 length in flexible headers; ControlledShutdown version 0 has no client id; the response to
ApiVersions always has the oldest header, so that clients can read it before they know the broker's versions (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.errors import InvalidMessageError, ProtocolError
from odradek.protocol.reader import skip_tags

_FIXED: Final = struct.Struct(">hhi")
_WITH_CLIENT: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class RequestHeader(NamedTuple):
    """Header of a request. Key and version are those sent, known or not."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


# Looked up for every request and response by number, without creating an ApiKey.
_FLEXIBLE_SINCE: Final[dict[int, int]] = {
    int(api_key): 1 << 15 if info.flexible_since is None else info.flexible_since for api_key, info in API_INFO.items()
}
_FLEXIBLE_ANSWER_SINCE: Final[dict[int, int]] = {**_FLEXIBLE_SINCE, _API_VERSIONS: 1 << 15}


def request_header_version(api_key: int, version: int) -> int:
    """Return 0, 1 or 2. Raises ProtocolError for an unknown key."""
    flexible_since = _FLEXIBLE_SINCE.get(api_key)
    if flexible_since is None:
        raise ProtocolError(f"unknown API key {api_key}")
    if version >= flexible_since:
        return 2
    return 0 if api_key == _CONTROLLED_SHUTDOWN and version == 0 else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return 0 or 1. Raises ProtocolError for an unknown key."""
    flexible_since = _FLEXIBLE_ANSWER_SINCE.get(api_key)
    if flexible_since is None:
        raise ProtocolError(f"unknown API key {api_key}")
    return 1 if version >= flexible_since else 0


def decode_request_header(buffer: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """Return the header at the start of a request, and the offset of the body.

    Versions are not checked, because ApiVersions in a too new version must be answered. Raises ProtocolError for an unknown key (the
    header's form is then unknown, too) and for a malformed header.
    """
    try:
        api_key, version, correlation_id, size = _WITH_CLIENT.unpack_from(buffer)
    except struct.error:
        return _decode_short_header(buffer)
    header_version = request_header_version(api_key, version)
    if header_version == 0:
        return RequestHeader(api_key, version, correlation_id, None), _FIXED.size
    offset = _WITH_CLIENT.size
    client_id: str | None = None
    if size >= 0:
        end = offset + size
        if end > len(buffer):
            raise ProtocolError("the client id is longer than the request")
        try:
            client_id = str(buffer[offset:end], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
        offset = end
    elif size != -1:
        raise ProtocolError("the client id has a negative length")
    if header_version == 2:
        # Tagged fields are rare.
        offset = offset + 1 if offset < len(buffer) and buffer[offset] == 0 else _skip_tags(buffer, offset)
    return RequestHeader(api_key, version, correlation_id, client_id), offset


def _decode_short_header(buffer: bytes | bytearray | memoryview) -> tuple[RequestHeader, int]:
    """Return a header too short for a client id: that of ControlledShutdown version 0. Raises ProtocolError for any other."""
    if len(buffer) >= _FIXED.size:
        api_key, version, correlation_id = _FIXED.unpack_from(buffer)
        if request_header_version(api_key, version) == 0:
            return RequestHeader(api_key, version, correlation_id, None), _FIXED.size
    raise ProtocolError("the request is shorter than its header")


def _skip_tags(buffer: bytes | bytearray | memoryview, offset: int) -> int:
    try:
        return skip_tags(memoryview(buffer), offset, len(buffer))
    except IndexError:
        raise ProtocolError("the header is truncated") from None


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header of a request.

    Raises ProtocolError for an unknown key, InvalidMessageError for values out of range.
    """
    header_version = request_header_version(api_key, api_version)
    try:
        if header_version == 0:
            return _FIXED.pack(api_key, api_version, correlation_id)
        tags = b"\0" if header_version == 2 else b""
        if client_id is None:
            return _WITH_CLIENT.pack(api_key, api_version, correlation_id, -1) + tags
        text = client_id.encode()
        return _WITH_CLIENT.pack(api_key, api_version, correlation_id, len(text)) + text + tags
    except struct.error as error:
        raise InvalidMessageError(f"the request header cannot be written: {error}") from error


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the header of the response to a request of `api_key` in `version`."""
    header = _CORRELATION.pack(correlation_id)
    return header + b"\0" if response_header_version(api_key, version) == 1 else header


def decode_response_header(buffer: bytes | bytearray | memoryview, api_key: int, version: int) -> tuple[int, int]:
    """Return the correlation id, and the offset of the body. Raises ProtocolError for a malformed header."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(buffer)
    except struct.error:
        raise ProtocolError("the response is shorter than its header") from None
    if response_header_version(api_key, version) == 1:
        return correlation_id, _skip_tags(buffer, _CORRELATION.size)
    return correlation_id, _CORRELATION.size
