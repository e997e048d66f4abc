"""Publishers of a node: they apply each new image of the cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from odradek.base.deferred import Deferred
from odradek.base.notify import tell_each
from odradek.config.without_effect import TopicWarnings
from odradek.handlers.scopes import BROKER
from odradek.handlers.services import BrokerParts
from odradek.server.cluster.coordinators import Coordinators
from odradek.server.cluster.producer_ids import ProducerIdManager
from odradek.server.step import Step

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.config.dynamic_broker import DynamicBrokerConfig, SettingsRead
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.controller.kraft.node import KRaftNode
    from odradek.metadata.cache import MetadataCache
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import ConfigurationsImage, MetadataImage
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.server.cluster.internal_channel import Links
    from odradek.server.cluster.registration import BrokerRegistrar
    from odradek.server.start.node import Node
    from odradek.server.upkeep.replication_throttles import ReplicationThrottles
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

RunJob: TypeAlias = "Callable[[Callable[[], SettingsRead]], Deferred[SettingsRead]]"
"""Type of `Jobs.apart`."""
_TOPIC, _BROKER = 2, 4
"""Values of ConfigResource.Type."""


class BrokerSettings:
    """Settings of brokers in the metadata, applied with each image.

    Their files are read in a thread before the image is published (`MetadataLoader.before_publishing`): changes keep their order, and the
    loop does not wait for a disk.
    """

    def __init__(self, config: DynamicBrokerConfig, run_job: RunJob) -> None:
        self._config = config
        self._run_job = run_job
        self._read: tuple[ConfigurationsImage, SettingsRead] | None = None

    def prepare(self, image: MetadataImage) -> Deferred[None] | None:
        """Read the files that `apply` needs; return None when it needs no file. The Deferred never fails: after an error `apply` reads the
        files itself.
        """
        self._read = None
        node, cluster = self._settings(image)
        if not self._config.opens_files(node, cluster):
            return None
        prepared: Deferred[None] = Deferred()

        def read(done: Deferred[SettingsRead]) -> None:
            if done.error is not None:
                logger.error("the settings of brokers could not be read in a thread", exc_info=done.error)
            else:
                self._read = (image.configs, done.result())
            prepared.complete(None)

        self._run_job(partial(self._config.read, node, cluster)).add_callback(read)
        return prepared

    def apply(self, image: MetadataImage) -> None:
        """Apply the metadata's settings for this broker and for all brokers. Log a warning for each setting that cannot be applied."""
        read, self._read = self._read, None
        if read is not None and read[0] is image.configs:
            lines = self._config.take(read[1])
        else:
            lines = self._config.update(*self._settings(image))
        for line in lines:
            logger.warning("%s", line)

    def _settings(self, image: MetadataImage) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return image.configs.of(_BROKER, str(self._config.static.node_id)), image.configs.of(_BROKER, "")


class BrokerPublisher:
    """Publisher of a broker (kafka.server.metadata.BrokerMetadataPublisher).

    The image is published first, so that every later step sees it. Configurations, roles of partitions, coordinators and the heartbeat
    follow. When a step raises, the error is logged and the next steps still run, because no later image would repeat their changes.
    `count_errors` counts each error.
    """

    def __init__(
        self,
        config: DynamicBrokerConfig,
        cache: MetadataCache,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        coordinators: Coordinators,
        on_published: Callable[[MetadataImage], object],
        clock: Clock,
        throttles: ReplicationThrottles,
        count_errors: Callable[[int], object],
        run_job: RunJob,
    ) -> None:
        self.settings = BrokerSettings(config, run_job)
        self._clock = clock
        self._count_errors = count_errors
        self._config = config
        self._cache = cache
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self.coordinators = coordinators
        self._on_published = on_published
        self._throttles = throttles
        self._warnings = TopicWarnings()
        self.on_configured: Callable[[MetadataImage], object] | None = None
        """Called when changed configurations have been applied."""

    def prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        """Do slow work before `publish`; see `MetadataLoader.before_publishing`."""
        logs = self._replica_manager.changes.prepare(delta, image)
        settings = None if image.configs is self._cache.image.configs else self.settings.prepare(image)
        if logs is None or settings is None:
            return settings if logs is None else logs
        both: Deferred[None] = Deferred()
        logs.add_callback(lambda _: settings.add_callback(lambda _: both.complete(None)))
        return both

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        before = self._cache.image
        self._cache.publish(image, self._clock.monotonic())
        errors = tell_each(
            (
                lambda: self._apply_configs(image, before),
                lambda: self._count_errors(self._replica_manager.changes.apply(delta, image)),
                lambda: self.coordinators.publish(delta, image),
                lambda: self._on_published(image),
            )
        )
        self._count_errors(errors)

    def _apply_configs(self, image: MetadataImage, before: MetadataImage) -> None:
        if image.configs is before.configs:
            return
        known = before.configs.resources
        for resource, overrides in image.configs.resources.items():
            if resource[0] == _TOPIC and known.get(resource) is not overrides:
                for line in self._warnings.lines(resource[1], overrides.items()):
                    logger.warning("%s", line)
        steps: list[Callable[[MetadataImage], object]] = [
            self.settings.apply,
            self._throttles.configure,
            lambda _: self._log_manager.reconfigure(lambda topic: self._config.topic_config(image.configs.topic(topic))),
        ]
        errors = tell_each(steps if self.on_configured is None else [*steps, self.on_configured], image)
        self._count_errors(errors)


class FollowMetadata(Step[BrokerPublisher]):
    """Step that begins to follow the metadata log: each image updates the roles of partitions and the shards of coordinators."""

    name = "metadata"

    def __init__(
        self,
        node: Node,
        kraft: KRaftNode,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        links: Links,
        registrar: BrokerRegistrar,
        throttles: ReplicationThrottles,
    ) -> None:
        services = node.services
        self._kraft = kraft
        self._preparing: Deferred[None] | None = None
        producer_ids = ProducerIdManager(links.channel, node.config.node_id, lambda: registrar.broker_epoch)
        coordinators = Coordinators(services, replica_manager, producer_ids, links.channel, node.jobs.run)
        self._coordinators = node.coordinators = coordinators
        replica_manager.changes.on_leadership.append(self._coordinators.leadership_changed)
        replica_manager.verified_appender.verifier = self._coordinators
        node.dispatcher.serve(
            BROKER,
            BrokerParts(
                kraft=kraft,
                log_manager=log_manager,
                replica_manager=replica_manager,
                coordinators=coordinators,
                producer_ids=producer_ids,
                channel=links.channel,
                forwarder=links.forwarder,
            ),
        )
        self._publisher = BrokerPublisher(
            services.dynamic_config,
            services.metadata,
            log_manager,
            replica_manager,
            self._coordinators,
            registrar.metadata_changed,
            node.clock,
            throttles,
            kraft.loader.count_apply_errors,
            node.jobs.apart,
        )

    async def start(self) -> BrokerPublisher:
        reading = self._publisher.settings.prepare(self._kraft.image)
        if reading is not None:
            await reading
        self._kraft.add_publisher(self._publisher)
        self._kraft.loader.before_publishing = self._prepare
        return self._publisher

    def _prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        self._preparing = self._publisher.prepare(delta, image)
        return self._preparing

    async def stop(self) -> None:
        self._kraft.loader.before_publishing = None
        try:
            if self._preparing is not None:
                # Logs that are being made must be closed with the other logs.
                await self._preparing
        finally:
            self._kraft.loader.remove_publisher(self._publisher)
            self._coordinators.close()


class ControllerPublisher:
    """Publisher of a node without the broker role: updates its view of the cluster and its dynamic configuration."""

    def __init__(self, config: DynamicBrokerConfig, cache: MetadataCache, clock: Clock, run_job: RunJob) -> None:
        self._settings = BrokerSettings(config, run_job)
        self._cache = cache
        self._clock = clock

    def prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        """See `MetadataLoader.before_publishing`."""
        return None if image.configs is self._cache.image.configs else self._settings.prepare(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `controller.kraft.MetadataPublisher`."""
        before = self._cache.image
        self._cache.publish(image, self._clock.monotonic())
        if image.configs is not before.configs:
            self._settings.apply(image)


class FollowAsController(Step[None]):
    """Step that begins to follow the metadata log on a node without the broker role."""

    name = "controller_metadata"

    def __init__(self, node: Node, kraft: KRaftNode) -> None:
        self._kraft = kraft
        self._publisher = ControllerPublisher(node.services.dynamic_config, node.services.metadata, node.clock, node.jobs.apart)

    async def start(self) -> None:
        self._kraft.add_publisher(self._publisher)
        self._kraft.loader.before_publishing = self._publisher.prepare

    async def stop(self) -> None:
        self._kraft.loader.before_publishing = None
        self._kraft.loader.remove_publisher(self._publisher)
