"""SCRAM-SHA-256 and SCRAM-SHA-512, server side (RFC 5802; org.apache.kafka.common.security.scram.internals.ScramSaslServer).

Channel binding and mandatory extensions are not supported. With the extension `tokenauth=true` the user name is the id of a delegation
token, and the password is its HMAC. An unknown user is refused at the first message, as in Kafka, with the same text as a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Protocol

from odradek.security.sasl.errors import SaslError, SaslRefused
from odradek.security.sasl.scram import HASHES, MIN_ITERATIONS
from odradek.security.sasl.server import DIFFERENT_AUTHORIZATION_ID, Identity


class ScramCredential(Protocol):
    """Credential of a user on the server."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


class Tokens(Protocol):
    """Delegation tokens by id."""

    def owner(self, token_id: str) -> Identity | None:
        """Return the owner and expiration of a token, or None for an unknown token."""
        ...

    def prepare(self, mechanism: str, token_id: str) -> Callable[[], object] | None:
        """Return the work to be done, on any thread, before `credential`; None when the credential exists, or the token is unknown."""
        ...

    def credential(self, mechanism: str, token_id: str) -> ScramCredential | None:
        """Return the credential of the token's HMAC as password, or None before the work of `prepare` is done."""
        ...


_NAME = r"(?:[^\x00=,\x80-\U0010ffff]|=2C|=3D)+"
_VALUE = r"[^\x00,\x80-\U0010ffff]+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<reserved>m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<rest>{_EXTENSIONS})"
)
_FINAL = re.compile(rf"(?P<without>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})")


class ScramServer:
    """Server side of one exchange: user name, challenge, client's proof, server's proof."""

    def __init__(
        self, mechanism: str, credential: Callable[[str], ScramCredential | None], nonce: str, tokens: Tokens | None = None
    ) -> None:
        """`credential` returns the credential of a user; `nonce` is random and new, printable ASCII without a comma."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential = credential
        self._tokens = tokens
        self._own_nonce = nonce
        self._who: Identity | None = None
        self._keys: ScramCredential | None = None
        self._header = self._bare = self._challenge = b""
        self._nonce = ""
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        """Return the work that makes a delegation token's credential, or None when the credential exists or the client uses no token."""
        if self._keys is not None or self._tokens is None:
            return None
        match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if match is None or not _is_token(match["rest"]):
            return None
        return self._tokens.prepare(self._mechanism, _unescaped(match["name"]))

    def answer(self, message: bytes) -> bytes:
        """Return the challenge, then the server's proof. See `ServerExchange`."""
        text = message.decode("utf-8", "replace")
        return self._first(text) if self._keys is None else self._final(text, self._keys)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslError("the client's first message is not a SCRAM message, or requests channel binding")
        if match["reserved"]:
            raise SaslError("the client requires an unknown extension")
        name = _unescaped(match["name"])
        if _is_token(match["rest"]):
            self._who = None if self._tokens is None else self._tokens.owner(name)
            keys = None if self._who is None or self._tokens is None else self._tokens.credential(self._mechanism, name)
        else:
            self._who, keys = Identity(name), self._credential(name)
        if keys is None or self._who is None:
            raise SaslError("the user or token does not exist")
        authorization_id = match["authzid"]
        if authorization_id and authorization_id != name:
            raise SaslRefused(DIFFERENT_AUTHORIZATION_ID)
        if keys.iterations < MIN_ITERATIONS:
            raise SaslError(f"the credential has {keys.iterations} iterations, fewer than {MIN_ITERATIONS}")
        self._header, self._bare = match["header"].encode(), text[len(match["header"]) :].encode()
        self._nonce = match["nonce"] + self._own_nonce
        self._keys = keys
        self._challenge = f"r={self._nonce},s={base64.b64encode(keys.salt).decode()},i={keys.iterations}".encode()
        return self._challenge

    def _final(self, text: str, keys: ScramCredential) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise SaslError("the client's final message is not a SCRAM message")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise SaslError("the client's final message has a different nonce")
        if _base64(match["channel"]) != self._header:
            raise SaslError("the client's final message is bound to a different channel")
        signed = b",".join((self._bare, self._challenge, match["without"].encode()))
        signature = hmac.digest(keys.stored_key, signed, self._hash)
        proof = _base64(match["proof"])
        if len(proof) != len(signature):
            raise SaslError("the client's proof has the wrong length")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), keys.stored_key):
            raise SaslError("the client's proof is wrong")
        self.identity, self._keys = self._who, None
        return b"v=" + base64.b64encode(hmac.digest(keys.server_key, signed, self._hash))


def _is_token(extensions: str) -> bool:
    return any(part.lower() == "tokenauth=true" and part.startswith("tokenauth=") for part in extensions.split(","))


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError("the client's final message is not a SCRAM message") from None
