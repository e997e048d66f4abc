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
    "MessagesInPerSec": "Records appended to partitions that this broker leads.",
    "BytesInPerSec": "Bytes of batches appended to partitions that this broker leads.",
    "BytesOutPerSec": "Bytes of batches sent to consumers.",
    "BytesRejectedPerSec": "Bytes of batches refused because they are too large.",
    "ReplicationBytesInPerSec": "Bytes of batches fetched from leaders.",
    "ReplicationBytesOutPerSec": "Bytes of batches sent to followers.",
    "ReassignmentBytesInPerSec": "The part of ReplicationBytesIn for replicas that a reassignment adds.",
    "ReassignmentBytesOutPerSec": "The part of ReplicationBytesOut for replicas that a reassignment adds.",
    "TotalProduceRequestsPerSec": "Requested appends: one for each partition of a Produce request.",
    "TotalFetchRequestsPerSec": "Reads: one for each partition of a Fetch request, and one more for each further read while it waits.",
    "FailedProduceRequestsPerSec": "Appends that failed, except for errors in the client's metadata.",
    "FailedFetchRequestsPerSec": "Reads that failed unexpectedly.",
    "NoKeyCompactedTopicRecordsPerSec": "Records without a key refused by a compacted topic.",
    "InvalidMagicNumberRecordsPerSec": "Batches of an unsupported format.",
    "InvalidMessageCrcRecordsPerSec": "Corrupt batches.",
    "InvalidOffsetOrSequenceRecordsPerSec": "Records refused for other reasons, such as their timestamps.",
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
    _request("ErrorsPerSec", _METER, "Error codes in responses, NONE included.", ("request", "error"), ""),
    _request("RequestBytes", _HISTOGRAM, "Size of requests.", unit="bytes"),
    _request("TotalTimeMs", _HISTOGRAM, "Time from the last byte of the request to its response."),
    _request("LocalTimeMs", _HISTOGRAM, "The part of TotalTimeMs spent in the handler."),
    _request("RemoteTimeMs", _HISTOGRAM, "The part of TotalTimeMs spent waiting for replicas, for data or for another node."),
    _request("ThrottleTimeMs", _HISTOGRAM, "How long a quota delayed the response."),
    _request("RequestQueueTimeMs", _HISTOGRAM, "Zero: a request is handled when it is read; waiting requests are in the socket."),
    _request("ResponseQueueTimeMs", _HISTOGRAM, "Zero: a response is written to the socket when it is ready."),
    _request("ResponseSendTimeMs", _HISTOGRAM, "Zero: the event loop sends what the socket did not accept when it can."),
)


def _gauge(domain: str, type_: str, name: str, text: str, tags: tuple[str, ...] = (), unit: str = "") -> Metric:
    return Metric(domain, type_, name, _GAUGE, text, tags, unit)


def _meter(domain: str, type_: str, name: str, text: str, tags: tuple[str, ...] = ()) -> Metric:
    return Metric(domain, type_, name, _METER, text, tags)


def _attribute(type_: str, name: str, text: str, kind: Kind = _GAUGE, tags: tuple[str, ...] = (), unit: str = "") -> Metric:
    return Metric("kafka.server", type_, name, kind, text, tags, unit, attribute=True)


_SOCKETS: Final = ("listener", "networkProcessor")

NETWORK: Final = (
    _gauge("kafka.network", "RequestChannel", "RequestQueueSize", "Zero: requests are not queued before the handlers."),
    _gauge("kafka.network", "RequestChannel", "ResponseQueueSize", "Connections with a request or a response in progress.", ("processor",)),
    _gauge(
        "kafka.network",
        "SocketServer",
        "NetworkProcessorAvgIdlePercent",
        "Fraction of the last interval in which the event loop's thread was idle.",
    ),
    _gauge("kafka.network", "SocketServer", "MemoryPoolAvailable", "Free bytes of queued.max.request.bytes.", (), "bytes"),
    _gauge("kafka.network", "SocketServer", "MemoryPoolUsed", "Bytes of requests that are being received or handled.", (), "bytes"),
    _gauge("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount", "Connections closed because they were idle for too long."),
    _gauge(
        "kafka.network",
        "Acceptor",
        "AcceptorBlockedPercent",
        "Zero: the limit on new connections delays them, not the acceptor.",
        ("listener",),
    ),
    _gauge("kafka.network", "Processor", "IdlePercent", "Same as NetworkProcessorAvgIdlePercent.", ("networkProcessor",)),
    _attribute("socket-server-metrics", "connection-count", "Open connections.", tags=_SOCKETS),
    _attribute("socket-server-metrics", "connection-creation-total", "Accepted connections.", tags=_SOCKETS),
    *(
        Metric(
            "kafka.server",
            "KafkaRequestHandlerPool",
            f"{role}RequestHandlerAvgIdlePercent",
            _METER,
            "Same as RequestHandlerAvgIdlePercent: broker and controller of a node share its event loop.",
        )
        for role in ("Broker", "Controller")
    ),
    Metric(
        "kafka.server",
        "KafkaRequestHandlerPool",
        "RequestHandlerAvgIdlePercent",
        _METER,
        "Fraction of the last interval in which the event loop's thread was idle: between 0 and 1.",
    ),
)

_RM: Final = "ReplicaManager"
_S: Final = "kafka.server"
_PARTITION: Final = ("topic", "partition")

REPLICAS: Final = (
    _gauge(_S, _RM, "LeaderCount", "Partitions that this broker leads."),
    _gauge(_S, _RM, "PartitionCount", "Partitions that this broker hosts."),
    _gauge(_S, _RM, "OfflineReplicaCount", "Replicas in failed log directories."),
    _gauge(_S, _RM, "UnderReplicatedPartitions", "Partitions led by this broker with replicas that are not in sync."),
    _gauge(_S, _RM, "UnderMinIsrPartitionCount", "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas."),
    _gauge(_S, _RM, "AtMinIsrPartitionCount", "Partitions led by this broker with exactly min.insync.replicas in-sync replicas."),
    _gauge(_S, _RM, "ReassigningPartitions", "Partitions led by this broker whose replicas are being reassigned."),
    _gauge(_S, _RM, "PartitionsWithLateTransactionsCount", "Partitions with a transaction that has been open longer than allowed."),
    _gauge(_S, _RM, "ProducerIdCount", "Producers whose state is kept in the logs."),
    _meter(_S, _RM, "IsrShrinksPerSec", "Replicas that left the ISR of a partition led by this broker."),
    _meter(_S, _RM, "IsrExpandsPerSec", "Replicas that joined the ISR of a partition led by this broker."),
    _meter(_S, _RM, "FailedIsrUpdatesPerSec", "Changes of an ISR that the controller refused, or that were sent again."),
    _gauge(
        "kafka.cluster",
        "Partition",
        "UnderReplicated",
        "1 if not all replicas are in sync; 0 if another broker leads the partition.",
        _PARTITION,
    ),
    _gauge("kafka.cluster", "Partition", "InSyncReplicasCount", "In-sync replicas; 0 if another broker leads the partition.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "UnderMinIsr", "1 if there are fewer in-sync replicas than min.insync.replicas.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "AtMinIsr", "1 if there are exactly min.insync.replicas in-sync replicas.", _PARTITION),
    _gauge("kafka.cluster", "Partition", "ReplicasCount", "Replicas; 0 if another broker leads the partition.", _PARTITION),
    _gauge(
        "kafka.cluster",
        "Partition",
        "LastStableOffsetLag",
        "Records above the last stable offset; 0 if another broker leads the partition.",
        _PARTITION,
    ),
    _gauge(_S, "ReplicaFetcherManager", "MaxLag", "Largest lag of a follower on this broker, in records.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "MinFetchRate", "Zero: fetchers do not compute rates.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "FailedPartitionsCount", "Partitions that cannot be fetched from their leader.", ("clientId",)),
    _gauge(_S, "ReplicaFetcherManager", "DeadThreadCount", "Zero: fetchers are not threads.", ("clientId",)),
    _gauge(
        _S,
        "FetcherLagMetrics",
        "ConsumerLag",
        "Lag of a follower on this broker behind its leader, in records.",
        ("clientId", "topic", "partition"),
    ),
    _gauge(_S, "DelayedOperationPurgatory", "PurgatorySize", "Requests that wait in the purgatory.", ("delayedOperation",)),
    _gauge(_S, "DelayedOperationPurgatory", "NumDelayedOperations", "Requests that wait in the purgatory.", ("delayedOperation",)),
    _meter(_S, "DelayedFetchMetrics", "ExpiresPerSec", "Fetches that timed out before there were enough bytes.", ("fetcherType",)),
    _meter(_S, "DelayedProduceMetrics", "ExpiresPerSec", "Appends that timed out before they were replicated."),
    _meter(_S, "DelayedDeleteRecordsMetrics", "ExpiresPerSec", "DeleteRecords requests that timed out before all replicas had followed."),
    _meter(_S, "AddPartitionsToTxnManager", "VerificationFailureRate", "Partitions that a coordinator did not find in the transaction."),
    Metric(
        _S,
        "AddPartitionsToTxnManager",
        "VerificationTimeMs",
        Kind.HISTOGRAM,
        "Time of the verification by the coordinator (KIP-890).",
        (),
        "ms",
    ),
    _gauge(_S, "FetchSessionCache", "NumIncrementalFetchSessions", "Fetch sessions."),
    _gauge(_S, "FetchSessionCache", "NumIncrementalFetchPartitionsCached", "Partitions of fetch sessions."),
    _meter(_S, "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec", "Sessions evicted for newer ones."),
)

LOGS: Final = (
    _gauge("kafka.log", "Log", "Size", "Size of the log, in bytes.", _PARTITION, "bytes"),
    _gauge("kafka.log", "Log", "NumLogSegments", "Segments.", _PARTITION),
    _gauge("kafka.log", "Log", "LogStartOffset", "First offset of the log.", _PARTITION),
    _gauge("kafka.log", "Log", "LogEndOffset", "Next offset of the log.", _PARTITION),
    _gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount", "Failed log directories."),
    _gauge("kafka.log", "LogManager", "CordonedLogDirectoryCount", "Log directories that get no new replicas."),
    _gauge("kafka.log", "LogManager", "LogDirectoryCordoned", "1 for a cordoned log directory.", ("logDirectory",)),
    _gauge("kafka.log", "LogManager", "remainingLogsToRecover", "During the start: logs that have not been loaded yet.", ("dir",)),
    _gauge(
        "kafka.log",
        "LogManager",
        "remainingSegmentsToRecover",
        "Remaining segments of the log that is being recovered.",
        ("dir", "threadNum"),
    ),
    _gauge("kafka.log", "LogManager", "LogDirectoryOffline", "1 for a failed log directory.", ("logDirectory",)),
    Metric("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", _TIMER, "Flushes of logs to disk.", (), "ms"),
    _gauge("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", "Logs that cannot be compacted.", ("logDirectory",)),
    _gauge("kafka.log", "LogCleanerManager", "uncleanable-bytes", "Bytes of logs that cannot be compacted.", ("logDirectory",), "bytes"),
    _gauge("kafka.log", "LogCleanerManager", "max-dirty-percent", "Dirty fraction of the dirtiest log, at the last check.", (), "percent"),
    _gauge("kafka.log", "LogCleanerManager", "time-since-last-run-ms", "Time since the last check of the logs.", (), "ms"),
    _gauge(
        "kafka.log",
        "LogCleaner",
        "cleaner-recopy-percent",
        "Share of the bytes that the latest cleaning read which it wrote again.",
        (),
        "percent",
    ),
    _gauge("kafka.log", "LogCleaner", "max-buffer-utilization-percent", "Fill level of the key map in the latest cleaning.", (), "percent"),
    _gauge("kafka.log", "LogCleaner", "max-clean-time-secs", "Duration of the latest cleaning.", (), "seconds"),
    _gauge("kafka.log", "LogCleaner", "DeadThreadCount", "Zero: cleaners are not threads."),
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
    _attribute("raft-metrics", "current-leader", "Id of the quorum's leader; -1 without a leader."),
    _attribute("raft-metrics", "current-vote", "Id of the candidate that this node voted for in its epoch; -1 without a vote."),
    _attribute("raft-metrics", "current-epoch", "The epoch of the quorum."),
    _attribute("raft-metrics", "high-watermark", "High watermark of the metadata log."),
    _attribute("raft-metrics", "log-end-offset", "Log end offset of the metadata log."),
    _attribute("raft-metrics", "log-end-epoch", "Epoch of the last record in the metadata log."),
    _attribute("raft-metrics", "append-records-rate", "Records a second that this node appends as the leader."),
    _attribute("raft-metrics", "fetch-records-rate", "Records a second that this node fetches from the leader."),
    _attribute("raft-metrics", "poll-idle-ratio-avg", "Fraction of the last interval in which the event loop's thread was idle."),
    _attribute("raft-metrics", "number-unknown-voter-connections", "Zero: the addresses of all voters are known."),
    _attribute("raft-metrics", "uncommitted-voter-change", "1 while a change of the voter set is not committed."),
    _attribute("raft-metrics", "number-of-voters", "Voters of the quorum."),
    _attribute(
        "raft-metrics", "number-of-observers", "Observers of this leader: nodes that fetch from it and have no vote; 0 on other nodes."
    ),
    _attribute("raft-metrics", "commit-latency-avg", "Time from the append of a record to its commit, on the leader, ms.", unit="ms"),
    _attribute("raft-metrics", "commit-latency-max", "Longest such time in the last minutes.", unit="ms"),
    _attribute("raft-metrics", "election-latency-avg", "Time from the start of an election to its result, ms.", unit="ms"),
    _attribute("raft-metrics", "election-latency-max", "Longest such time in the last minutes.", unit="ms"),
    _attribute("broker-metadata-metrics", "last-applied-record-offset", "Offset of the last metadata record that this node has applied."),
    _attribute(
        "broker-metadata-metrics",
        "last-applied-record-timestamp",
        "Timestamp of the last applied metadata record, ms since 1970.",
        unit="ms",
    ),
    _attribute("broker-metadata-metrics", "last-applied-record-lag-ms", "Age of the last applied metadata record.", unit="ms"),
    _attribute("broker-metadata-metrics", "metadata-load-error-count", "Metadata records that were not applied because of an error."),
    _attribute("broker-metadata-metrics", "ignored-static-voters", "1 if controller.quorum.voters is set and ignored."),
    _attribute("authorizer-metrics", "acls-total-count", "Number of ACLs in the cluster."),
    _attribute("node-metrics", "maximum-supported-level", "Highest level of a feature that this node supports.", tags=("feature-name",)),
    _attribute("node-metrics", "minimum-supported-level", "The lowest.", tags=("feature-name",)),
    _attribute("broker-metadata-metrics", "metadata-apply-error-count", "Errors while metadata was applied."),
)

BROKER: Final = (
    _gauge(_S, "KafkaServer", "BrokerState", "1 starting, 2 recovering, 3 running, 6 in controlled shutdown, 7 shutting down."),
    Metric(_S, "KafkaServer", "ClusterId", _TEXT, "The cluster's id."),
    _gauge(_S, "KafkaServer", "linux-disk-read-bytes", "Bytes that the process has read from disks.", (), "bytes"),
    _gauge(_S, "KafkaServer", "linux-disk-write-bytes", "Bytes that the process has written to disks.", (), "bytes"),
    _gauge(_S, "MetadataLoader", "CurrentControllerId", "Id of the active controller; -1 if this node does not know it."),
    _gauge(_S, "MetadataLoader", "FinalizedLevel", "Finalized level of a feature in the cluster.", ("featureName",)),
    _gauge(_S, "MetadataLoader", "CurrentMetadataVersion", "Finalized level of metadata.version."),
    _gauge(
        _S,
        "SnapshotEmitter",
        "LatestSnapshotGeneratedBytes",
        "Size of the latest snapshot that this node wrote; 0 if it has not written any.",
        (),
        "bytes",
    ),
    _gauge(_S, "SnapshotEmitter", "LatestSnapshotGeneratedAgeMs", "Age of the latest snapshot, or time since the start.", (), "ms"),
    _gauge(_S, "MetadataLoader", "HandleLoadSnapshotCount", "Metadata snapshots that were loaded."),
)

FORWARDING: Final = (
    _attribute("ForwardingManager", "QueueLength", "Requests that wait for a response from the active controller."),
    *(_attribute("ForwardingManager", f"QueueTimeMs.{which}", "Zero: a request is sent at once.", unit="ms") for which in ("p99", "p999")),
    *(_attribute("ForwardingManager", f"RemoteTimeMs.{which}", "Response time of the controller.", unit="ms") for which in ("p99", "p999")),
)

CLIENTS: Final = (
    _attribute("client-metrics", "instance-count", "Clients whose subscription is remembered (KIP-714)."),
    _attribute("client-metrics", "unknown-subscription-request-count", "Pushes with an outdated subscription id."),
    _attribute(
        "client-metrics", "throttle-count", "Requests for a subscription, and pushes, that came before the client's push interval was over."
    ),
    _attribute("client-metrics", "plugin-export-count", "Pushes that were forwarded to the receiver."),
    _attribute("client-metrics", "plugin-error-count", "Malformed pushes, and pushes that the receiver did not accept."),
)

_WHO: Final = ("user", "client-id")

QUOTAS: Final = (
    *(
        _attribute(type_, "byte-rate", "Bytes a second that the clients send or receive.", tags=_WHO, unit="bytes")
        for type_ in ("Produce", "Fetch")
    ),
    _attribute("Request", "request-time", "Share of the event loop's time that the clients use, percent.", tags=_WHO, unit="percent"),
    _attribute("ControllerMutation", "mutation-rate", "Partitions a second that the clients create and delete.", tags=_WHO),
    *(
        _attribute(type_, "throttle-time", "How long responses to the clients are delayed, ms.", tags=_WHO, unit="ms")
        for type_ in ("Produce", "Fetch", "Request", "ControllerMutation")
    ),
)
"""Metrics by user and client id, for clients with quotas. Adjacent metrics share a name in Prometheus."""

_KC: Final = "KafkaController"
_C: Final = "kafka.controller"

CONTROLLER: Final = (
    _gauge(_C, _KC, "ActiveControllerCount", "1 on the active controller."),
    _gauge(_C, _KC, "ActiveBrokerCount", "Active brokers."),
    _gauge(_C, _KC, "FencedBrokerCount", "Registered brokers that are fenced."),
    _gauge(_C, _KC, "ControlledShutdownBrokerCount", "Brokers in controlled shutdown."),
    _gauge(
        _C,
        _KC,
        "TimeSinceLastHeartbeatReceivedMs",
        "On the active controller: time since the last heartbeat of a broker.",
        ("broker",),
        "ms",
    ),
    _gauge(_C, _KC, "NewActiveControllersCount", "Changes of the active controller that this node has seen."),
    _gauge(_C, _KC, "EventQueueOperationsStartedCount", "Operations that this controller has started."),
    _gauge(_C, _KC, "EventQueueOperationsTimedOutCount", "Zero: operations have no time limit."),
    _gauge(_C, _KC, "TimedOutBrokerHeartbeatCount", "Zero: heartbeats are not queued."),
    _gauge(_C, _KC, "GlobalTopicCount", "Topics of the cluster."),
    _gauge(_C, _KC, "GlobalPartitionCount", "Partitions of the cluster."),
    _gauge(_C, _KC, "OfflinePartitionsCount", "Partitions without a leader."),
    _gauge(_C, _KC, "PreferredReplicaImbalanceCount", "Partitions whose leader is not their preferred replica."),
    _gauge(_C, _KC, "IgnoredStaticVoters", "1 if controller.quorum.voters is set and ignored."),
    _gauge(_C, _KC, "BrokerRegistrationState", "10 fenced, 20 leaving, 30 active.", ("broker",)),
    _gauge(_C, _KC, "MetadataErrorCount", "Errors while metadata was loaded or applied."),
    _gauge(_C, _KC, "LastAppliedRecordOffset", "Offset of the last metadata record that this controller has applied."),
    _gauge(_C, _KC, "LastCommittedRecordOffset", "Offset of the last committed metadata record."),
    _gauge(_C, _KC, "LastAppliedRecordTimestamp", "Timestamp of the last applied metadata record, ms since 1970.", (), "ms"),
    _gauge(_C, _KC, "LastAppliedRecordLagMs", "Age of the last applied metadata record.", (), "ms"),
    Metric(_C, "ControllerEventManager", "EventQueueTimeMs", _HISTOGRAM, "How long operations wait before they start.", (), "ms"),
    Metric(_C, "ControllerEventManager", "EventQueueProcessingTimeMs", _HISTOGRAM, "How long operations run.", (), "ms"),
    _meter(
        _C, "ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec", "Leaders elected among the eligible leader replicas (KIP-966)."
    ),
    _meter(_C, "ControllerStats", "UncleanLeaderElectionsPerSec", "Leaders that were not in sync when they were elected."),
)

ODRADEK: Final = (
    _gauge("odradek", "Process", "UptimeSeconds", "Time since the start of the node.", (), "seconds"),
    _gauge("odradek", "Process", "CpuSeconds", "CPU time of the process, all threads.", (), "seconds"),
    _gauge("odradek", "Process", "ResidentBytes", "Resident memory of the process.", (), "bytes"),
    _gauge("odradek", "Process", "OpenFiles", "Open file descriptors."),
    _gauge("odradek", "Process", "MaxFiles", "Largest number of open file descriptors."),
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
