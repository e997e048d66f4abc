"""Steps of SASL exchanges at the server."""

from __future__ import annotations

from odradek.security.sasl.scram import MIN_ITERATIONS, ScramKeys, keys_of, salted_password
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.scram_server import ScramServer


def made(mechanism: str = "SCRAM-SHA-256", password: str = "pencil", iterations: int = MIN_ITERATIONS) -> ScramKeys:
    salt = b"salt of a user"
    return keys_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def server_of(users: dict[str, ScramKeys], mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, users.get, "of-the-server")


def finals(server: ScramServer, password: str = "pencil", name: str = "user") -> bytes:
    client = ScramClient("SCRAM-SHA-256", name, password, "nonce")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    return final


def other_nonce(final: bytes) -> bytes:
    return final.replace(b"r=nonceof-the-server", b"r=nonce")
