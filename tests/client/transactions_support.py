"""Transactional producer on scripted brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.protocol.schema import Message
from odradek.records.batch import read_header
from odradek.testing.simulation.clients import SimulatedProducer
from odradek.testing.simulation.loop import SimulatedLoop
from tests.client.scripted import ScriptedBrokers, produced, producer, run

E = ErrorCode


NEVER = object()
"""In the place of an error: no answer comes."""


class TransactionsWorld:
    """A broker that leads all and coordinates all. `plan[request]`: what becomes of the next ones of a kind; then all goes well."""

    def __init__(self, loop: SimulatedLoop, level: int) -> None:
        self.brokers = ScriptedBrokers(loop, 2, self._answer)
        self.brokers.features = {"transaction.version": level}
        self.level = level
        self.plan: defaultdict[type[Message], list[object]] = defaultdict(list)
        self.epoch = 4
        self.coordinator = 1

    def of(self, kind: type[Message]) -> list[Message]:
        return [request for _, request in self.brokers.asked if isinstance(request, kind)]

    @property
    def story(self) -> list[str]:
        """What was asked, without metadata and the search for coordinators."""
        kinds = [type(request).__name__.removesuffix("Request") for _, request in self.brokers.asked]
        return [kind for kind in kinds if kind not in ("Metadata", "FindCoordinator")]

    def headers(self) -> list[tuple[int, int]]:
        """(epoch, base sequence) of each batch that came."""
        found = []
        for request in self.of(ProduceRequest):
            assert isinstance(request, ProduceRequest)
            for topic in request.topic_data:
                for part in topic.partition_data:
                    header = read_header(bytes(part.records or b""))
                    assert header.is_transactional
                    assert request.transactional_id == "id"
                    found.append((header.producer_epoch, header.base_sequence))
        return found

    def _answer(self, node: int, request: Message) -> Message | None:
        if isinstance(request, FindCoordinatorRequest):
            each = FindCoordinatorResponse.Coordinator(
                key=request.coordinator_keys[0], node_id=self.coordinator, host=f"broker{self.coordinator}", port=9092
            )
            return FindCoordinatorResponse(coordinators=[each])
        planned = self.plan[type(request)]
        error = planned.pop(0) if planned else E.NONE
        if error is NEVER:
            return None
        assert isinstance(error, ErrorCode)
        match request:
            case InitProducerIdRequest():
                if error is E.NONE:
                    self.epoch += 1
                return InitProducerIdResponse(error_code=error, producer_id=7, producer_epoch=self.epoch)
            case AddPartitionsToTxnRequest():
                topics = [
                    AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=error)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.v3_and_below_topics
                ]
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(error_code=error)
            case TxnOffsetCommitRequest():
                topics_ = [
                    TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=[
                            TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
                return TxnOffsetCommitResponse(topics=topics_)
            case EndTxnRequest():
                if error is E.NONE and self.level >= 2:
                    self.epoch += 1
                return EndTxnResponse(error_code=error, producer_id=7, producer_epoch=self.epoch)
            case ProduceRequest():
                return produced(error)
            case _:
                return self.brokers.metadata(leader=1)


Story = Callable[[TransactionsWorld, SimulatedProducer], Coroutine[None, None, None]]


def play(story: Story, level: int = 2, **settings: str) -> None:
    """Tells it with a producer that is closed in the end."""

    async def told(loop: SimulatedLoop) -> None:
        world = TransactionsWorld(loop, level)
        async with producer(loop, transactional_id="id", **{"linger_ms": "0", **settings}) as sending:
            await story(world, sending)

    run(told)
