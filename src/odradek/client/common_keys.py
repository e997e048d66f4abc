"""Configuration keys that all clients share (Java's CommonClientConfigs, SslConfigs, SaslConfigs), their aliases, and refused keys.

`python -m odradek.client.document > docs/client-configuration.md` writes the page of all keys from these tables.
"""

from __future__ import annotations

from typing import Final

from odradek.base.errors import ConfigError
from odradek.config.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    ConfigValue,
    Key,
    OneOf,
    at_least,
    between,
    keys_in,
)


def _no_push(name: str, value: ConfigValue) -> None:
    if value is True:
        raise ConfigError(f"{name}=true is not served by this client: brokers ask for metrics in OTLP (KIP-714); see client.metrics()")


_DNS = OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_PROTOCOLS = OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True)
_STORES = OneOf("PEM", "JKS", "PKCS12", ignore_case=True)


def _store(name: str, value: ConfigValue) -> None:
    if value is not None:
        _STORES(name, value)


BOOTSTRAP_SERVERS: Final = Key(
    "bootstrap.servers", LIST, "localhost:9092", HIGH, "host:port of some brokers; the others are found through them."
)
CLIENT_ID: Final = Key("client.id", STRING, "odradek", MEDIUM, "Name of this client in the broker's logs, metrics and quotas.")
CLIENT_DNS_LOOKUP: Final = Key(
    "client.dns.lookup",
    STRING,
    "use_all_dns_ips",
    MEDIUM,
    "Names of servers stand for all of their addresses, tried in turn; with "
    "resolve_canonical_bootstrap_servers_only each address of a bootstrap server goes by its canonical name.",
    _DNS,
)
METADATA_MAX_AGE_MS: Final = Key(
    "metadata.max.age.ms", LONG, "300000", LOW, "Ask for fresh metadata at least this often, milliseconds.", at_least(0)
)
METADATA_RECOVERY_STRATEGY: Final = Key(
    "metadata.recovery.strategy",
    STRING,
    "rebootstrap",
    LOW,
    "Where to turn when no known broker can be reached: rebootstrap goes "
    "back to bootstrap.servers, none tries the known ones for ever (KIP-899).",
    OneOf("rebootstrap", "none", ignore_case=True),
)
METADATA_RECOVERY_REBOOTSTRAP_TRIGGER_MS: Final = Key(
    "metadata.recovery.rebootstrap.trigger.ms",
    LONG,
    "300000",
    LOW,
    "Go back to bootstrap.servers when no metadata came for so long, milliseconds (KIP-1102).",
    at_least(0),
)
REQUEST_TIMEOUT_MS: Final = Key("request.timeout.ms", INT, "30000", MEDIUM, "How long to wait for an answer, milliseconds.", at_least(0))
DEFAULT_API_TIMEOUT_MS: Final = Key(
    "default.api.timeout.ms", INT, "60000", MEDIUM, "How long a call may take with all its retries, milliseconds.", at_least(0)
)
RETRY_BACKOFF_MS: Final = Key(
    "retry.backoff.ms", LONG, "100", LOW, "Pause before the first retry, milliseconds; doubles with every failure.", at_least(0)
)
RETRY_BACKOFF_MAX_MS: Final = Key("retry.backoff.max.ms", LONG, "1000", LOW, "Longest pause between retries, milliseconds.", at_least(0))
RECONNECT_BACKOFF_MS: Final = Key(
    "reconnect.backoff.ms", LONG, "50", LOW, "Pause before connecting again to the same node, milliseconds.", at_least(0)
)
RECONNECT_BACKOFF_MAX_MS: Final = Key(
    "reconnect.backoff.max.ms", LONG, "1000", LOW, "Longest pause between connection attempts, milliseconds.", at_least(0)
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS: Final = Key(
    "socket.connection.setup.timeout.ms",
    LONG,
    "10000",
    MEDIUM,
    "How long opening a connection may take, TLS included, milliseconds; doubles with every attempt that came to nothing.",
    at_least(1),
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS: Final = Key(
    "socket.connection.setup.timeout.max.ms",
    LONG,
    "30000",
    MEDIUM,
    "The longest that opening a connection may take, milliseconds.",
    at_least(1),
)
CONNECTIONS_MAX_IDLE_MS: Final = Key(
    "connections.max.idle.ms",
    LONG,
    "540000",
    MEDIUM,
    "Close a connection on which nothing was sent or received for so long and nothing is awaited, milliseconds; -1 for never.",
)
SEND_BUFFER_BYTES: Final = Key(
    "send.buffer.bytes", INT, "-1", MEDIUM, "Size of the kernel's buffer for sending; -1 leaves it to the kernel.", at_least(-1)
)
RECEIVE_BUFFER_BYTES: Final = Key(
    "receive.buffer.bytes", INT, "-1", MEDIUM, "Size of the kernel's buffer for receiving; -1 leaves it to the kernel.", at_least(-1)
)
METRICS_NUM_SAMPLES: Final = Key(
    "metrics.num.samples", INT, "2", LOW, "How many windows rates and averages of metrics look at.", at_least(1)
)
METRICS_SAMPLE_WINDOW_MS: Final = Key("metrics.sample.window.ms", LONG, "30000", LOW, "Length of such a window, milliseconds.", at_least(1))
ENABLE_METRICS_PUSH: Final = Key(
    "enable.metrics.push", BOOLEAN, "false", LOW, "Only false: metrics are not pushed to brokers; `metrics()` gives them.", _no_push
)
CONFIG_PROVIDERS: Final = Key(
    "config.providers", LIST, "", LOW, "Names of what has values of other settings: files, the environment (config-providers.md)."
)
SECURITY_PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", MEDIUM, "How to speak to brokers.", _PROTOCOLS)
# TLS
SSL_TRUSTSTORE_TYPE: Final = Key("ssl.truststore.type", STRING, None, MEDIUM, "PEM, PKCS12 or JKS; not given: what the file is.", _store)
SSL_TRUSTSTORE_LOCATION: Final = Key(
    "ssl.truststore.location", STRING, None, HIGH, "File of the certificates that are trusted; without it those of the system are."
)
SSL_TRUSTSTORE_CERTIFICATES: Final = Key("ssl.truststore.certificates", PASSWORD, None, HIGH, "The trusted certificates themselves.")
SSL_TRUSTSTORE_PASSWORD: Final = Key("ssl.truststore.password", PASSWORD, None, HIGH, "Password of a store of PKCS12 or JKS; PEM has none.")
SSL_KEYSTORE_TYPE: Final = Key("ssl.keystore.type", STRING, None, MEDIUM, "PEM, PKCS12 or JKS; not given: what the file is.", _store)
SSL_KEYSTORE_LOCATION: Final = Key(
    "ssl.keystore.location", STRING, None, HIGH, "File of the client's certificate, those above it, and its key."
)
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = Key(
    "ssl.keystore.certificate.chain", PASSWORD, None, HIGH, "The client's certificate and those above it."
)
SSL_KEYSTORE_KEY: Final = Key("ssl.keystore.key", PASSWORD, None, HIGH, "The client's key, with ssl.keystore.certificate.chain.")
SSL_KEYSTORE_PASSWORD: Final = Key("ssl.keystore.password", PASSWORD, None, HIGH, "Password of a store of PKCS12 or JKS; PEM has none.")
SSL_KEY_LOCATION: Final = Key(
    "ssl.key.location", STRING, None, HIGH, "File of the client's key where it is not in ssl.keystore.location (librdkafka's)."
)
SSL_KEY_PASSWORD: Final = Key(
    "ssl.key.password", PASSWORD, None, HIGH, "Password of the client's key; in PKCS12 and JKS that of the store, if not given."
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM: Final = Key(
    "ssl.endpoint.identification.algorithm",
    STRING,
    "https",
    LOW,
    "https: the certificate has to be for the name that was dialled; empty: it may be for any.",
    OneOf("https", "", ignore_case=True),
)
SSL_PROTOCOL: Final = Key(
    "ssl.protocol", STRING, "TLSv1.3", MEDIUM, "TLSv1.2 alone, where ssl.enabled.protocols is not given; else that counts."
)
SSL_ENABLED_PROTOCOLS: Final = Key("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", MEDIUM, "TLS protocols that may be spoken.")
SSL_CIPHER_SUITES: Final = Key(
    "ssl.cipher.suites", LIST, "", LOW, "Cipher suites by the names of Java or OpenSSL; empty: OpenSSL's choice."
)
# SASL
SASL_MECHANISM: Final = Key(
    "sasl.mechanism", STRING, "GSSAPI", MEDIUM, "GSSAPI (Kerberos), PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."
)
SASL_USERNAME: Final = Key("sasl.username", STRING, None, HIGH, "Name for PLAIN and SCRAM (librdkafka's).")
SASL_PASSWORD: Final = Key("sasl.password", PASSWORD, None, HIGH, "Password for PLAIN and SCRAM (librdkafka's).")
SASL_JAAS_CONFIG: Final = Key(
    "sasl.jaas.config", PASSWORD, None, MEDIUM, "Java's line for the same: Plain-, Scram-, OAuthBearer- or Krb5LoginModule."
)
SASL_OAUTHBEARER_TOKEN_PROVIDER: Final = Key(
    "sasl.oauthbearer.token.provider", CLASS, None, HIGH, "A callable, or coroutine function, that gives the token for OAUTHBEARER."
)
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: Final = Key(
    "sasl.oauthbearer.token.endpoint.url",
    STRING,
    None,
    MEDIUM,
    "Where tokens come from without a provider: http(s), an authorization "
    "server that is asked with the client's credentials; or file, a file with a token.",
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID: Final = Key(
    "sasl.oauthbearer.client.credentials.client.id", STRING, None, MEDIUM, "The client's name at the authorization server."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET: Final = Key(
    "sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, MEDIUM, "Its secret there."
)
SASL_OAUTHBEARER_SCOPE: Final = Key("sasl.oauthbearer.scope", STRING, None, MEDIUM, "The scope that is asked for there.")
SASL_OAUTHBEARER_HEADER_URLENCODE: Final = Key(
    "sasl.oauthbearer.header.urlencode", BOOLEAN, "false", LOW, "Whether name and secret are sent URL-encoded (RFC 6749 2.3.1)."
)
SASL_LOGIN_CONNECT_TIMEOUT_MS: Final = Key(
    "sasl.login.connect.timeout.ms",
    INT,
    "10000",
    LOW,
    "How long a connection to the authorization server may take, milliseconds; Java waits without end.",
    at_least(1),
)
SASL_LOGIN_READ_TIMEOUT_MS: Final = Key(
    "sasl.login.read.timeout.ms", INT, "10000", LOW, "How long its answer may take, milliseconds; Java waits without end.", at_least(1)
)
SASL_LOGIN_RETRY_BACKOFF_MS: Final = Key(
    "sasl.login.retry.backoff.ms", LONG, "100", LOW, "Pause before it is asked again, milliseconds; it doubles.", at_least(0)
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS: Final = Key(
    "sasl.login.retry.backoff.max.ms",
    LONG,
    "10000",
    LOW,
    "How long after the first time it is asked again at most, milliseconds.",
    at_least(0),
)
SASL_KERBEROS_SERVICE_NAME: Final = Key(
    "sasl.kerberos.service.name", STRING, "kafka", MEDIUM, "The Kerberos name of the brokers, before the slash."
)
SASL_KERBEROS_PRINCIPAL: Final = Key(
    "sasl.kerberos.principal", STRING, None, HIGH, "The client's Kerberos name, for GSSAPI with a keytab (librdkafka's)."
)
SASL_KERBEROS_KEYTAB: Final = Key(
    "sasl.kerberos.keytab", STRING, None, HIGH, "File with the client's key (librdkafka's); without it the tickets of kinit are used."
)
SASL_KERBEROS_DOMAIN_NAME: Final = Key(
    "sasl.kerberos.domain.name",
    STRING,
    None,
    LOW,
    "The host in the brokers' Kerberos name, where it is not the one that is dialled (kafka-python's).",
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR: Final = Key(
    "sasl.login.refresh.window.factor", DOUBLE, "0.8", LOW, "After which part of its lifetime a token is replaced.", between(0.5, 1.0)
)
SASL_LOGIN_REFRESH_WINDOW_JITTER: Final = Key(
    "sasl.login.refresh.window.jitter", DOUBLE, "0.05", LOW, "Spread of that.", between(0.0, 0.25)
)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS: Final = Key(
    "sasl.login.refresh.min.period.seconds", SHORT, "60", LOW, "A token is used at least so long, seconds.", between(0, 900)
)
SASL_LOGIN_REFRESH_BUFFER_SECONDS: Final = Key(
    "sasl.login.refresh.buffer.seconds",
    SHORT,
    "300",
    LOW,
    "A token is replaced at least so long before its end, seconds.",
    between(0, 3600),
)

COMMON_KEYS: Final = keys_in(globals())

SPELLINGS: dict[str, str] = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.location",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.cafile": "ssl.truststore.location",
    "ssl.certfile": "ssl.keystore.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "oauth.cb": "sasl.oauthbearer.token.provider",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
}
"""Key of librdkafka or kafka-python -> the same key here."""

CALLABLES = frozenset({"sasl.oauthbearer.token.provider"})
"""Keys whose value is a function."""

_JAVA_TLS = "a class or provider of Java's TLS; here OpenSSL does it"
_KERBEROS = "of Java's renewal of tickets; here Kerberos's library gets a new one with the keytab after half of its life"
_JAVA_LOGIN = "a class of Java's; sasl.oauthbearer.token.provider takes a Python callable"
_CHECKS_OF_BROKERS = "for who checks tokens, the broker; this client sends its token as it is"
_RETRIEVAL = "of a way to get tokens that this client has not; sasl.oauthbearer.token.provider takes a callable that gets one"
_METRICS = "Java's reporters of metrics; metrics() gives them as a mapping"

REFUSED: dict[str, str] = {
    "metric.reporters": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "metrics.recording.level": "this client has metrics of one level",
    "security.providers": _JAVA_TLS,
    "ssl.engine.factory.class": _JAVA_TLS,
    "ssl.provider": _JAVA_TLS,
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "sasl.client.callback.handler.class": _JAVA_LOGIN,
    "sasl.login.callback.handler.class": _JAVA_LOGIN,
    "sasl.login.class": _JAVA_LOGIN,
    "sasl.kerberos.kinit.cmd": _KERBEROS,
    "sasl.kerberos.min.time.before.relogin": _KERBEROS,
    "sasl.kerberos.ticket.renew.jitter": _KERBEROS,
    "sasl.kerberos.ticket.renew.window.factor": _KERBEROS,
    "sasl.oauthbearer.assertion.algorithm": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.aud": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.exp.seconds": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.iss": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.jti.include": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _RETRIEVAL,
    "sasl.oauthbearer.assertion.claim.sub": _RETRIEVAL,
    "sasl.oauthbearer.assertion.file": _RETRIEVAL,
    "sasl.oauthbearer.assertion.private.key.file": _RETRIEVAL,
    "sasl.oauthbearer.assertion.private.key.passphrase": _RETRIEVAL,
    "sasl.oauthbearer.assertion.template.file": _RETRIEVAL,
    "sasl.oauthbearer.jwt.retriever.class": _RETRIEVAL,
    "sasl.oauthbearer.clock.skew.seconds": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.expected.audience": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.expected.issuer": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.url": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.jwt.validator.class": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.scope.claim.name": _CHECKS_OF_BROKERS,
    "sasl.oauthbearer.sub.claim.name": _CHECKS_OF_BROKERS,
}
"""Key of Java's clients that this client refuses -> the reason."""
