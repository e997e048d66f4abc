"""Consumer groups on a log in memory: a cluster whose topics the test makes, and members that say what the test wants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.coordinator.group.consumer.group import ConsumerGroup
from odradek.coordinator.group.consumer.member import ConsumerMember
from odradek.coordinator.group.group import Caller
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.coordinator.group.support import GROUP, World

Response = ConsumerGroupHeartbeatResponse
Owned = dict[str, list[int]]


class Cluster:
    """Topics, and the image of them."""

    def __init__(self) -> None:
        self.image = EMPTY
        self._ids = 0
        self.offset = 0

    def change(self, *records: object) -> MetadataDelta:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.offset += 1
        self.image = delta.apply(MetadataProvenance(self.offset, 0, 0))
        return delta

    def create(self, **topics: int) -> MetadataDelta:
        """name -> partitions."""
        records: list[object] = []
        for name, count in topics.items():
            self._ids += 1
            topic_id = UUID(int=self._ids)
            records.append(TopicRecord(name=name, topic_id=topic_id))
            records += self._partitions(topic_id, range(count))
        return self.change(*records)

    def grow(self, name: str, count: int) -> MetadataDelta:
        topic = self.image.topics.by_name[name]
        return self.change(*self._partitions(topic.topic_id, range(len(topic.partitions), count)))

    def delete(self, name: str) -> MetadataDelta:
        return self.change(RemoveTopicRecord(topic_id=self.id(name)))

    def configure(self, group_id: str, **settings: str) -> MetadataDelta:
        return self.change(
            *[
                ConfigRecord(resource_type=32, resource_name=group_id, name=name.replace("_", "."), value=value)
                for name, value in settings.items()
            ]
        )

    def _partitions(self, topic_id: UUID, numbers: Iterable[int]) -> list[object]:
        return [
            PartitionRecord(
                partition_id=number, topic_id=topic_id, replicas=[1], isr=[1], leader=1, directories=[UUID(int=0)], leader_epoch=0
            )
            for number in numbers
        ]

    def id(self, name: str) -> UUID:
        topic_id = self.image.topics.topic_id(name)
        assert topic_id is not None
        return topic_id


class ConsumerWorld(World):
    """`topics`: name -> partitions."""

    def __init__(self, topics: dict[str, int] | None = None, **config: str) -> None:
        self.cluster = Cluster()
        self.cluster.create(**(topics or {}))
        settings = {"group_consumer_assignment_interval_ms": "0"} | config
        super().__init__(None, None, **settings)

    def load(self) -> None:
        self.image = self.cluster.image
        super().load()

    def publish(self, delta: MetadataDelta) -> None:
        self.image = self.cluster.image
        self.coordinator.publish(delta, self.image)
        self.settle()

    def beat(
        self,
        member: str = "m",
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        regex: str | None = None,
        owned: Owned | None = None,
        instance: str | None = None,
        version: int = 1,
        group_id: str = GROUP,
        client_id: str = "client",
        **fields: Any,
    ) -> Response:
        """One heartbeat; one that joins says all that it has to."""
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", 30_000)
            owned = {} if owned is None else owned
            topics = ["t"] if topics is None and regex is None else topics
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=self.cluster.id(name), partitions=partitions)
                for name, partitions in owned.items()
            ],
            **fields,
        )
        reply = self.coordinator.consumer_group_heartbeat(Caller(version, client_id, "/127.0.0.1"), request)
        self.settle()
        return reply.result()

    def code(self, *args: Any, **options: Any) -> ErrorCode:
        return ErrorCode(self.beat(*args, **options).error_code)

    def assigned(self, response: Response) -> Owned | None:
        """By topic name; None when the response says nothing of it."""
        if response.assignment is None:
            return None
        names = {topic.topic_id: topic.name for topic in self.cluster.image.topics.by_name.values()}
        return {names[topic.topic_id]: topic.partitions for topic in response.assignment.topic_partitions}

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups.find(GROUP)
        assert isinstance(group, ConsumerGroup)
        return group

    def member(self, member: str = "m") -> ConsumerMember:
        return self.consumers.member(member)
