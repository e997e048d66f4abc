"""Sources of OAUTHBEARER tokens as in Java's clients: a file, or an authorization server that gets the client's name and secret.

No error holds a secret, a token or a response, except the error code of RFC 6749 section 5.2. Source: KIP-768; RFC 6749 section 4.4, client
credentials.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import SplitResult, quote_plus, unquote, urlsplit

from odradek.base.errors import ConfigError
from odradek.base.timing import Backoff
from odradek.client.security.credentials import CLIENT_ID, CLIENT_SECRET, OF_TOKEN_ENDPOINT, SCOPE, TOKEN_ENDPOINT
from odradek.client.settings.common_keys import (
    SASL_LOGIN_CONNECT_TIMEOUT_MS,
    SASL_LOGIN_READ_TIMEOUT_MS,
    SASL_LOGIN_RETRY_BACKOFF_MAX_MS,
    SASL_LOGIN_RETRY_BACKOFF_MS,
    SASL_OAUTHBEARER_HEADER_URLENCODE,
)
from odradek.security.sasl.client import OAuthToken
from odradek.security.sasl.errors import SaslError

if TYPE_CHECKING:
    from odradek.client.settings.config import ClientConfig

logger = logging.getLogger(__name__)

_IN_JAAS: Final = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET, "scope": SCOPE}
_LARGEST: Final = 1 << 20
_FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""HTTP status codes after which Java's clients do not retry."""
_CODE: Final = re.compile(r"[a-z_]{1,40}")


class _Refused(Exception):
    """Failure that a retry cannot mend."""


class Endpoint(NamedTuple):
    """Authorization server, and how it is asked."""

    url: str
    client_id: str
    client_secret: str
    scope: str
    urlencode: bool
    connect_s: float
    read_s: float
    backoff_s: float
    longest_s: float
    """Most seconds between the first attempt and the beginning of a retry."""

    def __repr__(self) -> str:
        return f"Endpoint({urlsplit(self.url).hostname})"

    async def __call__(self) -> OAuthToken:
        """Return a new token; retry failures that may pass. Raises SaslError when no token can be had."""
        end = time.monotonic() + self.longest_s
        backoff, first = Backoff(self.backoff_s * 1000, inf), ""
        while True:
            try:
                return await asyncio.to_thread(self._ask)
            except _Refused as error:
                raise self._failed(first or str(error)) from None
            except OSError as error:
                why = _reason(error)
            first = first or why
            pause_s = min(backoff.next_s(), end - time.monotonic())
            if pause_s <= 0:
                raise self._failed(first)
            logger.info("the token request to %s failed and will be retried: %s", urlsplit(self.url).hostname, why)
            await asyncio.sleep(pause_s)

    def _failed(self, why: str) -> SaslError:
        return SaslError(f"{TOKEN_ENDPOINT}: the token request to {urlsplit(self.url).hostname} failed: {why}")

    def _ask(self) -> OAuthToken:
        from odradek.network.web import exchange

        now_s = time.time()
        parts = [quote_plus(part) if self.urlencode else part for part in (self.client_id, self.client_secret)]
        body = "grant_type=client_credentials" + (f"&scope={quote_plus(self.scope)}" if self.scope else "")
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(':'.join(parts).encode()).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = exchange(
            "POST", self.url, body.encode(), headers, largest=_LARGEST, connect_s=self.connect_s, answer_s=self.read_s, proxies=True
        )
        if not 200 <= answer.status < 300:
            is_final = answer.status in _FINAL or answer.status < 400
            raise (_Refused if is_final else OSError)(f"it responds with status {answer.status}{_code_of(answer.body)}")
        return _token_of(_bounded(answer.body), now_s)


class TokenFile(NamedTuple):
    """File with a token, which another program renews."""

    path: str

    async def __call__(self) -> OAuthToken:
        """Return the token that the file has now. Raises SaslError when no token can be read."""
        try:
            return await asyncio.to_thread(self._read)
        except (OSError, _Refused) as error:
            raise SaslError(f"{TOKEN_ENDPOINT}: no token can be read from {self.path}: {_reason(error)}") from None

    def _read(self) -> OAuthToken:
        with Path(self.path).open("rb") as file:
            text = _bounded(file.read(_LARGEST + 1)).decode(errors="replace").strip()
        if not text:
            raise _Refused("it is empty")
        return OAuthToken(text, _expiry_ms(text))


def endpoint_of(config: ClientConfig, options: Mapping[str, str]) -> Endpoint | TokenFile | None:
    """Return the token source of the keys and of the options of sasl.jaas.config; None without an endpoint URL.

    Raises ConfigError for missing or contradictory keys.
    """
    given = {key: text for key in (CLIENT_ID, CLIENT_SECRET, SCOPE) if (text := config[key]) is not None}
    for option, value in options.items():
        named = _IN_JAAS.get(option)
        if named is None:
            raise ConfigError(f"sasl.jaas.config has an unknown option: {option}")
        if named in given:
            raise ConfigError(f"Configuration {named} excludes {option} in sasl.jaas.config: give one of them")
        given[named] = value
    of_addresses = [key for key in OF_TOKEN_ENDPOINT if key in given or config.is_set(key)]
    url = config[TOKEN_ENDPOINT]
    if url is None:
        for key in of_addresses:
            raise ConfigError(f"Configuration {key} has no effect without {TOKEN_ENDPOINT}")
        return None
    parts = urlsplit(url)
    if parts.scheme == "file":
        for key in of_addresses:
            raise ConfigError(f"Configuration {key} has no effect when {TOKEN_ENDPOINT} is a file")
        return TokenFile(_path_of(parts))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError(
            f"Invalid value for configuration {TOKEN_ENDPOINT}: it must be an address that begins with file:, http: or https:"
        )
    for own in (CLIENT_ID, CLIENT_SECRET):
        if not given.get(own, "").strip():
            raise ConfigError(f"{TOKEN_ENDPOINT} needs {own}, the client's credential at the authorization server")
    return Endpoint(
        url,
        given[CLIENT_ID].strip(),
        given[CLIENT_SECRET].strip(),
        given.get(SCOPE, "").strip(),
        config[SASL_OAUTHBEARER_HEADER_URLENCODE],
        config[SASL_LOGIN_CONNECT_TIMEOUT_MS] / 1000,
        config[SASL_LOGIN_READ_TIMEOUT_MS] / 1000,
        config[SASL_LOGIN_RETRY_BACKOFF_MS] / 1000,
        config[SASL_LOGIN_RETRY_BACKOFF_MAX_MS] / 1000,
    )


def _path_of(parts: SplitResult) -> str:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path:
        raise ConfigError(f"Invalid value for configuration {TOKEN_ENDPOINT}: it must name a file of this machine")
    return path


def _reason(error: Exception) -> str:
    """Return the reason of an error for messages, without the URL, which may be long, and other contents of the exception."""
    if isinstance(error, TimeoutError):
        return "no response within the time limit"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _bounded(data: bytes) -> bytes:
    if len(data) > _LARGEST:
        raise _Refused(f"more than {_LARGEST} bytes")
    return data


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}


def _code_of(data: bytes) -> str:
    code = _parsed(data).get("error")
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _token_of(data: bytes, asked_s: float) -> OAuthToken:
    answer = _parsed(data)
    value = answer.get("access_token")
    if not isinstance(value, str) or not value.strip():
        raise _Refused("its response has no access_token")
    value = value.strip()
    expires_ms = _expiry_ms(value)
    lifetime_s = answer.get("expires_in")
    if expires_ms is None and isinstance(lifetime_s, (int, float)) and 0 < lifetime_s < 1e9:
        expires_ms = int((asked_s + lifetime_s) * 1000)
    return OAuthToken(value, expires_ms)


def _expiry_ms(token: str) -> int | None:
    """Return the Unix milliseconds at which a JSON Web Token expires; None for any other token. Only the broker checks the token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _parsed(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    expires_s = claims.get("exp")
    return int(expires_s * 1000) if isinstance(expires_s, (int, float)) and 0 < expires_s < 1e12 else None
