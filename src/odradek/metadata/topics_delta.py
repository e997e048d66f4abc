"""Changes of topics, and the resulting work for one broker (org.apache.kafka.image.TopicsDelta, TopicDelta)."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from odradek.base.ids import TopicPartition
from odradek.metadata.image import TopicImage, TopicsImage
from odradek.metadata.registrations import PartitionRegistration
from odradek.protocol.messages.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


class PartitionInfo(NamedTuple):
    """Topic id and new state of a partition."""

    topic_id: UUID
    partition: PartitionRegistration


class LocalReplicaChanges(NamedTuple):
    """Changes that a broker has to make to its replicas.

    `deletes`: partitions of which the broker no longer has a replica. `leaders`: partitions that it leads, with a higher partition epoch.
    `elected_leaders`: those of `leaders` with a higher leader epoch. `followers`: partitions that it follows, with a higher partition
    epoch. `directory_ids`: replicas with a new or changed log directory.
    """

    deletes: set[TopicPartition]
    elected_leaders: dict[TopicPartition, PartitionInfo]
    leaders: dict[TopicPartition, PartitionInfo]
    followers: dict[TopicPartition, PartitionInfo]
    directory_ids: dict[TopicPartition, UUID]


class TopicDelta:
    """Changes of one topic's partitions since `image`."""

    __slots__ = ("image", "partition_changes")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.partition_changes: dict[int, PartitionRegistration] = {}

    @property
    def name(self) -> str:
        return self.image.name

    @property
    def topic_id(self) -> UUID:
        return self.image.topic_id

    def change(self, record: PartitionChangeRecord) -> None:
        before = self.partition_changes.get(record.partition_id) or self.image.partitions.get(record.partition_id)
        if before is None:
            raise ValueError(f"a change names partition {record.partition_id} of topic {self.name}, which does not exist")
        self.partition_changes[record.partition_id] = before.merge(record)

    def clear_elr(self) -> None:
        for number in {*self.image.partitions, *self.partition_changes}:
            before = self.partition_changes.get(number) or self.image.partitions[number]
            if before.elr or before.last_known_elr:
                self.partition_changes[number] = before._replace(elr=(), last_known_elr=(), partition_epoch=before.partition_epoch + 1)

    def apply(self) -> TopicImage:
        if not self.partition_changes:
            return self.image
        return TopicImage(self.name, self.topic_id, {**self.image.partitions, **self.partition_changes})

    def add_local_changes(self, broker_id: int, changes: LocalReplicaChanges) -> None:
        """Add the changes that this topic causes on a broker."""
        for number, partition in self.partition_changes.items():
            before = self.image.partitions.get(number)
            where = TopicPartition(self.name, number)
            if broker_id not in partition.replicas:
                if before is not None and broker_id in before.replicas:
                    changes.deletes.add(where)
                continue
            info = PartitionInfo(self.topic_id, partition)
            if before is None or before.partition_epoch != partition.partition_epoch:
                if partition.leader == broker_id:
                    changes.leaders[where] = info
                    if before is None or before.leader_epoch != partition.leader_epoch:
                        changes.elected_leaders[where] = info
                else:
                    changes.followers[where] = info
            directory = partition.directory(broker_id)
            if before is None or broker_id not in before.replicas or before.directory(broker_id) != directory:
                changes.directory_ids[where] = directory


class TopicsDelta:
    """Changes of all topics since `image`."""

    __slots__ = ("changed_topics", "created_topics", "deleted_topic_ids", "image")

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed_topics: dict[UUID, TopicDelta] = {}
        self.deleted_topic_ids: set[UUID] = set()
        self.created_topics: dict[str, UUID] = {}

    def topic(self, topic_id: UUID) -> TopicDelta:
        delta = self.changed_topics.get(topic_id)
        if delta is None:
            image = self.image.by_id.get(topic_id)
            if image is None or topic_id in self.deleted_topic_ids:
                raise ValueError(f"a record names topic id {topic_id}, which does not exist")
            delta = self.changed_topics[topic_id] = TopicDelta(image)
        return delta

    def create(self, record: TopicRecord) -> None:
        self.changed_topics[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id, {}))
        self.created_topics[record.name] = record.topic_id

    def add_partition(self, record: PartitionRecord) -> None:
        self.topic(record.topic_id).partition_changes[record.partition_id] = PartitionRegistration.from_record(record)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        self.topic(record.topic_id).change(record)

    def clear_elr(self, record: ClearElrRecord) -> None:
        """Clear the eligible leader replicas of the topic in the record, or of all topics if the record names none.

        Raises ValueError for an unknown topic.
        """
        if not record.topic_name:
            ids = {*self.image.by_id, *self.changed_topics} - self.deleted_topic_ids
        else:
            found = self.created_topics.get(record.topic_name) or self.image.topic_id(record.topic_name)
            if found is None:
                raise ValueError(f"ClearElrRecord names topic {record.topic_name}, which does not exist")
            ids = {found}
        for topic_id in ids:
            self.topic(topic_id).clear_elr()

    def remove(self, record: RemoveTopicRecord) -> str:
        """Remove a topic and return its name. Raises ValueError for an unknown topic."""
        name = self.topic(record.topic_id).name
        self.changed_topics.pop(record.topic_id, None)
        if self.created_topics.get(name) == record.topic_id:
            del self.created_topics[name]
        if record.topic_id in self.image.by_id:
            self.deleted_topic_ids.add(record.topic_id)
        return name

    def finish_snapshot(self) -> None:
        """Remove the topics that a fully replayed snapshot did not contain."""
        self.deleted_topic_ids.update(topic_id for topic_id in self.image.by_id if topic_id not in self.changed_topics)

    def apply(self) -> TopicsImage:
        by_name = dict(self.image.by_name)
        by_id = dict(self.image.by_id)
        for topic_id in self.deleted_topic_ids:
            del by_name[by_id.pop(topic_id).name]
        for topic_id, delta in self.changed_topics.items():
            by_id[topic_id] = by_name[delta.name] = delta.apply()
        return TopicsImage(by_name, by_id)

    def local_changes(self, broker_id: int) -> LocalReplicaChanges:
        """Return the changes that the broker has to make."""
        changes = LocalReplicaChanges(set(), {}, {}, {}, {})
        for delta in self.changed_topics.values():
            delta.add_local_changes(broker_id, changes)
        for topic_id in self.deleted_topic_ids:
            topic = self.image.by_id[topic_id]
            changes.deletes.update(TopicPartition(topic.name, number) for number, p in topic.partitions.items() if broker_id in p.replicas)
        return changes
