"""Leader with the fetch sessions of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.protocol.messages.alter_partition import AlterPartitionResponse
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.replication.partition import Partition
from odradek.storage.append import AppendOrigin
from tests.handlers.support import Broker, batch

VERSION = 17


Position = tuple[int, int]
"""(number of the topic, partition)."""


class Leader:
    """Broker 1, which leads `orders`; broker 2 follows."""

    def __init__(self, partitions: int = 3, *, isr: Sequence[int] = (1, 2), **config: str) -> None:
        self.broker = Broker(**config)
        self.ids: dict[int, UUID] = {1: self.broker.create_topic("orders", partitions=partitions, replicas=(1, 2))}
        if isr != (1, 2):
            for index in range(partitions):
                self.broker.apply(PartitionChangeRecord(partition_id=index, topic_id=self.ids[1], isr=list(isr)))
        self.clock = self.broker.clock
        self.manager = self.broker.manager

    @property
    def delayed(self) -> Any:
        return self.manager.delayed

    def partition(self, index: int = 0, topic: str = "orders") -> Partition:
        return self.manager.partition(TopicPartition(topic, index))

    def append(self, index: int = 0, *values: bytes, acks: int = 1, topic: str = "orders") -> Any:
        return self.manager.appender.append(
            [(TopicPartition(topic, index), batch(*values))], required_acks=acks, timeout_ms=60_000, origin=AppendOrigin.CLIENT
        )

    def fetch(
        self,
        offsets: dict[Position, int] | None = None,
        *,
        session: int = 0,
        epoch: int = -1,
        forgotten: Sequence[Position] = (),
        max_wait_ms: int = 500,
        max_bytes: int = 1 << 20,
        replica: tuple[int, int] = (2, 200),
        leader_epochs: dict[Position, int] | None = None,
        log_starts: dict[Position, int] | None = None,
        fetched_epochs: dict[Position, int] | None = None,
    ) -> Any:
        """Broker 2's request; the answer, or a Deferred of it while it waits."""
        topics: dict[UUID, FetchRequest.FetchTopic] = {}
        for (number, index), offset in (offsets or {}).items():
            id_ = self.ids[number]
            topic = topics.setdefault(id_, FetchRequest.FetchTopic(topic_id=id_, partitions=[]))
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=1 << 20,
                    current_leader_epoch=(leader_epochs or {}).get((number, index), -1),
                    log_start_offset=(log_starts or {}).get((number, index), 0),
                    last_fetched_epoch=(fetched_epochs or {}).get((number, index), -1),
                )
            )
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
            session_id=session,
            session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=list(topics.values()),
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=self.ids[number], partitions=[index]) for number, index in forgotten
            ],
        )
        return self.broker.call(fetch.handle, request, VERSION)

    def open(self, offsets: dict[Position, int] | None = None) -> int:
        """A session over all partitions, settled: the follower has all of them. Returns its id; its next epoch is 2."""
        offsets = {(1, index): self.end(index) for index in range(self.count)} if offsets is None else offsets
        session = self.fetch(offsets, epoch=0, max_wait_ms=0).session_id
        assert session != 0
        self.fetch(session=session, epoch=1, max_wait_ms=0)
        return int(session)

    @property
    def count(self) -> int:
        return len(self.manager.partitions.by_name)

    def end(self, index: int) -> int:
        return self.broker.log_end("orders", index)

    def high_watermark(self, index: int = 0) -> int:
        log = self.partition(index).log
        return -1 if log is None else log.high_watermark

    def controller_answers(self, *, accepts: bool = True, publishes: bool = True) -> None:
        """To all ISR changes that have been asked for; the metadata follows, unless it is late."""
        requests, self.broker.alter_partition_requests = self.broker.alter_partition_requests, []
        for request, answer in requests:
            topics: list[AlterPartitionResponse.TopicData] = []
            records: list[PartitionChangeRecord] = []
            for topic in request.topics:
                changed: list[AlterPartitionResponse.PartitionData] = []
                for each in topic.partitions:
                    known = self.broker.services.metadata.image.topics.partition_by_id(topic.topic_id, each.partition_index)
                    isr = [member.broker_id for member in each.new_isr_with_epochs]
                    if known is None or (known.leader_epoch, known.partition_epoch) != (each.leader_epoch, each.partition_epoch):
                        code = ErrorCode.INVALID_UPDATE_VERSION
                    else:
                        code = ErrorCode.NONE if accepts else ErrorCode.INELIGIBLE_REPLICA
                    changed.append(
                        AlterPartitionResponse.PartitionData(
                            partition_index=each.partition_index,
                            error_code=code,
                            leader_id=1,
                            leader_epoch=each.leader_epoch,
                            isr=isr,
                            partition_epoch=each.partition_epoch + 1,
                        )
                    )
                    if code is ErrorCode.NONE:
                        records.append(PartitionChangeRecord(partition_id=each.partition_index, topic_id=topic.topic_id, isr=isr))
                topics.append(AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=changed))
            answer.complete(AlterPartitionResponse(topics=topics))
            if publishes:
                self.broker.apply(*records)
