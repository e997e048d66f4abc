"""Fetch at handler level, through the bytes of every version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.handlers.data import fetch
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.schema import records_view
from odradek.records.batch import iter_headers
from odradek.replication.partition import Partition
from odradek.replication.reader import Reader
from tests.handlers.fetch_support import append, partitions, request, values
from tests.handlers.support import NODE, Broker, batch, through_the_wire, topic_id

VERSIONS = range(4, 19)


def send(broker: Broker, version: int, *offsets: int, **more: Any) -> FetchResponse:
    response = broker.call(fetch.handle, request(version, *offsets, **more), version)
    assert isinstance(response, FetchResponse)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_appended(version: int) -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a", b"b")
    append(broker, b"c")
    [data] = partitions(send(broker, version, 0))
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
    assert values(data) == [b"a", b"b", b"c"]
    assert data.aborted_transactions is None
    [data] = partitions(send(broker, version, 3))
    assert (data.error_code, bytes(records_view(data.records))) == (0, b"")


def test_a_fetch_from_the_middle_of_a_batch_gets_the_whole_batch() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a", b"b", b"c")
    append(broker, b"d")
    [data] = partitions(send(broker, 12, 1))
    assert [header.base_offset for _, header in iter_headers(records_view(data.records))] == [0, 3]


def test_offsets_outside_the_log() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a")
    for offset in (-1, 2, 1 << 60):
        [data] = partitions(send(broker, 12, offset))
        assert (data.error_code, data.high_watermark, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)


class TestLimits:
    def test_the_first_batch_comes_whole_however_large(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        append(broker, b"a" * 5000)
        append(broker, b"b")
        for limits in ({"partition_max_bytes": 10}, {"max_bytes": 10}, {"partition_max_bytes": 0}):
            [data] = partitions(send(broker, 12, 0, **limits))  # type: ignore[arg-type]
            assert values(data) == [b"a" * 5000], limits

    def test_only_the_first_partition_with_data_may_exceed_the_limit(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=3)
        append(broker, b"a" * 5000, partition=1)
        append(broker, b"b" * 5000, partition=2)
        sizes = [len(records_view(data.records)) for data in partitions(send(broker, 12, 0, 0, 0, max_bytes=10))]
        assert sizes[0] == 0
        assert sizes[1] > 5000
        assert sizes[2] == 0

    def test_all_partitions_share_max_bytes(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=3)
        for partition in range(3):
            for _ in range(4):
                append(broker, b"a" * 200, partition=partition)
        sizes = [len(records_view(data.records)) for data in partitions(send(broker, 12, 0, 0, 0, max_bytes=700))]
        assert sizes[0] > 0
        assert sum(sizes) <= 700

    def test_the_broker_caps_max_bytes(self) -> None:
        broker = Broker(fetch_max_bytes="1024")
        broker.create_topic("orders", partitions=2)
        append(broker, b"a" * 1000, partition=0)
        append(broker, b"b" * 1000, partition=1)
        data = partitions(send(broker, 12, 0, 0))
        assert [len(records_view(each.records)) > 0 for each in data] == [True, False]

    def test_a_partition_may_be_cut_inside_a_batch(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        append(broker, b"a")
        append(broker, b"b")
        [data] = partitions(send(broker, 12, 0, partition_max_bytes=100))
        assert len(records_view(data.records)) == 100
        assert values(data) == [b"a"]


class TestLongPoll:
    def test_waits_for_data(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        pending = broker.call(fetch.handle, request(12, 0, max_wait_ms=500), 12)
        assert isinstance(pending, Deferred)
        append(broker, b"a")
        [data] = partitions(through_the_wire(pending.result(), 12))
        assert values(data) == [b"a"]
        assert len(broker.manager.delayed.fetch) == 0

    def test_ends_after_max_wait(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        pending = broker.call(fetch.handle, request(12, 0, max_wait_ms=500), 12)
        broker.clock.advance_ms(499)
        assert not pending.done
        broker.clock.advance_ms(1)
        [data] = partitions(pending.result())
        assert data.error_code == 0

    def test_waits_for_min_bytes_over_all_partitions(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=2)
        pending = broker.call(fetch.handle, request(12, 0, 0, max_wait_ms=500, min_bytes=300), 12)
        append(broker, b"a" * 100, partition=0)
        assert not pending.done
        append(broker, b"b" * 100, partition=1)
        assert pending.done
        assert [values(data) for data in partitions(through_the_wire(pending.result(), 12))] == [[b"a" * 100], [b"b" * 100]]

    def test_does_not_wait_with_an_error(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        response = send(broker, 12, 0, 0, max_wait_ms=500)
        assert [data.error_code for data in partitions(response)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def test_ends_when_the_topic_is_deleted(self) -> None:
        broker = Broker()
        id_ = broker.create_topic("orders")
        pending = broker.call(fetch.handle, request(12, 0, max_wait_ms=500), 12)
        broker.delete_topic(id_)
        [data] = partitions(pending.result())
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_thousand_waiting_consumers_cost_an_append_to_another_partition_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=2)
        for _ in range(1000):
            broker.call(fetch.handle, request(12, 0, max_wait_ms=500), 12)
        looked: list[TopicPartition] = []
        find = Reader.find

        def counting(self: Reader, topic_partition: TopicPartition) -> Partition | None:
            looked.append(topic_partition)
            return find(self, topic_partition)

        monkeypatch.setattr(Reader, "find", counting)
        append(broker, b"a", partition=1)
        assert looked == []
        append(broker, b"a", partition=0)
        assert len(looked) == 1000
        assert len(broker.manager.delayed.fetch) == 0


class TestSessions:
    def test_only_news_is_told(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=2)
        append(broker, b"a", partition=0)
        first = send(broker, 12, 0, 0, session_epoch=0)
        assert first.session_id != 0
        assert len(partitions(first)) == 2
        quiet = send(broker, 12, 1, session_id=first.session_id, session_epoch=1)
        assert (quiet.error_code, quiet.session_id, partitions(quiet)) == (0, first.session_id, [])
        append(broker, b"b", partition=1)
        [news] = partitions(send(broker, 12, session_id=first.session_id, session_epoch=2))
        assert (news.partition_index, values(news)) == (1, [b"b"])

    def test_wrong_ids_and_epochs(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        id_ = send(broker, 12, 0, session_epoch=0).session_id
        assert send(broker, 12, session_id=id_, session_epoch=2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert send(broker, 12, session_id=id_ + 1, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert send(broker, 13, session_id=id_, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert send(broker, 12, session_id=id_, session_epoch=1).error_code == 0
        assert send(broker, 12, 0, session_id=id_, session_epoch=-1).session_id == 0
        assert send(broker, 12, session_id=id_, session_epoch=2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_forgotten_partitions_are_no_longer_served(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=2)
        id_ = send(broker, 13, 0, 0, session_epoch=0).session_id
        send(broker, 13, session_id=id_, session_epoch=1, forgotten=(0,))
        append(broker, b"a", partition=0)
        append(broker, b"b", partition=1)
        assert [data.partition_index for data in partitions(send(broker, 13, session_id=id_, session_epoch=2))] == [1]

    def test_a_request_that_overtakes_a_waiting_one_ends_it(self) -> None:
        broker = Broker()
        broker.create_topic("orders")
        id_ = send(broker, 12, 0, session_epoch=0).session_id
        waiting = broker.call(fetch.handle, request(12, session_id=id_, session_epoch=1, max_wait_ms=500), 12)
        send(broker, 12, session_id=id_, session_epoch=2)
        append(broker, b"a")
        late = waiting.result()
        assert (late.error_code, late.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        log = broker.manager.partition(TopicPartition("orders", 0)).log
        assert log is not None
        assert log.active.pin.readers == 0, "what had been read for it is given back"

    def test_partitions_served_go_to_the_end_of_the_line(self) -> None:
        broker = Broker()
        broker.create_topic("orders", partitions=2)
        id_ = send(broker, 12, 0, 0, session_epoch=0).session_id
        for _ in range(2):
            append(broker, b"a" * 500, partition=0)
            append(broker, b"b" * 500, partition=1)
        served = [
            [
                data.partition_index
                for data in partitions(send(broker, 12, session_id=id_, session_epoch=epoch, max_bytes=1))
                if data.records
            ]
            for epoch in (1, 2, 3, 4)
        ]
        assert served == [[0], [1], [0], [1]]

    def test_a_topic_id_that_becomes_known_is_served_in_its_session(self) -> None:
        broker = Broker()
        first = send(broker, 13, 0, id_=topic_id(5), session_epoch=0)
        assert [data.error_code for data in partitions(first)] == [ErrorCode.UNKNOWN_TOPIC_ID]
        broker.create_topic("orders", number=5)
        append(broker, b"a")
        [data] = partitions(send(broker, 13, session_id=first.session_id, session_epoch=1))
        assert values(data) == [b"a"]

    def test_a_topic_made_anew_under_its_name_is_another_topic(self) -> None:
        broker = Broker()
        old = broker.create_topic("orders", number=1)
        id_ = send(broker, 13, 0, id_=old, session_epoch=0).session_id
        broker.delete_topic(old)
        broker.create_topic("orders", number=2)
        [data] = partitions(send(broker, 13, session_id=id_, session_epoch=1))
        assert data.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_unknown_ids() -> None:
    broker = Broker()
    [data] = partitions(send(broker, 13, 0, id_=topic_id(9), max_wait_ms=500))
    assert (data.error_code, data.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_leader_epochs_and_where_the_leader_is() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    broker.move_leader(id_, 1)  # epoch 1
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, ErrorCode.NONE)):
        response = send(broker, 16, 0, current_leader_epoch=epoch)
        [data] = partitions(response)
        assert data.error_code == error
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
            assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "host1", 9001)]


def test_a_diverging_epoch_asks_for_truncation() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders")
    append(broker, b"a")
    broker.move_leader(id_, 1)
    append(broker, b"b")
    [data] = partitions(send(broker, 12, 2, last_fetched_epoch=0))
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 1)
    [data] = partitions(send(broker, 12, 2, last_fetched_epoch=1))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (-1, -1)


def test_read_committed_stops_at_the_last_stable_offset() -> None:
    broker = Broker(transaction_partition_verification_enable="false")
    broker.create_topic("orders")
    append(broker, b"a")
    log = broker.manager.partition(TopicPartition("orders", 0)).log
    assert log is not None
    guard = log.start_verification(7, 0, 0)
    log.append_as_leader(batch(b"t", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 0, verification_guard=guard)
    append(broker, b"b")
    [uncommitted] = partitions(send(broker, 12, 0, isolation_level=0))
    [committed] = partitions(send(broker, 12, 0, isolation_level=1))
    assert values(uncommitted) == [b"a", b"t", b"b"]
    assert values(committed) == [b"a"]
    assert (committed.last_stable_offset, committed.high_watermark, committed.aborted_transactions) == (1, 3, [])


def test_zstd_topics_are_served_to_every_version() -> None:
    """Kafka 4 no longer looks at the topic's codec: clients that old are long gone."""
    broker = Broker()
    broker.create_topic("orders", compression_type="zstd")
    append(broker, b"a")
    for version in (9, 10):
        [data] = partitions(send(broker, version, 0))
        assert data.error_code == ErrorCode.NONE


def test_a_first_batch_that_does_not_fit_is_left_out() -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=2)
    append(broker, b"a")
    append(broker, b"b", partition=1)
    first, second = partitions(send(broker, 12, 0, 0, partition_max_bytes=10))
    assert values(first) == [b"a"]
    assert len(records_view(second.records)) == 0
    assert second.error_code == ErrorCode.NONE


def test_storage_errors_are_told_to_old_clients_in_words_they_know() -> None:
    broker = Broker()
    broker.create_topic("orders")
    broker.parts.log_manager.directory_failed("/data", OSError(5, "gone"))
    for version, error in ((5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)):
        [data] = partitions(send(broker, version, 0))
        assert data.error_code == error


def test_a_follower_moves_the_high_watermark_by_its_fetches() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    append(broker, b"a")
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=200)
    [data] = partitions(send(broker, 17, 0, replica_state=state, current_leader_epoch=0))
    assert (values(data), data.high_watermark) == ([b"a"], 0)
    send(broker, 17, 1, replica_state=state, current_leader_epoch=0)
    [data] = partitions(send(broker, 17, 0))
    assert (values(data), data.high_watermark) == ([b"a"], 1)


def test_nothing_stays_pinned() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a" * 100)
    pending = broker.call(fetch.handle, request(12, 0, max_wait_ms=500, min_bytes=10_000), 12)
    append(broker, b"b" * 100)
    broker.clock.advance_ms(500)
    through_the_wire(pending.result(), 12)
    log = broker.manager.partition(TopicPartition("orders", 0)).log
    assert log is not None
    assert log.active.pin.readers == 0


def test_any_negative_epoch_means_none() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a")
    [data] = partitions(send(broker, 12, 0, current_leader_epoch=-2, last_fetched_epoch=-5))
    assert values(data) == [b"a"]


def test_negative_limits_are_an_error_only_where_there_is_something_to_read() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"a")
    assert [data.error_code for data in partitions(send(broker, 12, 0, partition_max_bytes=-1))] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert [data.error_code for data in partitions(send(broker, 12, 1, partition_max_bytes=-1))] == [0]


def test_unknown_partitions_have_an_empty_list_of_aborted_transactions() -> None:
    broker = Broker()
    broker.create_topic("orders")
    assert [data.aborted_transactions for data in partitions(send(broker, 12, 0, 0))] == [None, []]


class TestFollowers:
    def test_consumers_that_know_of_them_may_read_from_them_and_nobody_else(self) -> None:
        broker = Broker()
        id_ = broker.create_topic("orders", replicas=(NODE, 2))
        append(broker, b"a")
        broker.move_leader(id_, 2)
        for version, code in ((10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, 0), (18, 0)):
            [data] = partitions(send(broker, version, 0))
            assert data.error_code == code, version
        [data] = partitions(send(broker, 14, 0, replica_id=2))
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=200)
        [data] = partitions(send(broker, 15, 0, replica_state=state))
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_followers_are_not_told_where_the_leader_is(self) -> None:
        broker = Broker()
        id_ = broker.create_topic("orders", replicas=(NODE, 2))
        broker.move_leader(id_, 2)
        consumer = send(broker, 16, 0, current_leader_epoch=0)
        assert [node.node_id for node in consumer.node_endpoints] == [2]
        follower = send(broker, 16, 0, current_leader_epoch=0, replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=200))
        assert follower.node_endpoints == []


def test_min_bytes_is_never_more_than_can_be_had() -> None:
    broker = Broker()
    broker.create_topic("orders")
    append(broker, b"x" * 1000)
    answer = send(broker, 12, 0, max_bytes=500, min_bytes=1 << 20, max_wait_ms=1000)
    assert isinstance(answer, FetchResponse), "answered at once"
    assert values(partitions(answer)[0]) == [b"x" * 1000]
