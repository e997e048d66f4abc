"""The wiring: one object that handlers receive, with the rooms they may call.

Attributes are set once during boot, in the order of `server.boot`; requests come in only when all that their listener scope needs is there.
A part a node does not have (a broker without the controller role has no `kraft` leader, a controller no replica manager) raises
`AttributeError` when touched, which is a programming error, not an answer.
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
    from odradek.server.audit import Audit
    from odradek.server.channel import InterBrokerChannel
    from odradek.server.connection_rates import ConnectionLimits
    from odradek.server.coordinators import Coordinators
    from odradek.server.disconnects import HeartbeatConnections
    from odradek.server.dispatch import ApiRange, Dispatcher
    from odradek.server.forwarding import Forwarder
    from odradek.server.jobs import Jobs
    from odradek.server.metadata_cache import MetadataCache
    from odradek.server.metering.meters import Meters
    from odradek.server.producer_ids import ProducerIdManager
    from odradek.server.replication_throttles import ReplicationThrottles
    from odradek.server.telemetry import ClientTelemetry
    from odradek.server.tls import NodeTls
    from odradek.storage.loading import LoadProgress
    from odradek.storage.log_manager import LogManager


class Services:
    """Plain attributes, one per room or fact."""

    config: BrokerConfig
    """The file's; what may change at run time is read from `dynamic_config`."""
    dynamic_config: DynamicBrokerConfig
    clock: Clock
    random: random.Random
    disk: Disk
    cluster_id: str
    node_id: int
    incarnation_id: UUID
    authorizer: Authorizer | None = None
    """None where authorizer.class.name names none: everybody may do everything."""
    token_secret: TokenSecret | None = None
    """Of delegation tokens; None where there are none (delegation.token.secret.key)."""
    audit: Audit
    """Only where there is an authorizer."""

    meters: Meters | None = None
    """Metrics and who serves them, where odradek.metrics.listener asks for that."""
    quota_series: Callable[[str, str], Iterable[tuple[str, str, float]]] | None = None
    """What quotas count, for the metrics: (Produce, byte-rate) -> (user, client id, value), with "" for who is not told apart by it."""
    telemetry: ClientTelemetry | None = None
    """What clients push of their metrics, where odradek.client.telemetry says where that goes."""
    log_manager: LogManager
    replica_manager: ReplicaManager
    metadata: MetadataCache
    """The cluster image that has been published to this node: `metadata.image`."""
    kraft: KRaftNode
    jobs: Jobs
    """What blocks runs there: on the loop no file is opened that a request names."""
    tls: NodeTls
    """What listeners are secured with."""
    peers: Peers
    """Connections to other nodes; requests of the roles go by `channel`."""
    channel: InterBrokerChannel
    forwarder: Forwarder
    dispatcher: Dispatcher
    producer_ids: ProducerIdManager
    recovery: dict[str, LoadProgress]
    """How far the log directories are loaded, by path; those that have recovered something."""
    coordinators: Coordinators
    bound_listeners: list[BoundListener]
    connection_limits: ConnectionLimits
    replication_throttles: ReplicationThrottles
    heartbeat_connections: HeartbeatConnections | None = None
    """On controllers, unless broker.session.disconnect.timeout.ms says that only sessions count."""

    api_ranges: dict[str, list[ApiRange]]
    """Listener scope -> what ApiVersions names there."""

    @property
    def groups(self) -> GroupCoordinator:
        """Made when it is first asked for."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Made when it is first asked for."""
        return self.coordinators.transactions
