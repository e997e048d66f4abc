"""Types that the clients take and return; frozen and typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.client.core.metadata import Broker, PartitionInfo, TopicInfo

if TYPE_CHECKING:
    from odradek.client.admin.types.security import AclOperation

__all__ = [
    "Broker",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerRecord",
    "HeadersInput",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "ProducerRecord",
    "RecordMetadata",
    "TopicInfo",
    "TopicPartition",
]

CREATE_TIME = 0
LOG_APPEND_TIME = 1

Content: TypeAlias = bytes | bytearray | memoryview | str | None
"""Key or value to send; text is sent as UTF-8, None as null."""

ArrowBatch: TypeAlias = Any
"""pyarrow.RecordBatch (pyarrow comes without types)."""

ArrowRows: TypeAlias = Any
"""pyarrow.RecordBatch or pyarrow.Table."""

HeadersInput: TypeAlias = Mapping[str, Content] | Sequence[tuple[str, Content]] | None
"""Headers of a record to send."""


class ProducerRecord(NamedTuple):
    """Record as it is given to `send`, for interceptors of the producer.

    `partition` None leaves the choice to the partitioner; `timestamp` is Unix milliseconds, None for now.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: HeadersInput = None
    timestamp: int | None = None


class RecordMetadata(NamedTuple):
    """Place of an acknowledged record.

    `offset` is -1 when the broker did not tell it (acks=0, or a repetition that the broker knew already). `timestamp` is Unix milliseconds,
    the broker's if the topic stamps records on append.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class ConsumerRecord(NamedTuple):
    """Record as read.

    `timestamp` is Unix milliseconds, `timestamp_type` 0 for the producer's and 1 for the broker's clock. `key` and `value` are bytes or
    None, unless the consumer has deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


class OffsetAndTimestamp(NamedTuple):
    """First record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetAndMetadata(NamedTuple):
    """Committed offset: that of the next record to read. `leader_epoch` is the epoch of the last record read, None where unknown."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """Identity that commits offsets of a group (org.apache.kafka.clients.consumer.ConsumerGroupMetadata).

    `generation_id` is the member epoch in KIP-848 groups, -1 for a consumer that has not joined.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerHealth(NamedTuple):
    """State of a consumer, for a readiness probe or a metric. No broker is asked."""

    state: str
    """State of the membership, e.g. "stable", "joining" or "fenced"; "alone" without a group, "closed" after close()."""
    coordinator: int | None
    """Broker that coordinates the group, None while unknown."""
    assigned: int
    """Number of partitions that are read."""
    lag: int | None
    """Offsets that the application is behind, over all partitions; None while the lag of a partition is unknown."""
    last_poll_ms: int | None
    """Milliseconds since the last poll began, None before the first."""
    failing: int
    """Number of partitions whose last request was refused or got no response."""


class NewTopic(NamedTuple):
    """Topic to create; -1 leaves the number to the broker. `assignments` (partition -> broker ids) excludes the two numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class CreatedTopic(NamedTuple):
    """Topic that was created, or could be created (when only validating); the numbers are -1 where the broker does not tell them."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int


class ConfigResource(NamedTuple):
    """Resource with a configuration.

    `kind` is "topic", "broker" (`name` is its number, "" for the default of all brokers), "broker_logger" (likewise), "client_metrics" or
    "group".
    """

    kind: str
    name: str


class ConfigChange(NamedTuple):
    """Change of one key: `operation` is "set", "delete" (back to the default), "append" or "subtract" (items of a list)."""

    name: str
    value: str | None = None
    operation: str = "set"


class ConfigSynonym(NamedTuple):
    """Place where a key's value may come from, and the value there; `source` as in `ConfigEntry`."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """Key of a resource's configuration; `source` is Kafka's DescribeConfigs number for the origin of the value."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()
    """All places with a value, the effective one first; only if they were asked for."""
    config_type: int = 0
    """Kafka's DescribeConfigs number for the type of the value; 0 where the broker does not tell it."""

    @property
    def is_default(self) -> bool:
        """Return whether the value is Kafka's default, set neither for the topic nor the broker."""
        return self.source == 5


class ClusterDescription(NamedTuple):
    """Cluster as a broker describes it. Fenced brokers and authorized operations are there only if they were asked for."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    fenced_brokers: frozenset[int] = frozenset()


class FeatureLevels(NamedTuple):
    """Feature: the levels that the asked broker supports, and the level of the cluster (0: none)."""

    name: str
    minimum: int
    maximum: int
    finalized: int


def encode_content(content: object) -> bytes | None:
    """Return the bytes of a key, value or header.

    Raises TypeError for anything but Content, ValueError for text that UTF-8 cannot encode.
    """
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"A key, value or header must be bytes, str or None, not {type(content).__name__}")


def encode_headers(headers: object) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers in the order given.

    Raises TypeError for anything but HeadersInput, ValueError for text that UTF-8 cannot encode.
    """
    if headers is None:
        return ()
    if isinstance(headers, Mapping):
        headers = headers.items()  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(headers, (str, bytes, bytearray, memoryview)) or not isinstance(headers, Iterable):
        kind = type(headers).__name__  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"headers must be a mapping or a sequence of (name, value), not {kind}")
    return tuple([_header(each) for each in headers])  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _header(entry: object) -> tuple[str, bytes | None]:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"a header must be a pair (name, value), not {entry!r}")
    name, content = entry  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be a str, not {type(name).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    if not name.isascii():
        name.encode()
    return name, encode_content(content)  # pyright: ignore[reportUnknownArgumentType]
