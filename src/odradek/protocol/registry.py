"""Message classes by number, importing a module on first use; framing of stored records."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.errors import ProtocolError, UnsupportedVersionError
from odradek.protocol.headers import decode_response_header
from odradek.protocol.schema import DEFAULT_OBJECT_BUDGET, Message
from odradek.protocol.varint import decode_uvarint, encode_uvarint

FRAME_VERSION = 1
"""Version of the framing of metadata records (org.apache.kafka.server.common.serialization.AbstractApiMessageSerde)."""

_requests: dict[int, type[Message]] = {}
_responses: dict[int, type[Message]] = {}
_metadata_records: dict[int, type[Message]] = {}


def request_class(api_key: int) -> type[Message]:
    """Return the request class of an API. Raises ProtocolError for an unknown key."""
    return _requests.get(api_key) or _load(api_key, "Request", _requests)


def response_class(api_key: int) -> type[Message]:
    """Return the response class of an API. Raises ProtocolError for an unknown key."""
    return _responses.get(api_key) or _load(api_key, "Response", _responses)


def _load(api_key: int, suffix: str, known: dict[int, type[Message]]) -> type[Message]:
    try:
        info = API_INFO[ApiKey(api_key)]
    except ValueError:
        raise ProtocolError(f"unknown API key {api_key}") from None
    cls = cast("type[Message]", getattr(import_module(info.module), info.name + suffix))
    known[api_key] = cls
    return cls


def decode_response(frame: bytes | memoryview, api_key: int, version: int) -> Message:
    """Return the response in a frame (without its size) to a request of that API and version. Raises ProtocolError for malformed bytes."""
    _, offset = decode_response_header(frame, api_key, version)
    return response_class(api_key).decode(memoryview(frame)[offset:], version)


def message_classes(module: str) -> list[type[Message]]:
    """Return the messages that a module under `odradek.protocol.messages`, named by its last part, declares, in order."""
    loaded = import_module(f"odradek.protocol.messages.{module}")
    return [value for value in vars(loaded).values() if isinstance(value, type) and issubclass(value, Message) and value is not Message]


def metadata_record_class(record_type: int) -> type[Message]:
    """Return the class of a metadata record type. Raises ProtocolError for an unknown type."""
    if not _metadata_records:
        for cls in message_classes("metadata_records"):
            _metadata_records[cls.API_KEY] = cls
    try:
        return _metadata_records[record_type]
    except KeyError:
        raise ProtocolError(f"unknown metadata record type {record_type}") from None


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Return a record of the metadata log as the value of a log record.

    The value is frame version, type and version as unsigned varints, then the record.
    """
    return b"".join((encode_uvarint(FRAME_VERSION), encode_uvarint(record.API_KEY), encode_uvarint(version), record.encode(version)))


def decode_metadata_record(buffer: bytes | memoryview, *, budget: int = DEFAULT_OBJECT_BUDGET) -> tuple[Message, int]:
    """Return the record in the value of a log record, and its version.

    Raises ProtocolError for malformed bytes, an unknown type, and remaining bytes, and UnsupportedVersionError for an unknown frame version
    or record version.
    """
    try:
        frame_version, offset = decode_uvarint(buffer, 0)
        record_type, offset = decode_uvarint(buffer, offset)
        version, offset = decode_uvarint(buffer, offset)
    except IndexError:
        raise ProtocolError("the metadata record is shorter than its frame") from None
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersionError(f"unsupported frame version {frame_version} of a metadata record")
    record, end = metadata_record_class(record_type).decode_prefix(buffer, version, offset, budget=budget)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes remain after a metadata record")
    return record, version
