"""Delegation tokens (KIP-48): a public id, and the HMAC of the id under the cluster's secret, which is the token's password.

The metadata contains the facts of a token only. Each node with the secret computes the HMAC.

(org.apache.kafka.security.DelegationTokenManager)
"""

from __future__ import annotations

import base64
import hmac
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from odradek.security.principal import Principal
from odradek.security.sasl.scram import MIN_ITERATIONS, ScramKeys, keys_of, salted_password
from odradek.security.sasl.server import Identity

_MOST_KEPT = 10_000
_SALT_BYTES = 16


class TokenFacts(Protocol):
    """Facts of a token in the metadata. Times are Unix milliseconds, the owner is a principal as text."""

    @property
    def owner(self) -> str: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def expiration_timestamp(self) -> int: ...


def has_expired(token: TokenFacts, now_ms: int) -> bool:
    """Return whether the token's expiration time or its maximum lifetime is in the past."""
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


class TokenSecret:
    """The cluster's secret, and the HMACs computed from the secret."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._macs: dict[bytes, str] = {}
        self._known: set[str] = set()

    def mac(self, token_id: str) -> bytes:
        """Return the token's password as bytes, before base64."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def find(self, mac: bytes, token_ids: Collection[str]) -> str | None:
        """Return the id among `token_ids` whose HMAC is `mac`, or None."""
        if mac not in self._macs:
            if len(self._known) > 2 * len(token_ids) + 1000:
                self._macs.clear()
                self._known.clear()
            for token_id in token_ids:
                if token_id not in self._known:
                    self._known.add(token_id)
                    self._macs[self.mac(token_id)] = token_id
        found = self._macs.get(mac)
        return found if found in token_ids else None


class TokenLogins:
    """Delegation tokens as users of SCRAM (`scram_server.Tokens`). The SCRAM credential of a token is made at its first login."""

    def __init__(self, secret: TokenSecret, token: Callable[[str], TokenFacts | None], random_bytes: Callable[[int], bytes]) -> None:
        """`token` returns the facts of an existing token; `random_bytes` makes salts."""
        self._secret = secret
        self._token = token
        self._random_bytes = random_bytes
        self._kept: OrderedDict[tuple[str, str], ScramKeys] = OrderedDict()

    def owner(self, token_id: str) -> Identity | None:
        """See `Tokens`."""
        token = self._token(token_id)
        if token is None:
            return None
        return Identity(Principal.stored(token.owner).name, min(token.expiration_timestamp, token.max_timestamp), by_token=True)

    def prepare(self, mechanism: str, token_id: str) -> Callable[[], object] | None:
        """See `Tokens`."""
        if self._token(token_id) is None or (mechanism, token_id) in self._kept:
            return None
        return partial(self._make, mechanism, token_id)

    def credential(self, mechanism: str, token_id: str) -> ScramKeys | None:
        """See `Tokens`."""
        return self._kept.get((mechanism, token_id))

    def _make(self, mechanism: str, token_id: str) -> None:
        salt = self._random_bytes(_SALT_BYTES)
        password = base64.b64encode(self._secret.mac(token_id)).decode()
        self._kept[(mechanism, token_id)] = keys_of(
            mechanism, salted_password(mechanism, password, salt, MIN_ITERATIONS), salt, MIN_ITERATIONS
        )
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
