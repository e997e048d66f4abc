"""State shared by all steps of a node's start, and the conversion of machine errors to one-line errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import KafkaError, OdradekError, StorageError
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.keys.cluster import UNSTABLE_API_VERSIONS_ENABLE
from odradek.config.keys.observability import TELEMETRY_MAX_BYTES
from odradek.config.keys.odradek_only import BROKER_SESSION_DISCONNECT_TIMEOUT_MS
from odradek.config.keys.security import DELEGATION_TOKEN_SECRET_KEY
from odradek.handlers.services import Services
from odradek.metadata.cache import MetadataCache
from odradek.metadata.image import EMPTY
from odradek.server.requests.dispatch import Dispatcher
from odradek.server.security.tls import NodeTls
from odradek.server.upkeep.jobs import Jobs

if TYPE_CHECKING:
    import asyncio
    import random
    from collections.abc import Callable, Mapping

    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.config.references import Resolved
    from odradek.controller.kraft.node import KRaftNode
    from odradek.handlers.services import ControllerParts
    from odradek.network.acceptor import BoundListener
    from odradek.network.inbound import FrameHandler
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.cluster.coordinators import Coordinators
    from odradek.server.cluster.internal_channel import Links
    from odradek.server.cluster.lifecycle import BrokerStateMachine
    from odradek.server.metering.meters import Meters
    from odradek.server.metering.telemetry import ClientTelemetry
    from odradek.storage.loading import LoadProgress
    from odradek.storage.log_manager import LogManager

    DispatcherWrapper = Callable[[Services, Dispatcher], FrameHandler]
    """Factory of a frame handler between the listeners and the dispatcher, for tests."""


def follow_references(settings: Mapping[str, str], providers: Mapping[str, str]) -> Resolved:
    """Resolve references in settings (`config.dynamic_broker.Resolve`). The resolver is imported with the first reference."""
    from odradek.providers.resolving import resolve_broker

    return resolve_broker(settings, providers)


class Node:
    """State that the steps of a node's start share: its configuration, the clock, disk, random source and event loop on which it runs, and
    those parts that are needed by parts made before them.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        disk: Disk,
        rng: random.Random,
        states: BrokerStateMachine,
        fatal: Callable[[BaseException], None],
        wrap_dispatcher: DispatcherWrapper | None = None,
    ) -> None:
        """`fatal` is called with each error after which the node cannot go on. The error ends the start, or later the node."""
        self.config = config
        self.loop = loop
        self.clock = clock
        self.disk = disk
        self.random = rng
        self.jobs = Jobs(loop)
        dynamic_config = DynamicBrokerConfig(config, follow_references)
        self.tls = NodeTls(dynamic_config)
        """TLS contexts of listeners and of connections to other nodes."""
        token_secret: TokenSecret | None = None
        if secret := config[DELEGATION_TOKEN_SECRET_KEY]:
            from odradek.security.tokens import TokenSecret

            token_secret = TokenSecret(secret)
        self.telemetry: ClientTelemetry | None = None
        """Receiver of clients' metrics; None unless odradek.client.telemetry is set."""
        if (endpoint := config.client_telemetry) is not None and config.is_broker:
            from odradek.server.metering.telemetry import ClientTelemetry

            self.telemetry = ClientTelemetry(endpoint, config[TELEMETRY_MAX_BYTES], config.node_id, clock, self.jobs)
        fences_early = config[BROKER_SESSION_DISCONNECT_TIMEOUT_MS] >= 0
        self.services = Services(
            config,
            dynamic_config,
            clock=clock,
            random=rng,
            disk=disk,
            jobs=self.jobs,
            metadata=MetadataCache(EMPTY, config.broker_session_timeout_ms / 1000 if fences_early else 0.0),
            token_secret=token_secret,
            telemetry=self.telemetry,
        )
        self.dispatcher = Dispatcher(self.services, unstable_versions=config[UNSTABLE_API_VERSIONS_ENABLE])
        self.states = states
        self.fatal = fatal
        self.wrap_dispatcher = wrap_dispatcher
        self.hurried: asyncio.Future[None] = loop.create_future()
        """Completed when a stop must no longer wait for other nodes."""
        self.bound_listeners: list[BoundListener] = []
        """Listeners with their ports, in the order of the configuration, followed by those added while the node runs."""
        self.recovery: dict[str, LoadProgress] = {}
        """Progress of loading by log directory, while logs are recovered."""
        # Parts of which each is None until its step has made it.
        self.log_manager: LogManager | None = None
        self.meters: Meters | None = None
        self.links: Links | None = None
        self.kraft: KRaftNode | None = None
        self.controller: ControllerParts | None = None
        self.replica_manager: ReplicaManager | None = None
        self.coordinators: Coordinators | None = None

    def hurry(self) -> None:
        """Complete `hurried`, so that a stop waits for no other node."""
        if not self.hurried.done():
            self.hurried.set_result(None)


def problem_of(error: BaseException, directory: str | None = None) -> OdradekError:
    """Return the error as an OdradekError with a one-line message. For an OSError the message begins with its file name, or else with
    `directory`, and the OSError is its cause.
    """
    if isinstance(error, KafkaError) and isinstance(error.__cause__, OSError):
        # A log has converted the OSError of its disk into an error for clients.
        error = error.__cause__
    if isinstance(error, OdradekError):
        return error
    if not isinstance(error, OSError):
        return StorageError(f"{type(error).__name__}: {error}")
    where = error.filename or directory
    reason = error.strerror or str(error)
    problem = StorageError(f"{where}: {reason}" if where else reason)
    problem.__cause__ = error
    return problem
