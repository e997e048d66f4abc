"""Keys of roles, the controller quorum, the metadata log, broker registration and topic defaults."""

from __future__ import annotations

from typing import Final

from odradek.config.definition import BOOLEAN, CLASS, HIGH, INT, LIST, LONG, LOW, MEDIUM, REQUIRED, STRING, Key, ListOf, at_least, keys_in
from odradek.config.validators import bootstrap_servers, quorum_voters

ALTER_CONFIG_POLICY_CLASS_NAME: Final = Key(
    "alter.config.policy.class.name", CLASS, None, LOW, "Class that may forbid changes of configuration."
)
AUTO_CREATE_TOPICS_ENABLE: Final = Key(
    "auto.create.topics.enable", BOOLEAN, "true", HIGH, "Whether a Metadata request for an unknown topic creates it."
)
BROKER_HEARTBEAT_INTERVAL_MS: Final = Key(
    "broker.heartbeat.interval.ms", INT, "2000", MEDIUM, "Time between a broker's heartbeats to the controller, in ms."
)
BROKER_ID: Final = Key("broker.id", INT, "-1", HIGH, "Older name of node.id.")
BROKER_RACK: Final = Key("broker.rack", STRING, None, MEDIUM, "Rack, zone or region of this broker; replicas are spread over racks.")
BROKER_SESSION_TIMEOUT_MS: Final = Key(
    "broker.session.timeout.ms", INT, "9000", MEDIUM, "A broker without a heartbeat for this long, in ms, is fenced."
)
CONTROLLED_SHUTDOWN_ENABLE: Final = Key(
    "controlled.shutdown.enable", BOOLEAN, "true", MEDIUM, "Whether a broker hands over its leaderships before it stops."
)
CONTROLLER_LISTENER_NAMES: Final = Key(
    "controller.listener.names",
    LIST,
    REQUIRED,
    HIGH,
    "Listeners of the controller; brokers send requests to the first one.",
    ListOf(empty=False),
)
CONTROLLER_PERFORMANCE_ALWAYS_LOG_THRESHOLD_MS: Final = Key(
    "controller.performance.always.log.threshold.ms",
    LONG,
    "2000",
    MEDIUM,
    "Controller operations that take longer, in ms, are always logged.",
    at_least(0),
    internal=True,
)
CONTROLLER_PERFORMANCE_SAMPLE_PERIOD_MS: Final = Key(
    "controller.performance.sample.period.ms",
    LONG,
    "60000",
    MEDIUM,
    "Time between reports on the controller's operations, in ms.",
    at_least(100),
    internal=True,
)
CONTROLLER_QUORUM_APPEND_LINGER_MS: Final = Key(
    "controller.quorum.append.linger.ms",
    INT,
    "25",
    MEDIUM,
    "How long the leader collects records before it writes them, in ms.",
    at_least(0),
)
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE: Final = Key(
    "controller.quorum.auto.join.enable", BOOLEAN, "false", LOW, "Whether a controller makes itself a voter of a dynamic quorum."
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS: Final = Key(
    "controller.quorum.bootstrap.servers", LIST, "", HIGH, "host:port addresses of controllers, for finding the quorum.", bootstrap_servers
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS: Final = Key(
    "controller.quorum.election.backoff.max.ms",
    INT,
    "1000",
    HIGH,
    "Longest pause before a new election after a failed one, in ms.",
    at_least(0),
)
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS: Final = Key(
    "controller.quorum.election.timeout.ms",
    INT,
    "1000",
    HIGH,
    "How long a candidate waits for votes before it starts a new election, in ms.",
    at_least(0),
)
CONTROLLER_QUORUM_FETCH_MAX_BYTES: Final = Key(
    "controller.quorum.fetch.max.bytes", INT, "1048576", LOW, "Most bytes fetched from the metadata log at a time.", at_least(1)
)
CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES: Final = Key(
    "controller.quorum.fetch.snapshot.max.bytes", INT, "1048576", LOW, "Most bytes fetched from a metadata snapshot at a time.", at_least(1)
)
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS: Final = Key(
    "controller.quorum.fetch.timeout.ms",
    INT,
    "2000",
    HIGH,
    "A voter without a fetch response from the leader for this long starts an election, in ms.",
    at_least(0),
)
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS: Final = Key(
    "controller.quorum.request.timeout.ms", INT, "2000", MEDIUM, "How long to wait for a response within the quorum, in ms.", at_least(0)
)
CONTROLLER_QUORUM_RETRY_BACKOFF_MS: Final = Key(
    "controller.quorum.retry.backoff.ms", INT, "20", LOW, "Pause before a request within the quorum is retried, in ms.", at_least(0)
)
CONTROLLER_QUORUM_VOTERS: Final = Key(
    "controller.quorum.voters", LIST, "", HIGH, "Fixed voters as id@host:port; leave empty for a dynamic quorum.", quorum_voters
)
CONTROLLER_QUOTA_WINDOW_NUM: Final = Key(
    "controller.quota.window.num", INT, "11", LOW, "Samples kept for the quota of controller mutations.", at_least(1)
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS: Final = Key(
    "controller.quota.window.size.seconds", INT, "1", LOW, "Seconds per sample of the quota of controller mutations.", at_least(1)
)
CONTROLLER_SOCKET_TIMEOUT_MS: Final = Key(
    "controller.socket.timeout.ms", INT, "30000", MEDIUM, "Socket timeout towards the controller, in ms."
)
CREATE_TOPIC_POLICY_CLASS_NAME: Final = Key(
    "create.topic.policy.class.name", CLASS, None, LOW, "Class that may forbid the creation of topics."
)
DELETE_TOPIC_ENABLE: Final = Key("delete.topic.enable", BOOLEAN, "true", HIGH, "Whether topics can be deleted.")
INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: Final = Key(
    "initial.broker.registration.timeout.ms", INT, "60000", MEDIUM, "How long a starting broker tries to register, in ms."
)
INTERNAL_METADATA_DELETE_DELAY_MILLIS: Final = Key(
    "internal.metadata.delete.delay.millis", LONG, "60000", LOW, "Pause before obsolete metadata files are deleted, in ms.", internal=True
)
INTERNAL_METADATA_LOG_SEGMENT_BYTES: Final = Key(
    "internal.metadata.log.segment.bytes", INT, None, LOW, "Segment size of the metadata log, for tests.", internal=True
)
INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES: Final = Key(
    "internal.metadata.max.batch.size.in.bytes", INT, "8388608", LOW, "Largest batch in the metadata log.", internal=True
)
MAX_REQUEST_PARTITION_SIZE_LIMIT: Final = Key(
    "max.request.partition.size.limit", INT, "2000", MEDIUM, "Most partitions in one page of DescribeTopicPartitions.", at_least(1)
)
METADATA_LOG_DIR: Final = Key(
    "metadata.log.dir", STRING, None, HIGH, "Directory of the metadata log; the first log directory when not set."
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS: Final = Key(
    "metadata.log.max.record.bytes.between.snapshots",
    LONG,
    "20971520",
    HIGH,
    "Bytes of metadata records after which a snapshot is written.",
    at_least(1),
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS: Final = Key(
    "metadata.log.max.snapshot.interval.ms",
    LONG,
    "3600000",
    HIGH,
    "Time after which a snapshot is written if anything changed, in ms.",
    at_least(0),
)
METADATA_LOG_SEGMENT_BYTES: Final = Key(
    "metadata.log.segment.bytes", INT, "1073741824", HIGH, "Largest segment of the metadata log.", at_least(8388608)
)
METADATA_LOG_SEGMENT_MS: Final = Key(
    "metadata.log.segment.ms", LONG, "604800000", HIGH, "Time before the metadata log is rolled to a new segment, in ms."
)
METADATA_MAX_IDLE_INTERVAL_MS: Final = Key(
    "metadata.max.idle.interval.ms",
    INT,
    "500",
    LOW,
    "Time without metadata records after which the leader writes an empty one, in ms; 0 never writes one.",
    at_least(0),
)
METADATA_MAX_RETENTION_BYTES: Final = Key(
    "metadata.max.retention.bytes", LONG, "104857600", HIGH, "Bytes of metadata log and snapshots that are kept."
)
METADATA_MAX_RETENTION_MS: Final = Key(
    "metadata.max.retention.ms", LONG, "604800000", HIGH, "How long metadata log and snapshots are kept, in ms."
)
NODE_ID: Final = Key("node.id", INT, REQUIRED, HIGH, "Number of this node, unique in the cluster.", at_least(0))
NUM_PARTITIONS: Final = Key("num.partitions", INT, "1", MEDIUM, "Number of partitions of a topic that is created without one.", at_least(1))
PROCESS_ROLES: Final = Key(
    "process.roles", LIST, REQUIRED, HIGH, "Roles of this node: broker, controller or both.", ListOf("broker", "controller", empty=False)
)
SERVER_MAX_STARTUP_TIME_MS: Final = Key(
    "server.max.startup.time.ms",
    LONG,
    "9223372036854775807",
    MEDIUM,
    "Longest time that the start may take, in ms.",
    at_least(0),
    internal=True,
)
UNSTABLE_API_VERSIONS_ENABLE: Final = Key(
    "unstable.api.versions.enable", BOOLEAN, "false", HIGH, "Whether API versions still in development are served.", internal=True
)
UNSTABLE_FEATURE_VERSIONS_ENABLE: Final = Key(
    "unstable.feature.versions.enable", BOOLEAN, "false", HIGH, "Whether feature levels still in development may be used.", internal=True
)

KEYS: Final = keys_in(globals())
