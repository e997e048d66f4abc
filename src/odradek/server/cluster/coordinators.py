"""Coordinators of a broker: made on first use, updated with leadership changes and each new image.

A broker without group or transaction requests that leads no partition of their topics does not even import their code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition
from odradek.config.definition import Key
from odradek.config.keys.groups import (
    GROUP_COORDINATOR_APPEND_LINGER_MS,
    OFFSETS_COMMIT_TIMEOUT_MS,
    OFFSETS_LOAD_BUFFER_SIZE,
    OFFSETS_TOPIC_COMPRESSION_CODEC,
    OFFSETS_TOPIC_NUM_PARTITIONS,
)
from odradek.config.keys.transactions import (
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS,
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS,
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE,
    TRANSACTION_STATE_LOG_NUM_PARTITIONS,
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from odradek.server.cluster.iteration_clock import IterationClock

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.base.errors import ErrorCode
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.partition_log import RunJob
    from odradek.coordinator.transaction.markers import Send
    from odradek.coordinator.transaction.service import ProducerIds, TransactionCoordinator
    from odradek.handlers.services import Channel, Services
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage
    from odradek.metadata.topics_delta import PartitionInfo
    from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.replication.transaction_verifier import ChannelVerifier
    from odradek.replication.verification import Again, Support
    from odradek.server.cluster.transactions_here import TransactionsHere

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"

Changed = Mapping[TopicPartition, "PartitionInfo"]


class _Runtime(Protocol):
    """Common interface of the runtimes of all coordinators."""

    def load(self, topic_partition: TopicPartition, leader_epoch: int, /) -> None: ...

    def unload(self, topic_partition: TopicPartition, leader_epoch: int | None, /) -> None: ...


class Coordinators:
    """Coordinators of one broker; a listener to leadership (`MetadataChanges.on_leadership`) and a part of `BrokerPublisher`."""

    def __init__(
        self,
        services: Services,
        replica_manager: ReplicaManager,
        producer_ids: ProducerIds,
        channel: Channel,
        run_job: RunJob,
    ) -> None:
        self._services = services
        self._replica_manager = replica_manager
        self._producer_ids = producer_ids
        self._channel = channel
        self._run_job = run_job
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._verifier: ChannelVerifier | None = None
        self._awaited: dict[Deferred[None], str] = {}
        self._iteration_clock = IterationClock(services.clock)
        """Loop iterations shared by the parts of transactions: verification, decisions and markers."""
        self._closed = False

    @property
    def made_verifier(self) -> ChannelVerifier | None:
        """Verifier that asks transaction coordinators; None before its first use."""
        return self._verifier

    @property
    def made_groups(self) -> GroupCoordinator | None:
        """Coordinator of groups; None before its first use."""
        return self._groups

    @property
    def made_transactions(self) -> TransactionCoordinator | None:
        """Coordinator of transactions; None before its first use."""
        return self._transactions

    @property
    def groups(self) -> GroupCoordinator:
        """Coordinator of groups, made on first use; after `close` it answers NOT_COORDINATOR."""
        if self._groups is None:
            self._groups = _new_group_coordinator(self._services, self._replica_manager, self._run_job)
            if self._closed:
                self._groups.close()
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Coordinator of transactions, made on first use; after `close` it answers NOT_COORDINATOR."""
        if self._transactions is None:
            self._transactions = _new_transaction_coordinator(
                self._services, self._replica_manager, self._producer_ids, self._channel, self._here(), self._run_job, self._iteration_clock
            )
            if self._closed:
                self._transactions.close()
        return self._transactions

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        support: Support,
        again: Again | None = None,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """Ask the transaction's coordinator, on any broker (`replication.verification.TransactionVerifier`)."""
        if self._verifier is None:
            self._verifier = _new_verifier(self._services, self._channel, self._here(), self._iteration_clock)
        return self._verifier.verify(transactional_id, producer_id, producer_epoch, partitions, support, again)

    def _here(self) -> TransactionsHere:
        from odradek.server.cluster.transactions_here import TransactionsHere

        return TransactionsHere(self._services.node_id, self._services.metadata, self._replica_manager, self)

    def _made(self, topic: str, *, make: bool) -> _Runtime | None:
        """Return the runtime of the coordinator whose state is in the topic; None for other topics, and without `make` for a missing
        coordinator.
        """
        if topic == GROUP_METADATA_TOPIC:
            return self.groups.runtime if make or self._groups is not None else None
        if topic == TRANSACTION_STATE_TOPIC:
            return self.transactions.runtime if make or self._transactions is not None else None
        return None

    def leadership_changed(self, leaders: Changed, followers: Changed, deleted: Collection[TopicPartition] = ()) -> None:
        """Load the shards of partitions that this broker now leads, and unload those of followed and deleted partitions.

        A partition may be led or followed already, in an older epoch. A deleted partition may be led again, empty.
        """
        for topic_partition in sorted(deleted):
            if (runtime := self._made(topic_partition.topic, make=False)) is not None:
                runtime.unload(topic_partition, None)
        for topic_partition, info in leaders.items():
            if (runtime := self._made(topic_partition.topic, make=True)) is not None:
                runtime.load(topic_partition, info.partition.leader_epoch)
        for topic_partition, info in followers.items():
            if (runtime := self._made(topic_partition.topic, make=False)) is not None:
                runtime.unload(topic_partition, info.partition.leader_epoch)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Hand the image to the coordinators, after the partitions have taken their roles."""
        for coordinator in (self._groups, self._transactions):
            if coordinator is not None:
                coordinator.publish(delta, image)
        if self._awaited:
            self._arrived([wait for wait, topic in self._awaited.items() if topic in image.topics.by_name])

    def await_topic(self, topic: str, timeout_s: float) -> Deferred[None]:
        """Return a Deferred that completes when this broker knows the topic and has taken its roles in it, after `timeout_s`, or with
        `close`.
        """
        wait: Deferred[None] = Deferred()
        if self._closed or topic in self._services.metadata.image.topics.by_name:
            wait.complete(None)
            return wait
        self._awaited[wait] = topic
        timer = self._services.clock.call_later(timeout_s, self._arrived, [wait])
        wait.add_callback(lambda _: timer.cancel())
        return wait

    def _arrived(self, waits: list[Deferred[None]]) -> None:
        for wait in waits:
            if self._awaited.pop(wait, None) is not None:
                wait.complete(None)

    def abort_timed_out_transactions(self) -> None:
        """Abort timed-out transactions; called every transaction.abort.timed.out.transaction.cleanup.interval.ms."""
        if self._transactions is not None:
            self._transactions.abort_timed_out()

    def remove_expired_transactional_ids(self) -> None:
        """Remove expired transactional ids; called every transaction.remove.expired.transaction.cleanup.interval.ms."""
        if self._transactions is not None:
            self._transactions.remove_expired()

    def close(self) -> None:
        """Close the coordinators. Waiting clients are sent to another coordinator."""
        self._closed = True
        for coordinator in (self._groups, self._transactions):
            if coordinator is not None:
                coordinator.close()
        self._arrived(list(self._awaited))


def _new_group_coordinator(services: Services, replica_manager: ReplicaManager, run_job: RunJob) -> GroupCoordinator:
    from odradek.base.ids import random_uuid
    from odradek.coordinator.context import RuntimeOptions
    from odradek.coordinator.group.memory import MemberMemory
    from odradek.coordinator.group.records import SERDE
    from odradek.coordinator.group.service import GroupCoordinator
    from odradek.coordinator.group.settings import GroupSettings
    from odradek.coordinator.group.shard import GroupShard
    from odradek.coordinator.partition_log import open_partition_log
    from odradek.coordinator.runtime import CoordinatorRuntime
    from odradek.records.compression import Compression

    config, clock = services.config, services.clock
    settings = GroupSettings(services.dynamic_config)
    memory = MemberMemory(clock.monotonic)
    runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
        "group coordinator",
        clock=clock,
        serde=SERDE,
        options=RuntimeOptions(
            compression=Compression(config[OFFSETS_TOPIC_COMPRESSION_CODEC]),
            linger_ms=config[GROUP_COORDINATOR_APPEND_LINGER_MS],
            load_buffer_bytes=config[OFFSETS_LOAD_BUFFER_SIZE],
            write_timeout_ms=config[OFFSETS_COMMIT_TIMEOUT_MS],
        ),
        open_log=open_partition_log(replica_manager, run_job, runs=True),
        new_shard=lambda partition, journal, timers: GroupShard(
            partition,
            journal,
            timers,
            settings=settings,
            time_ms=clock.time_ms,
            new_id=lambda: random_uuid(services.random),
            memory=memory,
        ),
        image=lambda: services.metadata.image,
    )
    memory.count = lambda: sum(runtime.each_active(lambda shard: shard.member_bytes()))
    return GroupCoordinator(
        runtime,
        settings,
        topic=GROUP_METADATA_TOPIC,
        partition_count=lambda: partition_count(services, GROUP_METADATA_TOPIC, OFFSETS_TOPIC_NUM_PARTITIONS),
        verify=_offsets_verifier(replica_manager),
    )


class _Leaders:
    """Destinations of markers: the leaders in the current image."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """See `coordinator.transaction.markers.MarkerDestinations`."""
        partition = self._services.metadata.image.topics.partition(topic_partition.topic, topic_partition.partition)
        return None if partition is None else partition.leader


def _marker_send(channel: Channel) -> Send:
    return lambda node, request: channel.send(node, request.API_KEY, request, 2)


def _new_transaction_coordinator(
    services: Services,
    replica_manager: ReplicaManager,
    producer_ids: ProducerIds,
    channel: Channel,
    here: TransactionsHere,
    run_job: RunJob,
    clock: Clock,
) -> TransactionCoordinator:
    from odradek.coordinator.context import RuntimeOptions
    from odradek.coordinator.partition_log import open_partition_log
    from odradek.coordinator.partitioning import partition_of
    from odradek.coordinator.transaction.markers import MarkerSender
    from odradek.coordinator.transaction.service import TransactionCoordinator, TransactionSettings

    config = services.config
    return TransactionCoordinator(
        clock=clock,
        options=RuntimeOptions(
            load_buffer_bytes=config[TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
            # The loop decodes each record, which takes ten times as long as the bulk of a group coordinator's records.
            load_slice_records=200,
        ),
        settings=TransactionSettings(
            max_timeout_ms=config[TRANSACTION_MAX_TIMEOUT_MS],
            expiration_ms=config[TRANSACTIONAL_ID_EXPIRATION_MS],
            two_phase_commit=config[TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
        ),
        producer_ids=producer_ids,
        markers=MarkerSender(clock, _Leaders(services), _marker_send(channel), here),
        open_log=open_partition_log(replica_manager, run_job),
        image=lambda: services.metadata.image,
        server_version=lambda: services.metadata.image.features.levels.get("transaction.version", 0),
        partition_of=lambda transactional_id: partition_of(
            transactional_id, partition_count(services, TRANSACTION_STATE_TOPIC, TRANSACTION_STATE_LOG_NUM_PARTITIONS)
        ),
    )


def _new_verifier(services: Services, channel: Channel, here: TransactionsHere, clock: Clock) -> ChannelVerifier:
    from odradek.coordinator.partitioning import partition_of
    from odradek.replication.transaction_verifier import ChannelVerifier

    def coordinator_of(transactional_id: str) -> int | None:
        topic = services.metadata.image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        partition = None if topic is None else topic.partitions.get(partition_of(transactional_id, len(topic.partitions)))
        return None if partition is None or partition.leader < 0 else partition.leader

    config = services.dynamic_config
    return ChannelVerifier(
        clock,
        lambda node, request, version: channel.send(node, request.API_KEY, request, version),
        coordinator_of,
        retry_ms=lambda: config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS],
        retry_max_ms=lambda: config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS],
        here=here,
    )


def partition_count(services: Services, topic: str, key: Key[int]) -> int:
    """Return the number of partitions of a coordinator's topic; before its creation, the value of `key`, with which the topic will be
    created.
    """
    found = services.metadata.image.topics.by_name.get(topic)
    return services.config[key] if found is None else len(found.partitions)


def _offsets_verifier(replica_manager: ReplicaManager) -> Callable[[TopicPartition, TxnOffsetCommitRequest, int], Deferred[object | None]]:
    """Return a function that verifies offsets with the producer's transaction coordinator.

    The coordinator confirms that the offsets belong to the producer's transaction, as for records (KIP-890).
    """
    from odradek.base.errors import ErrorCode, KafkaError
    from odradek.replication.verification import support_of_offset_commit

    appender = replica_manager.verified_appender

    def verify(partition: TopicPartition, request: TxnOffsetCommitRequest, api_version: int) -> Deferred[object | None]:
        support = support_of_offset_commit(api_version)
        if not appender.verify and not support.adds:
            return Deferred.of(None)
        try:
            log = replica_manager.partition(partition).local_log(-1, leader_only=True)
            guard = log.start_verification(request.producer_id, -1, request.producer_epoch, bumps_epoch=support.adds)
        except KafkaError as error:
            return Deferred.failed(error)
        if guard is None:
            return Deferred.of(None)

        def verified(refused: Mapping[TopicPartition, ErrorCode]) -> object | None:
            code = refused.get(partition, ErrorCode.NONE)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"the transaction of {request.transactional_id} could not be verified")
            return guard

        verdict = appender.verifier.verify(request.transactional_id, request.producer_id, request.producer_epoch, [partition], support)
        return verdict.then(verified, lambda _: verified({partition: ErrorCode.NETWORK_EXCEPTION}))

    return verify
