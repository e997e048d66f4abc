"""A node: everything wired together, started and stopped in the order of `server.boot`.

`Broker(config).start()` serves a whole broker (and its controller) inside any event loop; tests and the simulator hand in their own clock,
disk and randomness, and a loop whose network and executor are theirs.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from odradek.base.errors import ConfigError, OdradekError, StorageError
from odradek.base.ids import TopicPartition, random_uuid
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.config.without_effect import ineffective
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.metadata.image import EMPTY
from odradek.network.acceptor import Acceptor, BoundListener, Listener
from odradek.server.boot import STEPS, Step
from odradek.server.channel import Forwarder, InterBrokerChannel
from odradek.server.clock import LoopClock
from odradek.server.dispatch import Dispatcher
from odradek.server.jobs import Jobs, as_future
from odradek.server.lifecycle import BrokerState, BrokerStateMachine
from odradek.server.metadata_cache import MetadataCache
from odradek.server.reconfiguration import acceptor_limits, follow_limits, follow_producer_settings
from odradek.server.services import Services

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.disk import Disk
    from odradek.config.broker import BrokerConfig
    from odradek.config.listeners import Endpoint
    from odradek.config.topic import TopicConfig
    from odradek.server.cleaning import LogCleaner
    from odradek.server.controller_registration import ControllerRegistrar
    from odradek.server.registration import AdvertisedListener, BrokerRegistration
    from odradek.server.tasks import BrokerTasks
    from odradek.storage.loading import DirectoryLoading, LoadProgress
    from odradek.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S = 5.0
_LEAVE_TIMEOUT_S = 5.0


class StartError(OdradekError):
    """The node cannot be started; one line."""


class Broker:
    """One node of a cluster, by the roles of its configuration."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        format_if_empty: bool = False,
    ) -> None:
        """`loop` (default: the running one) also brings the network and the executor.

        `format_if_empty`: a node whose directories are all unformatted formats them itself, as a cluster of its own.
        """
        if not config.is_controller:
            raise ConfigError("process.roles: a node without the controller role needs other nodes, which are not served yet")
        self.config = config
        self.loop = loop or asyncio.get_running_loop()
        self.clock: Clock = clock or LoopClock(self.loop)
        self.random = rng or random.Random()
        if disk is None:
            from odradek.storage.disk import OsDisk

            disk = OsDisk()
        self.disk: Disk = disk
        self.format_if_empty = format_if_empty
        self.jobs = Jobs(self.loop)
        self.states = BrokerStateMachine()
        self.services = Services()
        self.start_seconds = 0.0
        self.on_fatal: Callable[[OdradekError], object] | None = None
        """Called when the node cannot go on: the last log directory failed, or the metadata log did."""
        self._started: list[Step] = []
        self._stopping: asyncio.Future[None] | None = None
        self._directory_ids: dict[str, UUID] = {}
        self._unusable: dict[str, Exception] = {}
        """Log directories without a readable meta.properties."""
        self._bound: dict[str, BoundListener] = {}
        self._logs_loaded = False
        self._failure: BaseException | None = None
        self._registration: BrokerRegistration | None = None
        self._registrar: ControllerRegistrar | None = None
        self._tasks: BrokerTasks | None = None
        self._cleaner: LogCleaner | None = None
        self._progress_at = 0.0
        services = self.services
        services.config = config
        services.dynamic_config = DynamicBrokerConfig(config)
        services.clock = self.clock
        services.random = self.random
        services.disk = disk
        services.node_id = config.node_id
        services.metadata = MetadataCache(EMPTY)
        services.bound_listeners = []

    # -- life ------------------------------------------------------------------------------------------------------------------

    @property
    def bound_listeners(self) -> list[BoundListener]:
        """The listeners with their ports, in the order of the configuration."""
        return self.services.bound_listeners

    def port(self, listener: str | None = None) -> int:
        """The port of a listener, by default of the first one for clients."""
        if listener is not None:
            return self._bound[listener].port
        return next(bound.port for bound in self.bound_listeners if bound.scope == BROKER)

    async def start(self) -> None:
        """Returns when clients are served. Raises OdradekError, one line, when the node cannot start; call `stop` then, too."""
        begin = self.clock.monotonic()
        for line in ineffective(self.config.given):
            logger.warning("%s", line)
        self.states.to(BrokerState.STARTING)
        roles = self.config.process_roles
        for step in STEPS:
            if step.roles & roles:
                self._started.append(step)
                await getattr(self, f"start_{step.name}")()
        self.start_seconds = self.clock.monotonic() - begin

    async def stop(self) -> None:
        """Shuts down in order, from whatever has been started. A second call waits for the first."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            return
        self._stopping = self.loop.create_future()
        try:
            await self._stop()
        finally:
            self._stopping.set_result(None)

    async def _stop(self) -> None:
        while self._started:
            step = self._started.pop()
            stop = getattr(self, f"stop_{step.name}", None)
            if stop is None:
                continue
            try:
                await asyncio.wait_for(stop(), step.stop_timeout_s)
            except TimeoutError:
                logger.error("stopping %s took longer than %.0f s; going on", step.name, step.stop_timeout_s)
            except Exception:
                logger.exception("stopping %s failed; going on", step.name)
        if self.states.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self.states.to(BrokerState.SHUTTING_DOWN)
        if self.states.state is BrokerState.SHUTTING_DOWN:
            self.states.to(BrokerState.NOT_RUNNING)

    def _fatal(self, error: BaseException) -> None:
        if isinstance(error, OdradekError):
            problem = error
        else:
            problem = self._disk_problem(error) if isinstance(error, OSError) else StorageError(str(error))
        if self.on_fatal is not None:
            self.on_fatal(problem)
        else:
            logger.critical("this node cannot go on: %s", problem)

    def _disk_problem(self, error: OSError) -> StorageError:
        """One line that names the file, or at least the directory."""
        return StorageError(f"{error.filename or self.config.metadata_log_dir}: {error.strerror or error}")

    # -- identity and directories ----------------------------------------------------------------------------------------------

    def _all_directories(self) -> list[str]:
        directories = list(self.config.log_dirs) if self.config.is_broker else []
        if self.config.metadata_log_dir not in directories:
            directories.append(self.config.metadata_log_dir)
        return directories

    async def start_identity(self) -> None:
        from odradek.storage.meta_properties import complete_identities, read_identities, verify_identities

        directories = self._all_directories()
        identities = read_identities(self.disk, directories)
        if self.format_if_empty and not identities.formatted and not identities.failed:
            self._format()
            identities = read_identities(self.disk, directories)
        verify_identities(identities, metadata_directory=self.config.metadata_log_dir, node_id=self.config.node_id)
        complete = complete_identities(self.disk, identities, lambda: random_uuid(self.random))
        self._unusable = identities.failed
        verify_identities(identities, metadata_directory=self.config.metadata_log_dir, node_id=self.config.node_id)
        for directory, properties in complete.items():
            assert properties.directory_id is not None
            self._directory_ids[directory] = properties.directory_id
            self.services.cluster_id = properties.cluster_id

    def _format(self) -> None:
        from odradek.controller.format import format_storage, random_uuid

        result = format_storage(
            self.disk,
            self.config,
            cluster_id=random_uuid(self.random),
            rng=self.random,
            now_ms=self.clock.time_ms(),
            standalone=not self.config.controller_quorum_voters,
        )
        for line in result.lines:
            logger.info("%s", line)

    async def start_directories(self) -> None:
        from odradek.server.log_directories import LogDirectories
        from odradek.storage.log_manager import LogManager

        self.services.log_manager = LogManager(
            self.disk,
            self.clock,
            self._all_directories(),
            self.config,
            random=self.random,
            directory_ids=self._directory_ids,
            producer_expiration_ms=self.config.integer("producer.id.expiration.ms"),
            verify_transactions=self.config.flag("transaction.partition.verification.enable"),
            new_lock=threading.Lock,
        )
        self._directories = LogDirectories(
            self.services.dynamic_config, self.services.log_manager, self._directory_ids, self._directories_failed
        )
        for path, error in self._unusable.items():
            self.services.log_manager.directory_failed(path, error)
        self.services.log_manager.lock_directories()
        self._raise_failure()

    async def stop_directories(self) -> None:
        log_manager = self.services.log_manager
        if self._logs_loaded:
            epoch = self._registration.broker_epoch if self._registration is not None else -1
            await as_future(self.loop, self.jobs.run(lambda: log_manager.shutdown(epoch)))
        for directory in log_manager.directories:
            directory.release()

    def _directories_failed(self, error: BaseException) -> None:
        """No log directory is left, or that of the metadata failed."""
        self._failure = error
        self._fatal(error)

    def _raise_failure(self) -> None:
        """For steps of the start that find out after they have begun."""
        if self._failure is not None:
            raise self._failure

    # -- network ---------------------------------------------------------------------------------------------------------------

    async def start_listeners(self) -> None:
        config = self.config
        self._dispatcher = self.services.dispatcher = Dispatcher(
            self.services, unstable_versions=config.flag("unstable.api.versions.enable")
        )
        self._acceptor = Acceptor(
            self.loop, self.clock, self._dispatcher, acceptor_limits(config), backlog=config.integer("socket.listen.backlog.size")
        )
        follow_limits(self.services.dynamic_config, self._acceptor)
        controller_names = config.controller_listener_names
        for endpoint in config.listeners:
            scope = CONTROLLER if endpoint.listener in controller_names else BROKER
            if endpoint.security_protocol != "PLAINTEXT":
                raise ConfigError(f"listeners: {endpoint.listener} asks for {endpoint.security_protocol}; only PLAINTEXT is served yet")
            bound = await self._acceptor.bind(Listener(endpoint.listener, scope, endpoint.host, endpoint.port))
            self._bound[endpoint.listener] = bound
            self.services.bound_listeners.append(bound)

    async def stop_listeners(self) -> None:
        await self._acceptor.close()

    async def start_dispatch(self) -> None:
        controller_names = self.config.controller_listener_names
        names = {CONTROLLER: controller_names[0], BROKER: self.config.inter_broker_listener_name}
        channel = InterBrokerChannel(self.config.node_id, self.clock, self._dispatcher, listener_names=names)
        self.services.channel = channel
        self.services.forwarder = Forwarder(channel, self.clock, self._dispatcher)
        self._dispatcher.forward = self.services.forwarder.forward

    async def stop_dispatch(self) -> None:
        self.services.channel.close()

    async def start_controller_listeners(self) -> None:
        await self._serve(CONTROLLER)

    async def _serve(self, scope: str) -> None:
        for bound in self.bound_listeners:
            if bound.scope == scope:
                await self._acceptor.serve(bound)

    async def start_broker_listeners(self) -> None:
        await self._serve(BROKER)

    async def stop_broker_listeners(self) -> None:
        controlled = self.config.flag("controlled.shutdown.enable")
        if controlled and self.states.state is BrokerState.RUNNING and self._registration is not None:
            self.states.to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            try:
                await asyncio.wait_for(as_future(self.loop, self._registration.leave()), _LEAVE_TIMEOUT_S)
            except TimeoutError:
                logger.warning("the controller did not let this broker go in %.0f s; leaving anyway", _LEAVE_TIMEOUT_S)
        self._acceptor.close_listeners()
        self._acceptor.quiesce()

    # -- quorum ----------------------------------------------------------------------------------------------------------------

    async def start_quorum(self) -> None:
        from odradek.consensus.voters import Endpoint
        from odradek.controller.kraft.node import KRaftNode

        config, services = self.config, self.services
        endpoints = [
            Endpoint(each.listener, each.host or "localhost", each.port or self._bound[each.listener].port)
            for each in config.advertised_controller_listeners
        ]
        services.kraft = KRaftNode(
            config=config,
            cluster_id=services.cluster_id,
            directory_id=self._directory_ids[config.metadata_log_dir],
            disk=self.disk,
            clock=self.clock,
            rng=self.random,
            loop=self.loop,
            endpoints=endpoints,
            on_fault=self._fatal,
        )
        try:
            services.kraft.start()
        except OSError as error:
            raise self._disk_problem(error) from error
        await as_future(self.loop, services.kraft.caught_up)
        services.incarnation_id = self._new_incarnation_id()

    def _new_incarnation_id(self) -> UUID:
        """One that no registration carries: taken for its own past life, which was told to shut down, a broker would stay so for ever."""
        cluster = self.services.kraft.image.cluster
        known = {node.incarnation_id for nodes in (cluster.brokers, cluster.controllers) for node in nodes.values()}
        while True:
            # Randomness that begins as in the last start (a test's, a simulation's) would say the same again.
            incarnation_id = random_uuid(self.random)
            if incarnation_id not in known:
                return incarnation_id

    async def stop_quorum(self) -> None:
        self.services.kraft.stop()

    # -- logs and replicas -----------------------------------------------------------------------------------------------------

    async def start_logs(self) -> None:
        from odradek.server.publisher import apply_broker_settings

        image = self.services.kraft.image
        log_manager = self.services.log_manager
        dynamic_config = self.services.dynamic_config
        apply_broker_settings(dynamic_config, image)

        configs: dict[str, TopicConfig] = {}

        def topic_config(topic_partition: TopicPartition) -> TopicConfig:
            topic = topic_partition.topic
            config = configs.get(topic)
            if config is None:
                config = configs[topic] = dynamic_config.topic_config(image.configs.topic(topic))
            return config

        def is_stray(topic_partition: TopicPartition, topic_id: UUID | None) -> bool:
            if topic_id is None:
                return True
            partition = image.topics.partition_by_id(topic_id, topic_partition.partition)
            return partition is None or self.config.node_id not in partition.replicas

        workers = dynamic_config.integer("num.recovery.threads.per.data.dir")

        def assigned(topic_partition: TopicPartition, topic_id: UUID | None) -> UUID | None:
            partition = None if topic_id is None else image.topics.partition_by_id(topic_id, topic_partition.partition)
            return partition.directory(self.config.node_id) if partition and self.config.node_id in partition.replicas else None

        async def load(directory: LogDirectory) -> DirectoryLoading:
            loading = log_manager.begin_loading(directory, topic_config, self._report)
            # A pool for each directory: a slow disk does not take the threads from the others.
            with self.jobs.pool(workers) as run:
                await as_future(self.loop, run(loading.open))
                await asyncio.gather(*[as_future(self.loop, run(loading.work)) for _ in range(workers)])
            return loading

        for loading in await asyncio.gather(*[load(directory) for directory in log_manager.online_directories]):
            log_manager.adopt(loading, is_stray)
        self._raise_failure()
        log_manager.settle_moves(assigned)
        self._raise_failure()
        self._logs_loaded = True

    def _report(self, progress: LoadProgress) -> None:
        """Says every few seconds how far loading is; runs in the loading threads."""
        now = self.clock.monotonic()
        if self._progress_at == 0.0:
            self._progress_at = now + _PROGRESS_INTERVAL_S
        elif now >= self._progress_at:
            self._progress_at = now + _PROGRESS_INTERVAL_S
            logger.info(
                "loading %s: log %d of %d (%s), segment %d of %d, %.0f MB/s",
                progress.directory,
                progress.done + 1,
                progress.total,
                progress.log,
                progress.segments_done,
                progress.segments_total,
                progress.bytes_per_second / 1e6,
            )

    async def start_replicas(self) -> None:
        from odradek.replication.replica_manager import ReplicaManager
        from odradek.server.assignments import AssignmentsManager
        from odradek.server.senders import alter_partition_sender

        services = self.services
        self._assignments = AssignmentsManager(
            services.channel, self.clock, self.config.node_id, self._broker_epoch, lambda: services.metadata.image
        )
        services.replica_manager = ReplicaManager(
            self.config,
            clock=self.clock,
            disk=self.disk,
            rng=self.random,
            log_manager=services.log_manager,
            metadata=services.metadata,
            send_alter_partition=alter_partition_sender(services.channel),
            broker_epoch=self._broker_epoch,
            run_job=self.jobs.run,
            dynamic_config=services.dynamic_config,
            assign=self._assignments.assign,
        )
        self._directories.replica_manager = services.replica_manager
        follow_producer_settings(services.dynamic_config, services.log_manager, services.replica_manager)

    def _broker_epoch(self) -> int:
        return self._registration.broker_epoch if self._registration is not None else -1

    async def stop_replicas(self) -> None:
        self._assignments.close()
        self.services.replica_manager.close()
        # The answers that this set free go out before the logs close.
        await self._acceptor.close()

    async def start_metadata(self) -> None:
        from odradek.server.coordinators import Coordinators
        from odradek.server.producer_ids import ProducerIdManager
        from odradek.server.publisher import BrokerPublisher

        services = self.services
        coordinators = services.coordinators = Coordinators(services, self.jobs.run)
        services.replica_manager.changes.on_leadership.append(coordinators.leadership_changed)
        services.replica_manager.verified_appender.verifier = coordinators
        services.producer_ids = ProducerIdManager(services.channel, self.config.node_id, self._broker_epoch)
        self._publisher = BrokerPublisher(
            services.dynamic_config,
            services.metadata,
            services.log_manager,
            services.replica_manager,
            coordinators,
            self._metadata_changed,
        )
        services.kraft.add_publisher(self._publisher)

    async def stop_metadata(self) -> None:
        self.services.kraft.loader.remove_publisher(self._publisher)
        self.services.coordinators.close()

    def _metadata_changed(self) -> None:
        registration = self._registration
        if registration is not None:
            registration.metadata_changed()
            if registration.needs_refresh(self.services.metadata.image):
                registration.refresh()

    async def start_tasks(self) -> None:
        from odradek.server.tasks import BrokerTasks

        services = self.services
        config = services.dynamic_config
        self._tasks = BrokerTasks(config, self.clock, self.jobs, services.log_manager, services.replica_manager, services.coordinators)
        self._tasks.configured(services.metadata.image)
        self._publisher.on_configured = self._tasks.configured

    async def stop_tasks(self) -> None:
        if self._tasks is not None:
            self._tasks.stop()

    async def start_cleaner(self) -> None:
        config = self.services.dynamic_config
        if not config.flag("log.cleaner.enable"):
            return
        from odradek.server.cleaning import LogCleaner

        self._cleaner = LogCleaner(config, self.clock, self.jobs, self.disk, self.services.log_manager)
        self._cleaner.start()

    async def stop_cleaner(self) -> None:
        if self._cleaner is not None:
            await as_future(self.loop, self._cleaner.stop())

    # -- registration ----------------------------------------------------------------------------------------------------------

    async def start_registration(self) -> None:
        from odradek.server.registration import BrokerRegistration, Identity

        config, services = self.config, self.services
        log_manager = services.log_manager
        identity = Identity(
            config.node_id,
            services.cluster_id,
            services.incarnation_id,
            self._reached_at(config.advertised_listeners),
            config.rack,
            self._directories.online_ids,
            log_manager.previous_broker_epoch,
        )
        self._registration = BrokerRegistration(
            identity,
            services.channel,
            self.clock,
            self.states,
            heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
            session_timeout_s=config.broker_session_timeout_ms / 1000,
            metadata_offset=lambda: services.metadata.image.offset,
            offline_log_dirs=lambda: self._directories.offline_ids,
            cordoned_log_dirs=lambda: self._directories.cordoned_ids,
            failure_timeout_s=config.integer("log.dir.failure.timeout.ms") / 1000,
            on_fatal=self._fatal,
        )
        self._directories.registration = self._registration
        self._registration.ready()
        self._registration.start()
        patience_ms = config.integer("initial.broker.registration.timeout.ms")
        try:
            await asyncio.wait_for(as_future(self.loop, self._registration.registered), patience_ms / 1000)
        except TimeoutError:
            raise StartError(f"the controller did not register this broker within {patience_ms} ms") from None
        await as_future(self.loop, self._registration.running)

    async def stop_registration(self) -> None:
        if self._registration is not None:
            self._registration.stop()

    async def start_controller_registration(self) -> None:
        from odradek.server.controller_registration import ControllerRegistrar

        services = self.services
        listeners = self._reached_at(self.config.advertised_controller_listeners)
        incarnation_id = self._new_incarnation_id()
        self._registrar = ControllerRegistrar(self.config.node_id, incarnation_id, listeners, services.channel, self.clock, self.random)
        services.kraft.add_publisher(self._registrar)

    async def stop_controller_registration(self) -> None:
        if self._registrar is not None:
            self._registrar.stop()
            self.services.kraft.loader.remove_publisher(self._registrar)

    def _reached_at(self, endpoints: list[Endpoint]) -> list[AdvertisedListener]:
        from odradek.server.registration import AdvertisedListener

        return [
            AdvertisedListener(
                each.listener,
                each.host or _host_name(),
                each.port or self._bound[each.listener].port,
                SECURITY_PROTOCOLS[each.security_protocol],
            )
            for each in endpoints
        ]


def _host_name() -> str:
    """The name under which a listener without a host is advertised, as Kafka asks the system for it."""
    import socket

    return socket.getfqdn()
