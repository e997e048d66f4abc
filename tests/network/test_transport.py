"""The client side of a connection: answers find their requests, limits hold, and all who wait are told when it ends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from odradek.base.clock import READING_TURNS
from odradek.base.deferred import Deferred
from odradek.base.errors import ProtocolError
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.transport import ClientConnection, ConnectionLost, RequestPipeline, RequestTimedOut, dial
from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.server.clock import LoopClock
from odradek.server.start.process import run_loop
from tests.clock import ManualClock
from tests.network.support import Handle, framed, listening
from tests.waiting import until

HEARTBEAT = 12


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">i", correlation_id) + body)


def answering(connection: Connection, frame: memoryview) -> Answer:
    """Sends back the request's body."""
    header, offset = decode_request_header(frame)
    return [response(header.correlation_id, bytes(frame[offset:]))]


async def done(deferred: Deferred[memoryview]) -> bytes:
    await until(lambda: deferred.done)
    return bytes(deferred.result())


def talk(test: Callable[[ClientConnection], object], handle: Handle = answering, max_in_flight: int = 5) -> None:
    async def main() -> None:
        async with listening(handle) as (_, bound):
            clock = LoopClock(asyncio.get_running_loop())
            connection = await dial("127.0.0.1", bound.port, clock=clock, client_id="me", max_in_flight=max_in_flight)
            try:
                result = test(connection)
                if asyncio.iscoroutine(result):
                    await result
            finally:
                connection.close()

    run_loop(asyncio.wait_for(main(), 10))


def test_answers_find_their_requests() -> None:
    async def test(connection: ClientConnection) -> None:
        sent = [connection.send(HEARTBEAT, 0, [str(number).encode() * (number * 997)]) for number in range(50)]
        assert connection.in_flight == 50
        assert [await done(each) for each in sent] == [str(number).encode() * (number * 997) for number in range(50)]

    talk(test)


def test_messages_go_out_and_come_back() -> None:
    async def test(connection: ClientConnection) -> None:
        answer = connection.request(HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse, 0)
        await until(lambda: answer.done)
        assert answer.result().error_code == 27

    def handle(_: Connection, frame: memoryview) -> Answer:
        return [response(decode_request_header(frame)[0].correlation_id, b"\x00\x1b")]

    talk(test, handle)


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[bytes] = []
        self.closed = False

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.requests.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def receive(connection: ClientConnection, data: bytes) -> None:
    space = connection.get_buffer(-1)
    space[: len(data)] = data
    del space
    connection.buffer_updated(len(data))


def test_no_more_than_allowed_is_on_the_wire_and_each_answer_lets_the_next_out() -> None:
    connection = ClientConnection(ManualClock(), "me", max_in_flight=2)
    wire = Wire()
    connection.connection_made(wire)
    assert connection.can_send
    answers = [connection.send(HEARTBEAT, 0, [b"%d" % number]) for number in range(10)]
    assert not connection.can_send
    assert connection.in_flight == 10
    for number in range(10):
        assert [request[-1:] for request in wire.requests] == [b"%d" % sent for sent in range(min(number + 2, 10))]
        receive(connection, response(number, b"%d!" % number))
        assert bytes(answers[number].result()) == b"%d!" % number
    assert connection.can_send
    assert connection.in_flight == 0


def test_a_connection_that_does_not_take_more_holds_requests_back() -> None:
    connection = ClientConnection(ManualClock(), "me")
    wire = Wire()
    connection.connection_made(wire)
    connection.pause_writing()
    connection.send(HEARTBEAT, 0, [b"x"])
    assert wire.requests == []
    connection.resume_writing()
    assert len(wire.requests) == 1


def test_a_request_in_the_queue_runs_out_of_time_as_one_on_the_wire_does() -> None:
    clock = ManualClock()
    connection = ClientConnection(clock, "me", max_in_flight=1)
    wire = Wire()
    connection.connection_made(wire)
    first = connection.send(HEARTBEAT, 0, [b"1"], timeout_s=60)
    second = connection.send(HEARTBEAT, 0, [b"2"], timeout_s=5)
    clock.advance_s(4.9)
    assert not first.done
    clock.advance_s(60)
    assert wire.closed
    assert isinstance(first.error, RequestTimedOut)
    assert isinstance(second.error, RequestTimedOut)


@pytest.mark.parametrize("turns", range(READING_TURNS + 1))
def test_an_answer_that_lies_in_the_socket_of_a_process_that_stood_still_is_in_time(turns: int) -> None:
    """Loops run timers before they read."""
    clock = ManualClock()
    connection = ClientConnection(clock, "me")
    wire = Wire()
    connection.connection_made(wire)
    for number in range(2):
        late = connection.send(HEARTBEAT, 0, [b"1"], timeout_s=5)
        clock.stall_s(20)
        for _ in range(turns):
            clock.turn()
        receive(connection, response(number, b"late"))
        assert bytes(late.result()) == b"late"
        clock.turn()
    last = connection.send(HEARTBEAT, 0, [b"2"], timeout_s=5)
    clock.advance_s(4.9)
    assert not wire.closed
    assert not last.done
    clock.advance_s(0.2)
    assert isinstance(last.error, RequestTimedOut)


def test_a_request_that_never_gets_on_the_wire_runs_out_of_time() -> None:
    clock = ManualClock()
    connection = ClientConnection(clock, "me")
    wire = Wire()
    connection.connection_made(wire)
    connection.pause_writing()
    waiting = connection.send(HEARTBEAT, 0, [b"x"], timeout_s=5)
    clock.advance_s(4.9)
    assert not waiting.done
    clock.advance_s(0.2)
    assert isinstance(waiting.error, RequestTimedOut)
    assert wire.closed
    assert wire.requests == []


def test_an_answer_in_time_moves_the_deadline_to_the_next_request() -> None:
    clock = ManualClock()
    connection = ClientConnection(clock, "me")
    wire = Wire()
    connection.connection_made(wire)
    connection.send(HEARTBEAT, 0, [b"1"], timeout_s=5)
    clock.advance_s(3)
    second = connection.send(HEARTBEAT, 0, [b"2"], timeout_s=5)
    receive(connection, response(0))
    clock.advance_s(4.9)
    assert not second.done
    clock.advance_s(0.2)
    assert isinstance(second.error, RequestTimedOut)


def test_a_request_that_may_take_less_time_than_the_one_before_it_is_late_at_its_own_time() -> None:
    clock = ManualClock()
    connection = ClientConnection(clock, "me")
    connection.connection_made(Wire())
    patient = connection.send(HEARTBEAT, 0, [b"1"], timeout_s=60)
    clock.advance_s(1)
    late = connection.send(HEARTBEAT, 0, [b"2"], timeout_s=2)
    clock.advance_s(1.9)
    assert not late.done
    clock.advance_s(0.2)
    assert isinstance(late.error, RequestTimedOut)
    assert patient.done, "the connection is closed"


def test_the_queue_has_an_end() -> None:
    connection = ClientConnection(ManualClock(), "me", max_in_flight=1, max_queued=2)
    connection.connection_made(Wire())
    sent = [connection.send(HEARTBEAT, 0, [b"x"]) for _ in range(4)]
    assert [each.done for each in sent] == [False, False, False, True]
    assert isinstance(sent[3].error, ConnectionLost)
    assert not isinstance(sent[3].error, RequestTimedOut)


def test_a_request_without_an_answer_is_done_when_it_is_sent() -> None:
    async def test(connection: ClientConnection) -> None:
        assert await done(connection.send(0, 3, [b"quiet"], expect_response=False)) == b""
        assert await done(connection.send(HEARTBEAT, 0, [b"loud"])) == b"loud"

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return None if decode_request_header(frame)[0].api_key == 0 else answering(connection, frame)

    talk(test, handle)


def test_no_answer_in_time_closes_and_tells_everybody() -> None:
    async def test(connection: ClientConnection) -> None:
        closed: list[ConnectionLost] = []
        connection.on_close(closed.append)
        first = connection.send(HEARTBEAT, 0, [b"1"], timeout_s=0.05)
        second = connection.send(HEARTBEAT, 0, [b"2"], timeout_s=30)
        await until(lambda: first.done)
        assert isinstance(first.error, RequestTimedOut)
        assert isinstance(second.error, RequestTimedOut)
        assert connection.closed
        assert len(closed) == 1
        assert isinstance(connection.send(HEARTBEAT, 0, [b"3"]).error, ConnectionLost)
        connection.on_close(closed.append)
        assert len(closed) == 2

    talk(test, lambda connection, frame: Deferred())


def test_a_peer_that_closes_fails_what_is_in_flight() -> None:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        raise ProtocolError("no")

    async def test(connection: ClientConnection) -> None:
        sent = connection.send(HEARTBEAT, 0, [b"1"])
        await until(lambda: sent.done)
        assert isinstance(sent.error, ConnectionLost)

    talk(test, handle)


def test_an_answer_to_another_request_closes() -> None:
    async def test(connection: ClientConnection) -> None:
        sent = connection.send(HEARTBEAT, 0, [b"1"])
        await until(lambda: sent.done)
        assert "does not speak Kafka" in str(sent.error)

    talk(test, lambda connection, frame: [response(99)])


@pytest.mark.parametrize(
    ("api_version", "data"),
    [(0, framed(b"x")), (0, framed(b"")), (4, response(0)), (0, response(99))],
    ids=["short", "empty", "tags", "other"],
)
def test_a_request_whose_response_has_a_bad_header_fails_with_the_connection(api_version: int, data: bytes) -> None:
    pipeline = RequestPipeline("me")
    _, answer = pipeline.encode(HEARTBEAT, api_version, [b""], deadline=5.0)
    assert pipeline.receiver.reserve()
    pipeline.receiver.space()[: len(data)] = data
    with pytest.raises(ProtocolError):
        pipeline.received(len(data))
    assert pipeline.in_flight == 1
    lost = ConnectionLost("gone")
    pipeline.fail(lost)
    assert answer.error is lost


def test_nobody_there_is_said_by_name() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        with pytest.raises(ConnectionLost, match=r"cannot connect to 127\.0\.0\.1:1"):
            await dial("127.0.0.1", 1, clock=clock, client_id=None)

    run_loop(main())


def test_memory_of_large_answers_is_kept_while_they_come_and_forgotten_when_small_ones_do() -> None:
    pipeline = RequestPipeline("me")

    def answered(number: int, body: bytes) -> int:
        """The identity of the memory that the answer came into."""
        _, answer = pipeline.encode(HEARTBEAT, 0, [b""], deadline=5.0)
        data, at = response(number, body), 0
        while at < len(data):
            assert pipeline.receiver.reserve()
            space = pipeline.receiver.space()
            piece = data[at : at + len(space)]
            space[: len(piece)] = piece
            pipeline.received(len(piece))
            at += len(piece)
        return id(answer.result().obj)

    large = bytes(5 << 20)
    memory = answered(0, large)
    assert answered(1, large) == memory
    kept = pipeline.receiver._pool._lent
    assert len(kept) == 1
    answered(2, b"nothing new")
    assert kept == []


def test_the_pipeline_needs_no_loop() -> None:
    pipeline = RequestPipeline("me")
    chunks, answer = pipeline.encode(HEARTBEAT, 0, [b"abc"], deadline=5.0)
    header, offset = decode_request_header(b"".join(chunks)[4:])
    assert (header.correlation_id, header.client_id) == (0, "me")
    assert b"".join(chunks)[4 + offset :] == b"abc"
    assert pipeline.next_deadline() == 5.0
    for byte in response(0, b"xyz"):
        assert pipeline.receiver.reserve()
        pipeline.receiver.space()[:1] = bytes([byte])
        pipeline.received(1)
    assert bytes(answer.result()) == b"xyz"
    assert pipeline.next_deadline() is None
    pipeline.receiver.reserve()
    data = response(1)
    pipeline.receiver.space()[: len(data)] = data
    with pytest.raises(ProtocolError, match="without a request"):
        pipeline.received(len(data))


def test_what_a_response_holds_stays_when_the_next_one_comes() -> None:
    async def test(connection: ClientConnection) -> None:
        bodies = [bytes([number]) * 100_000 for number in range(20)]
        kept = [connection.send(HEARTBEAT, 0, [body]) for body in bodies]
        for each in kept:
            await done(each)
        assert [bytes(each.result()) for each in kept] == bodies

    talk(test)


def test_what_an_answer_brings_about_does_not_overtake_the_queue() -> None:
    connection = ClientConnection(ManualClock(), "me", max_in_flight=1)
    wire = Wire()
    connection.connection_made(wire)
    first = connection.send(HEARTBEAT, 0, [b"1"])
    first.add_callback(lambda _: connection.send(HEARTBEAT, 0, [b"3"]))
    connection.send(HEARTBEAT, 0, [b"2"])
    receive(connection, response(0))
    receive(connection, response(1))
    assert [request[-1:] for request in wire.requests] == [b"1", b"2", b"3"]
