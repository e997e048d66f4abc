"""From a frame to a handler and back: errors take the shape of their API, answers may come later, forwarded requests come back whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.scopes import BROKER, CONTROLLER, TO_CONTROLLER
from odradek.metrics.requests import Reading
from odradek.network.inbound import NotYetError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_response_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.vote import VoteRequest
from odradek.protocol.schema import Message
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.clock import LoopClock
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.forwarding import Forwarder
from odradek.server.requests.dispatch import Dispatcher
from odradek.server.requests.long_answers import REQUEST_BYTES, LongAnswers
from odradek.server.start.process import run_loop
from tests.clock import ManualClock
from tests.loops import told_by
from tests.server.support import bare_dispatcher, request
from tests.waiting import until

Handler = Callable[..., object]


def replace(dispatcher: Dispatcher, scope: str, key: ApiKey, handler: Handler) -> None:
    """Serves `key` with the test's function."""
    route = dispatcher._routes[scope][key]  # pyright: ignore[reportPrivateUsage]
    route.load()
    route.function = handler


def call(dispatcher: Dispatcher, message: Message, version: int, scope: str = BROKER) -> Message:
    """The response to a request that is answered at once."""
    frame = request(message.API_KEY, version, message.encode(version))
    _, answer = dispatcher.handle_embedded(frame, scope=scope, listener_name="PLAINTEXT", peer_host="127.0.0.1")
    if isinstance(answer, Deferred):
        answer = answer.result()
    return decode(answer, message.API_KEY, version)


def decode(answer: object, api_key: int, version: int) -> Message:
    from odradek.protocol.registry import response_class

    whole = b"".join(cast("list[bytes]", answer))
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    correlation_id, offset = decode_response_header(whole[4:], api_key, version)
    assert correlation_id == 7
    return response_class(api_key).decode(whole[4 + offset :], version)


def in_loop(test: Callable[[Dispatcher], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        dispatcher = bare_dispatcher()
        dispatcher.long_answers = LongAnswers(ManualClock())  # on a busy machine a turn may be over before a short answer is made
        await test(dispatcher)

    run_loop(main())


@told_by(in_loop)
async def test_share_coordinators_need_version_6(dispatcher: Dispatcher) -> None:
    message = FindCoordinatorRequest(key_type=2, coordinator_keys=["a:b:1"])
    assert cast(FindCoordinatorResponse, call(dispatcher, message, 5)).coordinators[0].error_code == 42
    assert cast(FindCoordinatorResponse, call(dispatcher, message, 6)).coordinators[0].error_code == 15


@pytest.mark.parametrize(
    ("error", "code"), [(KafkaError(ErrorCode.POLICY_VIOLATION, "no"), 44), (ZeroDivisionError(), -1), (OSError(5, "io"), -1)]
)
@pytest.mark.parametrize("later", [False, True])
@told_by(in_loop)
async def test_an_exception_becomes_the_api_s_error(dispatcher: Dispatcher, error: Exception, code: int, later: bool) -> None:
    def handler(*_: object) -> object:
        if not later:
            raise error
        deferred: Deferred[Message] = Deferred()
        deferred.fail(error)
        return deferred

    replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, handler)
    response = cast(FindCoordinatorResponse, call(dispatcher, FindCoordinatorRequest(coordinator_keys=["a"]), 4))
    assert response.coordinators[0].error_code == code


@told_by(in_loop)
async def test_an_api_without_a_shape_of_its_own_for_errors_tells_code_and_reason(dispatcher: Dispatcher) -> None:
    def handler(*_: object) -> object:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "it is Sunday")

    replace(dispatcher, BROKER, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, handler)
    response = call(dispatcher, DescribeUserScramCredentialsRequest(), 0)
    assert isinstance(response, DescribeUserScramCredentialsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.POLICY_VIOLATION, "it is Sunday")


@told_by(in_loop)
async def test_a_response_that_cannot_be_written_is_a_server_error(dispatcher: Dispatcher) -> None:
    replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, lambda *_: FindCoordinatorResponse(port=1 << 40))
    response = cast(FindCoordinatorResponse, call(dispatcher, FindCoordinatorRequest(key="a"), 3))
    assert response.error_code == -1


@told_by(in_loop)
async def test_no_answer_is_no_answer(dispatcher: Dispatcher) -> None:
    replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, lambda *_: None)
    frame = request(10, 3, FindCoordinatorRequest(key="a").encode(3))
    assert dispatcher.handle_embedded(frame, scope=BROKER, listener_name="P", peer_host="h")[1] is None


def forwarding(dispatcher: Dispatcher) -> InterBrokerChannel:
    clock = LoopClock(asyncio.get_running_loop())
    channel = InterBrokerChannel(1, clock, dispatcher, listener_names={BROKER: "PLAINTEXT", CONTROLLER: "CONTROLLER"})
    dispatcher.forward = Forwarder(channel, dispatcher).forward
    return channel


async def answer_of(dispatcher: Dispatcher, frame: bytes) -> object:
    _, answer = dispatcher.handle_embedded(
        frame, scope=BROKER, listener_name="PLAINTEXT", peer_host="10.1.2.3", principal=Principal("User", "alice")
    )
    assert isinstance(answer, Deferred)
    future = asyncio.get_running_loop().create_future()
    answer.add_callback(lambda done: future.set_exception(done.error) if done.error else future.set_result(done.result()))
    return await asyncio.wait_for(future, 5)


@told_by(in_loop)
async def test_an_admin_request_is_judged_by_the_controller_as_its_client_s(dispatcher: Dispatcher) -> None:
    forwarding(dispatcher)
    seen: list[tuple[Principal, str, str | None, str]] = []

    def create(context: object, message: CreateTopicsRequest, _: object) -> CreateTopicsResponse:
        from odradek.handlers.context import RequestContext

        assert isinstance(context, RequestContext)
        seen.append((context.principal, context.peer_host, context.client_id, context.listener_scope))
        return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name=message.topics[0].name, error_code=36)])

    replace(dispatcher, CONTROLLER, ApiKey.CREATE_TOPICS, create)
    message = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    response = cast(CreateTopicsResponse, decode(await answer_of(dispatcher, request(19, 7, message.encode(7))), 19, 7))
    assert response.topics[0].error_code == 36
    assert seen == [(Principal("User", "alice"), "10.1.2.3", "test", CONTROLLER)]


@pytest.mark.parametrize("version", [0, 1])
@told_by(in_loop)
async def test_a_part_of_a_request_is_answered_by_the_controller_in_its_client_s_version(dispatcher: Dispatcher, version: int) -> None:
    forwarder = Forwarder(forwarding(dispatcher), dispatcher)
    row = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_code=0, resource_type=2, resource_name="t")
    said = IncrementalAlterConfigsResponse(throttle_time_ms=7, responses=[row])
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    replace(dispatcher, CONTROLLER, api, lambda *_: said)
    replace(dispatcher, BROKER, api, lambda context, message, _: forwarder.ask(context, message))
    frame = request(api, version, IncrementalAlterConfigsRequest().encode(version))
    assert decode(await answer_of(dispatcher, frame), api, version) == said


@told_by(in_loop)
async def test_without_a_controller_a_forwarded_request_is_tried_again(dispatcher: Dispatcher) -> None:
    forwarding(dispatcher)
    attempts = 0

    def envelope(*_: object) -> EnvelopeResponse:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return EnvelopeResponse(response_data=b"\0\0\0\7rest")

    replace(dispatcher, CONTROLLER, ApiKey.ENVELOPE, envelope)
    answer = await answer_of(dispatcher, request(19, 7, CreateTopicsRequest().encode(7)))
    assert b"".join(cast("list[bytes]", answer)) == b"\0\0\0\x08\0\0\0\7rest"
    assert attempts == 3


@told_by(in_loop)
async def test_a_client_does_not_hear_of_connections_between_nodes(dispatcher: Dispatcher) -> None:
    """A connection that it is told of it would take for its own."""
    forwarding(dispatcher).close()
    message = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    response = cast(CreateTopicsResponse, decode(await answer_of(dispatcher, request(19, 7, message.encode(7))), 19, 7))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.REQUEST_TIMED_OUT]


@told_by(in_loop)
async def test_a_version_that_the_controller_does_not_serve_closes_the_client_s_connection(dispatcher: Dispatcher) -> None:
    """As one does that the broker itself does not serve: the client asks for the versions anew."""
    forwarding(dispatcher)
    replace(dispatcher, CONTROLLER, ApiKey.ENVELOPE, lambda *_: EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    with pytest.raises(ProtocolError):
        await answer_of(dispatcher, request(19, 7, CreateTopicsRequest().encode(7)))


@pytest.mark.parametrize("later", [False, True])
@told_by(in_loop)
async def test_an_envelope_says_itself_that_the_controller_is_another_node(dispatcher: Dispatcher, later: bool) -> None:
    """Else the client would be told, whose broker can ask the next controller."""
    forwarding(dispatcher)
    refusals = 0

    def create(*_: object) -> object:
        nonlocal refusals
        if refusals == 3:
            return CreateTopicsResponse()
        refusals += 1
        if not later:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        deferred: Deferred[Message] = Deferred()
        asyncio.get_running_loop().call_soon(deferred.fail, KafkaError(ErrorCode.NOT_CONTROLLER))
        return deferred

    replace(dispatcher, CONTROLLER, ApiKey.CREATE_TOPICS, create)
    message = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    response = cast(CreateTopicsResponse, decode(await answer_of(dispatcher, request(19, 7, message.encode(7))), 19, 7))
    assert response.topics == []
    assert refusals == 3


@told_by(in_loop)
async def test_only_what_brokers_forward_may_come_in_an_envelope(dispatcher: Dispatcher) -> None:
    channel = forwarding(dispatcher)

    async def send(data: bytes, principal: bytes | None = b"\0\0\x05User\x02a\0\0", host: bytes = b"\x7f\0\0\1") -> int:
        message = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)
        future = asyncio.get_running_loop().create_future()
        channel.send(TO_CONTROLLER, 58, message, 0).add_callback(lambda done: future.set_result(done.result()))
        return cast(EnvelopeResponse, await asyncio.wait_for(future, 5)).error_code

    vote = request(52, 0, VoteRequest().encode(0))
    assert await send(vote) == ErrorCode.INVALID_REQUEST
    assert await send(b"\0") == ErrorCode.UNSUPPORTED_VERSION
    assert await send(request(19, 99)) == ErrorCode.UNSUPPORTED_VERSION
    assert await send(request(19, 7), principal=None) == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert await send(request(19, 7), principal=b"\0\x09junk") == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert await send(request(45, 1)) == ErrorCode.UNSUPPORTED_VERSION, "Kafka forwards it, and it is not supported yet"
    assert await send(request(63, 0)) == ErrorCode.INVALID_REQUEST
    assert await send(request(19, 7), host=b"abc") == ErrorCode.INVALID_REQUEST


@told_by(in_loop)
async def test_the_channel_never_enters_its_sender_again_and_gives_up_in_time(dispatcher: Dispatcher) -> None:
    channel = forwarding(dispatcher)
    calls: list[str] = []
    never: Deferred[Message] = Deferred()

    def handler(*_: object) -> object:
        calls.append("handled")
        return never

    replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, handler)
    sent = channel.send(1, 10, FindCoordinatorRequest(key="a"), 3, timeout_s=0.05)
    assert calls == []
    await until(lambda: sent.done)
    assert calls == ["handled"]
    assert isinstance(sent.error, KafkaError)
    assert sent.error.code == ErrorCode.REQUEST_TIMED_OUT
    unreachable = channel.send(2, 10, FindCoordinatorRequest(key="a"), 3)
    assert isinstance(unreachable.error, KafkaError)
    assert unreachable.error.code == ErrorCode.BROKER_NOT_AVAILABLE
    channel.close()
    assert channel.send(1, 10, FindCoordinatorRequest(key="a"), 3).error is not None


@told_by(in_loop)
async def test_a_request_that_is_not_served_closes(dispatcher: Dispatcher) -> None:
    for frame in (request(52, 0), request(10, 9), request(0, 2), b"\0\0"):
        with pytest.raises(ProtocolError):
            dispatcher.handle_embedded(frame, scope=BROKER, listener_name="P", peer_host="h")


def test_requests_are_counted_and_timed_where_they_come_in(caplog: pytest.LogCaptureFixture) -> None:
    class Clock:
        """A clock that the test moves."""

        now = 10.0

        def monotonic(self) -> float:
            return self.now

    async def test(_: Dispatcher) -> None:
        clock = Clock()
        dispatcher = bare_dispatcher(cast(Any, clock))
        dispatcher.slow.threshold_s = 0.2
        later: Deferred[Message] = Deferred()

        def handler(*_: object) -> object:
            clock.now += 0.25
            return later

        replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, handler)
        listener = SimpleNamespace(name="X", scope=BROKER)
        connection = cast(Any, SimpleNamespace(listener=listener, connection_id="c", peer_host="h", principal=ANONYMOUS))
        frame = memoryview(request(10, 4, FindCoordinatorRequest(coordinator_keys=["a"]).encode(4)))
        waiting = dispatcher.handle_frame(connection, frame)
        assert isinstance(waiting, Deferred)
        measured = dispatcher.requests.of("FindCoordinator")
        assert measured.count == 0
        clock.now += 0.5
        later.complete(FindCoordinatorResponse())
        reading = Reading([measured], clock.now)
        assert (measured.versions, reading.total.largest, reading.local.largest, reading.remote.largest) == ({4: 1}, 750, 250, 500)
        assert reading.sizes.largest == len(frame)
        dispatcher.handle_frame(connection, frame)
        assert measured.versions == {4: 2}
        assert Reading([measured], clock.now).total.smallest == 250
        assert [record.getMessage().startswith("Slow request: api='FindCoordinator'") for record in caplog.records] == [True, True]

    in_loop(test)


@told_by(in_loop)
async def test_requests_are_not_decoded_while_many_bytes_of_their_api_wait(dispatcher: Dispatcher) -> None:
    clock = ManualClock()
    dispatcher.long_answers = LongAnswers(clock)
    measured: list[Deferred[Any]] = []
    asked: list[Message] = []

    def handler(_: object, message: Message, __: object) -> Iterator[object]:
        asked.append(message)
        measured.append(Deferred())
        yield measured[-1]
        return DescribeLogDirsResponse()

    replace(dispatcher, BROKER, ApiKey.DESCRIBE_LOG_DIRS, handler)
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[0] * (REQUEST_BYTES // 10))
    large = memoryview(request(35, 4, DescribeLogDirsRequest(topics=[topic]).encode(4)))
    answers: dict[str, Any] = {}

    def ask(name: str, frame: memoryview = large) -> None:
        connection = SimpleNamespace(
            listener=SimpleNamespace(name="X", scope=BROKER),
            connection_id=name,
            peer_host="h",
            principal=ANONYMOUS,
            closed=False,
            go_on=lambda: ask(name),
        )
        answers[name] = dispatcher.handle_frame(cast(Any, connection), frame)

    ask("a")
    ask("b")
    for name in "cd":
        with pytest.raises(NotYetError):
            ask(name)
    assert len(asked) == 2
    replace(dispatcher, BROKER, ApiKey.FIND_COORDINATOR, lambda *_: FindCoordinatorResponse())
    ask("another API", memoryview(request(10, 4, FindCoordinatorRequest(coordinator_keys=["a"]).encode(4))))
    measured[0].complete(None)
    clock.turn()
    clock.turn()
    assert answers.keys() == {"a", "b", "another API", "c"}
    assert [answers[name].done for name in "abc"] == [True, False, False]
    counts = dispatcher.requests.of("DescribeLogDirs")
    assert counts.versions == {4: 1}


FIRST_ON_CONTROLLERS = {1, 17, 18, 36, 52, 53, 54, 59, 62, 63, 70}
"""Fetch, FetchSnapshot, Vote, BeginQuorumEpoch, EndQuorumEpoch, registrations, heartbeats, and how a connection begins."""


def test_the_quorum_and_signs_of_life_go_first_on_controller_listeners() -> None:
    async def main() -> None:
        dispatcher = bare_dispatcher()

        def first(scope: str) -> set[bytes]:
            connection = cast(Any, SimpleNamespace(listener=SimpleNamespace(scope=scope)))
            heads = [b"", b"\0", *(key.to_bytes(2, "big") for key in range(128))]
            return {head for head in heads if dispatcher.goes_first(connection, head)}

        assert first(CONTROLLER) == {key.to_bytes(2, "big") for key in FIRST_ON_CONTROLLERS}
        assert first(BROKER) == set()

    run_loop(main())
