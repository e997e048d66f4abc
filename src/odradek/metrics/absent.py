"""What JVM Kafka shows by JMX and Odradek does not, with the reason. `*` stands for anything."""

from __future__ import annotations

from typing import Final

_S: Final = "kafka.server:type="
_GROUPS: Final = f"{_S}group-coordinator-metrics."

ABSENT: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        (
            f"{_S}Share*",
            f"{_S}share-*",
            f"{_S}DelayedShareFetchMetrics,*",
            f"{_S}BrokerTopicMetrics,name=*Share*",
            f"{_GROUPS}share-*",
        ),
        "share groups are not served yet",
    ),
    ((f"{_GROUPS}streams-*",), "streams groups are not served yet"),
    (
        ("kafka.log.remote:*", f"{_S}BrokerTopicMetrics,name=Remote*", f"{_S}DelayedRemote*", f"{_S}RemoteLogManager*"),
        "there is no tiered storage yet",
    ),
    (
        (
            f"{_S}BrokerTopicMetrics,name=FetchMessageConversionsPerSec",
            f"{_S}BrokerTopicMetrics,name=ProduceMessageConversionsPerSec",
            "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs",
            "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes",
            "kafka.network:type=RequestMetrics,name=DeprecatedRequestsPerSec",
        ),
        "no record is converted, and no version that is served is deprecated",
    ),
    (
        (f"{_GROUPS}event-*", f"{_GROUPS}batch-*", f"{_GROUPS}thread-*", f"{_GROUPS}background-*"),
        "coordinators work on the loop: they have neither threads nor queues nor buffers of their own",
    ),
    (
        (
            "kafka.network:type=SocketServer,name=MemoryPoolAvgDepletedPercent",
            "kafka.network:type=SocketServer,name=MemoryPoolDepletedTimeTotal",
            "kafka.controller:type=KafkaController,name=AvgIdleRatio",
            f"{_S}MetadataLoader,name=AvgIdleRatio",
            f"{_S}BrokerMetadataListener,*",
        ),
        "queues and threads of the JVM implementation",
    ),
    (
        (f"{_S}kafka-metrics-count.count", "*,name=yammer-metrics-count", "kafka:type=*", f"{_S}app-info.*", f"{_S}ControllerServer,*"),
        "about the JVM's libraries; levels of loggers are configuration, and a controller's host is under KafkaServer and Process",
    ),
)
"""(MBeans, or attributes of them behind a dot; reason)."""
