"""Traffic of a broker's logs by topic (BrokerTopicMetrics), in plain numbers that hot code adds to."""

from __future__ import annotations

from typing import Final

FIELDS: Final[tuple[tuple[str, str], ...]] = (
    ("messages_in", "MessagesInPerSec"),
    ("bytes_in", "BytesInPerSec"),
    ("bytes_out", "BytesOutPerSec"),
    ("bytes_rejected", "BytesRejectedPerSec"),
    ("replication_bytes_in", "ReplicationBytesInPerSec"),
    ("replication_bytes_out", "ReplicationBytesOutPerSec"),
    ("reassignment_bytes_in", "ReassignmentBytesInPerSec"),
    ("reassignment_bytes_out", "ReassignmentBytesOutPerSec"),
    ("produces", "TotalProduceRequestsPerSec"),
    ("fetches", "TotalFetchRequestsPerSec"),
    ("failed_produces", "FailedProduceRequestsPerSec"),
    ("failed_fetches", "FailedFetchRequestsPerSec"),
    ("without_key", "NoKeyCompactedTopicRecordsPerSec"),
    ("bad_magic", "InvalidMagicNumberRecordsPerSec"),
    ("bad_crc", "InvalidMessageCrcRecordsPerSec"),
    ("bad_sequence", "InvalidOffsetOrSequenceRecordsPerSec"),
)
"""(attribute of `TopicTraffic`, name of the meter)."""

SUMS: Final = (*(field for field, _ in FIELDS), "isr_shrinks", "isr_expands", "isr_failures")
"""All counters of `TopicTraffic`; ReplicaManager shows the last three."""

_OF_NO_TOPIC: Final = frozenset({"replication_bytes_in", "replication_bytes_out", "reassignment_bytes_in", "reassignment_bytes_out"})
"""Counters that Kafka has only for all topics together."""

TOPIC_FIELDS: Final = tuple((field, name) for field, name in FIELDS if field not in _OF_NO_TOPIC)


class TopicTraffic:
    """Counters of one topic, since the broker hosts the topic."""

    __slots__ = SUMS

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.produces = 0
        """Requested appends, one for each partition of a request."""
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.without_key = 0
        self.bad_magic = 0
        self.bad_crc = 0
        self.bad_sequence = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.isr_failures = 0

    def add(self, other: TopicTraffic) -> None:
        for field in SUMS:
            setattr(self, field, getattr(self, field) + getattr(other, field))


class Traffic:
    """Traffic of the topics that a broker hosts, and the sum over all topics that it has hosted."""

    __slots__ = ("_gone", "_hosted", "topics", "unhosted")

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self._hosted: dict[str, int] = {}
        self._gone = TopicTraffic()
        self.unhosted = TopicTraffic()
        """Requests for partitions that this broker does not host. They belong to no topic, so that invented names take no memory."""

    def add_partition(self, topic: str) -> TopicTraffic:
        """Note another hosted partition of the topic, and return the topic's counters."""
        self._hosted[topic] = self._hosted.get(topic, 0) + 1
        return self.topics.setdefault(topic, TopicTraffic())

    def remove_partition(self, topic: str) -> None:
        """Note a removed partition of the topic; the topic's counters go with its last partition."""
        left = self._hosted.get(topic, 0) - 1
        if left > 0:
            self._hosted[topic] = left
            return
        self._hosted.pop(topic, None)
        traffic = self.topics.pop(topic, None)
        if traffic is not None:
            self._gone.add(traffic)

    def total(self) -> TopicTraffic:
        """Return the sum over all topics, which never decreases when a topic is removed."""
        total = TopicTraffic()
        for traffic in (self._gone, self.unhosted, *self.topics.values()):
            total.add(traffic)
        return total
