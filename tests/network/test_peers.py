"""Connections to other nodes: opened on demand, kept, backed off from; every request has its end, and in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.network.acceptor import Acceptor, Listener
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.dialled import DialState
from odradek.network.limits import AcceptorLimits
from odradek.network.peers import Address, Line, Peers, PeerSettings
from odradek.protocol.framing import frame_chunks
from odradek.protocol.headers import decode_request_header, encode_response_header
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.messages.vote import VoteRequest, VoteResponse
from odradek.protocol.registry import request_class
from odradek.protocol.schema import Message
from odradek.security.sasl.client import SaslClient
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop, run
from tests.loops import told_by

NODE = Address(2, "peer", 9092)

Serve = Callable[[Message, int], "Message | Deferred[Message] | bytes"]
Served = ApiVersionsResponse.ApiVersion


class Server:
    """A node in the virtual network that answers with what the test's function says."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, serve: Serve, ranges: dict[int, tuple[int, int]]) -> None:
        self.serve = serve
        self.ranges = ranges
        self.requests: list[tuple[int, int]] = []
        """API key and version of each but ApiVersions."""
        self.connections = 0
        self.silent = False
        """Whether ApiVersions stays without an answer."""
        self.speaks_kafka = True
        self.newest_api_versions = 4
        self._seen: set[str] = set()
        self.acceptor = Acceptor(loop, clock, self, AcceptorLimits())

    async def start(self, host: str = NODE.host, port: int = NODE.port) -> int:
        bound = await self.acceptor.bind(Listener("PLAINTEXT", "broker", host, port))
        await self.acceptor.serve(bound)
        return bound.port

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        header, offset = decode_request_header(frame)
        if connection.connection_id not in self._seen:
            self._seen.add(connection.connection_id)
            self.connections += 1
        if not self.speaks_kafka:
            return [b"\0\0\0\x02no"]
        if header.api_key == 18:
            if self.silent:
                return Deferred()
            return self._versions(header.api_version, header.correlation_id)
        self.requests.append((header.api_key, header.api_version))
        answer = self.serve(request_class(header.api_key).decode(frame[offset:], header.api_version), header.api_version)
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        if isinstance(answer, Deferred):
            later: Deferred[Any] = Deferred()
            answer.add_callback(lambda done: later.complete(frame_chunks(head, done.result().encode_chunks(header.api_version))))
            return later
        chunks = [answer] if isinstance(answer, bytes) else answer.encode_chunks(header.api_version)
        return frame_chunks(head, chunks)  # type: ignore[return-value]

    def _versions(self, version: int, correlation_id: int) -> Answer:
        if version > self.newest_api_versions:
            newest = [Served(api_key=18, min_version=0, max_version=self.newest_api_versions)]
            body: Message = ApiVersionsResponse(error_code=35, api_keys=newest)
            return frame_chunks(encode_response_header(18, 0, correlation_id), body.encode_chunks(0))  # type: ignore[return-value]
        keys = [Served(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.ranges.items()]
        body = ApiVersionsResponse(api_keys=keys)
        return frame_chunks(encode_response_header(18, version, correlation_id), body.encode_chunks(version))  # type: ignore[return-value]


def echo(request: Message, version: int) -> Message:
    return HeartbeatResponse(error_code=version)


HEARTBEATS = {12: (0, 4), 52: (0, 2)}
SECURED = HEARTBEATS | {17: (1, 1), 36: (0, 2)}

Login = Callable[[], SaslClient]


class Exchange:
    """SASL client that sends `messages` messages, and raises `error` after its first message."""

    mechanism = "PLAIN"

    def __init__(self, messages: int = 1, *, error: Exception | None = None, takes_long: bool = False) -> None:
        self.takes_long = takes_long
        self._left = messages
        self._error = error

    def first(self) -> bytes:
        return b"first"

    def answer(self, challenge: bytes) -> bytes | None:
        if self._error is not None:
            raise self._error
        self._left -= 1
        return b"next" if self._left else None


def secured(request: Message, version: int, lifetime_ms: int = 0) -> Message:
    if isinstance(request, SaslHandshakeRequest):
        return SaslHandshakeResponse(mechanisms=["PLAIN"])
    if isinstance(request, SaslAuthenticateRequest):
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
    return echo(request, version)


class PeersWorld:
    def __init__(
        self, loop: SimulatedLoop, serve: Serve, ranges: dict[int, tuple[int, int]], settings: PeerSettings, client: Login | None
    ) -> None:
        self.loop = loop
        self.server = Server(loop, SimulatedClock(loop), serve, ranges)
        login = (lambda listener, host: None) if client is None else (lambda listener, host: client())
        self.peers = Peers(SimulatedClock(loop), "me", settings, login=login)

    def send(self, purpose: str = "rpc", request: Message | None = None, **how: Any) -> Deferred[Message]:
        return self.peers.send(NODE, purpose, request or HeartbeatRequest(group_id="g", member_id="m"), **how)

    async def answer(self, purpose: str = "rpc", **how: Any) -> Message:
        return await self.settled(self.send(purpose, **how))

    async def settled(self, deferred: Deferred[Message]) -> Message:
        future: asyncio.Future[None] = self.loop.create_future()
        deferred.add_callback(lambda _: future.set_result(None))
        await future
        return deferred.result()

    async def code(self, deferred: Deferred[Message]) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            await self.settled(deferred)
        return caught.value.code

    @property
    def state(self) -> DialState:
        link = self.peers.lines.get(Line(NODE, "rpc"))
        return DialState.IDLE if link is None else link.life.state


def story(
    test: Callable[[PeersWorld], Coroutine[Any, Any, None]],
    serve: Serve = echo,
    ranges: dict[int, tuple[int, int]] | None = None,
    *,
    up: bool = True,
    login: Login | None = None,
    **settings: Any,
) -> None:
    async def main(loop: SimulatedLoop) -> None:
        world = PeersWorld(loop, serve, HEARTBEATS if ranges is None else ranges, PeerSettings(**settings), login)
        if up:
            await world.server.start()
        try:
            await test(world)
        finally:
            world.peers.close()

    run(main)


def code(deferred: Deferred[Message]) -> ErrorCode:
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code


@told_by(story, ranges={12: (1, 3)})
async def test_requests_go_in_the_highest_version_that_both_know_within_the_bounds(world: PeersWorld) -> None:
    assert world.state is DialState.IDLE
    assert await world.answer() == HeartbeatResponse(error_code=3)
    assert await world.answer(at_most=2) == HeartbeatResponse(error_code=2)
    assert await world.code(world.send(at_least=4)) is ErrorCode.UNSUPPORTED_VERSION
    assert await world.code(world.send(request=VoteRequest())) is ErrorCode.UNSUPPORTED_VERSION, "the API is not served"
    assert await world.answer() == HeartbeatResponse(error_code=3), "the connection is still there"
    assert world.server.connections == 1
    versions = world.peers.lines[Line(NODE, "rpc")].versions
    assert versions is not None
    assert versions.ranges == {12: (1, 3)}


@told_by(story, ranges={52: (0, 1)})
async def test_what_the_version_found_cannot_say_is_refused_and_not_sent_without_it(world: PeersWorld) -> None:
    """A pre-vote to a voter of Kafka 3.9 must not become a vote."""
    partition = VoteRequest.PartitionData(pre_vote=True)
    request = VoteRequest(topics=[VoteRequest.TopicData(topic_name="t", partitions=[partition])])
    assert await world.code(world.send(request=request)) is ErrorCode.UNSUPPORTED_VERSION
    assert world.server.requests == []


@told_by(story)
async def test_a_node_that_knows_an_older_api_versions_is_asked_again(world: PeersWorld) -> None:
    world.server.newest_api_versions = 1
    assert await world.answer() == HeartbeatResponse(error_code=4)


def test_each_purpose_has_a_connection_of_its_own_and_what_is_parked_holds_up_no_other() -> None:
    parked: list[Deferred[Message]] = []

    def serve(request: Message, version: int) -> Message | Deferred[Message]:
        if isinstance(request, VoteRequest):
            return VoteResponse()
        parked.append(Deferred())
        return parked[-1]

    async def test(world: PeersWorld) -> None:
        fetch = world.send("raft-fetch")
        await asyncio.sleep(1)
        assert await world.answer("raft", request=VoteRequest()) == VoteResponse()
        assert not fetch.done
        parked[0].complete(HeartbeatResponse(error_code=1))
        assert await world.settled(fetch) == HeartbeatResponse(error_code=1)
        assert world.server.connections == 2

    story(test, serve)


@told_by(story, lambda request, version: HeartbeatResponse(error_code=request.generation_id))
async def test_requests_are_pipelined_and_answered_in_their_order(world: PeersWorld) -> None:
    sent = [world.send(request=HeartbeatRequest(group_id="g", generation_id=number), timeout_s=1) for number in range(50)]
    for each in sent:
        await world.settled(each)
    assert [each.result().error_code for each in sent] == list(range(50))  # type: ignore[attr-defined]
    assert world.server.connections == 1


@told_by(story, up=False)
async def test_nobody_there_fails_at_once_backs_off_and_is_said_once(world: PeersWorld, caplog: pytest.LogCaptureFixture) -> None:
    begin = world.loop.time()
    with caplog.at_level(logging.INFO):
        assert await world.code(world.send()) is ErrorCode.NETWORK_EXCEPTION
        assert world.loop.time() - begin < 0.01
        assert world.state is DialState.BACKING_OFF
        refused = world.send()
        assert refused.done, "no new attempt before the pause is over"
        assert "Connection refused" in str(refused.error) or "no listener at" in str(refused.error)
        while world.loop.time() < begin + 5:
            await world.code(world.send())
            await asyncio.sleep(0.01)
        assert len(caplog.messages) == 1, caplog.messages
        await world.server.start()
        await asyncio.sleep(0.5)
        assert await world.answer() == HeartbeatResponse(error_code=4)
    assert [line.split(":")[0] for line in caplog.messages] == ["node 2 at peer", "node 2 at peer"]
    assert "cannot be reached" in caplog.messages[0]
    assert "reached again" in caplog.messages[1]


@told_by(story, lambda *_: Deferred())
async def test_a_request_is_late_after_its_own_time_and_takes_down_the_others_as_lost(world: PeersWorld) -> None:
    patient = world.send(timeout_s=60)
    await asyncio.sleep(1)
    begin = world.loop.time()
    late = world.send(timeout_s=2)
    assert await world.code(late) is ErrorCode.REQUEST_TIMED_OUT
    assert world.loop.time() - begin == pytest.approx(2, abs=0.01)
    assert code(patient) is ErrorCode.NETWORK_EXCEPTION, "the connection cannot be used any more"
    assert world.state is DialState.BACKING_OFF


@told_by(story)
async def test_a_peer_that_takes_connections_and_says_nothing_is_given_up_with_the_last_who_waits(world: PeersWorld) -> None:
    """A stopped process: its kernel goes on to accept."""
    world.server.silent = True
    short, longer = world.send(timeout_s=2), world.send(timeout_s=3)
    assert await world.code(short) is ErrorCode.REQUEST_TIMED_OUT
    assert world.state is DialState.GREETING
    assert await world.code(longer) is ErrorCode.REQUEST_TIMED_OUT
    assert world.state is DialState.BACKING_OFF
    world.server.silent = False
    await asyncio.sleep(0.1)
    assert await world.answer() == HeartbeatResponse(error_code=4)


@told_by(story)
async def test_a_request_that_is_sent_when_the_last_one_is_late_keeps_the_attempt(world: PeersWorld) -> None:
    world.server.silent = True
    again: list[Deferred[Message]] = []
    late = world.send(timeout_s=2)
    late.add_callback(lambda _: again.append(world.send(timeout_s=3)))
    assert await world.code(late) is ErrorCode.REQUEST_TIMED_OUT
    assert world.state is DialState.GREETING
    assert await world.code(again[0]) is ErrorCode.REQUEST_TIMED_OUT


@told_by(story)
async def test_a_path_that_comes_back_is_found_by_the_next_request(world: PeersWorld) -> None:
    """And not when an attempt from before ends, which would be seconds later."""
    network = world.loop.network
    network.cut("127.0.0.1", "peer")
    assert await world.code(world.send(timeout_s=2)) is ErrorCode.REQUEST_TIMED_OUT
    network.heal()
    await asyncio.sleep(0.1)
    assert await world.answer(timeout_s=2) == HeartbeatResponse(error_code=4)


def test_the_end_of_a_connection_is_told_to_who_waits_and_the_next_request_dials_anew() -> None:
    seen: list[str] = []

    def serve(request: Message, version: int) -> Message | Deferred[Message]:
        seen.append("asked")
        return Deferred() if len(seen) == 1 else HeartbeatResponse()

    async def test(world: PeersWorld) -> None:
        again: list[Deferred[Message]] = []
        waiting = world.send()
        waiting.add_callback(lambda _: again.append(world.send()))
        await asyncio.sleep(1)
        world.loop.network.reset_connections("peer")
        assert await world.code(waiting) is ErrorCode.NETWORK_EXCEPTION
        assert code(again[0]) is ErrorCode.NETWORK_EXCEPTION, "what is sent from within hears of the back-off, not of a dead connection"
        assert world.state is DialState.BACKING_OFF
        await asyncio.sleep(0.06)
        assert await world.answer() == HeartbeatResponse()

    story(test, serve)


@told_by(story)
async def test_a_connection_that_ends_while_nothing_is_asked_costs_nobody_anything(world: PeersWorld) -> None:
    await world.answer()
    world.loop.network.reset_connections("peer")
    await asyncio.sleep(0.01)
    assert world.state is DialState.IDLE
    assert await world.answer() == HeartbeatResponse(error_code=4)


@told_by(story, idle_s=60)
async def test_an_idle_connection_is_closed_and_opened_again_when_needed(world: PeersWorld) -> None:
    await world.answer()
    for _ in range(5):
        await asyncio.sleep(50)
        await world.answer()
    assert world.server.connections == 1
    await asyncio.sleep(130)
    assert world.state is DialState.IDLE
    assert not world.server.acceptor.connections
    await world.answer()
    assert world.server.connections == 2


def test_a_request_that_waits_longer_than_the_idle_time_keeps_its_connection() -> None:
    parked: list[Deferred[Message]] = []

    def serve(*_: object) -> Deferred[Message]:
        parked.append(Deferred())
        return parked[-1]

    async def test(world: PeersWorld) -> None:
        waiting = world.send(timeout_s=1000)
        await asyncio.sleep(300)
        parked[0].complete(HeartbeatResponse(error_code=5))
        assert await world.settled(waiting) == HeartbeatResponse(error_code=5)

    story(test, serve, idle_s=60)


@told_by(story, lambda *_: b"\x00")
async def test_an_answer_that_makes_no_sense_ends_the_connection(world: PeersWorld) -> None:
    sent = world.send()
    assert await world.code(sent) is ErrorCode.NETWORK_EXCEPTION
    assert "malformed response" in str(sent.error)
    assert world.state is DialState.BACKING_OFF


def test_a_peer_that_speaks_another_protocol_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: PeersWorld) -> None:
        world.server.speaks_kafka = False
        assert await world.code(world.send()) is ErrorCode.NETWORK_EXCEPTION
        assert world.state is DialState.BACKING_OFF

    story(test)
    assert ["does not speak Kafka" in line for line in caplog.messages] == [True]


@told_by(story)
async def test_an_address_that_cannot_be_resolved_is_an_error_like_others(world: PeersWorld) -> None:
    async def unresolvable(*_: object, **__: object) -> None:
        raise UnicodeError("label too long")

    world.loop.create_connection = unresolvable  # type: ignore[assignment, method-assign]
    assert await world.code(world.send()) is ErrorCode.NETWORK_EXCEPTION


@told_by(story, max_waiting=3)
async def test_no_more_wait_than_is_allowed(world: PeersWorld) -> None:
    sent = [world.send() for _ in range(4)]
    assert [each.done for each in sent] == [False, False, False, True]
    assert code(sent[3]) is ErrorCode.NETWORK_EXCEPTION
    for each in sent[:3]:
        await world.settled(each)


@told_by(story, max_lines=2, idle_s=60)
async def test_lines_are_bounded_and_forgotten_when_they_have_no_connection(world: PeersWorld) -> None:
    await world.answer("one")
    await world.answer("two")
    assert code(world.send("three")) is ErrorCode.NETWORK_EXCEPTION
    await asyncio.sleep(130)
    assert not world.peers.lines
    assert await world.answer("three") == HeartbeatResponse(error_code=4)


@told_by(story, lambda request, version: Deferred() if isinstance(request, VoteRequest) else echo(request, version))
async def test_closing_ends_everything(world: PeersWorld) -> None:
    await world.answer("idle")
    parked = world.send("parked", request=VoteRequest())
    await asyncio.sleep(1)
    waiting = world.send("dialling")
    world.peers.close()
    assert code(parked) is ErrorCode.NETWORK_EXCEPTION
    assert code(waiting) is ErrorCode.NETWORK_EXCEPTION
    assert code(world.send()) is ErrorCode.NETWORK_EXCEPTION
    await asyncio.sleep(1)
    assert not world.server.acceptor.connections


def test_an_exchange_has_ten_messages_and_no_more() -> None:
    async def test(world: PeersWorld) -> None:
        assert await world.answer() == HeartbeatResponse(error_code=4)

    async def refused(world: PeersWorld) -> None:
        with pytest.raises(KafkaError, match="does not end the authentication"):
            await world.answer()
        assert [key for key, _ in world.server.requests] == [17] + [36] * 10

    story(test, secured, SECURED, login=lambda: Exchange(10))
    story(refused, secured, SECURED, login=lambda: Exchange(11))


@pytest.mark.parametrize("at_once", [False, True])
def test_a_login_that_fails_with_any_error_ends_the_attempt(at_once: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A library of a mechanism may raise anything, when the client is made or when it answers."""
    fails = True

    def login() -> Exchange:
        if fails and at_once:
            raise RuntimeError("no ticket")
        return Exchange(error=RuntimeError("no ticket") if fails else None)

    async def test(world: PeersWorld) -> None:
        nonlocal fails
        assert await world.code(world.send()) is ErrorCode.NETWORK_EXCEPTION
        assert world.state is DialState.BACKING_OFF
        assert "RuntimeError: no ticket" in caplog.text
        fails = False
        await asyncio.sleep(0.1)
        assert await world.answer() == HeartbeatResponse(error_code=4)

    story(test, secured, SECURED, login=login)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_renewal_that_fails_with_any_error_ends_the_connection(at_once: bool) -> None:
    made: list[str] = []

    def login() -> Exchange:
        made.append("client")
        if len(made) == 2 and at_once:
            raise RuntimeError("no ticket")
        return Exchange(error=RuntimeError("no ticket") if len(made) == 2 else None)

    async def test(world: PeersWorld) -> None:
        assert await world.answer() == HeartbeatResponse(error_code=4)
        await asyncio.sleep(0.9)
        assert len(made) == 2
        assert world.state is DialState.BACKING_OFF
        await asyncio.sleep(0.1)
        assert await world.answer(timeout_s=2) == HeartbeatResponse(error_code=4)

    story(test, lambda request, version: secured(request, version, 1000), SECURED, login=login)


def test_requests_wait_while_a_login_is_renewed() -> None:
    logins: list[Deferred[Message]] = []

    def serve(request: Message, version: int) -> Message | Deferred[Message]:
        if not isinstance(request, SaslAuthenticateRequest):
            return secured(request, version)
        logins.append(Deferred() if logins else Deferred.of(SaslAuthenticateResponse(session_lifetime_ms=1000)))
        return logins[-1]

    async def test(world: PeersWorld) -> None:
        await world.answer()
        await asyncio.sleep(0.95)
        assert len(logins) == 2
        waiting = world.send()
        await asyncio.sleep(1)
        assert [key for key, _ in world.server.requests] == [17, 36, 12, 17, 36]
        logins[1].complete(SaslAuthenticateResponse(session_lifetime_ms=1000))
        assert await world.settled(waiting) == HeartbeatResponse(error_code=4)

    story(test, serve, SECURED, login=Exchange)


@told_by(story, secured, SECURED, login=lambda: Exchange(takes_long=True))
async def test_a_login_of_a_lost_connection_does_not_end_the_next_dial(world: PeersWorld) -> None:
    world.loop.slow_jobs(1, (5.0, 5.0))
    first = world.send()
    await asyncio.sleep(1)
    for connection in list(world.server.acceptor.connections):
        connection.abort()
    assert await world.code(first) is ErrorCode.NETWORK_EXCEPTION
    await asyncio.sleep(3)
    world.loop.network.cut("127.0.0.1", "peer")
    second = world.send()
    await asyncio.sleep(2)
    assert world.state is DialState.DIALLING
    world.peers.close()
    assert code(second) is ErrorCode.NETWORK_EXCEPTION
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, "the dial is cancelled"


def test_peers_work_over_real_sockets() -> None:
    from odradek.server.clock import LoopClock
    from odradek.server.start.process import run_loop

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        server = Server(loop, clock, echo, HEARTBEATS)
        port = await server.start("127.0.0.1", 0)
        peers = Peers(clock, "me")
        future = loop.create_future()
        sent = peers.send(Address(2, "127.0.0.1", port), "rpc", HeartbeatRequest(group_id="g"))
        sent.add_callback(lambda _: future.set_result(None))
        await asyncio.wait_for(future, 10)
        assert sent.result() == HeartbeatResponse(error_code=4)
        peers.close()
        await server.acceptor.close()

    run_loop(main())
