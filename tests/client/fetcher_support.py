"""Fetcher whose requests are answered by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.fetcher import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    Fetcher,
    FetchPlan,
    decode_chunk,
)
from odradek.client.core.metadata import Broker, ClusterView, PartitionInfo, TopicInfo
from odradek.client.core.positions import Chunk
from odradek.client.core.validation import EpochEnd
from odradek.records.batch import encode_batch

A, B, C = (TopicPartition("t", number) for number in range(3))


FIRST, SECOND = UUID(int=1), UUID(int=2)


MAX_BYTES = 1000


def data(base_offset: int, *values: bytes, **options: object) -> bytes:
    return encode_batch([(0, None, value, ()) for value in values], base_offset=base_offset, **options)  # type: ignore[arg-type]


def fetched(records: bytes = b"", error: ErrorCode = ErrorCode.NONE, aborted: Sequence[tuple[int, int]] = ()) -> FetchedPartition:
    return FetchedPartition(error, aborted, memoryview(records))


class FetcherWorld:
    """A fetcher, a cluster and the time."""

    def __init__(self, *partitions: TopicPartition, reset: str = "earliest", isolation: int = READ_UNCOMMITTED) -> None:
        self.leaders = dict.fromkeys((A, B, C), 1)
        self.epoch = 7
        self.topic_id = FIRST
        self.now = 0
        self.fetcher = Fetcher(partition_max_bytes=MAX_BYTES, reset_policy=reset, backoff=Backoff(100, 1000, random.Random(1)))
        self.isolation = isolation
        self.fetcher.assign(partitions or (A,))
        for partition in partitions or (A,):
            self.fetcher.seek(partition, 0)

    @property
    def view(self) -> ClusterView:
        infos = {each.partition: PartitionInfo(each.partition, leader, self.epoch, (), (), ()) for each, leader in self.leaders.items()}
        brokers = {node: Broker(node, "host", 1) for node in {1, 2}}
        return ClusterView("c", 1, brokers, {"t": TopicInfo("t", self.topic_id, False, ErrorCode.NONE, infos)})

    def plans(self) -> list[FetchPlan]:
        plans = self.fetcher.plan(self.view, self.now)[0]
        return plans + self.fetcher.plan(self.view, self.now)[0] if self.confirm() else plans

    def confirm(self) -> bool:
        """The leaders confirm the positions that they are asked about."""
        asked = self.fetcher.validation.plans(self.now)
        for plan in asked:
            ends = {target.topic_partition: EpochEnd(ErrorCode.NONE, target.offset_epoch, 1 << 40) for target in plan.targets}
            assert not self.fetcher.validation.on_answers(plan, ends, self.now)
        return bool(asked)

    def plan(self) -> FetchPlan:
        [plan] = self.plans()
        return plan

    def asked(self) -> list[tuple[TopicPartition, int]]:
        """What is asked for now; nothing stays under way."""
        plans = self.plans()
        for plan in plans:
            self.fetcher.on_response(plan, [None] * len(plan.targets), self.now)
        return [(target.topic_partition, target.offset) for plan in plans for target in plan.targets]

    def answer(self, *answers: FetchedPartition, plan: FetchPlan | None = None) -> bool:
        plan = plan or self.plan()
        return self.fetcher.on_response(plan, answers, self.now)

    def read(self) -> list[bytes | None]:
        """The values of the next chunk."""
        chunk = self.fetcher.take_chunk()
        return [] if chunk is None else self.values(chunk)

    def values(self, chunk: Chunk) -> list[bytes | None]:
        records = decode_chunk(chunk, read_committed=self.isolation == READ_COMMITTED, check_crcs=True)
        return [record.value for record in records]
