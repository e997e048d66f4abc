"""SCRAM-SHA-256 and SCRAM-SHA-512, client side, as in Kafka: no channel binding, no SASLprep (RFC 5802, RFC 7677).

The client sends its user name, and the server answers with salt and iterations. The client proves that it knows the password; then the
server proves that it knows the credential. The client does not keep the salted password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.scram import HASHES, MIN_ITERATIONS

MAX_ITERATIONS = 1_000_000
"""Most iterations that the client accepts; more would take longer than a second, and the server chooses the number."""


class ScramClient:
    """Client side of one exchange: call `first()`, then `answer` for each message of the server until `answer` returns None.

    `nonce` has to be random and new for each exchange, in printable ASCII without a comma.
    """

    takes_long = True

    def __init__(self, mechanism: str, username: str, password: str, nonce: str, *, extensions: dict[str, str] | None = None) -> None:
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._username = username
        self._password = password.encode()
        self._extensions = "".join(f",{name}={value}" for name, value in (extensions or {}).items())
        self._nonce = nonce
        self._expected_signature: bytes | None = None
        self._done = False

    def first(self) -> bytes:
        """Return the client-first-message."""
        return b"n,," + self._bare()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the client-final-message for the server's first message; None after a valid last message of the server.

        Raises SaslError for a malformed message, and for a server that does not prove its knowledge of the credential.
        """
        if self._done:
            raise SaslError("the server continues after its last message")
        if self._expected_signature is None:
            return self._prove(challenge)
        self._verify(challenge)
        return None

    def _bare(self) -> bytes:
        name = self._username.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self._nonce}{self._extensions}".encode()

    def _prove(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        if "m" in fields:
            raise SaslError("the server requires an unknown extension")
        nonce, salt, iterations = fields.get("r", ""), _base64(fields.get("s", "")), _number(fields.get("i", ""))
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslError("the server's nonce does not extend the client's nonce")
        if not salt:
            raise SaslError("the server sent no salt")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslError(f"the server requests {iterations} iterations, this client accepts {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}".encode()
        signed = b",".join((self._bare(), challenge, without_proof))
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._expected_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        self._password = b""
        return without_proof + b",p=" + base64.b64encode(proof)

    def _verify(self, challenge: bytes) -> None:
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslError(f"the server refuses the login: {fields['e']}")
        assert self._expected_signature is not None
        if not hmac.compare_digest(_base64(fields.get("v", "")), self._expected_signature):
            raise SaslError("the server's signature is wrong: the server does not know the password")
        self._done = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = [part.partition("=") for part in message.decode("utf-8").split(",")]
    except UnicodeDecodeError:
        raise SaslError("the server's message is not a SCRAM message") from None
    if any(len(name) != 1 or not separator for name, separator, _ in parts):
        raise SaslError("the server's message is not a SCRAM message")
    return {name: value for name, _, value in parts}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError("the server's message is not a SCRAM message") from None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise SaslError("the server's message is not a SCRAM message")
    return int(text)
