"""Settings of SASL listeners."""

from __future__ import annotations

JAVA = "org.apache.kafka.common.security"


USERS = f'{JAVA}.plain.PlainLoginModule required user_alice="a, secret" user_bob=b username=node password="node-secret";'


LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
}


PLAIN = {"listener.name.out.sasl.enabled.mechanisms": "PLAIN", "listener.name.out.plain.sasl.jaas.config": USERS}


BEARER = {"listener.name.out.sasl.enabled.mechanisms": "OAUTHBEARER"}


HANDLER = "listener.name.out.oauthbearer.sasl.server.callback.handler.class"


URL = "sasl.oauthbearer.jwks.endpoint.url"


ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
