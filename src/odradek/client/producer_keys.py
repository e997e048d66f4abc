"""Configuration keys of the producer, besides those that all clients share (Java's ProducerConfig)."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, CLASS, HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, OneOf, at_least, between, keys_in
from odradek.config.validators import gzip_level

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

METADATA_MAX_IDLE_MS: Final = Key(
    "metadata.max.idle.ms", LONG, "300000", LOW, "Forget a topic to which nothing was sent for so long, milliseconds.", at_least(5000)
)
ACKS: Final = Key(
    "acks",
    STRING,
    "all",
    LOW,
    "Whose copy makes a record acknowledged: 0 nobody's, 1 the leader's, all (-1) every in-sync replica's.",
    OneOf("all", "-1", "0", "1"),
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    "262144",
    MEDIUM,
    "Bytes of records of one partition that are sent together, at most. Java's producer has 16384, librdkafka 1000000.",
    at_least(0),
)
LINGER_MS: Final = Key("linger.ms", LONG, "5", MEDIUM, "How long a batch waits for more records, milliseconds.", at_least(0))
BUFFER_MEMORY: Final = Key(
    "buffer.memory", LONG, "33554432", HIGH, "Bytes of records that may wait; send() blocks beyond that.", at_least(0)
)
MAX_BLOCK_MS: Final = Key("max.block.ms", LONG, "60000", MEDIUM, "How long send() waits for metadata or room, milliseconds.", at_least(0))
MAX_REQUEST_SIZE: Final = Key(
    "max.request.size", INT, "1048576", MEDIUM, "Largest record, uncompressed, and largest request, in bytes.", at_least(0)
)
COMPRESSION_TYPE: Final = Key("compression.type", STRING, "none", HIGH, "Codec of new batches.", OneOf(*_COMPRESSIONS))
COMPRESSION_GZIP_LEVEL: Final = Key(
    "compression.gzip.level", INT, "-1", MEDIUM, "gzip level, 1 to 9; -1 is the library's own choice.", gzip_level
)
COMPRESSION_LZ4_LEVEL: Final = Key("compression.lz4.level", INT, "9", MEDIUM, "lz4 level, 1 to 17.", between(1, 17))
COMPRESSION_ZSTD_LEVEL: Final = Key("compression.zstd.level", INT, "3", MEDIUM, "zstd level, -131072 to 22.", between(-131072, 22))
DELIVERY_TIMEOUT_MS: Final = Key(
    "delivery.timeout.ms",
    INT,
    "120000",
    MEDIUM,
    "How long after send() a record is either acknowledged or failed, milliseconds.",
    at_least(0),
)
TRANSACTIONAL_ID: Final = Key(
    "transactional.id",
    STRING,
    None,
    LOW,
    "Names the producer across restarts: it sends in transactions, and whoever has the same name later fences it.",
)
TRANSACTION_TIMEOUT_MS: Final = Key(
    "transaction.timeout.ms",
    INT,
    "60000",
    LOW,
    "How long a transaction may stay open before the coordinator aborts it, milliseconds.",
    at_least(1),
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE: Final = Key(
    "transaction.two.phase.commit.enable",
    BOOLEAN,
    "false",
    LOW,
    "Whether transactions never time out, because somebody is sure to end them (KIP-939); the broker must allow it.",
)
ENABLE_IDEMPOTENCE: Final = Key("enable.idempotence", BOOLEAN, "true", LOW, "No duplicates and no reordering when the producer retries.")
MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: Final = Key(
    "max.in.flight.requests.per.connection", INT, "5", LOW, "Requests without an answer yet, per broker.", at_least(1)
)
PARTITIONER_CLASS: Final = Key(
    "partitioner.class",
    CLASS,
    None,
    MEDIUM,
    "Who chooses partitions, instead of keys and load: a function, an object with partition(...), or Java's RoundRobinPartitioner.",
)
PARTITIONER_IGNORE_KEYS: Final = Key(
    "partitioner.ignore.keys", BOOLEAN, "false", MEDIUM, "Whether records with a key go where those without one do."
)
PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE: Final = Key(
    "partitioner.adaptive.partitioning.enable",
    BOOLEAN,
    "true",
    LOW,
    "Whether partitions whose queues are short get more of the records without a key (KIP-794).",
)
PARTITIONER_AVAILABILITY_TIMEOUT_MS: Final = Key(
    "partitioner.availability.timeout.ms",
    LONG,
    "0",
    LOW,
    "Records without a key avoid a partition whose leader has taken nothing for so long, milliseconds; 0 never does. Only with "
    "partitioner.adaptive.partitioning.enable.",
    at_least(0),
)
KEY_SERIALIZER: Final = Key(
    "key.serializer",
    STRING,
    None,
    HIGH,
    "What keys are made into bytes by: a function, or a name: bytes, string, json, long, ...; without it bytes and text are sent.",
)
VALUE_SERIALIZER: Final = Key("value.serializer", STRING, None, HIGH, "What values are made into bytes by, as key.serializer.")
INTERCEPTOR_CLASSES: Final = Key(
    "interceptor.classes", LIST, "", LOW, "Objects, classes or import paths with on_send(record), on_acknowledgement(...), close()."
)
RETRIES: Final = Key(
    "retries", INT, "2147483647", HIGH, "How often a failed batch is sent again within delivery.timeout.ms.", between(0, 2147483647)
)

PRODUCER_KEYS: Final = keys_in(globals())
