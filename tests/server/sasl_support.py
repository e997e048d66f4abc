"""Frames of SASL sessions."""

from __future__ import annotations

from typing import TypeVar

from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import Message
from odradek.server.security.sasl_session import SaslSession, Step

USERS = {"alice": "secret", "bob": "other"}


ALICE = b"\0alice\0secret"


M = TypeVar("M", bound=Message)


def frame(message: Message, version: int) -> memoryview:
    return memoryview(encode_request_header(message.API_KEY, version, 7, "test") + message.encode(version))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return frame(SaslHandshakeRequest(mechanism=mechanism), version)


def token(message: bytes = ALICE, version: int = 2) -> memoryview:
    return frame(SaslAuthenticateRequest(auth_bytes=message), version)


VERSIONS = frame(ApiVersionsRequest(), 0)


def put(one: SaslSession, data: memoryview, now_ms: int = 1_000_000, now_s: float = 0.0) -> Step:
    return one.frame(data, now_ms, now_s)


def said(kind: type[M], step: Step, version: int) -> M:
    assert step.answer is not None
    body = memoryview(b"".join(step.answer))
    assert int.from_bytes(body[:4], "big") == len(body) - 4
    correlation_id, offset = decode_response_header(body[4:], kind.API_KEY, version)
    assert correlation_id == 7
    return kind.decode(body[4 + offset :], version)
