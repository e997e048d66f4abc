"""SASL on an open connection: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import random
import secrets

from odradek.base.clock import Clock
from odradek.base.errors import ConfigError, ErrorCode, code_of
from odradek.client.config import ClientConfig
from odradek.client.credentials import Credentials, credentials_of
from odradek.client.failures import AuthenticationFailed
from odradek.client.settling import settled
from odradek.client.tokens import TokenSource
from odradek.network.transport import ClientConnection
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.negotiation import ApiVersionTable
from odradek.protocol.schema import Message
from odradek.security.sasl.client import OAuthBearerClient, PlainClient, SaslClient
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.scram_client import ScramClient

_MOST_MESSAGES = 10
"""No mechanism of ours needs more; a server that goes on for ever is left."""


class Authenticator:
    """Authenticates connections as one client."""

    def __init__(self, credentials: Credentials, tokens: TokenSource | None) -> None:
        self._credentials = credentials
        self._tokens = tokens

    @classmethod
    def of(cls, config: ClientConfig, clock: Clock, rng: random.Random) -> Authenticator | None:
        """None where the security protocol has no SASL; ConfigError when keys do not fit."""
        credentials = credentials_of(config)
        if credentials is None:
            return None
        bearer = credentials.mechanism == "OAUTHBEARER"
        return cls(credentials, TokenSource(credentials, config, clock, rng) if bearer else None)

    async def authenticate(self, connection: ClientConnection, versions: ApiVersionTable, where: str, timeout_s: float) -> int:
        """How long the session lasts, milliseconds (0: for ever). AuthenticationFailed when the broker or we refuse, ConnectionLost."""
        try:
            return await self._exchange(connection, versions, where, timeout_s)
        except (SaslError, ConfigError) as error:
            raise AuthenticationFailed(f"{self._credentials.mechanism} with {where} failed: {error}") from None

    async def _exchange(self, connection: ClientConnection, versions: ApiVersionTable, where: str, timeout_s: float) -> int:
        client = await self._client()
        version = versions.choose(ApiKey.SASL_HANDSHAKE, at_least=1)
        body = await _ask(connection, SaslHandshakeRequest(mechanism=client.mechanism), version, timeout_s)
        self._check_handshake(SaslHandshakeResponse.decode(body, version), where)
        version = versions.choose(ApiKey.SASL_AUTHENTICATE)
        message: bytes | None = client.first()
        lifetime_ms = 0
        for _ in range(_MOST_MESSAGES):
            if message is None:
                return lifetime_ms
            body = await _ask(connection, SaslAuthenticateRequest(auth_bytes=message), version, timeout_s)
            answer = SaslAuthenticateResponse.decode(body, version)
            if answer.error_code:
                code = code_of(answer.error_code)
                raise AuthenticationFailed(_one_line(answer.error_message) or f"{where} refuses {client.mechanism}", code)
            lifetime_ms = answer.session_lifetime_ms
            message = client.answer(bytes(answer.auth_bytes))
        raise SaslError("the server does not come to an end")

    def _check_handshake(self, answer: SaslHandshakeResponse, where: str) -> None:
        code = code_of(answer.error_code)
        mechanism = self._credentials.mechanism
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            served = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(f"{where} does not take sasl.mechanism={mechanism}; it takes {served}", code)
        if code is ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(f"{where} expects no SASL there; is security.protocol right?", code)
        if code is not ErrorCode.NONE:
            raise AuthenticationFailed(f"{where} refuses {mechanism}", code)

    async def _client(self) -> SaslClient:
        known = self._credentials
        if known.mechanism == "PLAIN":
            return PlainClient(known.username, known.password)
        if self._tokens is not None:
            return OAuthBearerClient(await self._tokens.token())
        extensions = {"tokenauth": "true"} if known.delegation_token else None
        return ScramClient(known.mechanism, known.username, known.password, secrets.token_urlsafe(24), extensions=extensions)


async def _ask(connection: ClientConnection, request: Message, version: int, timeout_s: float) -> memoryview:
    return await settled(connection.send(request.API_KEY, version, request.encode_chunks(version), timeout_s=timeout_s, urgent=True))


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
