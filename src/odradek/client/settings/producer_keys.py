"""Configuration keys of the producer, besides those that all clients share (Java's ProducerConfig)."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, CLASS, HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, Key, OneOf, at_least, between, keys_in
from odradek.config.validators import gzip_level

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

METADATA_MAX_IDLE_MS: Final = Key(
    "metadata.max.idle.ms",
    LONG,
    "300000",
    LOW,
    "Remove a topic from the producer's metadata after this time without a send to it, milliseconds.",
    at_least(5000),
)
ACKS: Final = Key(
    "acks",
    STRING,
    "all",
    LOW,
    "Replicas that must have a record before it is acknowledged: 0 none, 1 the leader, all (-1) every in-sync replica.",
    OneOf("all", "-1", "0", "1"),
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    "262144",
    MEDIUM,
    "Largest size of a batch of records for one partition, bytes. Java's producer has 16384, librdkafka 1000000.",
    at_least(0),
)
LINGER_MS: Final = Key("linger.ms", LONG, "5", MEDIUM, "How long a batch waits for more records, milliseconds.", at_least(0))
BUFFER_MEMORY: Final = Key(
    "buffer.memory", LONG, "33554432", HIGH, "Memory for records that wait to be sent, bytes; send() blocks when it is full.", at_least(0)
)
MAX_BLOCK_MS: Final = Key(
    "max.block.ms", LONG, "60000", MEDIUM, "How long send() waits for metadata or for free buffer memory, milliseconds.", at_least(0)
)
MAX_REQUEST_SIZE: Final = Key(
    "max.request.size", INT, "1048576", MEDIUM, "Largest uncompressed record and largest request, bytes.", at_least(0)
)
COMPRESSION_TYPE: Final = Key("compression.type", STRING, "none", HIGH, "Compression codec of batches.", OneOf(*_COMPRESSIONS))
COMPRESSION_GZIP_LEVEL: Final = Key(
    "compression.gzip.level", INT, "-1", MEDIUM, "gzip level, 1 to 9; -1 is the default of the library.", gzip_level
)
COMPRESSION_LZ4_LEVEL: Final = Key("compression.lz4.level", INT, "9", MEDIUM, "lz4 level, 1 to 17.", between(1, 17))
COMPRESSION_ZSTD_LEVEL: Final = Key("compression.zstd.level", INT, "3", MEDIUM, "zstd level, -131072 to 22.", between(-131072, 22))
DELIVERY_TIMEOUT_MS: Final = Key(
    "delivery.timeout.ms",
    INT,
    "120000",
    MEDIUM,
    "Time limit from send() until a record is acknowledged or fails, milliseconds.",
    at_least(0),
)
TRANSACTIONAL_ID: Final = Key(
    "transactional.id",
    STRING,
    None,
    LOW,
    "Identity of the producer across restarts. With it the producer sends in transactions, and a newer producer with the same id "
    "fences it.",
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
    "Whether transactions never time out because an external coordinator ends them (KIP-939); the broker must allow it.",
)
ENABLE_IDEMPOTENCE: Final = Key(
    "enable.idempotence", BOOLEAN, "true", LOW, "Whether retries of the producer neither duplicate nor reorder records."
)
MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: Final = Key(
    "max.in.flight.requests.per.connection", INT, "5", LOW, "Number of requests without a response, per broker.", at_least(1)
)
PARTITIONER_CLASS: Final = Key(
    "partitioner.class",
    CLASS,
    None,
    MEDIUM,
    "Chooses the partitions: a function, an object with partition(...), or the class name of Java's RoundRobinPartitioner. Without "
    "it the key, or the load, decides.",
)
PARTITIONER_IGNORE_KEYS: Final = Key(
    "partitioner.ignore.keys", BOOLEAN, "false", MEDIUM, "Whether records with a key are distributed like records without one."
)
PARTITIONER_ADAPTIVE_PARTITIONING_ENABLE: Final = Key(
    "partitioner.adaptive.partitioning.enable",
    BOOLEAN,
    "true",
    LOW,
    "Whether partitions with short queues get more of the records without a key (KIP-794).",
)
PARTITIONER_AVAILABILITY_TIMEOUT_MS: Final = Key(
    "partitioner.availability.timeout.ms",
    LONG,
    "0",
    LOW,
    "Records without a key avoid a partition whose leader has accepted nothing for this time, milliseconds; 0 switches this off. "
    "Only with partitioner.adaptive.partitioning.enable.",
    at_least(0),
)
KEY_SERIALIZER: Final = Key(
    "key.serializer",
    STRING,
    None,
    HIGH,
    "Serializer of keys: a function, or a name: bytes, string, json, long, ...; without it bytes and text are sent.",
)
VALUE_SERIALIZER: Final = Key("value.serializer", STRING, None, HIGH, "Serializer of values, as key.serializer.")
INTERCEPTOR_CLASSES: Final = Key(
    "interceptor.classes",
    LIST,
    "",
    LOW,
    "Interceptors: objects, classes or import paths with on_send(record), on_acknowledgement(...), close().",
)
RETRIES: Final = Key(
    "retries", INT, "2147483647", HIGH, "Number of retries of a failed batch within delivery.timeout.ms.", between(0, 2147483647)
)

PRODUCER_KEYS: Final = keys_in(globals())
