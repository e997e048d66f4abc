"""Services of a node: the object through which handlers reach the node's packages.

Attributes are set once during the start, in the order of `server.start.boot`. Requests are served only when everything that their listener
scope needs is set. Access to a missing part (a broker without the controller role has no `kraft` leader, a controller no replica manager)
raises `AttributeError`: a programming error, not a response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.controller.kraft import KRaftNode
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.transaction.service import TransactionCoordinator
    from odradek.network.acceptor import BoundListener
    from odradek.network.peers import Peers
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.security.authorizer import Authorizer
    from odradek.security.tokens import TokenSecret
    from odradek.server.cluster.channel import InterBrokerChannel
    from odradek.server.cluster.coordinators import Coordinators
    from odradek.server.cluster.disconnects import HeartbeatConnections
    from odradek.server.cluster.forwarding import Forwarder
    from odradek.server.cluster.metadata_cache import MetadataCache
    from odradek.server.cluster.producer_ids import ProducerIdManager
    from odradek.server.metering.meters import Meters
    from odradek.server.metering.telemetry import ClientTelemetry
    from odradek.server.requests.connection_rates import ConnectionLimits
    from odradek.server.requests.dispatch import ApiRange, Dispatcher
    from odradek.server.security.audit import Audit
    from odradek.server.security.tls import NodeTls
    from odradek.server.upkeep.jobs import Jobs
    from odradek.server.upkeep.replication_throttles import ReplicationThrottles
    from odradek.storage.loading import LoadProgress
    from odradek.storage.log_manager import LogManager


class Services:
    """Plain attributes, one per package or fact."""

    config: BrokerConfig
    """Static configuration; read keys that may change at run time from `dynamic_config`."""
    dynamic_config: DynamicBrokerConfig
    clock: Clock
    random: random.Random
    disk: Disk
    cluster_id: str
    node_id: int
    incarnation_id: UUID
    authorizer: Authorizer | None = None
    """None without authorizer.class.name; every access is then allowed."""
    token_secret: TokenSecret | None = None
    """Secret of delegation tokens (delegation.token.secret.key); None without delegation tokens."""
    audit: Audit
    """Set only with an authorizer."""

    meters: Meters | None = None
    """Metrics and their server; None unless odradek.metrics.listener is set."""
    quota_series: Callable[[str, str], Iterable[tuple[str, str, float]]] | None = None
    """Measured quotas for the metrics: (Produce, byte-rate) -> (user, client id, value), with "" for a user or client id that the quota
    does not distinguish.
    """
    telemetry: ClientTelemetry | None = None
    """Receiver of clients' metrics; None unless odradek.client.telemetry is set."""
    log_manager: LogManager
    replica_manager: ReplicaManager
    metadata: MetadataCache
    """Holder of the cluster image that was published to this node: `metadata.image`."""
    kraft: KRaftNode
    jobs: Jobs
    """Executor calls for blocking work; the loop must not open a file that a request names."""
    tls: NodeTls
    """TLS contexts of listeners and of connections to other nodes."""
    peers: Peers
    """Connections to other nodes; requests between roles use `channel`."""
    channel: InterBrokerChannel
    forwarder: Forwarder
    dispatcher: Dispatcher
    producer_ids: ProducerIdManager
    recovery: dict[str, LoadProgress]
    """Progress of loading by log directory; only directories that have recovered logs."""
    coordinators: Coordinators
    bound_listeners: list[BoundListener]
    connection_limits: ConnectionLimits
    replication_throttles: ReplicationThrottles
    heartbeat_connections: HeartbeatConnections | None = None
    """Set on controllers, unless broker.session.disconnect.timeout.ms is negative."""

    api_ranges: dict[str, list[ApiRange]]
    """Listener scope -> entries of ApiVersions."""

    @property
    def groups(self) -> GroupCoordinator:
        """Coordinator of groups, made on first use."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Coordinator of transactions, made on first use."""
        return self.coordinators.transactions
