"""SASL on an open connection, client side: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, OdradekError, code_of
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.sasl.errors import SaslError

if TYPE_CHECKING:
    from odradek.network.transport import ClientConnection
    from odradek.protocol.negotiation import ApiVersionTable
    from odradek.protocol.schema import Message
    from odradek.security.sasl.client import SaslClient

_MOST_MESSAGES = 10
"""Most messages of an exchange. No mechanism of Odradek needs more; without the bound a server could continue without end."""


class LoginRefused(OdradekError):
    """Refusal by the server: the message is the server's, `code` its error code."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


async def log_in(connection: ClientConnection, versions: ApiVersionTable, client: SaslClient, timeout_s: float) -> int:
    """Authenticate a connection, and return the lifetime of the session in milliseconds (0: unlimited).

    Each response may take `timeout_s`. The requests are urgent, so that they overtake requests that wait for the connection. Raises
    LoginRefused when the server refuses, SaslError when the exchange cannot continue, ConnectionLost, and KafkaError(UNSUPPORTED_VERSION).
    """
    loop = asyncio.get_running_loop()
    version = versions.choose(ApiKey.SASL_HANDSHAKE, at_least=1)
    body = await _ask(connection, SaslHandshakeRequest(mechanism=client.mechanism), version, timeout_s)
    _check_handshake(SaslHandshakeResponse.decode(body, version), client.mechanism)
    version = versions.choose(ApiKey.SASL_AUTHENTICATE)
    message = await loop.run_in_executor(None, client.first) if client.takes_long else client.first()
    for _ in range(_MOST_MESSAGES):
        body = await _ask(connection, SaslAuthenticateRequest(auth_bytes=message), version, timeout_s)
        answer = SaslAuthenticateResponse.decode(body, version)
        if answer.error_code:
            raise LoginRefused(" ".join((answer.error_message or "").split()), code_of(answer.error_code))
        challenge = bytes(answer.auth_bytes)
        following = await loop.run_in_executor(None, client.answer, challenge) if client.takes_long else client.answer(challenge)
        if following is None:
            return answer.session_lifetime_ms
        message = following
    raise SaslError("the server does not end the authentication")


def _check_handshake(answer: SaslHandshakeResponse, mechanism: str) -> None:
    code = code_of(answer.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise LoginRefused(f"it supports {', '.join(answer.mechanisms) or 'none'}", code)
    if code is not ErrorCode.NONE:
        raise LoginRefused("", code)


async def _ask(connection: ClientConnection, request: Message, version: int, timeout_s: float) -> memoryview:
    return await connection.send(request.API_KEY, version, request.encode_chunks(version), timeout_s=timeout_s, urgent=True)
