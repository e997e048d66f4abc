"""Copiers of a story: they read one topic, write another, and commit their positions, all in transactions: every value is copied once.

Several share a transactional id and fence each other. After anything that is not certain a copier begins anew: it takes the id again, which
ends what was open, and goes on where the group's committed position is.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.types import ConsumerRecord
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.records.batch import encode_batch
from odradek.testing.history import Assigned, Commit, Poll, Send
from odradek.testing.simulation.clients import SimulatedConsumer
from tests.simulation.whole.clients import PATIENCE, value_of
from tests.simulation.whole.groups import fetch_committed, fetch_positions
from tests.simulation.whole.invariants.coordinators import copied
from tests.simulation.whole.plan import SINK, SOURCE, Plan
from tests.simulation.whole.requests import GROUP, TRANSACTION, Requests, pause

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

T = TypeVar("T")

GROUP_ID = "copiers"
_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_TRIES = 8


def actors(plan: Plan) -> dict[str, Callable[[Story, str, random.Random], Awaitable[None]]]:
    """By name, those that the plan asks for."""
    return {f"copier-{number}": copy for number in range(plan.copiers)}


class NotCertain(Exception):
    """The transaction under way is given up; whether it was committed is known only where `committing` says that nobody asked for it."""

    def __init__(self, what: str, *, committing: bool = False) -> None:
        super().__init__(what)
        self.committing = committing


async def copy(story: Story, name: str, rng: random.Random) -> None:
    """Copies the partitions of the source, some transactions from one of them at a time. The first copier goes on until all is copied."""
    copier = Copier(story, name, rng)
    partitions = [TopicPartition(SOURCE, index) for index in range(story.plan.topics[SOURCE])]
    async with story.cluster.consumer(name, isolation_level="read_committed", auto_offset_reset="earliest", **PATIENCE) as consumer:
        while not story.sources_are_done or (copier.is_first and await copier.is_behind(consumer, partitions)):
            if not copier.is_first and story.sources_are_done:
                break
            try:
                await copier.take_turn(consumer, rng.choice(partitions), rng.choice((1, 3, 10)))
            except NotCertain as reason:
                story.note(name, str(reason))
                await pause(rng, 3.0)
            except (KafkaError, ConnectionLost) as error:
                story.note(name, str(error))
                await pause(rng, 1.0)
    copier.requests.close()


class Copier:
    """One of them."""

    def __init__(self, story: Story, name: str, rng: random.Random) -> None:
        self.story = story
        self.rng = rng
        self.is_first = name == "copier-0"
        self.requests = Requests(story.cluster, name, rng)
        self.recorder = story.recorder(name)

    async def is_behind(self, consumer: SimulatedConsumer, partitions: list[TopicPartition]) -> bool:
        """Whether something is left to copy."""
        try:
            ends = await consumer.end_offsets(partitions)
            positions = await fetch_positions(self.story, self.requests, GROUP_ID, partitions, stable=True)
        except (KafkaError, ConnectionLost):
            self.requests.forget(GROUP, GROUP_ID)
            return True
        return any(max(positions[each], 0) < ends[each] for each in partitions)

    async def take_turn(self, consumer: SimulatedConsumer, source: TopicPartition, transactions: int) -> None:
        """Takes the partition's transactional id and copies some of it."""
        self.transactional_id = f"copier of {source}"
        begin = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=8_000)

        async def take() -> InitProducerIdResponse:
            node = await self.requests.coordinator(TRANSACTION, self.transactional_id)
            return await self.requests.ask(node, begin, InitProducerIdResponse, 4)

        taken = await self._persist("taking the id", take, lambda answer: answer.error_code)
        self.producer_id, self.epoch = taken.producer_id, taken.producer_epoch
        self.sequences: dict[int, int] = {}
        position, epoch = await self._committed(source)
        self.recorder.invoke("assign", seek=True)
        self.recorder.ok("assign", [Assigned(None, *source, None)], seek=True)
        consumer.assign([source])
        consumer.seek(source, max(position, 0), epoch)
        for _ in range(transactions):
            records = await consumer.poll(500, 200 if self.story.sources_are_done else self.rng.choice((1, 5, 20)))
            if records:
                await self._copy(source, records, consumer.leader_epoch(source))
            elif self.story.sources_are_done:
                return

    async def _committed(self, source: TopicPartition) -> tuple[int, int]:
        """The position, and its leader epoch: a leader that was deposed and has not heard of it must not say that it is out of range."""
        for _ in range(_TRIES):
            try:
                return (await fetch_committed(self.story, self.requests, GROUP_ID, [source], stable=True))[source]
            except (KafkaError, ConnectionLost):
                self.requests.forget(GROUP, GROUP_ID)
                await pause(self.rng, 0.5)
        raise NotCertain("the position cannot be read")

    async def _copy(self, source: TopicPartition, records: list[ConsumerRecord], epoch: int) -> None:
        """One transaction, of records that were written up to the leader epoch."""
        values: dict[int, list[str]] = {}
        for record in records:
            value = value_of(record.value)
            values.setdefault(zlib.crc32(value.encode()) % self.story.plan.topics[SINK], []).append(str(copied(value)))
        polls = [Poll(*source, record.offset, value_of(record.value)) for record in records]
        sends = [Send(SINK, partition, None, value) for partition, each in sorted(values.items()) for value in each]
        commit = Commit(GROUP_ID, *source, records[-1].offset + 1)
        self.recorder.invoke("txn", [*polls, *sends, commit], isolation="read_committed")
        try:
            acked: list[Send] = []
            for partition, each in sorted(values.items()):
                offset = await self._produce(partition, each)
                acked += [Send(SINK, partition, offset + index, value) for index, value in enumerate(each)]
            await self._commit_offset(source, records[-1].offset + 1, epoch)
            if self.rng.random() < 0.3:
                await self._end(commit=False)
                raise NotCertain("aborted for a change")
            await self._end(commit=True)
        except NotCertain as reason:
            tell = self.recorder.info if reason.committing else self.recorder.fail
            tell("txn", [*polls, *sends, commit], isolation="read_committed")
            raise
        self.recorder.ok("txn", [*polls, *acked, commit], isolation="read_committed")

    async def _produce(self, partition: int, values: list[str]) -> int:
        """Writes the values; their first offset."""
        sequence = self.sequences.get(partition, 0)
        stamp = self.story.clock.time_ms()
        data = encode_batch(
            [(stamp, None, value.encode(), ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        topic = ProduceRequest.TopicProduceData(
            name=SINK, partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=bytes(data))]
        )
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=4_000, topic_data=[topic])

        async def send() -> ProduceResponse.PartitionProduceResponse:
            leaders = {each.partition_index: each.leader_id for each in (await self.requests.metadata(SINK)).partitions}
            answer = await self.requests.ask(leaders[partition], request, ProduceResponse, 12)
            return answer.responses[0].partition_responses[0]

        # The same batch again is known by its sequence.
        written = await self._persist("producing", send, lambda answer: answer.error_code)
        self.sequences[partition] = sequence + len(values)
        return written.base_offset

    async def _commit_offset(self, source: TopicPartition, offset: int, epoch: int) -> None:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=source.partition, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP_ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=source.topic, partitions=[partition])],
        )

        async def send() -> TxnOffsetCommitResponse:
            node = await self.requests.coordinator(GROUP, GROUP_ID)
            return await self.requests.ask(node, request, TxnOffsetCommitResponse, 5)

        await self._persist("committing offsets", send, lambda answer: answer.topics[0].partitions[0].error_code)

    async def _end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )

        async def send() -> EndTxnResponse:
            node = await self.requests.coordinator(TRANSACTION, self.transactional_id)
            return await self.requests.ask(node, request, EndTxnResponse, 5)

        try:
            ended = await self._persist("ending", send, lambda answer: answer.error_code)
        except NotCertain as reason:
            raise NotCertain(str(reason), committing=commit) from None
        self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch
        self.sequences = {}

    async def _persist(self, what: str, attempt: Callable[[], Awaitable[T]], code_of: Callable[[T], int]) -> T:
        """The answer without an error, tried several times; NotCertain without one."""
        last = ""
        for _ in range(_TRIES):
            try:
                answer = await attempt()
            except (KafkaError, ConnectionLost) as error:
                last = str(error)
            else:
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.NONE:
                    return answer
                last = code.name
                if code not in _AGAIN:
                    break
            self.requests.forget(GROUP, GROUP_ID)
            self.requests.forget(TRANSACTION, self.transactional_id)
            await pause(self.rng, 0.5)
        raise NotCertain(f"{what}: {last}")
