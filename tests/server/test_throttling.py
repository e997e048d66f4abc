"""Requests and the quotas of their clients: what counts, what the answer says, and whose connection is muted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.scopes import BROKER
from odradek.handlers.table import APIS
from odradek.network.acceptor import Listener
from odradek.network.chunks import Chunk, join_chunks
from odradek.network.connection import Connection
from odradek.protocol.framing import encode_size
from odradek.protocol.headers import encode_request_header, encode_response_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.protocol.registry import decode_response
from odradek.protocol.schema import Message
from odradek.quotas.managers import Changes
from odradek.replication.verification import VerifiedAppender
from odradek.security.principal import Principal
from odradek.server.requests.throttling import EXEMPT, Throttling
from tests.handlers.support import LISTENER, Broker, batch, topic_id

EVERYBODY = (("client-id", None),)
SIZE = 10_000
"""About what a produce request of the tests has."""


class FakeConnection:
    """A connection as the dispatcher sees it."""

    def __init__(self, principal: Principal) -> None:
        self.connection_id = "c"
        self.listener = Listener(LISTENER, BROKER, "", 0)
        self.peer_host = "127.0.0.1"
        self.principal = principal
        self.mutes: list[float] = []

    def mute(self, delay_s: float) -> None:
        self.mutes.append(delay_s)


class QuotasWorld:
    """A broker whose clients have quotas."""

    def __init__(self, quotas: Changes, **config: str) -> None:
        self.broker = Broker(**config)
        self.broker.clock.advance_s(1000)
        self.broker.create_topic("t")
        self.throttling = Throttling(self.broker.services.config, self.broker.clock)
        self.throttling.apply(quotas)
        self.dispatcher = self.broker.dispatcher
        self.dispatcher.throttling = self.throttling
        self.client = FakeConnection(Principal("User", "alice"))

    def frame(self, request: Message, version: int, client_id: str | None = "app") -> memoryview:
        return memoryview(encode_request_header(request.API_KEY, version, 1, client_id) + request.encode(version))

    def send(self, request: Message, version: int, client_id: str | None = "app") -> Any:
        """The response, a Deferred of its chunks while it waits, or None."""
        answer = self.dispatcher.handle_frame(cast(Connection, self.client), self.frame(request, version, client_id))
        if isinstance(answer, Deferred):
            if not answer.done:
                return answer
            answer = answer.result()
        return None if answer is None else decode_response(join_chunks(answer)[4:], request.API_KEY, version)

    def produce(self, *, size: int = SIZE, acks: int = 1, topic: str = "t") -> Any:
        topics = [
            ProduceRequest.TopicProduceData(
                name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=batch(b"x" * size))]
            )
        ]
        return self.send(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics), 9)

    def fetch(self, *, replica_id: int = -1, session: tuple[int, int] = (0, 0), offset: int = 0, max_bytes: int = 1 << 20) -> Any:
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        named = session[1] <= 0
        return self.send(
            FetchRequest(
                replica_id=replica_id,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=max_bytes,
                session_id=session[0],
                session_epoch=session[1],
                topics=[FetchRequest.FetchTopic(topic="t", topic_id=topic_id(1), partitions=[partition])] if named else [],
            ),
            12,
        )

    def busy(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        """Every produce request takes the loop so long."""
        append = VerifiedAppender.append

        def slow(appender: VerifiedAppender, *given: Any, **named: Any) -> Any:
            self.broker.clock.stall_s(seconds)
            return append(appender, *given, **named)

        monkeypatch.setattr(VerifiedAppender, "append", slow)


def of_everybody(**quotas: float | None) -> Changes:
    return {EVERYBODY: quotas}


def test_a_producer_beyond_its_quota_is_told_and_muted() -> None:
    world = QuotasWorld(of_everybody(producer_byte_rate=2000.0))
    first = world.produce()
    assert (first.throttle_time_ms, world.client.mutes) == (0, [])
    second = world.produce()
    assert second.responses[0].partition_responses[0].error_code == 0
    assert second.throttle_time_ms == pytest.approx(200, abs=100)  # 20.1 kB and a little more, at 2 kB/s, of which 10 s are free
    assert world.client.mutes == [second.throttle_time_ms / 1000]


def test_produce_without_an_answer_mutes_all_the_same() -> None:
    world = QuotasWorld(of_everybody(producer_byte_rate=1000.0))
    assert world.produce(acks=0, size=30_000) is None
    assert len(world.client.mutes) == 1


def test_what_waits_for_replicas_counts_when_it_is_answered() -> None:
    world = QuotasWorld(of_everybody(producer_byte_rate=100.0))
    world.broker.create_topic("r", number=2, replicas=(1, 2))
    waiting = world.produce(acks=-1, topic="r")
    assert isinstance(waiting, Deferred)
    assert world.client.mutes == []
    world.broker.clock.advance_s(2)
    response = decode_response(join_chunks(cast("Sequence[Chunk]", waiting.result()))[4:], ProduceRequest.API_KEY, 9)
    assert isinstance(response, ProduceResponse)
    assert response.throttle_time_ms > 80_000
    assert world.client.mutes == [response.throttle_time_ms / 1000]


def test_a_consumer_beyond_its_quota_gets_nothing_and_that_is_not_counted() -> None:
    world = QuotasWorld({(("user", "alice"),): {"consumer_byte_rate": 2000.0}})
    for _ in range(3):
        world.produce()
    opened = world.fetch(max_bytes=SIZE)
    session = opened.session_id
    assert len(opened.responses[0].partitions[0].records) > SIZE
    assert opened.throttle_time_ms == 0
    throttled = world.fetch(session=(session, 1), max_bytes=SIZE)
    assert throttled.throttle_time_ms > 50
    assert (throttled.error_code, throttled.session_id, throttled.responses) == (0, session, [])
    assert world.client.mutes == [throttled.throttle_time_ms / 1000]
    world.broker.clock.advance_ms(throttled.throttle_time_ms)
    answered = world.fetch(session=(session, 2), max_bytes=SIZE)
    assert answered.throttle_time_ms == 0, "the records that were not sent have cost nothing"
    assert len(answered.responses[0].partitions[0].records) > SIZE


def test_a_consumer_is_given_no_more_at_once_than_its_quota_lets_it_have() -> None:
    world = QuotasWorld(of_everybody(consumer_byte_rate=1500.0))
    for _ in range(5):
        world.produce(size=3000)
    assert 0 < world.fetch().throttle_time_ms < 100, "a window's worth, and the names around it"
    world.broker.clock.advance_s(1.5)
    answer = world.fetch()
    assert answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) == 15_000


def test_the_longer_of_two_waits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = QuotasWorld(of_everybody(producer_byte_rate=1000.0, request_percentage=1.0))
    world.busy(monkeypatch, 0.2)
    assert world.produce(size=10).throttle_time_ms > 900, "20 percents of a second, of 1 percent over ten"
    world = QuotasWorld(of_everybody(producer_byte_rate=1000.0, request_percentage=1.0))
    world.busy(monkeypatch, 0.2)
    assert world.produce(size=15_000).throttle_time_ms > 4000


def test_time_on_the_loop_is_the_client_s_and_no_wait_for_it_is_longer_than_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    world = QuotasWorld({(("user", "alice"),): {"request_percentage": 10.0}})
    world.busy(monkeypatch, 0.5)
    waits = [world.produce().throttle_time_ms for _ in range(5)]
    assert waits[0] == 0
    assert waits[-1] == 1000
    world.client.principal = Principal("User", "bob")
    assert world.produce().throttle_time_ms == 0


def test_what_a_request_costs_after_its_answer_counts_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    encode = MetadataResponse.encode_chunks

    def slow(*given: Any) -> Any:
        world.broker.clock.stall_s(0.2)
        return encode(*given)

    monkeypatch.setattr(MetadataResponse, "encode_chunks", slow)
    assert world.send(MetadataRequest(topics=[]), 9).throttle_time_ms == 0
    assert world.send(MetadataRequest(topics=[]), 9).throttle_time_ms > 0


def test_the_time_of_a_request_that_completes_another_is_told_apart() -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    one = world.throttling.meter(world.broker.context(3, 9, client_id="one"), 10, None)
    two = world.throttling.meter(world.broker.context(3, 9, client_id="two"), 10, None)
    clock = world.broker.clock
    one.begin()
    clock.stall_s(0.1)
    two.begin()
    two.begin()
    clock.stall_s(0.2)
    two.end()
    clock.stall_s(0.1)
    two.end()
    clock.stall_s(0.1)
    one.end()
    assert (one.percent(), two.percent()) == (pytest.approx(20), pytest.approx(30))
    assert world.throttling.running is None


def test_the_time_of_requests_that_complete_each_other_is_told_apart() -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    one, two, three = (world.throttling.meter(world.broker.context(3, 9, client_id=name), 10, None) for name in ("one", "two", "three"))
    clock = world.broker.clock
    for meter in (one, two, three, two):
        meter.begin()
        clock.stall_s(0.1)
    for meter in (two, three, two, one):
        meter.end()
        clock.stall_s(0.1)
    assert [meter.percent() for meter in (one, two, three)] == [pytest.approx(20), pytest.approx(30), pytest.approx(20)]
    assert world.throttling.running is None


def test_time_in_other_threads_is_the_client_s() -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    meter = world.throttling.meter(world.broker.context(3, 9), 10, None)
    job = cast("Callable[[], str]", lambda: (world.broker.clock.stall_s(0.4), "done")[1])
    meter.begin()
    timed = [world.throttling.timed(job) for _ in range(2)]
    meter.end()
    assert world.throttling.timed(job) is job, "nobody's"
    assert [each() for each in timed] == ["done"] * 2
    assert meter.percent() == pytest.approx(80)


def test_followers_and_markers_are_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    world = QuotasWorld(of_everybody(request_percentage=0.001, consumer_byte_rate=1.0))
    world.dispatcher.throttling = None
    world.produce()
    world.dispatcher.throttling = world.throttling
    for response in (FetchResponse, WriteTxnMarkersResponse):
        encode = response.encode_chunks

        def slow(*given: Any, encode: Callable[..., Any] = encode) -> Any:
            world.broker.clock.stall_s(1)
            return encode(*given)

        monkeypatch.setattr(response, "encode_chunks", slow)
    for _ in range(3):
        fetched = world.fetch(replica_id=2)
        assert fetched.throttle_time_ms == 0
        world.send(WriteTxnMarkersRequest(markers=[]), 1)
    assert world.client.mutes == []
    assert len(world.throttling.quotas[BROKER].request.usages) == 0


def test_errors_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = QuotasWorld(of_everybody(request_percentage=0.01))

    def fail(*_: Any, **__: Any) -> Any:
        world.broker.clock.stall_s(1)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(VerifiedAppender, "append", fail)
    answer = world.produce()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.throttle_time_ms == 1000


def test_an_old_version_is_muted_without_being_told() -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    world.throttling.quotas[BROKER].request.note("alice", "app", 1000, world.throttling.now_ms())
    assert world.send(MetadataRequest(topics=None), 1).topics
    assert world.client.mutes == [1.0]


def test_a_client_without_an_id_counts_for_its_user() -> None:
    world = QuotasWorld({(("user", None),): {"producer_byte_rate": 100.0}})
    assert world.send(MetadataRequest(topics=None), 9, client_id=None).throttle_time_ms == 0
    assert world.produce().throttle_time_ms > 0


@pytest.mark.parametrize(("asked_ms", "used", "told_ms"), [(700, 0.0, 700), (700, 2000.0, 1000), (0, 2000.0, 1000), (0, 0.0, 0)])
def test_a_forwarded_request_waits_for_the_longer_of_what_controller_and_broker_say(asked_ms: int, used: float, told_ms: int) -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    world.throttling.quotas[BROKER].request.note("alice", "app", used, world.throttling.now_ms())
    pending: Deferred[Sequence[Chunk] | None] = Deferred()
    world.dispatcher.forward = lambda *_: pending
    waiting = world.send(CreateTopicsRequest(), 7)
    assert world.client.mutes == []
    body = encode_response_header(CreateTopicsRequest.API_KEY, 7, 1) + CreateTopicsResponse(throttle_time_ms=asked_ms).encode(7)
    pending.complete([encode_size(len(body)), body])
    response = decode_response(join_chunks(waiting.result())[4:], CreateTopicsRequest.API_KEY, 7)
    assert cast(CreateTopicsResponse, response).throttle_time_ms == told_ms
    assert world.client.mutes == ([told_ms / 1000] if told_ms else [])


def test_an_error_of_a_forwarded_request_stays_one() -> None:
    world = QuotasWorld(of_everybody(request_percentage=1.0))
    world.dispatcher.forward = lambda *_: Deferred.failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    with pytest.raises(KafkaError):
        world.send(CreateTopicsRequest(), 7)


@pytest.mark.parametrize(("api_key", "strict_since"), [(19, 6), (20, 5), (37, 3)])
def test_older_requests_are_not_refused_and_newer_ones_are(api_key: int, strict_since: int) -> None:
    for version in (strict_since - 1, strict_since):
        world = QuotasWorld(of_everybody(controller_mutation_rate=1.0))
        meter = world.throttling.meter(world.broker.context(api_key, version), 10, None)
        count = meter.counter()
        assert count is not None
        count(20)
        if version >= strict_since:
            with pytest.raises(KafkaError):
                count(1)
        else:
            count(1)
        response = CreateTopicsResponse()
        meter.answer(response)
        assert response.throttle_time_ms == (9_000 if version >= strict_since else 10_000)


def test_other_requests_have_no_quota_of_mutations() -> None:
    world = QuotasWorld(of_everybody(controller_mutation_rate=1.0))
    assert world.throttling.meter(world.broker.context(3, 9), 10, None).counter() is None


def test_nobody_has_a_meter_while_there_are_no_quotas() -> None:
    world = QuotasWorld(of_everybody(producer_byte_rate=1.0))
    world.throttling.apply(of_everybody(producer_byte_rate=None))
    assert not world.throttling.enabled
    world.dispatcher.throttling = None
    assert world.produce(size=100_000).throttle_time_ms == 0


def test_exempt_apis_are_served() -> None:
    served = {scope: {api.api_key for api in APIS if api.is_served_on(scope)} for scope in EXEMPT}
    assert all(keys <= served[scope] for scope, keys in EXEMPT.items())
