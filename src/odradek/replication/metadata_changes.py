"""Application of metadata to the hosted partitions (kafka.server.ReplicaManager.applyDelta).

1. Partitions that this broker no longer hosts are removed first: a topic of the same name may have been created since.
2. New partitions get a log (or find the one on disk), with the high watermark of the last checkpoint. `prepare` has made most of them. An
   older replica gets no empty log while a log directory is offline, because its records may be there. The controller is then told that the
   replica is lost, so that another replica leads until the directory is back.
3. Leaders and followers take their roles. A directory that fails on the way leaves the partition offline.
4. When flush.messages makes a flush due for a new leader's log, the log is flushed. Until then its high watermark does not advance.
5. Waiting requests that the changes affect are answered at the end.

A partition whose log finds no file descriptor is offline; every second its role is tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.disk import out_of_descriptors
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicIdPartition, TopicPartition
from odradek.base.notify import tell_each
from odradek.base.timing import Alarm
from odradek.metadata.registrations import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from odradek.metadata.topics_delta import PartitionInfo
from odradek.replication.partition import Partition
from odradek.replication.roles import NO_LEADER, Role
from odradek.storage.creation import LogCreation, WantedLog

if TYPE_CHECKING:
    from odradek.config.topic import TopicConfig
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.storage.log import Log
    from odradek.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

_AGAIN_S = 1.0
_MOST_AT_ONCE = 50
"""Most logs that are opened in one loop iteration."""

Changed = Mapping[TopicPartition, "PartitionInfo"]


class FollowerFetchers(Protocol):
    """Fetchers of followers. Each method is called at most once for each change of the metadata."""

    def start(self, partitions: Sequence[Partition]) -> None:
        """Begin to fetch each partition from its `leader_id`, at the local log end and in its leader epoch. Skip partitions without a
        leader.
        """
        ...

    def stop(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions; unknown partitions are ignored. Responses that arrive later are dropped."""
        ...


class NoFetchers:
    """Fetchers of a node that is the whole cluster: it logs a warning when a partition should be fetched."""

    def start(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            if partition.leader_id != NO_LEADER:
                logger.warning(
                    "%s follows broker %d, but this node does not fetch from other brokers", partition.topic_partition, partition.leader_id
                )

    def stop(self, topic_partitions: Collection[TopicPartition]) -> None:
        pass


class MetadataChanges:
    """Metadata publisher: the server calls `apply` with each new image, and may call `prepare` before."""

    def __init__(self, manager: ReplicaManager, log_manager: LogManager) -> None:
        self._manager = manager
        self._log_manager = log_manager
        self._image: MetadataImage | None = None
        """Image of the last `apply`."""
        self._without_descriptor: dict[TopicPartition, bool] = {}
        """Partitions whose logs found no file descriptor, with whether the replica is new."""
        self._preparing = False
        self._again = Alarm(manager.clock, self._try_again)
        self._began = False
        """Whether the metadata has been applied once. The first metadata may be older than this start of the broker."""
        self.fetchers: FollowerFetchers = NoFetchers()
        self.on_leadership: list[Callable[[Changed, Changed, Collection[TopicPartition]], object]] = []
        """Callbacks with the changed (leaders, followers, deleted), after the roles are taken: coordinators load and unload. A deleted
        partition may be among the leaders, too, when its topic was created again.
        """

    def prepare(self, delta: MetadataDelta, image: MetadataImage) -> Deferred[None] | None:
        """Create the logs that `apply` will need, off the loop. Return None when no log has to be created.

        The caller calls `apply` with the same delta when the deferred is done, and with no other delta before. The deferred never fails:
        `apply` meets the same errors again.
        """
        changes = delta.topics.local_changes(self._manager.local_id)
        wanted = [
            WantedLog(
                topic_partition,
                info.topic_id,
                self._topic_config(topic_partition.topic, image),
                self._directory_of(info),
                self._is_new(topic_partition, info, delta),
            )
            for taken in (changes.leaders, changes.followers)
            for topic_partition, info in taken.items()
            if self._log_manager.get_log(topic_partition) is None
        ]
        creation = self._log_manager.begin_creation(wanted)
        if creation is None:
            return None
        prepared: Deferred[None] = Deferred()
        self._preparing = True
        self._make(wanted, creation, prepared)
        return prepared

    def _make(self, wanted: list[WantedLog], creation: LogCreation, prepared: Deferred[None]) -> None:
        """Run the job. When a log directory failed during the job, run another job for the missing logs."""

        def made(job: Deferred[None]) -> None:
            if job.error is not None:
                logger.error("the task that creates logs failed", exc_info=job.error)
            self._log_manager.finish_creation(creation)
            failed = any(not out_of_descriptors(error) for _, error in creation.failed)
            rest = self._log_manager.begin_creation(wanted) if failed else None
            if rest is None:
                prepared.complete(None)
            else:
                self._make(wanted, rest, prepared)

        self._manager.run_job(creation.run).add_callback(made)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> int:
        """Change the partitions from the delta's base to `image`. Return how many subscribers of leadership raised."""
        self._image = image
        self._preparing = False
        changes = delta.topics.local_changes(self._manager.local_id)
        following: list[Partition] = []
        unflushed: list[Partition] = []
        stopped = {*changes.deletes, *changes.leaders}
        for topic_partition in sorted(changes.deletes):
            self._without_descriptor.pop(topic_partition, None)
            self._delete(topic_partition)
        for topic_partition, info in changes.leaders.items():
            is_new = self._is_new(topic_partition, info, delta)
            partition = self._take_role(topic_partition, info, image, is_new=is_new, leads=True)
            if partition is not None:
                self._manager.delayed.followers.expect(partition.replicas.values())
                if partition.log is not None and partition.log.flush_due:
                    unflushed.append(partition)
        for topic_partition, info in changes.followers.items():
            is_new = self._is_new(topic_partition, info, delta)
            partition = self._take_role(topic_partition, info, image, is_new=is_new, leads=False)
            if partition is not None:
                stopped.add(topic_partition)
                following.append(partition)
        if stopped:
            self.fetchers.stop(sorted(stopped))
        if following:
            self.fetchers.start(following)
        errors = tell_each(self.on_leadership, changes.leaders, changes.followers, changes.deletes)
        self._flush(unflushed)
        self._let_go_of(_brokers_that_lost(delta))
        self._began = True
        self._manager.delayed.drain()
        return errors

    def _flush(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._manager.flusher.flush(partition).add_callback(lambda _: self._manager.delayed.drain())

    def _let_go_of(self, broker_ids: frozenset[int]) -> None:
        """Raise high watermarks that replicas outside of the ISR on these brokers may have held back."""
        if broker_ids:
            for partition in self._manager.partitions.by_name.values():
                if not broker_ids.isdisjoint(partition.replicas):
                    partition.raise_high_watermark()

    def _is_new(self, topic_partition: TopicPartition, info: PartitionInfo, delta: MetadataDelta) -> bool:
        """Return whether this broker has just been given the replica: the metadata before `delta` does not place it here.

        A replica whose log could not be created for lack of a file descriptor keeps its earlier answer.
        """
        if topic_partition in self._without_descriptor:
            return self._without_descriptor[topic_partition]
        before = delta.topics.image.partition_by_id(info.topic_id, topic_partition.partition)
        return self._began and (before is None or self._manager.local_id not in before.replicas)

    def _topic_config(self, topic: str, image: MetadataImage) -> TopicConfig:
        return self._manager.dynamic_config.topic_config(image.configs.topic(topic))

    def _directory_of(self, info: PartitionInfo) -> UUID:
        return info.partition.directory(self._manager.local_id)

    def _delete(self, topic_partition: TopicPartition) -> None:
        partition = self._manager.remove(topic_partition)
        if partition is None:
            return
        try:
            self._log_manager.delete_log(topic_partition)
        except (KafkaError, OSError):
            logger.exception("the log of %s could not be deleted", topic_partition)

    def _take_role(
        self, topic_partition: TopicPartition, info: PartitionInfo, image: MetadataImage, *, is_new: bool, leads: bool
    ) -> Partition | None:
        """Give the partition its role. Return it when it begins to lead, or is a follower in a new epoch, with or without a leader."""
        partition = self._partition(topic_partition, info.topic_id)
        try:
            log = partition.log or self._open_log(topic_partition, info, image, is_new=is_new)
            begins = partition.make_leader(info.partition, log) if leads else partition.make_follower(info.partition, log)
            self._manager.future_replicas.resume(partition)
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                logger.error("%s cannot be served: %s", topic_partition, error)
            if partition.role is not Role.OFFLINE:
                partition.mark_offline()
            if out_of_descriptors(error):
                self._without_descriptor[topic_partition] = is_new
                if not self._again.is_set:
                    self._again.set(_AGAIN_S)
            else:
                self._without_descriptor.pop(topic_partition, None)
            return None
        self._without_descriptor.pop(topic_partition, None)
        return partition if begins else None

    def _try_again(self) -> None:
        """Retry the roles of the partitions whose logs found no file descriptor."""
        if self._preparing:
            # A job creates logs for the next change of the metadata, perhaps the same logs.
            self._again.set(_AGAIN_S)
            return
        image = self._image
        assert image is not None
        leaders: dict[TopicPartition, PartitionInfo] = {}
        followers: dict[TopicPartition, PartitionInfo] = {}
        followed: list[Partition] = []
        unflushed: list[Partition] = []
        for topic_partition, is_new in list(self._without_descriptor.items())[:_MOST_AT_ONCE]:
            topic_id = image.topics.topic_id(topic_partition.topic)
            registration = None if topic_id is None else image.topics.partition_by_id(topic_id, topic_partition.partition)
            if topic_id is None or registration is None or self._manager.local_id not in registration.replicas:
                del self._without_descriptor[topic_partition]
                continue
            info, leads = PartitionInfo(topic_id, registration), registration.leader == self._manager.local_id
            partition = self._take_role(topic_partition, info, image, is_new=is_new, leads=leads)
            if self._again.is_set:
                break
            if partition is None:
                continue
            if leads:
                leaders[topic_partition] = info
                self._manager.delayed.followers.expect([*partition.replicas.values()])
                if partition.log is not None and partition.log.flush_due:
                    unflushed.append(partition)
            else:
                followers[topic_partition] = info
                followed.append(partition)
        if self._without_descriptor and not self._again.is_set:
            self._again.set(0)
        if followed:
            self.fetchers.start(followed)
        if leaders or followers:
            tell_each(self.on_leadership, leaders, followers, ())
            self._flush(unflushed)
            self._manager.delayed.drain()

    def close(self) -> None:
        """Stop the retries."""
        self._again.close()

    def _partition(self, topic_partition: TopicPartition, topic_id: UUID) -> Partition:
        partition = self._manager.partitions.by_name.get(topic_partition)
        if partition is not None and partition.role is Role.OFFLINE:
            # The replica gets a new chance on another disk.
            self._manager.remove(topic_partition)
            partition = None
        return partition or self._manager.new_partition(topic_partition, topic_id)

    def _open_log(self, topic_partition: TopicPartition, info: PartitionInfo, image: MetadataImage, *, is_new: bool) -> Log:
        try:
            log = self._log_manager.create_log(
                topic_partition,
                info.topic_id,
                self._topic_config(topic_partition.topic, image),
                directory_id=self._directory_of(info),
                is_new=is_new,
            )
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not out_of_descriptors(error):
                self._tell_lost(topic_partition, info)
            raise
        try:
            self._manager.checkpoints.restore(log)
        except OSError as error:
            self._log_manager.directory_failed(log.parent_directory, error)
            raise
        self._tell_directory(topic_partition, info, log)
        return log

    def _tell_directory(self, topic_partition: TopicPartition, info: PartitionInfo, log: Log) -> None:
        """Tell the controller where the log is. It left the choice to this broker, or a disk came back with another id."""
        directory = self._log_manager.directory(log.parent_directory)
        if directory is None or directory.directory_id is None or self._manager.assign is None:
            return
        if directory.directory_id != self._directory_of(info):
            self._manager.assign(TopicIdPartition(info.topic_id, topic_partition.topic, topic_partition.partition), directory.directory_id)

    def _tell_lost(self, topic_partition: TopicPartition, info: PartitionInfo) -> None:
        """Tell the controller that the replica has no log here, when the controller would take the replica's directory for online."""
        directory = self._directory_of(info)
        online = {each.directory_id for each in self._log_manager.online_directories} | {DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED}
        if directory in online and self._manager.assign is not None:
            self._manager.assign(TopicIdPartition(info.topic_id, topic_partition.topic, topic_partition.partition), DIRECTORY_LOST)


def _brokers_that_lost(delta: MetadataDelta) -> frozenset[int]:
    """Return the brokers whose replicas may no longer hold back a high watermark (`Partition.raise_high_watermark`).

    A broker that registers or is unfenced is not among them: its replicas hold nothing back before they fetch.
    """
    before = delta.image.cluster.brokers
    return frozenset(
        broker_id
        for broker_id, after in delta.brokers.items()
        if (known := before.get(broker_id)) is not None
        and (
            after is None
            or after.fenced > known.fenced
            or after.in_controlled_shutdown > known.in_controlled_shutdown
            or after.epoch != known.epoch
            or after.directories != known.directories
        )
    )
