"""ListOffsets and OffsetForLeaderEpoch at handler level."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.handlers.data import list_offsets, offset_for_leader_epoch
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.handlers.fetch_support import append
from tests.handlers.support import Broker

VERSIONS = range(1, 12)


def ask(
    broker: Broker, version: int, *timestamps: int, partitions: tuple[int, ...] | None = None, current_leader_epoch: int = -1, **fields: Any
) -> list[ListOffsetsResponse.ListOffsetsPartitionResponse]:
    if version < 2:
        fields.pop("isolation_level", None)
    request = ListOffsetsRequest(
        replica_id=fields.pop("replica_id", -1),
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name="orders",
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=current_leader_epoch
                    )
                    for index, timestamp in zip(partitions or (0,) * len(timestamps), timestamps, strict=True)
                ],
            )
        ],
        **fields,
    )
    response = broker.call(list_offsets.handle, request, version)
    assert isinstance(response, ListOffsetsResponse)
    return [partition for topic in response.topics for partition in topic.partitions]


def three_records() -> Broker:
    broker = Broker()
    broker.create_topic("orders")
    for value, timestamp in ((b"a", 100), (b"b", 300), (b"c", 200)):
        append(broker, value, timestamp=timestamp)
    return broker


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_answers_first_last_and_by_time(version: int) -> None:
    broker = three_records()
    epoch = 0 if version >= 4 else -1
    for timestamp, found in ((-2, (-1, 0)), (-1, (-1, 3)), (0, (100, 0)), (101, (300, 1)), (300, (300, 1)), (301, (-1, -1))):
        [answer] = ask(broker, version, timestamp)
        assert answer.error_code == 0
        assert (answer.timestamp, answer.offset) == found, timestamp
        assert answer.leader_epoch == (epoch if answer.offset >= 0 else -1)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
def test_special_timestamps_by_version(timestamp: int, since: int) -> None:
    broker = three_records()
    for version in VERSIONS:
        [answer] = ask(broker, version, timestamp)
        assert answer.error_code == (ErrorCode.UNSUPPORTED_VERSION if version < since else 0), version
    if since <= 11:
        expected = {-3: (300, 1, 0), -4: (-1, 0, 0), -5: (-1, -1, -1), -6: (-1, -1, -1)}[timestamp]
        [answer] = ask(broker, 11, timestamp)
        assert (answer.timestamp, answer.offset, answer.leader_epoch) == expected


def test_a_topic_may_stand_in_several_places_of_a_request() -> None:
    broker = Broker()
    broker.create_topic("orders", partitions=3)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name="orders", partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers]
        )
        for numbers in ([2], [0, 1])
    ]
    (topic,) = broker.call(list_offsets.handle, ListOffsetsRequest(replica_id=-1, topics=topics), 8).topics
    assert [(each.partition_index, each.error_code, each.offset) for each in topic.partitions] == [(2, 0, 0), (0, 0, 0), (1, 0, 0)]


def test_an_empty_partition_answers_at_once() -> None:
    broker = Broker()
    broker.create_topic("orders")
    for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (5, -1)):
        [answer] = ask(broker, 11, timestamp)
        assert (answer.error_code, answer.offset) == (0, offset)


def test_consumers_are_shown_nothing_beyond_the_high_watermark() -> None:
    broker = Broker()
    broker.create_topic("orders", replicas=(1, 2))
    append(broker, b"a", timestamp=100)
    assert [(answer.error_code, answer.offset) for answer in ask(broker, 11, -1)] == [(0, 0)]
    assert [(answer.error_code, answer.offset) for answer in ask(broker, 11, 100)] == [(0, -1)]
    assert [answer.offset for answer in ask(broker, 11, -1, replica_id=-2)] == [1]
    assert [answer.offset for answer in ask(broker, 11, -1, replica_id=2)] == [1]


def test_a_new_leader_that_does_not_know_yet_says_so() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    append(broker, b"a", timestamp=100)
    broker.move_leader(id_, 1)
    for version, error in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)):
        assert [answer.error_code for answer in ask(broker, version, -1)] == [error]
        assert [answer.error_code for answer in ask(broker, version, 100)] == [error]
        assert [answer.error_code for answer in ask(broker, version, -2)] == [0]


def test_errors_by_partition() -> None:
    broker = three_records()
    answers = ask(broker, 11, -1, -1, -1, -1, partitions=(0, 7, 7, 3))
    assert [(answer.partition_index, answer.error_code) for answer in answers] == [
        (0, 0),
        (7, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [answer.error_code for answer in ask(broker, 11, -1, current_leader_epoch=5)] == [ErrorCode.UNKNOWN_LEADER_EPOCH]


class TestOffsetForLeaderEpoch:
    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_tells_where_epochs_end(self, version: int) -> None:
        broker = Broker()
        id_ = broker.create_topic("orders")
        append(broker, b"a")
        broker.move_leader(id_, 1)
        append(broker, b"b")
        append(broker, b"c")
        wanted = ((0, -1), (1, 1), (2, 1), (0, 0), (0, 2))  # (epoch, current leader epoch)
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
                        for epoch, current in wanted
                    ],
                )
            ]
        )
        response = broker.call(offset_for_leader_epoch.handle, request, version)
        found = [(answer.error_code, answer.leader_epoch, answer.end_offset) for answer in response.topics[0].partitions]
        assert found == [
            (0, 0, 1),
            (0, 1, 3),
            (0, -1, -1),
            (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
            (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
        ]


def test_a_reader_of_what_is_committed_ends_at_the_last_stable_offset() -> None:
    broker = Broker(transaction_partition_verification_enable="false")
    broker.create_topic("orders")
    append(broker, b"plain")
    append(broker, b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert [ask(broker, 7, -1, isolation_level=level)[0].offset for level in (0, 1)] == [2, 1]
    assert [ask(broker, 7, 1_700_000_000_000, isolation_level=level)[0].offset for level in (0, 1)] == [0, 0]


def test_a_follower_answers_for_itself_only_to_tools() -> None:
    broker = Broker()
    id_ = broker.create_topic("orders", replicas=(1, 2))
    broker.move_leader(id_, 2)
    for replica_id, code in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER), (-2, ErrorCode.NONE)):
        [answer] = ask(broker, 7, -1, replica_id=replica_id)
        assert answer.error_code == code
