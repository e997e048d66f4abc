"""Access of handlers to their node: facts that every node has, and the parts of the role whose listener received the request.

A handler gets the facts as `context.services`. Its third argument is `BrokerParts` on broker listeners and `ControllerParts` on controller
listeners; a handler on both takes `Parts`, and uses only parts that both have. Parts of the server are protocols here, with the methods
that handlers call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from uuid import UUID

    from odradek.base.clock import Clock
    from odradek.base.deferred import Deferred
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.controller.kraft.node import KRaftNode
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.transaction.service import ProducerIds, TransactionCoordinator
    from odradek.handlers.access import Check
    from odradek.handlers.context import RequestContext
    from odradek.handlers.table import ApiRange
    from odradek.metadata.cache import MetadataCache
    from odradek.metrics.telemetry import Client, Telemetry
    from odradek.network.chunks import Answer
    from odradek.protocol.headers import RequestHeader
    from odradek.protocol.schema import Message
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.security.authorizer import Authorizer
    from odradek.security.principal import Principal
    from odradek.security.tokens import TokenSecret
    from odradek.storage.log_manager import LogManager

T = TypeVar("T")


class Jobs(Protocol):
    """Executor calls for blocking work; the loop must not open a file that a request names (`server.upkeep.jobs`)."""

    def apart(self, job: Callable[[], T]) -> Deferred[T]: ...


class Audit(Protocol):
    """Audit log of the authorizer (`server.security.audit`)."""

    def note(self, context: RequestContext, check: Check, name: str, *, allowed: bool, count: int) -> None: ...


class ClientTelemetry(Protocol):
    """Receiver of clients' metrics (`server.metering.telemetry`)."""

    telemetry: Telemetry

    def introduced(self, connection_id: str, name: str, version: str) -> None: ...

    def client(self, context: RequestContext, instance_id: UUID) -> Client: ...

    def take(self, client: Client, data: bytes | memoryview, compression: int) -> Deferred[None]: ...


class Services:
    """Facts of a node. Values that are not known at first have their default until then."""

    def __init__(
        self,
        config: BrokerConfig,
        dynamic_config: DynamicBrokerConfig,
        *,
        clock: Clock,
        random: random.Random,
        disk: Disk,
        jobs: Jobs,
        metadata: MetadataCache,
        token_secret: TokenSecret | None = None,
        telemetry: ClientTelemetry | None = None,
    ) -> None:
        self.config = config
        """Static configuration; read keys that may change at run time from `dynamic_config`."""
        self.dynamic_config = dynamic_config
        self.clock = clock
        self.random = random
        self.disk = disk
        self.jobs = jobs
        self.metadata = metadata
        """Holder of the cluster image that was published to this node: `metadata.image`."""
        self.token_secret = token_secret
        """Secret of delegation tokens (delegation.token.secret.key); None without delegation tokens."""
        self.node_id = config.node_id
        self.cluster_id = ""
        """Cluster id of meta.properties; "" before the file is read."""
        self.authorizer: Authorizer | None = None
        """None without authorizer.class.name; every access is then allowed."""
        self.audit: Audit | None = None
        """None without an authorizer."""
        self.telemetry = telemetry
        """None unless odradek.client.telemetry is set."""
        self.api_ranges: dict[str, list[ApiRange]] = {}
        """Listener scope -> entries of ApiVersions."""


class Coordinators(Protocol):
    """Coordinators of groups and transactions, each made on first use (`server.cluster.coordinators`)."""

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    def await_topic(self, topic: str, timeout_s: float) -> Deferred[None]: ...


class Channel(Protocol):
    """Requests to the active controller and to other brokers (`server.cluster.channel`)."""

    def send(self, destination: int, api_key: int, request: Message, version: int, *, timeout_s: float = ...) -> Deferred[Message]: ...


class Forwarder(Protocol):
    """Requests of clients to the active controller (`server.cluster.forwarding`)."""

    def ask(self, context: RequestContext, request: Message) -> Deferred[Message]: ...


class BrokerParts(NamedTuple):
    """Parts of a node with the broker role."""

    kraft: KRaftNode
    log_manager: LogManager
    replica_manager: ReplicaManager
    coordinators: Coordinators
    producer_ids: ProducerIds
    channel: Channel
    forwarder: Forwarder

    @property
    def groups(self) -> GroupCoordinator:
        """Coordinator of groups, made on first use."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Coordinator of transactions, made on first use."""
        return self.coordinators.transactions


class Dispatcher(Protocol):
    """Dispatcher, for requests within requests (`server.requests.dispatch`)."""

    def handle_embedded(
        self,
        frame: bytes | memoryview,
        *,
        scope: str,
        listener_name: str,
        peer_host: str,
        principal: Principal = ...,
        connection_id: str = ...,
        forwarded: bool = ...,
    ) -> tuple[RequestHeader, Answer]: ...


class HeartbeatConnections(Protocol):
    """Connections on which brokers send their heartbeats (`server.cluster.disconnects`)."""

    def arrived(self, connection_id: str) -> None: ...

    def heard(self, broker_id: int, broker_epoch: int, connection_id: str) -> None: ...


class ControllerParts:
    """Parts of a node with the controller role."""

    def __init__(self, kraft: KRaftNode, dispatcher: Dispatcher) -> None:
        self.kraft = kraft
        self.dispatcher = dispatcher
        self.heartbeat_connections: HeartbeatConnections | None = None
        """None while the controller's listeners are not served, and with a negative broker.session.disconnect.timeout.ms."""


Parts: TypeAlias = "BrokerParts | ControllerParts"
