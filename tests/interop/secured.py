"""A JVM broker that asks who one is: TLS, TLS with certificates of clients, SASL with and without TLS."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from interop.peers import JvmBroker, free_port
from tests.client.certificates import Certificates

USER, PASSWORD = "alice", 'alice-"secret, 1'
SESSION_MS = 3000
"""How long a session lasts on the listener of short ones."""


class SecuredBroker(JvmBroker):
    """`address[...]` is where each of its listeners is: PLAINTEXT, TLS, MUTUAL, SASL, SASLTLS, SHORT (sessions of SESSION_MS)."""

    name = "secured"

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder, heap="512m")
        self.certificates = certificates
        ports = {name: free_port() for name in ("TLS", "MUTUAL", "SASL", "SASLTLS", "SHORT")} | {"PLAINTEXT": self.port}
        self.address = {name: f"localhost:{port}" for name, port in ports.items()}
        listeners = ",".join(f"{name}://{address}" for name, address in self.address.items())
        self.overrides = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL,"
            "SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,SHORT:SASL_PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "connection.failed.authentication.delay.ms": "0",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            **_jaas("sasl"),
            **_jaas("sasltls"),
            **_jaas("short"),
        }

    def format_command(self) -> list[str]:
        users = [f"{mechanism}=[name={USER},password={SCRAM_PASSWORD}]" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        return [*super().format_command(), *(word for user in users for word in ("--add-scram", user))]


SCRAM_PASSWORD = "alice-scram"
_PACKAGE = "org.apache.kafka.common.security"


def plain_line(password: str = PASSWORD) -> str:
    """Java's line of a client."""
    escaped = password.replace('"', '\\"')
    return f'{_PACKAGE}.plain.PlainLoginModule required username="{USER}" password="{escaped}";'


UNSECURED = f'{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'


def _jaas(listener: str) -> dict[str, str]:
    begin = f"listener.name.{listener}"
    escaped = PASSWORD.replace('"', '\\\\"')
    return {
        f"{begin}.plain.sasl.jaas.config": f'{_PACKAGE}.plain.PlainLoginModule required user_{USER}="{escaped}";',
        f"{begin}.scram-sha-256.sasl.jaas.config": f"{_PACKAGE}.scram.ScramLoginModule required;",
        f"{begin}.scram-sha-512.sasl.jaas.config": f"{_PACKAGE}.scram.ScramLoginModule required;",
        f"{begin}.oauthbearer.sasl.jaas.config": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
    }


@contextlib.contextmanager
def secured(folder: Path) -> Iterator[SecuredBroker]:
    """The broker, started."""
    broker = SecuredBroker(folder / "broker", Certificates(folder / "certificates"))
    try:
        broker.start(120)
        yield broker
    finally:
        broker.kill()
