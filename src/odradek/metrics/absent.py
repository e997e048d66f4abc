"""MBeans of JVM Kafka that Odradek does not have, with the reasons. `*` matches any text."""

from __future__ import annotations

from typing import Final

_S: Final = "kafka.server:type="
_GROUPS: Final = f"{_S}group-coordinator-metrics."

ABSENT: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        (
            f"{_S}Share*",
            f"{_S}share-*",
            f"{_S}BrokerTopicMetrics,name=*Share*",
            f"{_GROUPS}share-*",
        ),
        "share groups are not supported yet",
    ),
    ((f"{_GROUPS}streams-*",), "streams groups are not supported yet"),
    (
        (
            f"{_S}BrokerTopicMetrics,name=FetchMessageConversionsPerSec",
            f"{_S}BrokerTopicMetrics,name=ProduceMessageConversionsPerSec",
            "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs",
            "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes",
        ),
        "records are never converted",
    ),
    (
        (f"{_GROUPS}event-*", f"{_GROUPS}batch-*", f"{_GROUPS}thread-*", f"{_GROUPS}background-*"),
        "coordinators run in the event loop: they have no threads, queues or buffers",
    ),
    (
        (
            "kafka.controller:type=ControllerEventManager,name=AvgIdleRatio",
            f"{_S}MetadataLoader,name=AvgIdleRatio",
            f"{_S}BrokerMetadataListener,*",
            f"{_S}AssignmentsManager,name=QueuedReplicaToDirAssignments",
            f"{_S}*.queue-size",
            "kafka.utils:type=Throttler,name=cleaner-io",
            "kafka.log:type=LogCleaner,name=max-compaction-delay-secs",
        ),
        "queues, threads and samples that exist only in JVM Kafka",
    ),
    (
        (
            f"{_S}*-channel-metrics.*",
            f"{_S}alter-partition-metrics.*",
            f"{_S}directory-assignments-metrics.*",
            f"{_S}forwarding-metrics.*",
            f"{_S}heartbeat-metrics.*",
            f"{_S}registration-metrics.*",
            f"{_S}socket-server-metrics.*",
        ),
        "statistics of Java's selectors for each thread; connection-count and connection-creation-total exist",
    ),
    (
        (f"{_S}ReplicaAlterLogDirsManager,*",),
        "the event loop copies a replica that moves to another directory, as fast as its throttle allows; `odradek log-dirs` shows it",
    ),
    (
        (f"{_S}client-metrics.unknown-subscription-request-rate", f"{_S}Request.exempt-request-time"),
        "rates of values that are counted under other names",
    ),
    ((f"{_S}raft-metrics.current-vote-directory-id",), "the id of the voter is shown; `odradek quorum` shows directories"),
    (("kafka.log:type=Log,name=RetentionSizeInPercent",), "derived from Size and retention.bytes"),
    (
        (f"{_S}kafka-metrics-count.count", "*,name=yammer-metrics-count", "kafka:type=*", f"{_S}app-info.*", f"{_S}ControllerServer,*"),
        "about the JVM's libraries; levels of loggers are configuration, and a controller's host is under KafkaServer and Process",
    ),
)
"""(MBeans, or MBean.attribute; reason)."""
