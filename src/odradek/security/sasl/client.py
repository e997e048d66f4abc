"""What a SASL mechanism is to the client, and the two that have one message: PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from odradek.security.sasl.errors import SaslError


class SaslClient(Protocol):
    """The client's side of one exchange."""

    mechanism: str
    takes_long: bool
    """Whether `first` and `answer` work for more than a millisecond: on another thread, then."""

    def first(self) -> bytes:
        """The first message."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message, or None when the exchange is over; SaslError when it cannot go on."""
        ...


class PlainClient:
    """User name and password as they are: for TLS."""

    takes_long = False

    def __init__(self, username: str, password: str) -> None:
        self.mechanism = "PLAIN"
        self._username = username
        self._password = password

    def first(self) -> bytes:
        """NUL name NUL password."""
        if "\0" in self._username or "\0" in self._password:
            raise SaslError("a user name or password with a NUL cannot be sent by PLAIN")
        return f"\0{self._username}\0{self._password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """There is nothing to answer."""
        return None


class OAuthToken(NamedTuple):
    """A token for OAUTHBEARER. `expires_ms` (Unix milliseconds): it is asked for anew before; None: for each connection."""

    value: str
    expires_ms: int | None = None
    extensions: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"OAuthToken(expires_ms={self.expires_ms})"


_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


class OAuthBearerClient:
    """A bearer token, and what the server may say of one that it refuses."""

    takes_long = False

    def __init__(self, token: OAuthToken) -> None:
        self.mechanism = "OAUTHBEARER"
        self._token = token

    def first(self) -> bytes:
        """SaslError for a token or an extension that cannot be sent."""
        if _TOKEN.fullmatch(self._token.value) is None:
            raise SaslError("the token is none: it has characters that RFC 6750 does not allow, or is empty")
        pairs = [f"auth=Bearer {self._token.value}"]
        for name, value in self._token.extensions.items():
            if name == "auth" or _EXTENSION_NAME.fullmatch(name) is None or _EXTENSION_VALUE.fullmatch(value) is None:
                raise SaslError(f"the extension {name!r} of the token cannot be sent")
            pairs.append(f"{name}={value}")
        return "\x01".join(["n,,", *pairs, "\x01"]).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """A server that refuses the token says why, and waits for one byte before it ends the exchange."""
        return b"\x01" if challenge else None


def refresh_ms(now_ms: int, expires_ms: int, *, factor: float, min_period_s: int, buffer_s: int) -> int:
    """When a token of this lifetime is replaced, Unix milliseconds (ExpiringCredentialRefreshingLogin): after `factor` of its time, but not
    within `buffer_s` of its end nor before `min_period_s`, as far as both can be had.
    """
    wanted = now_ms + int((expires_ms - now_ms) * factor)
    begin, end = now_ms + min_period_s * 1000, expires_ms - buffer_s * 1000
    if end <= begin:
        return wanted
    return max(begin, min(wanted, end))


def unsecured_token(claims: Mapping[str, object], now_ms: int, lifetime_s: float) -> OAuthToken:
    """A token that nobody signed, for brokers that take such (OAuthBearerUnsecuredLoginCallbackHandler): for tests only."""
    body = {**claims, "iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime_s}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, body)]
    return OAuthToken(".".join(parts) + ".", now_ms + int(lifetime_s * 1000))
