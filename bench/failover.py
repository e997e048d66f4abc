"""How long a cluster of which a node was killed keeps clients waiting, asked by raw requests every few milliseconds and by librdkafka.

Raw requests show what the cluster needs; librdkafka looks for a new leader about once a second, and adds that. Moments are those of
`time.perf_counter`.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable

from confluent_kafka import Producer

from interop.cluster import MixedCluster, ask
from interop.waiting import eventually
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.records.batch import encode_batch

_PAUSE_S = 0.005
_ANSWER_S = 1.0
"""How long a request may take before it is sent again, perhaps elsewhere."""
_PATIENCE_S = 120.0
_BATCH = encode_batch([(1_700_000_000_000, None, b"first", ())])


def leader_of(cluster: MixedCluster, topic: str, partition: int, asked: int) -> int:
    """The leader as node `asked` says, -1 when it knows none; OSError when it does not answer."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    response = ask(cluster.nodes[asked].port, request, 12, _ANSWER_S)
    assert isinstance(response, MetadataResponse)
    return next((each.leader_id for each in response.topics[0].partitions if each.partition_index == partition), -1)


def first_ack(cluster: MixedCluster, topic: str, partition: int) -> float:
    """When a record that is sent from now on, by whoever leads, is acknowledged by all in sync."""

    def acknowledged(asked: int) -> bool:
        leader = leader_of(cluster, topic, partition, asked)
        if leader < 0 or not cluster.nodes[leader].running:
            return False
        data = ProduceRequest.TopicProduceData(
            name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=_BATCH)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
        response = ask(cluster.nodes[leader].port, request, 12, _ANSWER_S)
        assert isinstance(response, ProduceResponse)
        return response.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    return _first(cluster, acknowledged)


def first_topic(cluster: MixedCluster) -> float:
    """When a topic is created that is asked for from now on. It has two replicas: the third broker is not there."""
    numbers = itertools.count()

    def created(asked: int) -> bool:
        topic = CreateTopicsRequest.CreatableTopic(name=f"after-{next(numbers)}", num_partitions=1, replication_factor=2)
        response = ask(cluster.nodes[asked].port, CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7, 60)
        assert isinstance(response, CreateTopicsResponse)
        return response.topics[0].error_code == ErrorCode.NONE

    return _first(cluster, created)


def first_ack_by_librdkafka(producer: Producer, topic: str, partition: int) -> float:
    """When a record that this producer sends now is acknowledged."""
    moments: list[float] = []
    producer.produce(
        topic, b"first", partition=partition, on_delivery=lambda error, _: moments.append(time.perf_counter()) if error is None else None
    )
    producer.flush(_PATIENCE_S)
    if not moments:
        raise RuntimeError("no record was acknowledged")
    return moments[0]


def _first(cluster: MixedCluster, succeeds: Callable[[int], bool]) -> float:
    """When `succeeds` (the node that is asked) says so; the nodes that live are asked in turn."""
    turns = itertools.count()

    def moment() -> float | None:
        living = [node for node, process in cluster.nodes.items() if process.running]
        with contextlib.suppress(OSError):
            if succeeds(living[next(turns) % len(living)]):
                return time.perf_counter()
        return None

    return eventually(moment, "the cluster to come back", _PATIENCE_S, pause_s=_PAUSE_S)
