"""What a broker counts of the requests that it serves: bytes, records, errors, topics that come and go."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.metrics.traffic import TopicTraffic
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.server.metering.measuring import count_nothing, error_counter
from odradek.server.metering.replicas import row_of
from tests.handlers import fetch_support
from tests.handlers.produce_support import send
from tests.handlers.support import Broker, batch


def counts(broker: Broker, topic: str = "orders") -> TopicTraffic:
    return broker.manager.traffic.topics[topic]


def test_records_and_bytes_that_come_in() -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=2)
    first, second = batch(b"a", b"b"), batch(b"c")
    send(broker, first)
    send(broker, second, partition=1)
    found = counts(broker)
    assert (found.messages_in, found.bytes_in, found.produces, found.failed_produces) == (3, len(first) + len(second), 2, 0)


def test_appends_that_are_refused() -> None:
    broker = Broker(**{"message.max.bytes": "100"})
    broker.create_topic("orders")
    large = batch(b"x" * 500)
    assert send(broker, large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (counts(broker).bytes_rejected, counts(broker).bytes_in) == (len(large), 0)
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    assert send(broker, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert (counts(broker).bad_crc, counts(broker).failed_produces) == (1, 0)
    assert send(broker, batch(b"a"), topic="nobody").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(broker.manager.traffic.topics) == ["orders"], "names that clients make up take no memory"
    assert broker.manager.traffic.total().produces == 3


def test_records_without_a_key_in_a_compacted_topic() -> None:
    broker = Broker()
    broker.create_topic("orders", cleanup_policy="compact")
    assert send(broker, batch(b"a")).error_code == ErrorCode.INVALID_RECORD
    assert (counts(broker).without_key, counts(broker).failed_produces) == (1, 1)


def test_bytes_that_go_out() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    fetch_support.append(broker, b"a")
    size = len(batch(b"a"))
    found = counts(broker)
    broker.call(fetch.handle, fetch_support.request(12, 0, replica_id=2), 12)
    assert (found.bytes_out, found.fetches, found.replication_bytes_out, found.reassignment_bytes_out) == (0, 1, size, 0)
    broker.call(fetch.handle, fetch_support.request(12, 1, replica_id=2), 12)
    broker.call(fetch.handle, fetch_support.request(12, 0), 12)
    assert (found.bytes_out, found.fetches, found.replication_bytes_out) == (size, 3, size)


def test_a_deleted_topic_is_not_shown_any_more() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", partitions=2)
    send(broker, batch(b"a"))
    before = broker.manager.traffic.total().bytes_in
    broker.delete_topic(id_)
    assert broker.manager.traffic.topics == {}
    assert broker.manager.traffic.total().bytes_in == before


@pytest.mark.parametrize(
    ("led", "expected"),
    [(True, (1, 1, 2, 0, 1, 2)), (False, (0, 0, 0, 0, 0, 0))],
)
def test_what_is_told_of_a_partition(led: bool, expected: tuple[int, ...]) -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2), leader=1 if led else 2)
    key = TopicPartition("orders", 0)
    partition = broker.manager.partition(key)
    if led:
        send(broker, batch(b"a"), acks=1)
    row = row_of(key, partition, 0, moving=False)
    assert row.tags == ("orders", "0")
    assert (row.led, row.led, row.in_sync, row.under_replicated, int(row.end > 0), row.replicas) == expected
    assert row.size == (len(batch(b"a")) if led else 0)
    assert row.segments == 1


def test_every_error_code_of_a_response_is_counted() -> None:
    errors: dict[int, int] = {}
    partition = ProduceResponse.PartitionProduceResponse
    response = ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(partition_responses=[partition(error_code=0), partition(error_code=6)]),
            ProduceResponse.TopicProduceResponse(partition_responses=[partition(error_code=6)]),
        ]
    )
    error_counter(ProduceResponse)(response, errors)
    assert errors == {0: 1, 6: 2}
    data = FetchResponse.PartitionData
    fetched = FetchResponse(error_code=0, responses=[FetchResponse.FetchableTopicResponse(partitions=[data(error_code=1)])])
    errors.clear()
    error_counter(FetchResponse)(fetched, errors)
    assert errors == {0: 1, 1: 1}
    assert error_counter(ProduceRequest) is count_nothing


def test_partitions_of_metadata_are_too_many_to_be_counted() -> None:
    errors: dict[int, int] = {}
    partitions = [MetadataResponse.MetadataResponsePartition(error_code=5)] * 10
    response = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(error_code=3, partitions=partitions)])
    error_counter(MetadataResponse)(response, errors)
    assert 5 not in errors
    assert errors[3] == 1


def test_requests_are_counted_with_their_versions_and_errors() -> None:
    broker = Broker()
    broker.create_topic("orders")
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("orders", "nobody")]
    broker.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12)
    assert broker.dispatcher.requests.of("Metadata").errors == {0: 2, 3: 1}
