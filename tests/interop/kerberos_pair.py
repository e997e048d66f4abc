"""A realm, and brokers with a listener of GSSAPI in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from interop.kerberos import REALM, Kdc, kdc
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port
from tests.client.certificates import Certificates

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
DELAY_S = 0.3
SESSION_MS = 3000
RULES = "RULE:[1:$1@$0](.*-admin@.*)s/@.*///U,RULE:[2:$1](kafka)s/kafka/node/,DEFAULT"

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "GSS": "SASL_PLAINTEXT", "GSSTLS": "SASL_SSL", "SHORT": "SASL_PLAINTEXT"}
"""Of each listener."""
SHORT_RULES = "RULE:[1:$1](alice|bob)"
"""Of the listener SHORT: nobody else has a name there."""


class Kerberized(NamedTuple):
    """A broker, and where its listeners are: GSS, GSSTLS (over TLS), SHORT (sessions of SESSION_MS)."""

    broker: BrokerProcess
    port: dict[str, int]
    certificates: Certificates

    def at(self, listener: str = "GSS") -> str:
        return f"localhost:{self.port[listener]}"


def node_line(keytab: Path, principal: str = f"kafka/localhost@{REALM}") -> str:
    """Java's line of a node."""
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


def client_line(keytab: Path, principal: str) -> str:
    """Java's line of a client."""
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'


def settings(broker: BrokerProcess, ports: dict[str, int], keytab: Path, users: str, certificate: Path) -> dict[str, str]:
    at = {"PLAINTEXT": broker.port, **ports}
    listeners = ",".join(f"{name}://localhost:{port}" for name, port in at.items())
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "listener.name.gsstls.ssl.keystore.type": "PEM",
        "listener.name.gsstls.ssl.keystore.location": str(certificate),
        "connection.failed.authentication.delay.ms": str(int(DELAY_S * 1000)),
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        "listener.name.gss.gssapi.sasl.jaas.config": node_line(keytab),
        "listener.name.gsstls.gssapi.sasl.jaas.config": node_line(keytab),
        "listener.name.short.gssapi.sasl.jaas.config": node_line(keytab),
        "listener.name.short.sasl.kerberos.principal.to.local.rules": SHORT_RULES,
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;{users}",
        "delegation.token.secret.key": "the-same-everywhere",
    }


class _Jvm(JvmBroker):
    realm: Kdc

    def java_options(self) -> tuple[str, ...]:
        return (*super().java_options(), f"-Djava.security.krb5.conf={self.realm.config}")


@contextlib.contextmanager
def realm_with_people(folder: Path) -> Iterator[Kdc]:
    """A realm with a service, kafka/localhost, and people; each has a keytab in its folder."""
    with kdc(folder) as realm:
        people = ("alice", "bob", "carol-admin", "carl/laptop")
        realm.add("kafka/localhost", "other/localhost", *people)
        realm.keytab("broker", "kafka/localhost")
        realm.keytab("people", *people)
        yield realm


@contextlib.contextmanager
def kerberized(realm: Kdc, folder: Path, *, jvm: bool = False, users: str = "") -> Iterator[Kerberized]:
    """A broker of one kind, started; `users` may do everything, `;` between them."""
    broker = (_Jvm if jvm else OdradekBroker)(folder / ("jvm" if jvm else "odradek"))
    if isinstance(broker, _Jvm):
        broker.realm = realm
    ports = {name: free_port() for name, protocol in PROTOCOLS.items() if protocol != "PLAINTEXT"}
    made = Certificates(folder / "certificates")
    broker.overrides.update(settings(broker, ports, realm.folder / "broker.keytab", users, made.broker))
    try:
        broker.start(120)
        yield Kerberized(broker, ports, made)
    finally:
        broker.kill()
