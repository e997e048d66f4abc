"""JVM Kafka and Odradek with the same SASL listener."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from joserfc import jws
from joserfc.jwk import RSAKey

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port

USER, PASSWORD, SCRAM_PASSWORD = "alice", "alice-secret", "alice-scram"
SESSION_MS = 3000
JAVA = "org.apache.kafka.common.security"
UNSECURED = f"{JAVA}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED = f"{JAVA}.oauthbearer.OAuthBearerValidatorCallbackHandler"
KEY = RSAKey.generate_key(2048, {"kid": "key-1"})
LISTENERS = ("SASL", "SHORT", "SIGNED")
ADD_SCRAM = [
    word
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for word in ("--add-scram", f"{mechanism}=[name={USER},password={SCRAM_PASSWORD}]")
]


def signed_token(**changed: Any) -> str:
    """A token of the provider."""
    now = int(time.time())
    claims = {"sub": USER, "iat": now, "exp": now + 3600, "iss": "https://issuer", "aud": "kafka", **changed}
    return jws.serialize_compact({"alg": "RS256", "kid": "key-1"}, json.dumps(claims), KEY)


class SaslBroker(NamedTuple):
    """A broker, and where its listeners are: SASL, SHORT (sessions of SESSION_MS), SIGNED (OAUTHBEARER with signatures)."""

    broker: BrokerProcess
    port: dict[str, int]

    @property
    def name(self) -> str:
        return self.broker.name


def settings(broker: BrokerProcess, ports: dict[str, int], keys: Path) -> dict[str, str]:
    at = {"PLAINTEXT": broker.port, **ports}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in at.items())
    found = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{each}:SASL_PLAINTEXT" for each in LISTENERS),
        "connection.failed.authentication.delay.ms": "50",
        "delegation.token.secret.key": "the-same-everywhere",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    for listener in ("sasl", "short"):
        begin = f"listener.name.{listener}"
        found |= {
            f"{begin}.plain.sasl.jaas.config": f'{JAVA}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            f"{begin}.scram-sha-256.sasl.jaas.config": f"{JAVA}.scram.ScramLoginModule required;",
            f"{begin}.scram-sha-512.sasl.jaas.config": f"{JAVA}.scram.ScramLoginModule required;",
            f"{begin}.oauthbearer.sasl.jaas.config": f"{JAVA}.oauthbearer.OAuthBearerLoginModule required;",
            f"{begin}.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        }
    signed = "listener.name.signed.oauthbearer"
    return found | {
        f"{signed}.sasl.jaas.config": f"{JAVA}.oauthbearer.OAuthBearerLoginModule required;",
        f"{signed}.sasl.server.callback.handler.class": SIGNED,
        f"{signed}.sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        f"{signed}.sasl.oauthbearer.expected.issuer": "https://issuer",
        f"{signed}.sasl.oauthbearer.expected.audience": "kafka",
    }


class _Jvm(JvmBroker):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *ADD_SCRAM]

    def start_command(self) -> list[str]:
        java, *rest = super().start_command()
        keys = self.folder.parent / "keys.json"
        allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
        return [java, f"-D{allowed}.urls=file://{keys}", f"-D{allowed}.files={keys}", *rest]


class _Odradek(OdradekBroker):
    def format_command(self) -> list[str]:
        return [*super().format_command(), *ADD_SCRAM]


@contextlib.contextmanager
def both_with_sasl(folder: Path, *, jvm: bool = True) -> Iterator[list[SaslBroker]]:
    """Both, started; Odradek first."""
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [{**KEY.as_dict(private=False), "use": "sig", "alg": "RS256"}]}))
    started: list[SaslBroker] = []
    try:
        for kind in (_Odradek, _Jvm) if jvm else (_Odradek,):
            broker = kind(folder / kind.__name__.strip("_").lower())
            ports = {name: free_port() for name in LISTENERS}
            broker.overrides.update(settings(broker, ports, keys))
            if kind is _Odradek:
                allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
                broker.overrides.update({f"{allowed}.urls": f"file://{keys}", f"{allowed}.files": str(keys)})
            started.append(SaslBroker(broker, ports))
            broker.start(120)
        yield started
    finally:
        for each in started:
            each.broker.kill()
