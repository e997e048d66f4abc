"""Configuration keys of the consumer, besides those that all clients share (Java's ConsumerConfig)."""

from __future__ import annotations

from typing import Final

from odradek.client.core.reset_policy import ResetPolicy
from odradek.config.definition import BOOLEAN, HIGH, INT, LIST, LOW, MEDIUM, STRING, Key, OneOf, at_least, keys_in

AUTO_OFFSET_RESET: Final = Key(
    "auto.offset.reset",
    STRING,
    "latest",
    MEDIUM,
    "Where to start without a committed offset: earliest, latest, a duration before now (by_duration:PT1H), or none to raise an error.",
    ResetPolicy(),
)
FETCH_MIN_BYTES: Final = Key("fetch.min.bytes", INT, "1", HIGH, "The broker responds when it has this many bytes.", at_least(0))
FETCH_MAX_BYTES: Final = Key("fetch.max.bytes", INT, "52428800", MEDIUM, "Largest size of a fetch response, bytes.", at_least(0))
FETCH_MAX_WAIT_MS: Final = Key(
    "fetch.max.wait.ms", INT, "500", LOW, "How long the broker waits for fetch.min.bytes, milliseconds.", at_least(0)
)
MAX_PARTITION_FETCH_BYTES: Final = Key(
    "max.partition.fetch.bytes", INT, "1048576", HIGH, "Largest size of one partition's records in a fetch response, bytes.", at_least(0)
)
MAX_POLL_RECORDS: Final = Key("max.poll.records", INT, "500", MEDIUM, "Largest number of records that one poll() returns.", at_least(1))
ISOLATION_LEVEL: Final = Key(
    "isolation.level",
    STRING,
    "read_uncommitted",
    MEDIUM,
    "read_committed hides the records of open and aborted transactions.",
    OneOf("read_committed", "read_uncommitted"),
)
CHECK_CRCS: Final = Key("check.crcs", BOOLEAN, "true", LOW, "Whether the consumer verifies the checksum of every batch.")
CLIENT_RACK: Final = Key("client.rack", STRING, "", LOW, "Rack of this client; with it the consumer reads from the nearest replica.")
ALLOW_AUTO_CREATE_TOPICS: Final = Key(
    "allow.auto.create.topics", BOOLEAN, "true", MEDIUM, "Whether a request for an unknown topic may create it."
)
GROUP_ID: Final = Key("group.id", STRING, None, HIGH, "The consumer group; required for subscribe() and for commits.")
GROUP_INSTANCE_ID: Final = Key(
    "group.instance.id", STRING, None, MEDIUM, "Makes the consumer a static member, which may restart without a rebalance."
)
GROUP_PROTOCOL: Final = Key(
    "group.protocol",
    STRING,
    "classic",
    HIGH,
    "Where partitions are assigned: by a member (classic) or by the coordinator (consumer, KIP-848).",
    OneOf("classic", "consumer", ignore_case=True),
)
GROUP_REMOTE_ASSIGNOR: Final = Key(
    "group.remote.assignor", STRING, None, MEDIUM, "The coordinator's assignor, with group.protocol=consumer: uniform or range."
)
PARTITION_ASSIGNMENT_STRATEGY: Final = Key(
    "partition.assignment.strategy",
    LIST,
    "range,cooperative-sticky",
    MEDIUM,
    "Assignors in order of preference, with group.protocol=classic: range, roundrobin, sticky, cooperative-sticky, or Java's class names.",
)
HEARTBEAT_INTERVAL_MS: Final = Key(
    "heartbeat.interval.ms", INT, "3000", HIGH, "Time between heartbeats of a classic member, milliseconds.", at_least(1)
)
SESSION_TIMEOUT_MS: Final = Key(
    "session.timeout.ms",
    INT,
    "45000",
    HIGH,
    "The coordinator removes a classic member without a heartbeat for this time, milliseconds.",
    at_least(1),
)
MAX_POLL_INTERVAL_MS: Final = Key(
    "max.poll.interval.ms", INT, "300000", MEDIUM, "Longest time between two calls of poll(), milliseconds.", at_least(1)
)
ENABLE_AUTO_COMMIT: Final = Key(
    "enable.auto.commit",
    BOOLEAN,
    "true",
    MEDIUM,
    "Whether the consumer commits the offsets of the records that poll() has returned, if there is a group.id.",
)
AUTO_COMMIT_INTERVAL_MS: Final = Key(
    "auto.commit.interval.ms", INT, "5000", LOW, "Time between automatic commits, milliseconds.", at_least(0)
)
EXCLUDE_INTERNAL_TOPICS: Final = Key(
    "exclude.internal.topics", BOOLEAN, "true", MEDIUM, "Whether a subscribed pattern leaves out Kafka's internal topics."
)
KEY_DESERIALIZER: Final = Key(
    "key.deserializer", STRING, "bytes", HIGH, "Deserializer of keys: a function of bytes, or a name: bytes, string, json, long, ..."
)
VALUE_DESERIALIZER: Final = Key("value.deserializer", STRING, "bytes", HIGH, "Deserializer of values, as key.deserializer.")
INTERCEPTOR_CLASSES: Final = Key(
    "interceptor.classes",
    LIST,
    "",
    LOW,
    "Interceptors: objects, classes or import paths with on_consume(records), on_commit(offsets), close().",
)

CONSUMER_KEYS: Final = keys_in(globals())
