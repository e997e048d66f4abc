"""What clients hear of the cluster: Metadata, DescribeCluster, DescribeTopicPartitions, and topics that asking creates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.config.keys.groups import OFFSETS_TOPIC_NUM_PARTITIONS
from odradek.config.keys.transactions import TRANSACTION_STATE_LOG_MIN_ISR
from odradek.handlers.admin.auto_creation import create_topics
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.metadata_records import FenceBrokerRecord
from odradek.protocol.schema import Message
from tests.handlers.support import NODE, Broker

MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Controller:
    """The channel to the controller: keeps the requests, answers when told."""

    def __init__(self) -> None:
        self.requests: list[CreateTopicsRequest] = []
        self.answers: list[Deferred[Message]] = []

    def send(self, destination: int, api_key: int, request: CreateTopicsRequest, version: int) -> Deferred[Message]:
        self.requests.append(request)
        self.answers.append(Deferred())
        return self.answers[-1]

    @property
    def asked_for(self) -> list[list[str]]:
        return [[topic.name for topic in request.topics] for request in self.requests]

    def answer(self, **codes: ErrorCode) -> None:
        results = [CreateTopicsResponse.CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
        self.answers[-1].complete(CreateTopicsResponse(topics=results))


def world(**config: str) -> tuple[Broker, Controller]:
    controller = Controller()
    return Broker(new_channel=lambda _: controller, **config), controller


def ask(broker: Broker, *names: str, version: int | None = None, **fields: Any) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return broker.ask(MetadataRequest(topics=topics, **fields), version)


class TestWhichTopics:
    @pytest.mark.parametrize(("version", "found"), [(0, ["t"]), (1, []), (13, [])])
    def test_no_names_are_no_topics_but_in_version_0(self, version: int, found: list[str]) -> None:
        broker, _ = world()
        broker.create_topic("t")
        fields = {"allow_auto_topic_creation": True}
        assert [topic.name for topic in ask(broker, version=version, **fields).topics] == found

    def test_null_is_all_topics(self) -> None:
        broker, controller = world()
        broker.create_topic("t")
        assert [topic.name for topic in broker.ask(MetadataRequest(topics=None)).topics] == ["t"]
        assert controller.requests == []

    def test_one_that_is_asked_for_twice_is_answered_and_created_once(self) -> None:
        broker, controller = world()
        broker.create_topic("t")
        assert [topic.name for topic in ask(broker, "t", "new", "t", "new").topics] == ["t", "new"]
        assert controller.asked_for == [["new"]]

    def test_by_id(self) -> None:
        broker, controller = world()
        known = broker.create_topic("t")
        unknown = UUID(int=99)
        topics = [MetadataRequest.MetadataRequestTopic(name=None, topic_id=each) for each in (known, unknown)]
        answer = broker.ask(MetadataRequest(topics=topics))
        assert {(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics} == {
            ("t", known, 0),
            (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        }
        assert controller.requests == [], "an id cannot be created"


class TestCreation:
    def test_a_topic_that_is_asked_for_is_created_once(self) -> None:
        broker, controller = world(num_partitions="3")
        for _ in range(2):
            (topic,) = ask(broker, "new").topics
            assert (topic.name, topic.error_code) == ("new", MISSING)
        assert controller.asked_for == [["new"]]
        assert controller.requests[0].topics[0].num_partitions == 3
        controller.answer(new=ErrorCode.NONE)

    def test_after_an_answer_it_may_be_asked_for_again(self) -> None:
        broker, controller = world()
        for times in range(1, 4):
            ask(broker, "new")
            controller.answer(new=ErrorCode.POLICY_VIOLATION)
            assert controller.asked_for == [["new"]] * times

    def test_without_an_answer_it_may_be_asked_for_again(self) -> None:
        broker, controller = world()
        first = create_topics(broker.parts, ["new"], "me")
        controller.answers[-1].fail(ConnectionError("the controller is gone"))
        assert first["new"].result() is False
        again = create_topics(broker.parts, ["new"], "me")
        assert controller.asked_for == [["new"]] * 2
        controller.answer(new=ErrorCode.NONE)
        assert again["new"].result() is True

    def test_not_where_the_client_forbids_it(self) -> None:
        broker, controller = world()
        assert ask(broker, "new", allow_auto_topic_creation=False).topics[0].error_code == MISSING
        assert controller.requests == []

    def test_not_where_the_broker_forbids_it(self) -> None:
        broker, controller = world(auto_create_topics_enable="false")
        assert ask(broker, "new").topics[0].error_code == MISSING
        assert controller.requests == []

    def test_not_under_a_name_that_cannot_be(self) -> None:
        broker, controller = world()
        answer = ask(broker, "a b", "new", "..")
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "new": MISSING,
            "..": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert controller.asked_for == [["new"]]

    def test_everybody_who_asked_hears_of_it(self) -> None:
        broker, controller = world()
        first, second = (create_topics(broker.parts, ["a", "b"], "me") for _ in range(2))
        assert controller.asked_for == [["a", "b"]]
        controller.answer(a=ErrorCode.TOPIC_ALREADY_EXISTS, b=ErrorCode.INVALID_REPLICATION_FACTOR)
        for answers in (first, second):
            assert {name: answer.result() for name, answer in answers.items()} == {"a": True, "b": False}

    def test_the_log_says_why_once_for_as_many_as_it_remembers(self, caplog: pytest.LogCaptureFixture) -> None:
        broker, controller = world()

        def refused(name: str) -> int:
            caplog.clear()
            create_topics(broker.parts, [name], "me")
            controller.answer(**{name: ErrorCode.POLICY_VIOLATION})
            return sum(record.levelname == "WARNING" for record in caplog.records)

        assert (refused("a"), refused("a")) == (1, 0)
        for number in range(1000):
            assert refused(f"other-{number}") == 1
        assert refused("a") == 1, "names are not remembered without a limit"

    def test_a_coordinator_s_topic_is_made_as_it_needs_to_be(self) -> None:
        broker, controller = world()
        create_topics(broker.parts, ["__consumer_offsets", "__transaction_state"], "me")
        offsets, state = controller.requests[0].topics
        assert offsets.num_partitions == broker.services.config[OFFSETS_TOPIC_NUM_PARTITIONS]
        configs = {config.name: config.value for config in offsets.configs}
        assert (configs["cleanup.policy"], configs["compression.type"]) == ("compact", "producer")
        configs = {config.name: config.value for config in state.configs}
        assert (configs["compression.type"], configs["unclean.leader.election.enable"]) == ("uncompressed", "false")
        assert configs["min.insync.replicas"] == str(broker.services.config[TRANSACTION_STATE_LOG_MIN_ISR])


class TestBrokers:
    def fence(self, broker: Broker, node: int) -> None:
        broker.apply(FenceBrokerRecord(id=node, epoch=100 * node))

    def test_only_those_that_live_are_named(self) -> None:
        broker, _ = world()
        assert {node.node_id for node in ask(broker).brokers} == {1, 2}
        self.fence(broker, 1)
        for _ in range(20):
            answer = ask(broker)
            assert ({node.node_id for node in answer.brokers}, answer.controller_id) == ({2}, 2)
        self.fence(broker, 2)
        assert (ask(broker).brokers, ask(broker).controller_id) == ([], -1)

    def test_fenced_ones_on_request(self) -> None:
        broker, _ = world()
        self.fence(broker, 2)
        answer = broker.ask(DescribeClusterRequest(endpoint_type=1))
        assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [(1, False)]
        answer = broker.ask(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True))
        assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [(1, False), (2, True)]

    @pytest.mark.parametrize(("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)])
    def test_controllers_are_not_to_be_had_here(self, kind: int, code: ErrorCode) -> None:
        broker, _ = world()
        answer = broker.ask(DescribeClusterRequest(endpoint_type=kind))
        assert (answer.error_code, answer.brokers) == (code, [])

    def test_what_one_may_do_on_request(self) -> None:
        broker, _ = world()
        assert broker.ask(DescribeClusterRequest()).cluster_authorized_operations == -(1 << 31)
        assert broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True)).cluster_authorized_operations > 0


class TestPages:
    def pages(self, broker: Broker, *names: str, limit: int = 2) -> list[list[tuple[str, list[int]]]]:
        cursor, found = None, []
        topics = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        while True:
            request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
            answer = broker.ask(request)
            found.append([(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics])
            if answer.next_cursor is None:
                return found
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )

    def test_all_topics_page_by_page(self) -> None:
        broker, _ = world()
        broker.create_topic("a", number=1, partitions=3)
        broker.create_topic("b", number=2, partitions=1)
        assert self.pages(broker) == [[("a", [0, 1])], [("a", [2]), ("b", [0])]]
        assert self.pages(broker, "b") == [[("b", [0])]]

    def test_the_broker_has_the_last_word_on_their_size(self) -> None:
        broker, _ = world(max_request_partition_size_limit="1")
        broker.create_topic("a", partitions=2)
        assert self.pages(broker, limit=2000) == [[("a", [0])], [("a", [1])]]

    @pytest.mark.parametrize(("topic", "partition"), [("b", 0), ("a", -1)])
    def test_a_cursor_belongs_to_its_request(self, topic: str, partition: int) -> None:
        broker, _ = world()
        broker.create_topic("a")
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name="a")],
            response_partition_limit=5,
            cursor=DescribeTopicPartitionsRequest.Cursor(topic_name=topic, partition_index=partition),
        )
        assert [each.error_code for each in broker.ask(request).topics] == [ErrorCode.INVALID_REQUEST]


def test_leaders_are_those_of_the_image() -> None:
    broker, _ = world()
    id_ = broker.create_topic("t", leader=NODE, replicas=(1, 2))
    assert ask(broker, "t").topics[0].partitions[0].leader_id == NODE
    broker.move_leader(id_, 2)
    (partition,) = ask(broker, "t").topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (2, 1, [1, 2])
