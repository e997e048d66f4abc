"""Catalogue of a node's metrics, in the order of the text output.

The names are those of JVM Kafka 4.3. Odradek's additional metrics come last, in the domain odradek. `docs/operations.md` is generated from
this table. A source in `server.metering` reads each of its keys.
"""

from __future__ import annotations

from typing import Final

from odradek.metrics.groups import GROUPS
from odradek.metrics.names import Kind, Metric
from odradek.metrics.traffic import FIELDS, TOPIC_FIELDS

_GAUGE, _METER, _HISTOGRAM, _TIMER, _TEXT = Kind.GAUGE, Kind.METER, Kind.HISTOGRAM, Kind.TIMER, Kind.TEXT

_TRAFFIC_HELP: Final = {
    "MessagesInPerSec": "Records that were appended to partitions led here.",
    "BytesInPerSec": "Bytes of batches that were appended to partitions led here.",
    "BytesOutPerSec": "Bytes of batches that consumers were sent.",
    "BytesRejectedPerSec": "Bytes of batches that were refused because they are too large.",
    "ReplicationBytesInPerSec": "Bytes of batches that were copied from leaders.",
    "ReplicationBytesOutPerSec": "Bytes of batches that followers were sent.",
    "ReassignmentBytesInPerSec": "Of ReplicationBytesIn, those of replicas that a reassignment adds.",
    "ReassignmentBytesOutPerSec": "Of ReplicationBytesOut, those to replicas that a reassignment adds.",
    "TotalProduceRequestsPerSec": "Appends that were asked for: one for each partition of a request.",
    "TotalFetchRequestsPerSec": "Reads: one for each partition of a request, and one more for each time that it was looked at again.",
    "FailedProduceRequestsPerSec": "Appends that failed for no fault of the client's metadata.",
    "FailedFetchRequestsPerSec": "Reads that failed unexpectedly.",
    "NoKeyCompactedTopicRecordsPerSec": "Records without a key that a compacted topic refused.",
    "InvalidMagicNumberRecordsPerSec": "Batches of a format that is not accepted.",
    "InvalidMessageCrcRecordsPerSec": "Batches that were damaged.",
    "InvalidOffsetOrSequenceRecordsPerSec": "Records that were refused for other reasons of their own, such as their timestamps.",
}
_BY_TOPIC: Final = frozenset(name for _, name in TOPIC_FIELDS)

TRAFFIC: Final = tuple(
    Metric(
        "kafka.server",
        "BrokerTopicMetrics",
        name,
        _METER,
        _TRAFFIC_HELP[name],
        ("topic",) if name in _BY_TOPIC else (),
        "bytes" if "Bytes" in name else "",
    )
    for _, name in FIELDS
)


def _request(name: str, kind: Kind, text: str, tags: tuple[str, ...] = ("request",), unit: str = "ms") -> Metric:
    return Metric("kafka.network", "RequestMetrics", name, kind, text, tags, unit)


REQUESTS: Final = (
    _request("RequestsPerSec", _METER, "Requests.", ("request", "version"), ""),
    _request("ErrorsPerSec", _METER, "Error codes in answers, NONE among them.", ("request", "error"), ""),
    _request("RequestBytes", _HISTOGRAM, "Size of requests.", unit="bytes"),
    _request("TotalTimeMs", _HISTOGRAM, "From the request's last byte to its answer."),
    _request("LocalTimeMs", _HISTOGRAM, "Of TotalTimeMs, the part at work."),
    _request("RemoteTimeMs", _HISTOGRAM, "Of TotalTimeMs, the wait for replicas, for data or for another node."),
    _request("ThrottleTimeMs", _HISTOGRAM, "How long a quota held the answer back."),
    _request("RequestQueueTimeMs", _HISTOGRAM, "Zero: requests are served as they are read, what waits is in the socket."),
    _request("ResponseQueueTimeMs", _HISTOGRAM, "Zero: an answer goes to the socket when it is ready."),
    _request("ResponseSendTimeMs", _HISTOGRAM, "Zero: what a socket does not take is sent by the loop when it does."),
)


def _gauge(domain: str, type_: str, name: str, text: str, tags: tuple[str, ...] = (), unit: str = "") -> Metric:
    return Metric(domain, type_, name, _GAUGE, text, tags, unit)


def _meter(domain: str, type_: str, name: str, text: str, tags: tuple[str, ...] = ()) -> Metric:
    return Metric(domain, type_, name, _METER, text, tags)


def _attribute(type_: str, name: str, text: str, kind: Kind = _GAUGE, tags: tuple[str, ...] = (), unit: str = "") -> Metric:
    return Metric("kafka.server", type_, name, kind, text, tags, unit, attribute=True)


_SOCKETS: Final = ("listener", "networkProcessor")

NETWORK: Final = (
    _gauge("kafka.network", "RequestChannel", "RequestQueueSize", "Zero: there is no queue before the handlers."),
    _gauge("kafka.network", "RequestChannel", "ResponseQueueSize", "Connections with a request or an answer under way.", ("processor",)),
    _gauge(
        "kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent", "Share of the last interval in which the loop's thread was idle."
    ),
    _gauge("kafka.network", "SocketServer", "MemoryPoolAvailable", "Bytes of queued.max.request.bytes that are free.", (), "bytes"),
    _gauge("kafka.network", "SocketServer", "MemoryPoolUsed", "Bytes of requests that are being received or served.", (), "bytes"),
    _gauge("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount", "Connections closed because they were idle too long."),
    _gauge(
        "kafka.network",
        "Acceptor",
        "AcceptorBlockedPercent",
        "Zero: the limit on new connections delays them, not the acceptor.",
        ("listener",),
    ),
    _gauge("kafka.network", "Processor", "IdlePercent", "As NetworkProcessorAvgIdlePercent.", ("networkProcessor",)),
    _attribute("socket-server-metrics", "connection-count", "Open connections.", tags=_SOCKETS),
    _attribute("socket-server-metrics", "connection-creation-total", "Connections that were admitted.", tags=_SOCKETS),
    *(
        Metric(
            "kafka.server",
            "KafkaRequestHandlerPool",
            f"{role}RequestHandlerAvgIdlePercent",
            _METER,
            "As RequestHandlerAvgIdlePercent: brokers and controllers of a node share its loop.",
        )
        for role in ("Broker", "Controller")
    ),
    Metric(
        "kafka.server",
        "KafkaRequestHandlerPool",
        "RequestHandlerAvgIdlePercent",
        _METER,
        "Share of the last interval in which the loop's thread was idle: between 0 and 1.",
    ),
)

_RM: Final = "ReplicaManager"
_S: Final = "kafka.server"
_PARTITION: Final = ("topic", "partition")

REPLICAS: Final = (
    _gauge(_S, _RM, "LeaderCount", "Partitions that this broker leads."),
    _gauge(_S, _RM, "PartitionCount", "Partitions that this broker hosts."),
    _gauge(_S, _RM, "OfflineReplicaCount", "Replicas in log directories that failed."),
    _gauge(_S, _RM, "UnderReplicatedPartitions", "Partitions led here of which not all replicas are in sync."),
    _gauge(_S, _RM, "UnderMinIsrPartitionCount", "Partitions led here with fewer replicas in sync than min.insync.replicas."),
    _gauge(_S, _RM, "AtMinIsrPartitionCount", "Partitions led here with just min.insync.replicas in sync."),
    _gauge(_S, _RM, "ReassigningPartitions", "Partitions led here whose replicas are being moved."),
    _gauge(_S, _RM, "PartitionsWithLateTransactionsCount", "Partitions with a transaction open for longer than it may be."),
    _gauge(_S, _RM, "ProducerIdCount", "Producers whose state the logs keep."),
    _meter(_S, _RM, "IsrShrinksPerSec", "Replicas leave the ISR of partitions led here."),
    _meter(_S, _RM, "IsrExpandsPerSec", "Replicas join the ISR of partitions led here."),
    _meter(_S, _RM, "FailedIsrUpdatesPerSec", "Changes of an ISR that the controller refused, or that had to be sent again."),
    _gauge(
        "kafka.cluster", "Partition", "UnderReplicated", "1 where not all replicas are in sync; 0 where it is not led here.", _PARTITION
    ),
    _gauge("kafka.cluster", "Partition", "InSyncReplicasCount", "Replicas in sync; 0 where it is not led here.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "UnderMinIsr", "1 where fewer replicas are in sync than min.insync.replicas.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "AtMinIsr", "1 where just min.insync.replicas are in sync.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "ReplicasCount", "Replicas; 0 where it is not led here.", _PARTITION),
    _gauge(
        "kafka.cluster", "Partition", "LastStableOffsetLag", "Records above the last stable offset; 0 where it is not led here.", _PARTITION
    ),
    _gauge(_S, "ReplicaFetcherManager", "MaxLag", "The largest lag of a follower here, in records.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "MinFetchRate", "Zero: rates of fetchers are not kept.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "FailedPartitionsCount", "Partitions that cannot be followed.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "DeadThreadCount", "Zero: fetchers are no threads.", ("clientId",)),
    _gauge(
        _S,
        "FetcherLagMetrics",
        "ConsumerLag",
        "Records that a follower here is behind its leader.",
        ("clientId", "topic", "partition"),
    ),
    _gauge(_S, "DelayedOperationPurgatory", "PurgatorySize", "Requests that wait.", ("delayedOperation",)),
    _gauge(_S, "DelayedOperationPurgatory", "NumDelayedOperations", "Requests that wait.", ("delayedOperation",)),
    _meter(_S, "DelayedFetchMetrics", "ExpiresPerSec", "Fetches whose time was up before there was enough.", ("fetcherType",)),
    _meter(_S, "DelayedProduceMetrics", "ExpiresPerSec", "Appends whose time was up before they were replicated."),
    _meter(_S, "DelayedDeleteRecordsMetrics", "ExpiresPerSec", "Deletions whose time was up before all replicas had followed."),
    _meter(_S, "AddPartitionsToTxnManager", "VerificationFailureRate", "Partitions that a coordinator has not found in the transaction."),
    Metric(_S, "AddPartitionsToTxnManager", "VerificationTimeMs", Kind.HISTOGRAM, "How long coordinators were asked (KIP-890).", (), "ms"),
    _gauge(_S, "FetchSessionCache", "NumIncrementalFetchSessions", "Fetch sessions."),
    _gauge(_S, "FetchSessionCache", "NumIncrementalFetchPartitionsCached", "Partitions of fetch sessions."),
    _meter(_S, "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec", "Sessions that made place for others."),
)

LOGS: Final = (
    _gauge("kafka.log", "Log", "Size", "Bytes of the log.", _PARTITION, "bytes"),
    _gauge("kafka.log", "Log", "NumLogSegments", "Segments.", _PARTITION),
    _gauge("kafka.log", "Log", "LogStartOffset", "The first offset.", _PARTITION),
    _gauge("kafka.log", "Log", "LogEndOffset", "The next offset.", _PARTITION),
    _gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount", "Log directories that failed."),
    _gauge("kafka.log", "LogManager", "CordonedLogDirectoryCount", "Log directories in which no new replica is placed."),
    _gauge("kafka.log", "LogManager", "LogDirectoryCordoned", "1 for such a directory.", ("logDirectory",)),
    _gauge("kafka.log", "LogManager", "remainingLogsToRecover", "While the node starts: logs that are not loaded yet.", ("dir",)),
    _gauge("kafka.log", "LogManager", "remainingSegmentsToRecover", "Of the log being recovered, segments to come.", ("dir", "threadNum")),
    _gauge("kafka.log", "LogManager", "LogDirectoryOffline", "1 for a log directory that failed.", ("logDirectory",)),
    Metric("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", _TIMER, "Flushes of logs to the disk.", (), "ms"),
    _gauge("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", "Logs that cannot be compacted.", ("logDirectory",)),
    _gauge("kafka.log", "LogCleanerManager", "uncleanable-bytes", "Bytes of logs that cannot be compacted.", ("logDirectory",), "bytes"),
    _gauge("kafka.log", "LogCleanerManager", "max-dirty-percent", "The dirty part of the dirtiest log, at the last look.", (), "percent"),
    _gauge("kafka.log", "LogCleanerManager", "time-since-last-run-ms", "Since logs were last looked at.", (), "ms"),
    _gauge("kafka.log", "LogCleaner", "cleaner-recopy-percent", "How much of what it read the latest cleaning wrote again.", (), "percent"),
    _gauge("kafka.log", "LogCleaner", "max-buffer-utilization-percent", "How full its map of keys became.", (), "percent"),
    _gauge("kafka.log", "LogCleaner", "max-clean-time-secs", "How long the latest cleaning took.", (), "seconds"),
    _gauge("kafka.log", "LogCleaner", "DeadThreadCount", "Zero: cleaners are no threads."),
)

RAFT: Final = (
    Metric(
        "kafka.server",
        "raft-metrics",
        "current-state",
        _TEXT,
        "leader, candidate, prospective, voted, follower, unattached, observer.",
        attribute=True,
    ),
    _attribute("raft-metrics", "current-leader", "Id of the quorum's leader; -1 for none."),
    _attribute("raft-metrics", "current-vote", "Whom this node has voted for in its epoch; -1 for nobody."),
    _attribute("raft-metrics", "current-epoch", "The epoch of the quorum."),
    _attribute("raft-metrics", "high-watermark", "The end of what is committed."),
    _attribute("raft-metrics", "log-end-offset", "The end of the metadata log."),
    _attribute("raft-metrics", "log-end-epoch", "The epoch of its last record."),
    _attribute("raft-metrics", "append-records-rate", "Records a second that this node appends as the leader."),
    _attribute("raft-metrics", "fetch-records-rate", "Records a second that it copies from the leader."),
    _attribute("raft-metrics", "poll-idle-ratio-avg", "Share of the last interval in which the loop's thread was idle."),
    _attribute("raft-metrics", "number-unknown-voter-connections", "Zero: the voters' addresses are known."),
    _attribute("raft-metrics", "uncommitted-voter-change", "1 while a change of the voters is not committed."),
    _attribute("raft-metrics", "number-of-voters", "Voters of the quorum."),
    _attribute("raft-metrics", "number-of-observers", "Nodes that fetch from this leader and have no vote; 0 on others."),
    _attribute("raft-metrics", "commit-latency-avg", "From a record's append to its commit, on the leader, ms.", unit="ms"),
    _attribute("raft-metrics", "commit-latency-max", "The longest in the last minutes.", unit="ms"),
    _attribute("raft-metrics", "election-latency-avg", "From this node's standing for election to a leader, ms.", unit="ms"),
    _attribute("raft-metrics", "election-latency-max", "The longest in the last minutes.", unit="ms"),
    _attribute("broker-metadata-metrics", "last-applied-record-offset", "The last record of the metadata log that this node goes by."),
    _attribute("broker-metadata-metrics", "last-applied-record-timestamp", "When it was appended, ms since 1970.", unit="ms"),
    _attribute("broker-metadata-metrics", "last-applied-record-lag-ms", "How long ago that was.", unit="ms"),
    _attribute("broker-metadata-metrics", "metadata-load-error-count", "Records of the metadata log that were left out for an error."),
    _attribute("broker-metadata-metrics", "ignored-static-voters", "1 where controller.quorum.voters is set and not what counts."),
    _attribute("authorizer-metrics", "acls-total-count", "Access rules of the cluster."),
    _attribute("node-metrics", "maximum-supported-level", "The highest level of a feature that this node serves.", tags=("feature-name",)),
    _attribute("node-metrics", "minimum-supported-level", "The lowest.", tags=("feature-name",)),
    _attribute("broker-metadata-metrics", "metadata-apply-error-count", "Errors while new metadata was applied."),
)

BROKER: Final = (
    _gauge(_S, "KafkaServer", "BrokerState", "1 starting, 2 recovering, 3 running, 6 leaving, 7 shutting down."),
    Metric(_S, "KafkaServer", "ClusterId", _TEXT, "The cluster's id."),
    _gauge(_S, "KafkaServer", "linux-disk-read-bytes", "Bytes that the process has had read from disks.", (), "bytes"),
    _gauge(_S, "KafkaServer", "linux-disk-write-bytes", "Bytes that it has had written to disks.", (), "bytes"),
    _gauge(_S, "MetadataLoader", "CurrentControllerId", "The active controller, as far as this node knows; -1 for none."),
    _gauge(_S, "MetadataLoader", "FinalizedLevel", "The level of a feature in the cluster.", ("featureName",)),
    _gauge(_S, "MetadataLoader", "CurrentMetadataVersion", "The feature level metadata.version."),
    _gauge(_S, "SnapshotEmitter", "LatestSnapshotGeneratedBytes", "Size of the latest snapshot that was written; 0 for none.", (), "bytes"),
    _gauge(_S, "SnapshotEmitter", "LatestSnapshotGeneratedAgeMs", "How long ago that was, or the start.", (), "ms"),
    _gauge(_S, "MetadataLoader", "HandleLoadSnapshotCount", "Snapshots of the metadata that were loaded."),
)

FORWARDING: Final = (
    _attribute("ForwardingManager", "QueueLength", "Requests that wait for the active controller's answer."),
    *(_attribute("ForwardingManager", f"QueueTimeMs.{which}", "Zero: it is sent at once.", unit="ms") for which in ("p99", "p999")),
    *(_attribute("ForwardingManager", f"RemoteTimeMs.{which}", "How long the controller took.", unit="ms") for which in ("p99", "p999")),
)

CLIENTS: Final = (
    _attribute("client-metrics", "instance-count", "Clients that were asked for metrics and are remembered (KIP-714)."),
    _attribute("client-metrics", "unknown-subscription-request-count", "Pushes under a subscription that is not the client's any more."),
    _attribute(
        "client-metrics", "throttle-count", "Requests for a subscription, and pushes, that came before the client's interval was over."
    ),
    _attribute("client-metrics", "plugin-export-count", "Pushes that were handed on to the receiver."),
    _attribute("client-metrics", "plugin-error-count", "Pushes that could not be read, and those that the receiver did not take."),
)

_WHO: Final = ("user", "client-id")

QUOTAS: Final = (
    *(
        _attribute(type_, "byte-rate", "Bytes a second that they send or are sent.", tags=_WHO, unit="bytes")
        for type_ in ("Produce", "Fetch")
    ),
    _attribute("Request", "request-time", "Share of the loop that they take, percent.", tags=_WHO, unit="percent"),
    _attribute("ControllerMutation", "mutation-rate", "Partitions a second that they create and delete.", tags=_WHO),
    *(
        _attribute(type_, "throttle-time", "How long their answers are held back, ms.", tags=_WHO, unit="ms")
        for type_ in ("Produce", "Fetch", "Request", "ControllerMutation")
    ),
)
"""Metrics by user and client id, for clients with quotas. Adjacent metrics share a name in Prometheus."""

_KC: Final = "KafkaController"
_C: Final = "kafka.controller"

CONTROLLER: Final = (
    _gauge(_C, _KC, "ActiveControllerCount", "1 on the active controller."),
    _gauge(_C, _KC, "ActiveBrokerCount", "Brokers that serve clients."),
    _gauge(_C, _KC, "FencedBrokerCount", "Registered brokers that are fenced."),
    _gauge(_C, _KC, "ControlledShutdownBrokerCount", "Brokers that are leaving."),
    _gauge(_C, _KC, "TimeSinceLastHeartbeatReceivedMs", "On the active one, how long ago a broker was heard of.", ("broker",), "ms"),
    _gauge(_C, _KC, "NewActiveControllersCount", "Changes of the active controller that this node has seen."),
    _gauge(_C, _KC, "EventQueueOperationsStartedCount", "Operations that this controller has begun."),
    _gauge(_C, _KC, "EventQueueOperationsTimedOutCount", "Zero: operations have no time limit of their own."),
    _gauge(_C, _KC, "TimedOutBrokerHeartbeatCount", "Zero: heartbeats are not held in a queue."),
    _gauge(_C, _KC, "GlobalTopicCount", "Topics of the cluster."),
    _gauge(_C, _KC, "GlobalPartitionCount", "Partitions of the cluster."),
    _gauge(_C, _KC, "OfflinePartitionsCount", "Partitions without a leader."),
    _gauge(_C, _KC, "PreferredReplicaImbalanceCount", "Partitions whose leader is not their first replica."),
    _gauge(_C, _KC, "IgnoredStaticVoters", "1 where controller.quorum.voters is set and not what counts."),
    _gauge(_C, _KC, "BrokerRegistrationState", "10 fenced, 20 leaving, 30 active.", ("broker",)),
    _gauge(_C, _KC, "MetadataErrorCount", "Errors while metadata was loaded or applied."),
    _gauge(_C, _KC, "LastAppliedRecordOffset", "The last record of the metadata log that this controller goes by."),
    _gauge(_C, _KC, "LastCommittedRecordOffset", "The last record that is committed."),
    _gauge(_C, _KC, "LastAppliedRecordTimestamp", "When the last applied record was appended, ms since 1970.", (), "ms"),
    _gauge(_C, _KC, "LastAppliedRecordLagMs", "How long ago that was.", (), "ms"),
    Metric(_C, "ControllerEventManager", "EventQueueTimeMs", _HISTOGRAM, "How long operations wait for their turn.", (), "ms"),
    Metric(_C, "ControllerEventManager", "EventQueueProcessingTimeMs", _HISTOGRAM, "How long they are at work.", (), "ms"),
    _meter(_C, "ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec", "Leaders that were elected among the eligible replicas."),
    _meter(_C, "ControllerStats", "UncleanLeaderElectionsPerSec", "Leaders that were not in sync when they were elected."),
)

ODRADEK: Final = (
    _gauge("odradek", "Process", "UptimeSeconds", "Since the node began to start.", (), "seconds"),
    _gauge("odradek", "Process", "CpuSeconds", "CPU time of the process, all threads.", (), "seconds"),
    _gauge("odradek", "Process", "ResidentBytes", "Memory of the process that is in RAM.", (), "bytes"),
    _gauge("odradek", "Process", "OpenFiles", "Open descriptors."),
    _gauge("odradek", "Process", "MaxFiles", "How many descriptors may be open."),
    _gauge("odradek", "Exporter", "ScrapesRefused", "Requests to this exporter that were refused: too many at once, too large, too slow."),
)

CATALOGUE: Final[tuple[Metric, ...]] = (
    *TRAFFIC,
    *REQUESTS,
    *NETWORK,
    *REPLICAS,
    *LOGS,
    *RAFT,
    *BROKER,
    *FORWARDING,
    *QUOTAS,
    *CLIENTS,
    *CONTROLLER,
    *GROUPS,
    *ODRADEK,
)
"""All metrics in the order of the text output."""
