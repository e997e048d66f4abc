"""A broker of Odradek that lets nobody do anything without a login: by certificate, or by a mechanism of SASL with and without TLS."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from interop.peers import OdradekBroker, free_port
from odradek.client import Admin, NewTopic
from tests.client.certificates import Certificates
from tests.interop.sasl_pair import ADD_SCRAM, JAVA, KEY, PASSWORD, SCRAM_PASSWORD, SIGNED, USER, signed_token
from tests.interop.tls_clients import TOPIC, Told, our_settings

DELAY_MS = 150
PROTOCOLS = {"SASL_PLAINTEXT": "OPEN", "SASL_SSL": "CLOSED"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class LoginBroker(OdradekBroker):
    """`address[...]` is where its listeners are: OPEN (SASL_PLAINTEXT), CLOSED (SASL_SSL), MUTUAL (SSL, also between nodes).

    The users, `alice` and who has the client's certificate, are super users, so that a round trip shows that the broker knows who
    they are: nobody else may do anything. Failed logins are answered after DELAY_MS.
    """

    def __init__(self, folder: Path, certificates: Certificates, keys: Path) -> None:
        super().__init__(folder)
        self.certificates = certificates
        self.ports = {name: free_port() for name in ("OPEN", "CLOSED", "MUTUAL")}
        self.address = {name: f"localhost:{port}" for name, port in self.ports.items()}
        listeners = ",".join(f"{name}://{address}" for name, address in {**self.address, "PLAINTEXT": self.bootstrap}.items())
        begin = "listener.name"
        allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
        self.overrides = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "MUTUAL",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,OPEN:SASL_PLAINTEXT,CLOSED:SASL_SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.signed("node", "DNS:localhost,IP:127.0.0.1")),
            f"{begin}.closed.ssl.keystore.location": str(certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "delegation.token.secret.key": "a-secret",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER};User:CN=client;User:CN=node",
            f"{allowed}.urls": f"file://{keys}",
            f"{allowed}.files": str(keys),
        }
        for listener in ("open", "closed"):
            bearer = f"{begin}.{listener}.oauthbearer.sasl"
            self.overrides |= {
                f"{begin}.{listener}.plain.sasl.jaas.config": f'{JAVA}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
                f"{bearer}.jaas.config": f"{JAVA}.oauthbearer.OAuthBearerLoginModule required;",
                f"{bearer}.server.callback.handler.class": SIGNED,
                f"{bearer}.oauthbearer.jwks.endpoint.url": f"file://{keys}",
                f"{bearer}.oauthbearer.expected.audience": "kafka",
            }

    def format_command(self) -> list[str]:
        return [*super().format_command(), *ADD_SCRAM]

    def told(self, protocol: str, mechanism: str = "", user: str = USER, secret: str = "") -> Told:
        """What a client needs; `secret` is another than the right one."""
        if protocol == "SSL":
            return Told(self.address["MUTUAL"], self.certificates.authority, self.certificates.client)
        right = {"PLAIN": PASSWORD, "OAUTHBEARER": signed_token()}.get(mechanism, SCRAM_PASSWORD)
        authority = self.certificates.authority if protocol == "SASL_SSL" else None
        return Told(self.address[PROTOCOLS[protocol]], authority, None, mechanism, user, secret or right)


@contextlib.contextmanager
def login_broker(folder: Path) -> Iterator[LoginBroker]:
    """The broker, started, with the topic TOPIC."""
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [{**KEY.as_dict(private=False), "use": "sig", "alg": "RS256"}]}))
    broker = LoginBroker(folder / "broker", Certificates(folder / "certificates"), keys)
    try:
        broker.start(60)
        with Admin(our_settings(broker.told("SSL"))) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
        yield broker
    finally:
        broker.kill()
