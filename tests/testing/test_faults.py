"""Faults of an embedded broker, as clients see them on their sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from odradek.base.errors import ErrorCode
from odradek.handlers.scopes import BROKER
from odradek.handlers.table import APIS, Api
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.registry import request_class, response_class
from odradek.testing import EmbeddedBroker, FaultError, TestingError, Topic
from odradek.testing.kit.faults import Action, RuleBook, new_rule
from odradek.testing.kit.partition_split import names_topics, partition_errors
from tests.testing.wire import Wire, errors_in, sample

SERVED = [api for api in APIS if api.is_served_on(BROKER)]
STRANGE = ErrorCode.POLICY_VIOLATION
"""An error that none of these requests has of itself."""


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=[Topic("orders", 2), Topic("others", 2)], memory=True) as broker:
        yield broker


@pytest.fixture
def broker(shared: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    yield shared
    shared.faults.clear()


def _versions(api: Api) -> range:
    """Those in which an answer has a place for an error: DescribeLogDirs below 3 can only be empty."""
    return range(
        3 if api.api_key == ApiKey.DESCRIBE_LOG_DIRS else api.min_version,
        api.max_version + 1 - API_INFO[api.api_key].latest_version_unstable,
    )


def _name(api: Api) -> str:
    return api.api_key.name.lower()


@pytest.mark.parametrize("api", SERVED, ids=_name)
def test_every_api_answers_in_every_version_with_the_error_it_is_told(broker: EmbeddedBroker, api: Api) -> None:
    broker.faults.fail(api.api_key, STRANGE)
    for version in _versions(api):
        request = sample(api.api_key, version, "orders")
        if hasattr(request, "acks"):
            request.acks = -1
        with Wire(broker.port) as wire:
            answer = wire.ask(request, version)
            if api.api_key == ApiKey.METADATA and version == 0:
                assert [topic.error_code for topic in answer.topics] == [STRANGE]
            assert STRANGE in set(errors_in(answer)), version


@pytest.mark.parametrize("api", [api for api in SERVED if names_topics(request_class(api.api_key)())], ids=_name)
def test_every_api_that_names_topics_puts_the_error_of_a_partition_where_it_belongs(broker: EmbeddedBroker, api: Api) -> None:
    with Wire(broker.port) as wire:
        topic_id = wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")]), 12).topics[0].topic_id
    fault = broker.faults.fail(api.api_key, STRANGE, topic="orders", message="as told")
    asked = 0
    for version in _versions(api):
        request = sample(api.api_key, version, "orders", topic_id)
        if hasattr(request, "acks"):
            request.acks = -1
        with Wire(broker.port) as wire:
            answer = wire.ask(request, version)
            asked += 1
            assert STRANGE in set(errors_in(answer)), version
            if partition_errors(request, response_class(api.api_key), 1, None) is not None:
                assert getattr(answer, "error_code", 0) == 0, version
    assert fault.hits == asked


def _produce(broker: EmbeddedBroker, topic: str, partition: int, value: bytes, **settings: object) -> object:
    """The error that the producer reports, None when all is well."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "writer", "linger.ms": 0, **settings})
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0] if errors else "not reported"


def _read(broker: EmbeddedBroker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"of-{topic}", "auto.offset.reset": "earliest", "client.id": "reader"}
    )
    consumer.subscribe([topic])
    try:
        found: list[bytes] = []
        for message in consumer.consume(count, 20):
            assert message.error() is None
            found.append(message.value() or b"")
        return sorted(found)
    finally:
        consumer.close()


def test_a_producer_tries_again_after_the_errors_that_it_is_dealt(broker: EmbeddedBroker) -> None:
    before = broker.seen("Produce", client_id="writer")
    fault = broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="orders", partition=0, times=2)
    assert _produce(broker, "orders", 0, b"again") is None
    assert fault.hits == 2
    assert broker.seen("Produce", client_id="writer") == before + 3


def test_the_other_partitions_and_topics_of_a_request_are_served(broker: EmbeddedBroker) -> None:
    def offsets_of(*names: str) -> ListOffsetsRequest:
        partitions = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
        return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions) for name in names])

    broker.faults.fail("ListOffsets", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1)
    with Wire(broker.port) as wire:
        answer = wire.ask(offsets_of("orders", "others"), 7)
        found = {(topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions}
        assert {key: each.error_code for key, each in found.items()} == {
            ("orders", 0): 0,
            ("orders", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ("others", 0): 0,
            ("others", 1): 0,
        }
        assert found["orders", 1].offset == -1
        assert {each.error_code for each in wire.ask(offsets_of("others"), 7).topics[0].partitions} == {0}


def test_what_is_to_fail_takes_no_effect_in_a_request_that_is_served_otherwise(broker: EmbeddedBroker) -> None:
    names = [broker.create_topic("kept"), broker.create_topic("deleted")]
    broker.faults.fail("DeleteTopics", "TOPIC_DELETION_DISABLED", topic="kept")
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    with Wire(broker.port) as wire:
        answer = wire.ask(DeleteTopicsRequest(topics=states, timeout_ms=20_000), 6)
    assert {each.name: each.error_code for each in answer.responses} == {"kept": ErrorCode.TOPIC_DELETION_DISABLED, "deleted": 0}
    broker.call("await_topic", "deleted", False)
    assert set(names) & set(broker.call("topics")) == {"kept"}


def test_a_consumer_with_a_fetch_session_meets_the_error_of_one_partition_and_reads_on(broker: EmbeddedBroker) -> None:
    broker.create_topic("fetched", 2)
    for partition in (0, 1):
        _produce(broker, "fetched", partition, b"%d" % partition)
    fault = broker.faults.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="fetched", partition=1, times=3)
    assert _read(broker, "fetched", 2) == [b"0", b"1"]
    assert fault.hits == 3


def test_a_fetch_session_that_was_there_before_the_fault_begins_anew(broker: EmbeddedBroker) -> None:
    name = broker.create_topic("sessions", 2)
    with Wire(broker.port) as wire:
        topic_id = wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]), 12).topics[0].topic_id
        partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])

        def fetch(session_id: int, epoch: int, *topics: FetchRequest.FetchTopic) -> FetchRequest:
            return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_id=session_id, session_epoch=epoch, topics=list(topics))

        session_id = wire.ask(fetch(0, 0, topic), 16).session_id
        assert session_id != 0
        fault = broker.faults.fail("Fetch", STRANGE, topic=name, times=1)
        assert wire.ask(fetch(session_id, 1), 16).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert fault.hits == 0
        answer = wire.ask(fetch(0, 0, topic), 16)
        assert (answer.error_code, answer.session_id, answer.responses[0].partitions[0].error_code) == (0, 0, STRANGE)
        broker.faults.fail("Fetch", STRANGE, topic=name, partition=1, times=1)
        both = FetchRequest.FetchTopic(
            topic_id=topic_id, partitions=[partition, FetchRequest.FetchPartition(partition=1, partition_max_bytes=1000)]
        )
        answer = wire.ask(fetch(0, 0, both), 16)
        assert answer.session_id == 0, "a session would not know of the partition that failed"
        assert {each.partition_index: each.error_code for each in answer.responses[0].partitions} == {0: 0, 1: STRANGE}
        assert wire.ask(fetch(0, 0, topic), 16).session_id != 0


def test_no_fetch_session_is_opened_while_a_fault_waits_for_a_topic(broker: EmbeddedBroker) -> None:
    name = broker.create_topic("sessionless")
    with Wire(broker.port) as wire:
        topic_id = wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]), 12).topics[0].topic_id
        partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_id=0, session_epoch=0, topics=[topic])
        with broker.faults.delay("Fetch", 0.001, topic=name) as fault:
            answer = wire.ask(request, 16)
            assert (answer.error_code, answer.session_id, answer.responses[0].partitions[0].error_code) == (0, 0, 0)
            assert fault.hits == 1
        with broker.faults.fail("Fetch", STRANGE, topic=name, applied=True):
            answer = wire.ask(request, 16)
            assert (answer.session_id, answer.responses[0].partitions[0].error_code) == (0, STRANGE)


def test_an_applied_error_tells_of_a_write_that_has_happened(broker: EmbeddedBroker) -> None:
    name = broker.create_topic("applied")
    with broker.faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT, topic=name, times=1, applied=True) as fault:
        assert _produce(broker, name, 0, b"once", **{"enable.idempotence": False}) is None
        assert fault.hits == 1
    assert _read(broker, name, 2) == [b"once", b"once"]


def test_an_idempotent_producer_that_tries_again_after_an_applied_error_writes_once(broker: EmbeddedBroker) -> None:
    name = broker.create_topic("once")
    broker.faults.fail("Produce", ErrorCode.REQUEST_TIMED_OUT, times=1, applied=True, client_id="writer")
    assert _produce(broker, name, 0, b"once", **{"enable.idempotence": True}) is None
    _produce(broker, name, 0, b"then")
    assert _read(broker, name, 2) == [b"once", b"then"]


def test_errors_without_an_answer_to_put_them_in_end_the_connection(broker: EmbeddedBroker) -> None:
    request = sample(ApiKey.PRODUCE, 9, "orders")
    assert request.acks == 0  # type: ignore[attr-defined]
    for topic in ({"topic": "orders"}, {}):
        with broker.faults.fail("Produce", STRANGE, **topic), Wire(broker.port) as wire, pytest.raises(ConnectionError):  # type: ignore[arg-type]
            wire.ask(request, 9)


def test_the_first_that_are_skipped_are_served_and_clients_of_other_names_are_left_alone(broker: EmbeddedBroker) -> None:
    fault = broker.faults.fail("Heartbeat", STRANGE, skip=2, times=1, client_id="cl*")
    codes = []
    with Wire(broker.port, "client-7") as ours, Wire(broker.port, "somebody") as other:
        for _ in range(4):
            codes.append(ours.ask(HeartbeatRequest(group_id="none"), 4).error_code)
            assert other.ask(HeartbeatRequest(group_id="none"), 4).error_code != STRANGE
    assert [code == STRANGE for code in codes] == [False, False, True, False]
    assert fault.hits == 1


def test_requests_of_other_nodes_are_left_alone_unless_they_are_named(broker: EmbeddedBroker) -> None:
    with Wire(broker.port, "node-2") as node:
        broker.faults.fail("Heartbeat", STRANGE)
        assert node.ask(HeartbeatRequest(group_id="none"), 4).error_code != STRANGE
        broker.faults.fail("Heartbeat", STRANGE, client_id="node-*")
        assert node.ask(HeartbeatRequest(group_id="none"), 4).error_code == STRANGE
        before = broker.seen("Heartbeat")
        node.ask(HeartbeatRequest(group_id="none"), 4)
        assert broker.seen("Heartbeat") == before
        assert broker.seen("Heartbeat", client_id="node-2") == 3


def test_a_delayed_answer_comes_late_and_what_follows_it_after_it(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as wire, broker.faults.delay("Heartbeat", 0.3, times=1) as fault:
        begin = time.monotonic()
        wire.ask(HeartbeatRequest(group_id="none"), 4)
        assert time.monotonic() - begin >= 0.3
        wire.ask(HeartbeatRequest(group_id="none"), 4)
        assert fault.hits == 1


@pytest.mark.parametrize("answers", [False, True])
def test_a_lost_request_takes_no_effect_and_one_whose_answer_is_lost_does(broker: EmbeddedBroker, answers: bool) -> None:
    name = broker.create_topic(f"lost-{answers}")
    faults = broker.faults
    fault = faults.drop_answers("Produce", topic=name, times=1) if answers else faults.drop("Produce", topic=name, times=1)
    impatient = {"enable.idempotence": False, "retries": 0, "socket.timeout.ms": 500, "request.timeout.ms": 500}
    assert _produce(broker, name, 0, b"lost?", **impatient) is not None
    assert fault.hits == 1
    _produce(broker, name, 0, b"second")
    assert _read(broker, name, 1 + answers) == [b"lost?", b"second"][not answers :]


@pytest.mark.parametrize("applied", [False, True])
def test_a_connection_that_ends_in_place_of_an_answer_leaves_no_trace_unless_told_to(broker: EmbeddedBroker, applied: bool) -> None:
    name = broker.create_topic(f"cut-{applied}")
    fault = broker.faults.disconnect_on("Produce", topic=name, times=1, applied=applied)
    assert _produce(broker, name, 0, b"again", **{"enable.idempotence": False}) is None
    assert fault.hits == 1
    assert _read(broker, name, 1 + applied) == [b"again"] * (1 + applied)


def test_connections_that_are_there_can_be_ended_by_the_name_of_their_client(broker: EmbeddedBroker) -> None:
    with Wire(broker.port, "one") as one, Wire(broker.port, "two") as two:
        for wire in (one, two):
            wire.ask(HeartbeatRequest(group_id="none"), 4)
        assert broker.faults.disconnect("one") == 1
        with pytest.raises(ConnectionError):
            one.ask(HeartbeatRequest(group_id="none"), 4)
        two.ask(HeartbeatRequest(group_id="none"), 4)
        assert broker.faults.disconnect() >= 1
        with pytest.raises(ConnectionError):
            two.ask(HeartbeatRequest(group_id="none"), 4)


def test_connections_are_refused_until_they_are_accepted_again(broker: EmbeddedBroker) -> None:
    with Wire(broker.port) as before:
        before.ask(HeartbeatRequest(group_id="none"), 4)
        broker.faults.refuse_connections()
        with pytest.raises(ConnectionError), Wire(broker.port) as refused:
            refused.ask(HeartbeatRequest(group_id="none"), 4)
        before.ask(HeartbeatRequest(group_id="none"), 4)
        broker.faults.accept_connections()
        with Wire(broker.port) as after:
            after.ask(HeartbeatRequest(group_id="none"), 4)


def test_a_throttled_client_is_told_so_and_served_late(broker: EmbeddedBroker) -> None:
    broker.faults.throttle("Metadata", 0.4, times=1)
    request = MetadataRequest(topics=[])
    with Wire(broker.port) as wire:
        begin = time.monotonic()
        assert wire.ask(request, 12).throttle_time_ms == 400
        assert wire.ask(request, 12).throttle_time_ms == 0
        assert time.monotonic() - begin >= 0.4


def test_what_was_asked_can_be_counted_and_waited_for(broker: EmbeddedBroker) -> None:
    before = broker.seen("Metadata", client_id="counted")
    thread = threading.Thread(target=lambda: _ask_thrice(broker.port))
    thread.start()
    assert broker.wait_until_seen("Metadata", before + 3, client_id="counted") == before + 3
    thread.join()
    (count,) = [number for kind, number in broker.requests().items() if kind == (ApiKey.METADATA, 12, "counted")]
    assert count == 3
    with pytest.raises(TimeoutError, match=r"3 METADATA requests within 0\.1 s, not 4"):
        broker.wait_until_seen("Metadata", 4, client_id="counted", timeout_s=0.1)


def _ask_thrice(port: int) -> None:
    with Wire(port, "counted") as wire:
        for _ in range(3):
            wire.ask(MetadataRequest(topics=[]), 12)


def test_a_fault_of_api_versions_has_the_shape_that_clients_can_read(broker: EmbeddedBroker) -> None:
    broker.faults.fail("ApiVersions", ErrorCode.UNSUPPORTED_VERSION, times=1)
    with Wire(broker.port) as wire:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert wire.ask(request, 3).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert wire.ask(request, 3).error_code == 0


def test_an_error_for_a_group_reaches_the_members_of_librdkafka(broker: EmbeddedBroker) -> None:
    broker.faults.fail("JoinGroup", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    broker.faults.fail("FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "locked"})
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    consumer.close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"apis": "Prodcue"}, r"'Prodcue' is not the name of an API of Kafka"),
        ({"apis": 999}, r"999 is not an API key"),
        ({"error": "NO_SUCH"}, r"'NO_SUCH' is not an error of Kafka"),
        ({"error": 0}, r"NONE is not an error"),
        ({"times": 0}, r"times=0: it must be at least 1"),
        ({"skip": -1}, r"skip=-1: it must not be negative"),
        ({"seconds": float("inf")}, r"seconds=inf: it must be a finite time"),
        ({"partition": 0}, r"partition=0 needs topic="),
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_one_line(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(FaultError, match=says):
        new_rule(Action.FAIL, **{"apis": "Produce", **wrong})  # type: ignore[arg-type]


def test_a_broker_that_is_down_has_no_faults() -> None:
    broker = EmbeddedBroker(memory=True)
    for verb in (lambda: broker.faults.drop("Fetch"), broker.faults.refuse_connections, broker.faults.disconnect):
        with pytest.raises(TestingError, match="the broker is not running"):
            verb()
    with broker:
        fault = broker.faults.fail("Heartbeat", STRANGE)
        broker.restart()
        other = broker.faults.fail("Heartbeat", STRANGE, times=1)
        fault.remove()
        with Wire(broker.port) as wire:
            assert wire.ask(HeartbeatRequest(group_id="none"), 4).error_code == STRANGE
        assert (fault.hits, other.hits) == (0, 1)
        with Wire(broker.port) as wire:
            assert wire.ask(HeartbeatRequest(group_id="none"), 4).error_code != STRANGE
        broker.kill()
        broker.faults.clear()
        fault.remove()
        assert fault.hits == 0


def test_rules_strike_in_their_order_and_are_used_up() -> None:
    book = RuleBook()
    first, second = 3, 1
    book.add(first, new_rule(Action.DROP, "Fetch", times=1))
    book.add(second, new_rule(Action.DELAY, None, seconds=1, skip=1))
    struck = [book.strike(ApiKey.FETCH, "c", lambda rule: True) for _ in range(3)]
    assert [rule and rule.action for rule in struck] == [Action.DROP, None, Action.DELAY]
    assert (book.hits(first), book.hits(second)) == (1, 1)
    assert book.strike(ApiKey.FETCH, "c", lambda rule: False) is None
    book.remove(second)
    assert not book


def test_a_lost_broker_error_is_the_clients_to_see() -> None:
    """A client that lists topics of a broker that answers with an error gets that error."""
    with EmbeddedBroker(memory=True) as broker:
        broker.faults.drop("Metadata")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "socket.timeout.ms": 300})
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=0.5)
