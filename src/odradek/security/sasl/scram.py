"""SCRAM credentials and their computation from a password (RFC 5802, RFC 7677; org.apache.kafka.common.security.scram).

The keys are secrets. The server key lets its owner pose as the server, the stored key lets its owner try passwords.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Code in requests and records -> name (org.apache.kafka.clients.admin.ScramMechanism)."""
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Most iterations of a new credential (ScramControlManager); this package's client accepts more."""


class ScramKeys(NamedTuple):
    """Credential; the text form contains no key."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return SaltedPassword of RFC 5802, without SASLprep, as in Kafka. The computation takes milliseconds."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Return the credential of a salted password."""
    name = HASHES[mechanism]
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramKeys(salt, stored, hmac.digest(salted, b"Server Key", name), iterations)
