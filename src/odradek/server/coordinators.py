"""The coordinators of a broker: made when they are first needed, told of leadership and of each new image.

A broker that nobody asks for a group, and that leads no partition of `__consumer_offsets`, does not even load their code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.partition_log import RunJob
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage
    from odradek.metadata.topics_delta import PartitionInfo
    from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from odradek.server.services import Services

GROUP_METADATA_TOPIC = "__consumer_offsets"

Changed = Mapping[TopicPartition, "PartitionInfo"]


class Coordinators:
    """One per broker; a listener to leadership (`MetadataChanges.on_leadership`) and a part of `BrokerPublisher`."""

    def __init__(self, services: Services, run_job: RunJob) -> None:
        self._services = services
        self._run_job = run_job
        self._groups: GroupCoordinator | None = None
        self._closed = False

    @property
    def groups(self) -> GroupCoordinator:
        """Made on first use; after `close` it answers NOT_COORDINATOR."""
        if self._groups is None:
            self._groups = _new_group_coordinator(self._services, self._run_job)
            if self._closed:
                self._groups.close()
        return self._groups

    def leadership_changed(self, leaders: Changed, followers: Changed) -> None:
        """This broker leads some partitions and follows others, since now or in a new epoch."""
        for topic_partition, info in leaders.items():
            if topic_partition.topic == GROUP_METADATA_TOPIC:
                self.groups.runtime.load(topic_partition, info.partition.leader_epoch)
        for topic_partition, info in followers.items():
            if topic_partition.topic == GROUP_METADATA_TOPIC and self._groups is not None:
                self._groups.runtime.unload(topic_partition, info.partition.leader_epoch)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """After the partitions have taken their roles."""
        if self._groups is not None:
            self._groups.publish(delta, image)

    def close(self) -> None:
        """Whoever waits is sent to another coordinator."""
        self._closed = True
        if self._groups is not None:
            self._groups.close()


def _new_group_coordinator(services: Services, run_job: RunJob) -> GroupCoordinator:
    from odradek.base.ids import random_uuid
    from odradek.coordinator.context import RuntimeOptions
    from odradek.coordinator.group.records import SERDE
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.group.settings import GroupSettings
    from odradek.coordinator.group.shard import GroupShard
    from odradek.coordinator.partition_log import open_partition_log
    from odradek.coordinator.runtime import CoordinatorRuntime
    from odradek.records.compression import Compression

    config, clock = services.config, services.clock
    settings = GroupSettings(services.dynamic_config)
    runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
        "group coordinator",
        clock=clock,
        serde=SERDE,
        options=RuntimeOptions(
            compression=Compression(config.integer("offsets.topic.compression.codec")),
            linger_ms=config.integer("group.coordinator.append.linger.ms"),
            load_buffer_bytes=config.integer("offsets.load.buffer.size"),
            write_timeout_ms=config.integer("offsets.commit.timeout.ms"),
        ),
        open_log=open_partition_log(services.replica_manager, run_job, clock),
        new_shard=lambda partition, journal, timers: GroupShard(
            partition, journal, timers, settings=settings, time_ms=clock.time_ms, new_id=lambda: random_uuid(services.random)
        ),
        image=lambda: services.metadata.image,
    )
    return GroupCoordinator(
        runtime,
        settings,
        topic=GROUP_METADATA_TOPIC,
        partition_count=lambda: partition_count(services, GROUP_METADATA_TOPIC, "offsets.topic.num.partitions"),
        verify=_verifier(services),
    )


def partition_count(services: Services, topic: str, key: str) -> int:
    """Of a coordinator's topic; what it will be created with (`key`) while it does not exist."""
    found = services.metadata.image.topics.by_name.get(topic)
    return services.config.integer(key) if found is None else len(found.partitions)


def _verifier(services: Services) -> Callable[[TopicPartition, TxnOffsetCommitRequest, int], Deferred[object | None]]:
    """Has the producer's transaction coordinator confirm that the offsets belong to its transaction, as for records (KIP-890)."""
    from odradek.base.errors import ErrorCode, KafkaError
    from odradek.replication.verification import support_of_offset_commit

    producer = services.replica_manager.producer

    def verify(partition: TopicPartition, request: TxnOffsetCommitRequest, api_version: int) -> Deferred[object | None]:
        support = support_of_offset_commit(api_version)
        if not producer.verify and not support.adds:
            return Deferred.of(None)
        try:
            log = services.replica_manager.partition(partition).local_log(-1, leader_only=True)
            guard = log.start_verification(request.producer_id, -1, request.producer_epoch)
        except KafkaError as error:
            return Deferred.failed(error)
        if guard is None:
            return Deferred.of(None)
        result: Deferred[object | None] = Deferred()

        def verified(done: Deferred[Mapping[TopicPartition, ErrorCode]]) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if done.error is not None else done.result().get(partition, ErrorCode.NONE)
            if code is ErrorCode.NONE:
                result.complete(guard)
            else:
                result.fail(KafkaError(code, f"the transaction of {request.transactional_id} could not be verified"))

        producer.verifier.verify(request.transactional_id, request.producer_id, request.producer_epoch, [partition], support).add_callback(
            verified
        )
        return result

    return verify
