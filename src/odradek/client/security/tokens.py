"""Source of the tokens of OAUTHBEARER, and the time for which a token is used (KIP-255)."""

from __future__ import annotations

import asyncio
import inspect
import random
from typing import cast

from odradek.base.clock import Clock
from odradek.base.errors import ConfigError
from odradek.client.security.credentials import TOKEN_ENDPOINT, TOKEN_PROVIDER, Credentials, TokenProvider
from odradek.client.settings.common_keys import (
    SASL_LOGIN_REFRESH_BUFFER_SECONDS,
    SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS,
    SASL_LOGIN_REFRESH_WINDOW_FACTOR,
    SASL_LOGIN_REFRESH_WINDOW_JITTER,
)
from odradek.client.settings.config import ClientConfig
from odradek.security.sasl.client import OAuthToken, refresh_ms, unsecured_token
from odradek.security.sasl.errors import SaslError

_DEFAULT_LIFETIME_S = 3600.0


class TokenSource:
    """Token for all connections. When sasl.login.refresh.* say so, the next authentication gets a new token."""

    def __init__(self, credentials: Credentials, config: ClientConfig, clock: Clock, rng: random.Random) -> None:
        self._credentials = credentials
        self._clock = clock
        factor = config[SASL_LOGIN_REFRESH_WINDOW_FACTOR]
        self._factor = factor + rng.uniform(0, config[SASL_LOGIN_REFRESH_WINDOW_JITTER])
        self._min_period_s = config[SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS]
        self._buffer_s = config[SASL_LOGIN_REFRESH_BUFFER_SECONDS]
        self._source = TOKEN_ENDPOINT if config.is_set(TOKEN_ENDPOINT) else TOKEN_PROVIDER
        self._token: OAuthToken | None = None
        self._refresh_ms = 0
        self._asking: asyncio.Task[OAuthToken] | None = None

    async def token(self) -> OAuthToken:
        """Return the token to send now. Raises SaslError when no token can be had."""
        now = self._clock.time_ms()
        if self._token is not None and now < self._refresh_ms:
            return self._token
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(now))
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    def _asked(self, task: asyncio.Task[OAuthToken]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()

    async def _ask(self, now: int) -> OAuthToken:
        if self._credentials.unsecured is not None:
            token = _unsecured(self._credentials.unsecured, now)
        else:
            assert self._credentials.provider is not None
            token = await _provided(self._credentials.provider)
        if token.expires_ms is None:
            return token
        if token.expires_ms <= now:
            raise SaslError(f"{self._source} returned a token that has already expired")
        self._token = token
        self._refresh_ms = refresh_ms(now, token.expires_ms, factor=self._factor, min_period_s=self._min_period_s, buffer_s=self._buffer_s)
        return token


async def _provided(provider: TokenProvider) -> OAuthToken:
    try:
        given = cast(object, provider())
        if inspect.isawaitable(given):
            given = cast(object, await given)
    except SaslError:
        raise
    except Exception as error:
        # Report only the kind of the error: its text may hold secrets of the token.
        raise SaslError(f"{TOKEN_PROVIDER} failed with {type(error).__name__}") from None
    if isinstance(given, OAuthToken):
        return given
    if isinstance(given, str):
        return OAuthToken(given)
    if isinstance(given, tuple) and len(cast("tuple[object, ...]", given)) == 2:
        value, expires_s = cast("tuple[object, object]", given)
        if isinstance(value, str) and isinstance(expires_s, (int, float)):
            return OAuthToken(value, int(expires_s * 1000))
    raise SaslError(f"{TOKEN_PROVIDER} must return an OAuthToken, a text, or a pair (text, expiry in Unix seconds)")


def _unsecured(options: dict[str, str], now: int) -> OAuthToken:
    claims: dict[str, object] = {}
    extensions: dict[str, str] = {}
    lifetime_s = _DEFAULT_LIFETIME_S
    principal = "sub"
    for name, value in options.items():
        kind, _, claim = name.partition("_")
        if kind == "unsecuredLoginStringClaim":
            claims[claim] = value
        elif kind == "unsecuredLoginNumberClaim":
            claims[claim] = _number(name, value)
        elif kind == "unsecuredLoginListClaim" and value:
            claims[claim] = value[1:].split(value[0])
        elif kind == "unsecuredLoginExtension":
            extensions[claim] = value
        elif name == "unsecuredLoginPrincipalClaimName":
            principal = value
        elif name == "unsecuredLoginLifetimeSeconds":
            lifetime_s = _number(name, value)
        else:
            raise SaslError(f"sasl.jaas.config has an unknown option: {name}")
    if not claims.get(principal):
        raise SaslError(f"sasl.jaas.config needs unsecuredLoginStringClaim_{principal}, the name of the client")
    return unsecured_token(claims, now, lifetime_s)._replace(extensions=extensions)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{name} in sasl.jaas.config must be a number") from None
