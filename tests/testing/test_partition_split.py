"""Requests taken apart by topic and partition, and answers put together."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.testing.kit.partition_split import names_topics, overlay, partition_errors, says, split

TopicData, PartitionData = ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData


def _produce(**topics: list[int]) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicData(name=name, partition_data=[PartitionData(index=index) for index in indexes]) for name, indexes in topics.items()
        ],
    )


def _named(request: ProduceRequest | None) -> dict[str, list[int]] | None:
    return None if request is None else {topic.name: [each.index for each in topic.partition_data] for topic in request.topic_data}


def test_a_request_is_divided_by_partition_and_keeps_the_rest_of_itself() -> None:
    inside, rest = split(_produce(a=[0, 1], b=[1]), lambda topic, partition: topic == "a" and partition == 1)
    assert _named(inside) == {"a": [1]}
    assert _named(rest) == {"a": [0], "b": [1]}
    assert inside is not None
    assert rest is not None
    assert inside.acks == rest.acks == -1


def test_where_nothing_or_all_matches_one_half_is_missing() -> None:
    request = _produce(a=[0])
    assert split(request, lambda topic, partition: topic == "b") == (None, request)
    inside, rest = split(request, lambda topic, partition: topic == "a")
    assert (_named(inside), rest) == ({"a": [0]}, None)


def test_topics_are_found_by_id_in_lists_of_numbers_and_within_groups() -> None:
    topic_id = UUID(int=5)
    by_id = ProduceRequest(topic_data=[TopicData(topic_id=topic_id, partition_data=[PartitionData(index=0)])])
    assert split(by_id, lambda topic, partition: topic == topic_id)[1] is None

    topics = OffsetFetchRequest.OffsetFetchRequestTopics
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topics(name="t", partition_indexes=[0, 1, 2])]) for group in "gh"
    ]
    inside, rest = split(OffsetFetchRequest(groups=groups), lambda topic, partition: partition == 1)
    assert inside is not None
    assert rest is not None
    assert [(group.group_id, group.topics[0].partition_indexes) for group in inside.groups] == [("g", [1]), ("h", [1])]
    assert [(group.group_id, group.topics[0].partition_indexes) for group in rest.groups] == [("g", [0, 2]), ("h", [0, 2])]


def test_plain_names_of_topics_are_divided_too() -> None:
    inside, rest = split(DeleteTopicsRequest(topic_names=["a", "b"]), lambda topic, partition: topic == "a")
    assert inside is not None
    assert rest is not None
    assert (inside.topic_names, rest.topic_names) == (["a"], ["b"])


def test_a_request_without_topics_is_all_rest() -> None:
    request = HeartbeatRequest(group_id="g")
    assert not names_topics(request)
    assert split(request, lambda topic, partition: True) == (None, request)


def test_errors_stand_with_each_partition_and_say_that_nothing_is_known() -> None:
    errors = partition_errors(_produce(a=[0, 3]), ProduceResponse, 6, "as told")
    assert errors is not None
    assert [(each.index, each.error_code, each.base_offset, each.error_message) for each in errors.responses[0].partition_responses] == [
        (0, 6, -1, "as told"),
        (3, 6, -1, "as told"),
    ]
    assert says(errors, 6)
    assert not says(errors, 7)


def test_errors_find_their_place_within_transactions_and_groups() -> None:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[4])
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(transactional_id="x", producer_id=1, topics=[topic])
    errors = partition_errors(AddPartitionsToTxnRequest(transactions=[transaction]), AddPartitionsToTxnResponse, 48, None)
    assert errors is not None
    (result,) = errors.results_by_transaction
    assert result.transactional_id == "x"
    assert result.topic_results[0].results_by_partition[0].partition_index == 4
    assert result.topic_results[0].results_by_partition[0].partition_error_code == 48


def test_an_answer_without_topics_has_no_place_for_the_error_of_one() -> None:
    assert partition_errors(_produce(a=[0]), ConsumerGroupHeartbeatResponse, 6, None) is None


def test_errors_take_the_place_of_what_was_served_and_stand_beside_the_rest() -> None:
    def answer(error: int, **topics: list[int]) -> ProduceResponse:
        found = partition_errors(_produce(**topics), ProduceResponse, error, None)
        assert found is not None
        return found

    served = answer(0, a=[0, 1], b=[0])
    served.throttle_time_ms = 7
    merged = overlay(served, answer(6, a=[1, 2], c=[0]))
    assert merged.throttle_time_ms == 7
    assert {(topic.name, each.index): each.error_code for topic in merged.responses for each in topic.partition_responses} == {
        ("a", 0): 0,
        ("a", 1): 6,
        ("a", 2): 6,
        ("b", 0): 0,
        ("c", 0): 6,
    }
    assert [topic.name for topic in merged.responses] == ["a", "b", "c"]


def test_entries_of_several_groups_are_told_apart() -> None:
    groups = OffsetFetchResponse.OffsetFetchResponseGroup
    served = OffsetFetchResponse(groups=[groups(group_id="g"), groups(group_id="h")])
    merged = overlay(served, OffsetFetchResponse(groups=[groups(group_id="h", error_code=16)]))
    assert [(group.group_id, group.error_code) for group in merged.groups] == [("g", 0), ("h", 16)]
