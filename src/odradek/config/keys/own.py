"""Keys that Kafka has not; DescribeConfigs does not show them."""

from __future__ import annotations

from odradek.config.definition import INT, LIST, MEDIUM, STRING, Key, at_least

KEYS: tuple[Key, ...] = (
    Key(
        "broker.session.disconnect.timeout.ms",
        INT,
        "1000",
        MEDIUM,
        "A broker whose heartbeat connection to the active controller has ended, and that has not beaten over another one for this long, "
        "in ms, is fenced before its session is over, and at once when its inter-broker listener refuses connections; -1 leaves it to the "
        "session alone, as Kafka does.",
        at_least(-1),
        internal=True,
    ),
    Key(
        "odradek.metrics.listener",
        STRING,
        "",
        MEDIUM,
        "Where metrics and health are served over HTTP: a port, on 127.0.0.1, or HOST:PORT; nowhere when empty. There is neither "
        "encryption nor authentication.",
        internal=True,
    ),
    Key(
        "org.apache.kafka.sasl.oauthbearer.allowed.files",
        LIST,
        "",
        MEDIUM,
        "Files that sasl.oauthbearer.jwks.endpoint.url may name; Kafka has this as a property of the JVM.",
        internal=True,
    ),
    Key(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        LIST,
        "",
        MEDIUM,
        "Addresses that sasl.oauthbearer.jwks.endpoint.url may be; Kafka has this as a property of the JVM.",
        internal=True,
    ),
)
