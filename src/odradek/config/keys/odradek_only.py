"""Keys that Kafka does not have; DescribeConfigs does not show them."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import INT, LIST, LOW, MEDIUM, STRING, Key, OneOf, at_least, keys_in

BROKER_SESSION_DISCONNECT_TIMEOUT_MS: Final = Key(
    "broker.session.disconnect.timeout.ms",
    INT,
    "1000",
    MEDIUM,
    "A broker whose heartbeat connection to the active controller has ended, and that has not beaten over another one for this long, "
    "in ms, is fenced before its session is over, and at once when its inter-broker listener refuses connections; -1 leaves it to the "
    "session alone, as Kafka does.",
    at_least(-1),
    internal=True,
)
ODRADEK_CLIENT_TELEMETRY: Final = Key(
    "odradek.client.telemetry",
    STRING,
    "",
    MEDIUM,
    "Where the metrics go that clients push (KIP-714): the address of an OTLP receiver, such as http://127.0.0.1:4318/v1/metrics; "
    "counted: they are checked and counted, and go no further; empty: clients are not asked for any.",
    internal=True,
)
ODRADEK_LOG_FILE: Final = Key(
    "odradek.log.file", STRING, "", MEDIUM, "The file that the log is written to, instead of standard error.", internal=True
)
ODRADEK_LOG_FILE_MAX_BYTES: Final = Key(
    "odradek.log.file.max.bytes",
    INT,
    "104857600",
    LOW,
    "Bytes of odradek.log.file, after which it becomes the first of the older files and a new one is begun.",
    at_least(1024),
    internal=True,
)
ODRADEK_LOG_FILES: Final = Key(
    "odradek.log.files", INT, "10", LOW, "How many files of the log there may be; the oldest is removed.", at_least(2), internal=True
)
ODRADEK_LOG_FORMAT: Final = Key(
    "odradek.log.format",
    STRING,
    "text",
    MEDIUM,
    "How the log is written: text, or json with one object a line.",
    OneOf("text", "json"),
    internal=True,
)
ODRADEK_LOG_SLOW_REQUEST_MS: Final = Key(
    "odradek.log.slow.request.ms",
    INT,
    "-1",
    MEDIUM,
    "Requests that take longer are logged with their times, by the logger odradek.slow_requests; the wait that a client has asked for "
    "(Fetch, JoinGroup, SyncGroup) does not count. -1: none.",
    at_least(-1),
    internal=True,
)
ODRADEK_METRICS_LISTENER: Final = Key(
    "odradek.metrics.listener",
    STRING,
    "",
    MEDIUM,
    "Where metrics and health are served over HTTP: a port, on 127.0.0.1, or HOST:PORT; nowhere when empty. There is neither "
    "encryption nor authentication.",
    internal=True,
)
ORG_APACHE_KAFKA_AUTOMATIC_CONFIG_PROVIDERS: Final = Key(
    "org.apache.kafka.automatic.config.providers",
    LIST,
    "",
    MEDIUM,
    "Classes that config.providers.NAME.class may name, in the file and at run time; not given: all that there are. Kafka has this as "
    "a property of the JVM, and for clients only.",
    internal=True,
)
ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_FILES: Final = Key(
    "org.apache.kafka.sasl.oauthbearer.allowed.files",
    LIST,
    "",
    MEDIUM,
    "Files that sasl.oauthbearer.jwks.endpoint.url may name; Kafka has this as a property of the JVM.",
    internal=True,
)
ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS: Final = Key(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    LIST,
    "",
    MEDIUM,
    "Addresses that sasl.oauthbearer.jwks.endpoint.url may be; Kafka has this as a property of the JVM.",
    internal=True,
)

KEYS: Final = keys_in(globals())
