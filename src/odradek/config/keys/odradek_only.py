"""Keys that Kafka does not have; DescribeConfigs does not show them."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import INT, LIST, LOW, MEDIUM, STRING, Key, OneOf, at_least, keys_in

BROKER_SESSION_DISCONNECT_TIMEOUT_MS: Final = Key(
    "broker.session.disconnect.timeout.ms",
    INT,
    "1000",
    MEDIUM,
    "A broker without a heartbeat for this long after the connection of its last heartbeat to the active controller ended, in ms, "
    "is fenced before its session ends, and at once if its inter-broker listener refuses connections; -1 waits for the end of the "
    "session, as Kafka does.",
    at_least(-1),
    internal=True,
)
ODRADEK_CLIENT_TELEMETRY: Final = Key(
    "odradek.client.telemetry",
    STRING,
    "",
    MEDIUM,
    "Destination of the metrics that clients push (KIP-714): the address of an OTLP receiver, such as "
    "http://127.0.0.1:4318/v1/metrics; counted: they are checked and counted only; empty: clients are not asked to push metrics.",
    internal=True,
)
ODRADEK_LOG_FILE: Final = Key("odradek.log.file", STRING, "", MEDIUM, "File for the log, instead of standard error.", internal=True)
ODRADEK_LOG_FILE_MAX_BYTES: Final = Key(
    "odradek.log.file.max.bytes",
    INT,
    "104857600",
    LOW,
    "Size of odradek.log.file in bytes at which it is rotated.",
    at_least(1024),
    internal=True,
)
ODRADEK_LOG_FILES: Final = Key(
    "odradek.log.files", INT, "10", LOW, "Largest number of log files; the oldest is removed.", at_least(2), internal=True
)
ODRADEK_LOG_FORMAT: Final = Key(
    "odradek.log.format",
    STRING,
    "text",
    MEDIUM,
    "Format of the log: text, or json with one object a line.",
    OneOf("text", "json"),
    internal=True,
)
ODRADEK_LOG_SLOW_REQUEST_MS: Final = Key(
    "odradek.log.slow.request.ms",
    INT,
    "-1",
    MEDIUM,
    "Requests that take longer, in ms, are logged with their times, by the logger odradek.slow_requests; the wait that a client "
    "requests (Fetch, JoinGroup, SyncGroup) does not count. -1 logs none.",
    at_least(-1),
    internal=True,
)
ODRADEK_METRICS_LISTENER: Final = Key(
    "odradek.metrics.listener",
    STRING,
    "",
    MEDIUM,
    "Address of the HTTP listener for metrics and health: a port on 127.0.0.1, or HOST:PORT; empty: no listener. It has neither "
    "encryption nor authentication.",
    internal=True,
)
ORG_APACHE_KAFKA_AUTOMATIC_CONFIG_PROVIDERS: Final = Key(
    "org.apache.kafka.automatic.config.providers",
    LIST,
    "",
    MEDIUM,
    "Classes that config.providers.NAME.class may name, in the file and at run time; not set: all. In Kafka this is a property of "
    "the JVM, and only for clients.",
    internal=True,
)
ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_FILES: Final = Key(
    "org.apache.kafka.sasl.oauthbearer.allowed.files",
    LIST,
    "",
    MEDIUM,
    "Files that sasl.oauthbearer.jwks.endpoint.url may name. In Kafka this is a property of the JVM.",
    internal=True,
)
ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS: Final = Key(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    LIST,
    "",
    MEDIUM,
    "Addresses that sasl.oauthbearer.jwks.endpoint.url may name. In Kafka this is a property of the JVM.",
    internal=True,
)

KEYS: Final = keys_in(globals())
