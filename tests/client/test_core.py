"""Metadata, versions, back-off and requests of the clients, without a network."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.client.core.accumulator import Batch
from odradek.client.core.data_requests import (
    FetchSettings,
    fetch_request,
    fetched_partitions,
    list_offsets_request,
    produce_answers,
    produce_request,
    topic_ids,
)
from odradek.client.core.fetch_session import SessionRequest
from odradek.client.core.fetcher import FetchTarget
from odradek.client.core.metadata import LEADERSHIP_ERRORS, MetadataCache
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.messages.produce import ProduceResponse

TP = TopicPartition("t", 0)
FIRST, SECOND = UUID(int=1), UUID(int=2)


def metadata(leader: int = 1, leader_epoch: int = 5, *, topic_id: UUID = FIRST, error: int = 0, name: str = "t") -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=[])
    if not error:
        topic.partitions.append(
            MetadataResponse.MetadataResponsePartition(
                partition_index=0, leader_id=leader, leader_epoch=leader_epoch, replica_nodes=[1, 2], isr_nodes=[1]
            )
        )
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=f"host{node}", port=9092) for node in (1, 2)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


class TestMetadata:
    def test_a_question_is_unanswered_since_the_last_answer(self) -> None:
        cache = MetadataCache(300_000)
        assert cache.asking(1000) == 0
        assert cache.asking(6000) == 5000
        cache.update(metadata(), 7000)
        assert cache.asking(500_000) == 0

    def test_a_late_answer_does_not_bring_back_a_former_leader(self) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(2, 6), 0)
        cache.update(metadata(1, 5), 1)
        assert cache.view.leader(TP) == 2
        cache.update(metadata(1, 7), 2)
        assert cache.view.leader(TP) == 1

    def test_brokers_that_name_no_epoch_are_believed(self) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(2, 6), 0)
        cache.update(metadata(1, -1), 1)
        assert cache.view.leader(TP) == 1

    def test_a_topic_made_anew_begins_with_its_own_epochs(self) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(2, 6), 0)
        cache.update(metadata(1, 0, topic_id=SECOND), 1)
        assert cache.view.leader(TP) == 1
        assert cache.view.topic_name(SECOND) == "t"
        assert cache.view.topic_name(FIRST) is None

    def test_other_topics_stay_as_they_were(self) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(), 0)
        cache.update(metadata(name="u", topic_id=SECOND), 1)
        assert cache.view.leader(TP) == cache.view.leader(TopicPartition("u", 0)) == 1

    @pytest.mark.parametrize("leader", [-1, 7])
    def test_a_leader_that_cannot_be_reached_is_none(self, leader: int) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(leader), 0)
        assert cache.view.leader(TP) is None

    def test_is_asked_for_at_first_when_it_grew_old_and_when_something_contradicts_it(self) -> None:
        cache = MetadataCache(1000)
        assert cache.due_in_ms(0) == 0
        cache.update(metadata(), 100)
        assert cache.due_in_ms(100) == 1000
        assert cache.due_in_ms(900) == 200
        assert cache.due_in_ms(5000) == 0
        cache.update(metadata(), 5000)
        cache.request_update()
        assert cache.due_in_ms(5001) == 0
        cache.update(metadata(), 5002)
        assert cache.due_in_ms(5002) == 1000

    def test_knows_which_topics_are_missing(self) -> None:
        cache = MetadataCache(1000)
        assert cache.want(["t"])
        cache.update(metadata(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0)
        assert cache.want(["t"])
        cache.update(metadata(), 1)
        assert not cache.want(["t"])
        cache.forget("t")
        assert cache.wanted == set()
        assert cache.view.leader(TP) is None


class TestRequests:
    TARGET = FetchTarget(TP, 42, 7, 1, 1000, ZERO_UUID)
    SETTINGS = FetchSettings(max_wait_ms=500, min_bytes=2, max_bytes=3000, isolation=1, rack_id="r")

    def test_a_fetch_says_what_is_wanted(self) -> None:
        targets = [self.TARGET, self.TARGET._replace(topic_partition=TopicPartition("t", 1))]
        asked = SessionRequest(7, 3, targets, [(TopicPartition("u", 2), SECOND), (TopicPartition("u", 4), SECOND)])
        request = fetch_request(asked, self.SETTINGS, {"t": FIRST})
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (500, 2, 3000, 1)
        assert (request.session_id, request.session_epoch, request.rack_id) == (7, 3, "r")
        [forgotten] = request.forgotten_topics_data
        assert (forgotten.topic, forgotten.topic_id, forgotten.partitions) == ("u", SECOND, [2, 4])
        [topic] = request.topics
        assert topic.topic_id == FIRST
        [first, second] = topic.partitions
        assert (first.partition, first.fetch_offset, first.current_leader_epoch, first.partition_max_bytes) == (0, 42, 7, 1000)
        assert second.partition == 1

    def test_answers_by_id_find_their_target(self) -> None:
        data = FetchResponse.PartitionData(
            partition_index=0, records=b"", aborted_transactions=[FetchResponse.AbortedTransaction(producer_id=5, first_offset=6)]
        )
        response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic_id=FIRST, partitions=[data])])
        other = self.TARGET._replace(topic_partition=TopicPartition("t", 1))
        answers = fetched_partitions(response, {"t": FIRST})
        missing, found = answers.get(other.topic_partition), answers[self.TARGET.topic_partition]
        assert missing is None
        assert found is not None
        assert found.aborted == [(5, 6)]

    def test_a_fetch_refused_as_a_whole_is_an_error(self) -> None:
        with pytest.raises(KafkaError) as caught:
            fetched_partitions(FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID), None)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID

    def test_an_answer_that_leaves_a_batch_out_is_an_error_of_that_batch(self) -> None:
        batches = [Batch(TopicPartition("t", number), 0) for number in (0, 1)]
        part = ProduceResponse.PartitionProduceResponse(index=1, base_offset=9)
        response = ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name="t", partition_responses=[part])])
        [left_out, answered] = produce_answers(batches, response, None)
        assert left_out.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (answered.error, answered.base_offset) == (ErrorCode.NONE, 9)

    def test_a_produce_request_holds_the_batches_by_topic(self) -> None:
        batches = [Batch(TopicPartition(*place), 0) for place in (("t", 0), ("u", 0), ("t", 1))]
        request = produce_request(batches, -1, 1000, {"t": FIRST, "u": SECOND})
        assert [(topic.topic_id, [data.index for data in topic.partition_data]) for topic in request.topic_data] == [
            (FIRST, [0, 1]),
            (SECOND, [0]),
        ]

    def test_an_end_is_asked_for_at_the_isolation_of_the_reader(self) -> None:
        request = list_offsets_request({TP: -1}, 1, 1000)
        assert (request.replica_id, request.isolation_level) == (-1, 1)
        assert request.topics[0].partitions[0].timestamp == -1

    def test_topics_go_by_id_only_when_all_have_one(self) -> None:
        cache = MetadataCache(1000)
        cache.update(metadata(), 0)
        assert topic_ids(cache.view, ["t"]) == {"t": FIRST}
        assert topic_ids(cache.view, ["t", "u"]) is None
        cache.update(metadata(topic_id=ZERO_UUID), 1)
        assert topic_ids(cache.view, ["t"]) is None


def test_what_newer_metadata_may_heal_is_asked_again() -> None:
    """In Java every InvalidMetadataException is a RetriableException."""
    assert [code for code in LEADERSHIP_ERRORS if not code.retriable] == []
