"""Interface of a SASL mechanism on the client, and the mechanisms with one message: PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from odradek.security.sasl.errors import SaslError


class SaslClient(Protocol):
    """Client side of one exchange."""

    mechanism: str
    takes_long: bool
    """Whether `first` and `answer` may take more than a millisecond; the caller then runs both on another thread."""

    def first(self) -> bytes:
        """Return the first message. Raises SaslError when the exchange cannot start."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message, or None at the end of the exchange. Raises SaslError when the exchange fails."""
        ...


class PlainClient:
    """Client side of PLAIN, which sends user name and password in clear; meant for TLS."""

    takes_long = False

    def __init__(self, username: str, password: str) -> None:
        self.mechanism = "PLAIN"
        self._username = username
        self._password = password

    def first(self) -> bytes:
        """Return the message: NUL name NUL password. Raises SaslError when name or password contains a NUL."""
        if "\0" in self._username or "\0" in self._password:
            raise SaslError("a user name or password with a NUL character cannot be sent with PLAIN")
        return f"\0{self._username}\0{self._password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return None: the exchange has no further message."""
        return None


class OAuthToken(NamedTuple):
    """Token for OAUTHBEARER. A new token is requested before `expires_ms` (Unix milliseconds); with None for each connection."""

    value: str
    expires_ms: int | None = None
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"OAuthToken(expires_ms={self.expires_ms})"


_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class OAuthBearerClient:
    """Client side of OAUTHBEARER, including the answer to a refusal."""

    takes_long = False

    def __init__(self, token: OAuthToken) -> None:
        self.mechanism = "OAUTHBEARER"
        self._token = token

    def first(self) -> bytes:
        """Return the message with token and extensions. Raises SaslError for a token or extension with characters that cannot be sent."""
        if _TOKEN.fullmatch(self._token.value) is None:
            raise SaslError("the token is empty or has characters that RFC 6750 does not allow")
        pairs = [f"auth=Bearer {self._token.value}"]
        for name, value in self._token.extensions.items():
            if name == "auth" or _EXTENSION_NAME.fullmatch(name) is None or _EXTENSION_VALUE.fullmatch(value) is None:
                raise SaslError(f"the token's extension {name!r} cannot be sent")
            pairs.append(f"{name}={value}")
        return "\x01".join(["n,,", *pairs, "\x01"]).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the byte 0x01 for a refusal, after which the server fails the exchange; None after success."""
        return b"\x01" if challenge else None


def refresh_ms(now_ms: int, expires_ms: int, *, factor: float, min_period_s: int, buffer_s: int) -> int:
    """Return the Unix milliseconds at which a token of this lifetime is replaced (ExpiringCredentialRefreshingLogin).

    The time is after `factor` of the lifetime, but at least `min_period_s` from now and `buffer_s` before the end. When these two bounds
    contradict each other, only `factor` counts.
    """
    wanted = now_ms + int((expires_ms - now_ms) * factor)
    begin, end = now_ms + min_period_s * 1000, expires_ms - buffer_s * 1000
    if end <= begin:
        return wanted
    return max(begin, min(wanted, end))


def unsecured_token(claims: Mapping[str, object], now_ms: int, lifetime_s: float) -> OAuthToken:
    """Return an unsigned token for tests (OAuthBearerUnsecuredLoginCallbackHandler)."""
    body = {**claims, "iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime_s}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, body)]
    return OAuthToken(".".join(parts) + ".", now_ms + int(lifetime_s * 1000))
