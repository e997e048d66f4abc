"""Brokers on a simulated network whose responses the test scripts, and clients of these brokers in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.client.network.cluster import Cluster
from odradek.client.settings.config import PRODUCER_CONFIG, ClientConfig
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.framing import frame
from odradek.protocol.headers import decode_request_header, encode_response_header
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message
from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from odradek.testing.simulation.loop import run as run_simulated

T = TypeVar("T")

SERVED = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.METADATA: (0, 12),
    ApiKey.PRODUCE: (3, 12),
    ApiKey.FETCH: (4, 12),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
}
TOPIC = "t"
TOPIC_ID = UUID(int=7)

Answer = Callable[[int, Message], Message | None]


class ScriptedBrokers:
    """Brokers at ("broker1", 9092), ("broker2", 9092), ... `answer(node id, request)` returns each response, or None for no response."""

    def __init__(self, loop: SimulatedLoop, count: int, answer: Answer) -> None:
        self.nodes = range(1, count + 1)
        self.asked: list[tuple[int, Message]] = []
        """(node id, request) in order of arrival, without ApiVersions."""
        self.versions: list[tuple[type[Message], int]] = []
        """Type and version of each request."""
        self.features: dict[str, int] = {}
        """Finalized feature levels in ApiVersions responses."""
        self.parked_s: Callable[[Message, Message], float] = lambda request, response: 0.0
        """Seconds that a response is delayed, as brokers delay the response to a Fetch without records."""
        self.dialled = 0
        self.open: set[asyncio.BaseTransport] = set()
        self._loop = loop
        self.answer = answer
        for node in self.nodes:
            loop.network.listen(lambda node=node: ScriptedConnection(self, node), f"broker{node}", 9092)  # type: ignore[misc]

    def respond(self, node: int, request: Message) -> Message | None:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersionsResponse.ApiVersion(api_key=key, min_version=least, max_version=most)
                    for key, (least, most) in SERVED.items()
                ],
                finalized_features=[
                    ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                    for name, level in self.features.items()
                ],
            )
        self.asked.append((node, request))
        return self.answer(node, request)

    def after(self, delay_s: float, action: Callable[[bytes], object], framed: bytes) -> None:
        if delay_s:
            self._loop.call_later(delay_s, action, framed)
        else:
            action(framed)

    def count(self, kind: type[Message], node: int | None = None) -> int:
        """Return the number of requests of a type, to one node or to all."""
        return sum(isinstance(request, kind) and node in (None, to) for to, request in self.asked)

    def metadata(self, *, leader: int, leader_epoch: int = 0, error: ErrorCode = ErrorCode.NONE, partitions: int = 1) -> MetadataResponse:
        """Return a Metadata response with all brokers and one topic."""
        listed = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=leader, leader_epoch=leader_epoch, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(partitions if error is ErrorCode.NONE else 0)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, error_code=error, partitions=listed)
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker{node}", port=9092) for node in self.nodes]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


class ScriptedConnection(asyncio.Protocol):
    def __init__(self, brokers: ScriptedBrokers, node: int) -> None:
        self._brokers = brokers
        self._node = node
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._brokers.dialled += 1
        self._brokers.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._brokers.open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4 and len(self._received) >= 4 + (size := int.from_bytes(self._received[:4])):
            body, self._received = self._received[4 : 4 + size], self._received[4 + size :]
            header, offset = decode_request_header(body)
            request = request_class(header.api_key).decode(body[offset:], header.api_version)
            self._brokers.versions.append((type(request), header.api_version))
            response = self._brokers.respond(self._node, request)
            if response is not None:
                head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                framed = frame(head, response.encode(header.api_version))
                self._brokers.after(self._brokers.parked_s(request, response), self._transport.write, framed)


def produced(error: ErrorCode = ErrorCode.NONE) -> ProduceResponse:
    """Return a Produce response for the only partition."""
    partition = ProduceResponse.PartitionProduceResponse(index=0, error_code=error, base_offset=-1 if error else 5)
    return ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=[partition])])


def produced_to(request: ProduceRequest) -> ProduceResponse:
    """Return a Produce response without errors for all partitions of a request."""
    response = ProduceResponse()
    for topic in request.topic_data:
        partitions = [ProduceResponse.PartitionProduceResponse(index=each.index, base_offset=5) for each in topic.partition_data]
        response.responses.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=partitions))
    return response


def cluster(loop: SimulatedLoop, **settings: str) -> Cluster:
    config = ClientConfig(PRODUCER_CONFIG, {"bootstrap.servers": "broker1:9092", **{k.replace("_", "."): v for k, v in settings.items()}})
    return Cluster(config, clock=SimulatedClock(loop), rng=random.Random(1))


def producer(loop: SimulatedLoop, **settings: str) -> SimulatedProducer:
    return SimulatedProducer(SimulatedClock(loop), random.Random(1), bootstrap_servers="broker1:9092", **settings)


def consumer(loop: SimulatedLoop, **settings: str) -> SimulatedConsumer:
    return SimulatedConsumer(SimulatedClock(loop), random.Random(1), bootstrap_servers="broker1:9092", **settings)


def run(story: Callable[[SimulatedLoop], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine in virtual time, and return its result."""
    return run_simulated(story)
