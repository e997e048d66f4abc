"""SASL on an open connection: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import random
import secrets
from functools import partial
from typing import TYPE_CHECKING

from odradek.base.clock import Clock
from odradek.base.errors import ConfigError, ErrorCode
from odradek.client.failures import AuthenticationFailed
from odradek.client.security.credentials import Credentials, credentials_of
from odradek.client.security.tokens import TokenSource
from odradek.client.settings.config import ClientConfig
from odradek.network.login import LoginRefused, log_in
from odradek.network.transport import ClientConnection
from odradek.protocol.negotiation import ApiVersionTable
from odradek.security.sasl.client import OAuthBearerClient, PlainClient, SaslClient
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.gssapi import GssapiClient
from odradek.security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from odradek.network.kerberos import Tickets


class Authenticator:
    """Authenticator of one client's connections."""

    def __init__(self, credentials: Credentials, tokens: TokenSource | None) -> None:
        self._credentials = credentials
        self._tokens = tokens
        self._tickets: Tickets | None = None
        kerberos = credentials.kerberos
        if kerberos is not None:
            from odradek.network.kerberos import Tickets

            self._tickets = Tickets(kerberos.principal, kerberos.keytab, kerberos.cache)

    @classmethod
    def of(cls, config: ClientConfig, clock: Clock, rng: random.Random) -> Authenticator | None:
        """Return the authenticator for the configuration; None if the security protocol has no SASL.

        Raises ConfigError for invalid keys.
        """
        credentials = credentials_of(config)
        if credentials is None:
            return None
        bearer = credentials.mechanism == "OAUTHBEARER"
        return cls(credentials, TokenSource(credentials, config, clock, rng) if bearer else None)

    async def authenticate(self, connection: ClientConnection, versions: ApiVersionTable, where: str, timeout_s: float) -> int:
        """Authenticate the connection; return the lifetime of the session in milliseconds, 0 without a limit.

        Raises AuthenticationFailed when the broker or the client refuses, ConnectionLost when the connection is lost.
        """
        try:
            return await self._exchange(connection, versions, where, timeout_s)
        except (SaslError, ConfigError) as error:
            raise AuthenticationFailed(f"{self._credentials.mechanism} with {where} failed: {error}") from None

    async def _exchange(self, connection: ClientConnection, versions: ApiVersionTable, where: str, timeout_s: float) -> int:
        client = await self._client(where)
        try:
            return await log_in(connection, versions, client, timeout_s)
        except LoginRefused as refused:
            raise self._refusal(refused, where) from None

    def _refusal(self, refused: LoginRefused, where: str) -> AuthenticationFailed:
        code, mechanism = refused.code, self._credentials.mechanism
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return AuthenticationFailed(f"{where} does not support sasl.mechanism={mechanism}; {refused}", code)
        if code is ErrorCode.ILLEGAL_SASL_STATE and not str(refused):
            return AuthenticationFailed(f"{where} does not expect SASL on this listener; check security.protocol", code)
        return AuthenticationFailed(str(refused) or f"{where} refuses sasl.mechanism={mechanism}", code)

    async def _client(self, where: str) -> SaslClient:
        known = self._credentials
        if self._tickets is not None:
            assert known.kerberos is not None
            host = known.kerberos.host or where.rpartition(":")[0].strip("[]")
            return GssapiClient(partial(self._tickets.context, known.kerberos.service, host))
        if known.mechanism == "PLAIN":
            return PlainClient(known.username, known.password)
        if self._tokens is not None:
            return OAuthBearerClient(await self._tokens.token())
        extensions = {"tokenauth": "true"} if known.delegation_token else None
        return ScramClient(known.mechanism, known.username, known.password, secrets.token_urlsafe(24), extensions=extensions)
