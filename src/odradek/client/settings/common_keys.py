"""Configuration keys that all clients share (Java's CommonClientConfigs, SslConfigs, SaslConfigs), their aliases, and refused keys.

`python -m odradek.client.settings.document > docs/client-configuration.md` writes the page of all keys from these tables.
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
        raise ConfigError(f"{name}=true is not supported by this client: brokers request metrics in OTLP (KIP-714); see client.metrics()")


_DNS = OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_PROTOCOLS = OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True)
_STORES = OneOf("PEM", "JKS", "PKCS12", ignore_case=True)


def _store(name: str, value: ConfigValue) -> None:
    if value is not None:
        _STORES(name, value)


BOOTSTRAP_SERVERS: Final = Key(
    "bootstrap.servers",
    LIST,
    "localhost:9092",
    HIGH,
    "Addresses of some brokers, as host:port; the client finds the other brokers through them.",
)
CLIENT_ID: Final = Key("client.id", STRING, "odradek", MEDIUM, "Name of this client in the broker's logs, metrics and quotas.")
CLIENT_DNS_LOOKUP: Final = Key(
    "client.dns.lookup",
    STRING,
    "use_all_dns_ips",
    MEDIUM,
    "How the host name of a server is resolved. use_all_dns_ips: the client tries each of its addresses in turn; "
    "resolve_canonical_bootstrap_servers_only: each address of a bootstrap server is replaced by its canonical name.",
    _DNS,
)
METADATA_MAX_AGE_MS: Final = Key(
    "metadata.max.age.ms", LONG, "300000", LOW, "Longest time between two requests for metadata, milliseconds.", at_least(0)
)
METADATA_RECOVERY_STRATEGY: Final = Key(
    "metadata.recovery.strategy",
    STRING,
    "rebootstrap",
    LOW,
    "What to do when none of the known brokers can be reached. rebootstrap: connect to bootstrap.servers again; none: keep trying "
    "the known brokers (KIP-899).",
    OneOf("rebootstrap", "none", ignore_case=True),
)
METADATA_RECOVERY_REBOOTSTRAP_TRIGGER_MS: Final = Key(
    "metadata.recovery.rebootstrap.trigger.ms",
    LONG,
    "300000",
    LOW,
    "Connect to bootstrap.servers again after this time without new metadata, milliseconds (KIP-1102).",
    at_least(0),
)
REQUEST_TIMEOUT_MS: Final = Key(
    "request.timeout.ms", INT, "30000", MEDIUM, "How long to wait for the response to a request, milliseconds.", at_least(0)
)
DEFAULT_API_TIMEOUT_MS: Final = Key(
    "default.api.timeout.ms", INT, "60000", MEDIUM, "Time limit of a call, retries included, milliseconds.", at_least(0)
)
RETRY_BACKOFF_MS: Final = Key(
    "retry.backoff.ms", LONG, "100", LOW, "Pause before the first retry, milliseconds; doubles with every failure.", at_least(0)
)
RETRY_BACKOFF_MAX_MS: Final = Key("retry.backoff.max.ms", LONG, "1000", LOW, "Longest pause between retries, milliseconds.", at_least(0))
RECONNECT_BACKOFF_MS: Final = Key(
    "reconnect.backoff.ms",
    LONG,
    "50",
    LOW,
    "Pause before connecting to the same node again, milliseconds; doubles with every failure.",
    at_least(0),
)
RECONNECT_BACKOFF_MAX_MS: Final = Key(
    "reconnect.backoff.max.ms", LONG, "1000", LOW, "Longest pause before connecting to the same node again, milliseconds.", at_least(0)
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MS: Final = Key(
    "socket.connection.setup.timeout.ms",
    LONG,
    "10000",
    MEDIUM,
    "Time limit for opening a connection, TLS handshake included, milliseconds; doubles with every failed attempt.",
    at_least(1),
)
SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS: Final = Key(
    "socket.connection.setup.timeout.max.ms",
    LONG,
    "30000",
    MEDIUM,
    "Upper bound of the time limit for opening a connection, milliseconds.",
    at_least(1),
)
CONNECTIONS_MAX_IDLE_MS: Final = Key(
    "connections.max.idle.ms",
    LONG,
    "540000",
    MEDIUM,
    "Close a connection without traffic and without pending requests after this time, milliseconds; -1 never closes it.",
)
SEND_BUFFER_BYTES: Final = Key(
    "send.buffer.bytes", INT, "-1", MEDIUM, "Size of the kernel's send buffer, bytes; -1 leaves it to the kernel.", at_least(-1)
)
RECEIVE_BUFFER_BYTES: Final = Key(
    "receive.buffer.bytes", INT, "-1", MEDIUM, "Size of the kernel's receive buffer, bytes; -1 leaves it to the kernel.", at_least(-1)
)
METRICS_NUM_SAMPLES: Final = Key(
    "metrics.num.samples", INT, "2", LOW, "Number of time windows over which metrics compute rates and averages.", at_least(1)
)
METRICS_SAMPLE_WINDOW_MS: Final = Key(
    "metrics.sample.window.ms", LONG, "30000", LOW, "Length of one time window, milliseconds.", at_least(1)
)
ENABLE_METRICS_PUSH: Final = Key(
    "enable.metrics.push",
    BOOLEAN,
    "false",
    LOW,
    "Must be false: this client does not push metrics to brokers; `metrics()` returns them.",
    _no_push,
)
CONFIG_PROVIDERS: Final = Key(
    "config.providers",
    LIST,
    "",
    LOW,
    "Names of configuration providers, which read values from files or the environment (config-providers.md).",
)
SECURITY_PROTOCOL: Final = Key("security.protocol", STRING, "PLAINTEXT", MEDIUM, "Protocol of the connections to brokers.", _PROTOCOLS)
# TLS
SSL_TRUSTSTORE_TYPE: Final = Key(
    "ssl.truststore.type",
    STRING,
    None,
    MEDIUM,
    "Format of the truststore: PEM, PKCS12 or JKS. Without it the format is detected from the file.",
    _store,
)
SSL_TRUSTSTORE_LOCATION: Final = Key(
    "ssl.truststore.location", STRING, None, HIGH, "File with the trusted certificates; by default the system's certificates."
)
SSL_TRUSTSTORE_CERTIFICATES: Final = Key("ssl.truststore.certificates", PASSWORD, None, HIGH, "Trusted certificates, as PEM text.")
SSL_TRUSTSTORE_PASSWORD: Final = Key(
    "ssl.truststore.password", PASSWORD, None, HIGH, "Password of a PKCS12 or JKS truststore; a PEM file has no password."
)
SSL_KEYSTORE_TYPE: Final = Key(
    "ssl.keystore.type",
    STRING,
    None,
    MEDIUM,
    "Format of the keystore: PEM, PKCS12 or JKS. Without it the format is detected from the file.",
    _store,
)
SSL_KEYSTORE_LOCATION: Final = Key("ssl.keystore.location", STRING, None, HIGH, "File with the client's certificate chain and private key.")
SSL_KEYSTORE_CERTIFICATE_CHAIN: Final = Key(
    "ssl.keystore.certificate.chain", PASSWORD, None, HIGH, "The client's certificate chain, as PEM text."
)
SSL_KEYSTORE_KEY: Final = Key(
    "ssl.keystore.key", PASSWORD, None, HIGH, "The client's private key, as PEM text; used with ssl.keystore.certificate.chain."
)
SSL_KEYSTORE_PASSWORD: Final = Key(
    "ssl.keystore.password", PASSWORD, None, HIGH, "Password of a PKCS12 or JKS keystore; a PEM file has no password."
)
SSL_KEY_LOCATION: Final = Key(
    "ssl.key.location",
    STRING,
    None,
    HIGH,
    "File with the client's private key, if it is not in ssl.keystore.location (a key of librdkafka).",
)
SSL_KEY_PASSWORD: Final = Key(
    "ssl.key.password",
    PASSWORD,
    None,
    HIGH,
    "Password of the client's private key; in PKCS12 and JKS the default is the password of the keystore.",
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM: Final = Key(
    "ssl.endpoint.identification.algorithm",
    STRING,
    "https",
    LOW,
    "https: the server's certificate must match the host name of the connection; empty: the name is not checked.",
    OneOf("https", "", ignore_case=True),
)
SSL_PROTOCOL: Final = Key(
    "ssl.protocol", STRING, "TLSv1.3", MEDIUM, "TLSv1.2 allows only that version; has an effect only without ssl.enabled.protocols."
)
SSL_ENABLED_PROTOCOLS: Final = Key("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3", MEDIUM, "Allowed TLS versions.")
SSL_CIPHER_SUITES: Final = Key(
    "ssl.cipher.suites", LIST, "", LOW, "Allowed cipher suites, by their names in Java or OpenSSL; empty: the default of OpenSSL."
)
# SASL
SASL_MECHANISM: Final = Key(
    "sasl.mechanism", STRING, "GSSAPI", MEDIUM, "GSSAPI (Kerberos), PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."
)
SASL_USERNAME: Final = Key("sasl.username", STRING, None, HIGH, "User name for PLAIN and SCRAM (a key of librdkafka).")
SASL_PASSWORD: Final = Key("sasl.password", PASSWORD, None, HIGH, "Password for PLAIN and SCRAM (a key of librdkafka).")
SASL_JAAS_CONFIG: Final = Key(
    "sasl.jaas.config",
    PASSWORD,
    None,
    MEDIUM,
    "Credentials in Java's format: PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or Krb5LoginModule with options.",
)
SASL_OAUTHBEARER_TOKEN_PROVIDER: Final = Key(
    "sasl.oauthbearer.token.provider", CLASS, None, HIGH, "A callable, or coroutine function, that returns the token for OAUTHBEARER."
)
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: Final = Key(
    "sasl.oauthbearer.token.endpoint.url",
    STRING,
    None,
    MEDIUM,
    "Where the client gets tokens without a token provider. An http(s) URL: an authorization server, with the client "
    "credentials grant. A file URL: a file that contains a token.",
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID: Final = Key(
    "sasl.oauthbearer.client.credentials.client.id", STRING, None, MEDIUM, "Client id for the authorization server."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET: Final = Key(
    "sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, MEDIUM, "Client secret for the authorization server."
)
SASL_OAUTHBEARER_SCOPE: Final = Key("sasl.oauthbearer.scope", STRING, None, MEDIUM, "Scope to request from the authorization server.")
SASL_OAUTHBEARER_HEADER_URLENCODE: Final = Key(
    "sasl.oauthbearer.header.urlencode",
    BOOLEAN,
    "false",
    LOW,
    "Whether client id and secret are URL-encoded in the request (RFC 6749, section 2.3.1).",
)
SASL_LOGIN_CONNECT_TIMEOUT_MS: Final = Key(
    "sasl.login.connect.timeout.ms",
    INT,
    "10000",
    LOW,
    "Time limit for connecting to the authorization server, milliseconds. Java's client has no limit.",
    at_least(1),
)
SASL_LOGIN_READ_TIMEOUT_MS: Final = Key(
    "sasl.login.read.timeout.ms",
    INT,
    "10000",
    LOW,
    "Time limit for the authorization server's response, milliseconds. Java's client has no limit.",
    at_least(1),
)
SASL_LOGIN_RETRY_BACKOFF_MS: Final = Key(
    "sasl.login.retry.backoff.ms",
    LONG,
    "100",
    LOW,
    "Pause before the first retry of a token request, milliseconds; doubles with every failure.",
    at_least(0),
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS: Final = Key(
    "sasl.login.retry.backoff.max.ms",
    LONG,
    "10000",
    LOW,
    "Time limit for the retries of a token request, milliseconds from the first request.",
    at_least(0),
)
SASL_KERBEROS_SERVICE_NAME: Final = Key(
    "sasl.kerberos.service.name",
    STRING,
    "kafka",
    MEDIUM,
    "Kerberos service name of the brokers: the part of the principal before the slash.",
)
SASL_KERBEROS_PRINCIPAL: Final = Key(
    "sasl.kerberos.principal", STRING, None, HIGH, "Kerberos principal of the client, for GSSAPI with a keytab (a key of librdkafka)."
)
SASL_KERBEROS_KEYTAB: Final = Key(
    "sasl.kerberos.keytab",
    STRING,
    None,
    HIGH,
    "Keytab file with the client's key (a key of librdkafka); without it the client uses the ticket cache of kinit.",
)
SASL_KERBEROS_DOMAIN_NAME: Final = Key(
    "sasl.kerberos.domain.name",
    STRING,
    None,
    LOW,
    "Host part of the brokers' Kerberos principal, if it differs from the host of the connection (a key of kafka-python).",
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR: Final = Key(
    "sasl.login.refresh.window.factor",
    DOUBLE,
    "0.8",
    LOW,
    "Fraction of a token's lifetime after which the client replaces it.",
    between(0.5, 1.0),
)
SASL_LOGIN_REFRESH_WINDOW_JITTER: Final = Key(
    "sasl.login.refresh.window.jitter", DOUBLE, "0.05", LOW, "Largest random addition to the window factor.", between(0.0, 0.25)
)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS: Final = Key(
    "sasl.login.refresh.min.period.seconds", SHORT, "60", LOW, "Shortest time a token is used, seconds.", between(0, 900)
)
SASL_LOGIN_REFRESH_BUFFER_SECONDS: Final = Key(
    "sasl.login.refresh.buffer.seconds",
    SHORT,
    "300",
    LOW,
    "A token is replaced at least this long before it expires, seconds.",
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

_JAVA_TLS = "a class or provider of Java's TLS; this client uses OpenSSL"
_KERBEROS = "this key configures Java's renewal of tickets; the Kerberos library renews a ticket with the keytab after half of its lifetime"
_JAVA_LOGIN = "a Java class; sasl.oauthbearer.token.provider takes a Python callable"
_CHECKS_OF_BROKERS = "this key is for brokers, which check tokens; this client sends its token unchanged"
_RETRIEVAL = "this client does not support this way to get tokens; sasl.oauthbearer.token.provider takes a callable that returns a token"
_METRICS = "a Java metrics reporter; metrics() returns the metrics as a mapping"

REFUSED: dict[str, str] = {
    "metric.reporters": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "metrics.recording.level": "this client has a single recording level",
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
