"""Produce at handler level, through the bytes of every version."""

from __future__ import annotations

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.handlers.data import produce
from odradek.protocol.messages.produce import ProduceRequest
from odradek.records.compression import Compression
from tests.handlers.produce_support import request, send
from tests.handlers.support import Broker, batch, topic_id

VERSIONS = range(3, 14)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_and_says_where(version: int) -> None:
    broker = Broker()
    broker.create_topic("orders")
    first = send(broker, batch(b"a", b"b"), version)
    second = send(broker, batch(b"c"), version)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert second.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(acks: int) -> None:
    broker = Broker()
    broker.create_topic("orders")
    response = broker.call(produce.handle, request(batch(b"a"), 9, acks=acks), 9)
    assert (response is None) == (acks == 0)
    assert broker.log_end("orders") == 1


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_other_acks_are_refused_and_nothing_is_written(acks: int) -> None:
    broker = Broker()
    broker.create_topic("orders")
    assert send(broker, batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert send(broker, batch(b"a"), acks=acks, topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.log_end("orders") == 0


def test_an_error_with_acks_0_closes_the_connection() -> None:
    broker = Broker()
    with pytest.raises(ProtocolError):
        broker.call(produce.handle, request(batch(b"a"), 9, acks=0, topic="nowhere"), 9)
    broker.create_topic("orders")
    with pytest.raises(ProtocolError):
        broker.call(produce.handle, request(memoryview(bytes(batch(b"a")) * 2), 9, acks=0), 9)
    with pytest.raises(ProtocolError):
        produce.error_response(request(batch(b"a"), 9, acks=0), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def test_unknown_topics_partitions_and_ids() -> None:
    broker = Broker()
    broker.create_topic("orders")
    assert send(broker, batch(b"a"), topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert send(broker, batch(b"a"), partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert send(broker, batch(b"a"), partition=-1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = send(broker, batch(b"a"), 13, id_=topic_id(99))
    assert (unknown.error_code, unknown.base_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_the_answer_names_the_leader_where_it_is_another_broker() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    broker.move_leader(id_, 2)
    for version in VERSIONS:
        response = broker.call(produce.handle, request(batch(b"a"), version), version)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        named = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        assert named == ([(2, "host2", 9002, "rack2")] if version >= 10 else [])
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == ((2, 1) if version >= 10 else (-1, -1))


def test_a_topic_hosted_elsewhere_is_not_unknown() -> None:
    broker = Broker()
    broker.create_topic("orders", leader=2, replicas=(2,))
    assert send(broker, batch(b"a")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_max_message_bytes_is_enforced() -> None:
    broker = Broker()
    broker.create_topic("orders", max_message_bytes="1000")
    refused = send(broker, batch(b"a" * 1000))
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1, -1)
    assert send(broker, batch(b"a" * 900)).error_code == 0
    assert broker.log_end("orders") == 1


def test_records_that_are_not_exactly_one_batch_are_refused() -> None:
    broker = Broker()
    broker.create_topic("orders")
    one = bytes(batch(b"a"))
    for records in (None, b"", b"abc", one[:-1], one + one):
        assert send(broker, records).error_code == ErrorCode.INVALID_RECORD, records
    old_magic = bytearray(one)
    old_magic[16] = 1
    assert send(broker, bytes(old_magic)).error_code == ErrorCode.INVALID_RECORD
    broken = bytearray(one)
    broken[-1] ^= 1
    assert send(broker, bytes(broken)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert broker.log_end("orders") == 0


def test_zstd_needs_version_7() -> None:
    broker = Broker()
    broker.create_topic("orders")
    records = batch(b"a" * 100, compression=Compression.ZSTD)
    assert send(broker, records, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert send(broker, records, 7).error_code == 0


def test_a_compacted_topic_refuses_records_without_a_key_and_names_them() -> None:
    broker = Broker()
    broker.create_topic("orders", cleanup_policy="compact")
    refused = send(broker, batch(b"a", b"b"))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [0, 1]
    assert refused.error_message
    assert refused.log_start_offset == 0


def test_log_append_time_is_told() -> None:
    broker = Broker()
    broker.create_topic("orders", message_timestamp_type="LogAppendTime")
    assert send(broker, batch(b"a", timestamp=5)).log_append_time_ms == broker.clock.time_ms()


def test_internal_topics_are_only_for_the_admin_client() -> None:
    broker = Broker()
    broker.create_topic("__consumer_offsets")
    assert send(broker, batch(b"a"), topic="__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert send(broker, batch(b"a"), topic="__consumer_offsets", client_id="__admin_client").error_code == 0


def test_too_few_replicas() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2), min_insync_replicas="2")
    from odradek.protocol.messages.metadata_records import PartitionChangeRecord

    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, isr=[1]))
    assert send(broker, batch(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(broker, batch(b"a"), acks=1).error_code == 0


def test_acks_all_times_out_without_the_follower() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    pending = broker.call(produce.handle, request(batch(b"a"), 9), 9)
    assert isinstance(pending, Deferred)
    broker.clock.advance_ms(1000)
    assert pending.result().responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert broker.log_end("orders") == 1


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    broker = Broker()
    broker.create_topic("orders")
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    with pytest.raises(KafkaError) as caught:
        broker.call(produce.handle, request(records, 9), 9)
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_duplicate_is_answered_with_its_first_offset() -> None:
    broker = Broker()
    broker.create_topic("orders")
    send(broker, batch(b"x"))
    records = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
    assert send(broker, records).base_offset == 1
    again = send(broker, records)
    assert (again.error_code, again.base_offset) == (0, 1)
    assert broker.log_end("orders") == 3
    gap = batch(b"a", producer_id=9, producer_epoch=0, base_sequence=7)
    assert send(broker, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_partitions_of_one_request_are_answered_each_on_its_own() -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=2)
    both = ProduceRequest(
        acks=1,
        timeout_ms=100,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="orders",
                partition_data=[ProduceRequest.PartitionProduceData(index=index, records=batch(b"a")) for index in (1, 5, 0)],
            )
        ],
    )
    response = broker.call(produce.handle, both, 9)
    assert [(p.index, p.error_code) for p in response.responses[0].partition_responses] == [(1, 0), (5, 3), (0, 0)]


def test_a_failing_disk_takes_the_partition_offline() -> None:
    broker = Broker()
    broker.create_topic("orders")

    def fail(operation: str, path: str) -> None:
        if operation == "write":
            raise OSError(5, "Input/output error", path)

    broker.disk.fault = fail
    assert send(broker, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert send(broker, batch(b"a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.manager.partition(TopicPartition("orders", 0)).log is None


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (8, bytes(4), "Record size 0 is less than the minimum record overhead (14)"),
        (8, b"\xff" * 4, "Record size -1 is less than the minimum record overhead (14)"),
        (16, b"\x03", "Invalid magic found in record: 3"),
        (16, b"\xff", "Invalid magic found in record: -1"),
    ],
)
def test_a_batch_that_cannot_even_be_skipped_fails_the_whole_request(position: int, value: bytes, message: str) -> None:
    broker = Broker()
    broker.create_topic("orders")
    broken = bytearray(batch(b"a"))
    broken[position : position + len(value)] = value
    with pytest.raises(KafkaError) as caught:
        broker.call(produce.handle, request(bytes(broken), 9), 9)
    assert (caught.value.code, caught.value.message) == (ErrorCode.CORRUPT_MESSAGE, message)


def test_bytes_after_the_batch_that_are_no_batch_are_left_out() -> None:
    broker = Broker()
    broker.create_topic("orders")
    assert send(broker, bytes(batch(b"a")) + b"xxxxx").error_code == 0
    assert send(broker, batch(b"b")).base_offset == 1


def test_transactional_records_need_a_coordinator() -> None:
    broker = Broker()
    broker.create_topic("orders")
    records = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    answer = send(broker, records, transactional_id="mine")
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "COORDINATOR_NOT_AVAILABLE" in (answer.error_message or "")
    assert send(broker, batch(b"plain"), transactional_id="mine").error_code == 0


def test_a_partition_named_twice_is_answered_once() -> None:
    broker = Broker()
    broker.create_topic("orders")
    twice = request(batch(b"a"), 9)
    twice.topic_data[0].partition_data.append(ProduceRequest.PartitionProduceData(index=0, records=batch(b"b", b"c")))
    response = broker.call(produce.handle, twice, 9)
    assert [(answer.index, answer.error_code) for answer in response.responses[0].partition_responses] == [(0, 0)]
    assert broker.log_end("orders") == 2


@pytest.mark.parametrize("version", [9, 13])
def test_a_topic_named_twice_is_answered_once_with_the_partitions_of_both(version: int) -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=2)
    both = request(batch(b"a"), version)
    both.topic_data += request(batch(b"b"), version, partition=1).topic_data
    (topic,) = broker.call(produce.handle, both, version).responses
    assert [(answer.index, answer.error_code) for answer in topic.partition_responses] == [(0, 0), (1, 0)]


def test_an_id_that_nobody_knows_is_answered_beside_what_was_written() -> None:
    broker = Broker()
    broker.create_topic("orders")
    both = request(batch(b"a"), 13)
    both.topic_data += request(batch(b"b"), 13, id_=topic_id(99)).topic_data
    response = broker.call(produce.handle, both, 13)
    codes = {topic.topic_id: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {topic_id(1): 0, topic_id(99): ErrorCode.UNKNOWN_TOPIC_ID}
    assert broker.log_end("orders") == 1
