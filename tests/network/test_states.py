"""States of a connection without sockets: each transition of the tables happens, and no other one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from odradek.base.deferred import Applied, Deferred
from odradek.network.acceptor import Acceptor, Listener
from odradek.network.chunks import Answer, Chunk
from odradek.network.connection import Connection
from odradek.network.inbound import NotYetError
from odradek.network.limits import AcceptorLimits
from odradek.network.states import (
    BLOCKED,
    DEFERRED,
    DELAYED,
    DRAINING,
    INBOUND,
    OPEN,
    OUTBOUND,
    QUEUED,
    READING,
    READING_BLOCKED,
    READING_FILE,
    SENDING,
    SERVING,
    WAITING,
    InboundState,
    OutboundState,
)
from tests.clock import ManualClock
from tests.network.checked_states import CheckedStates
from tests.network.support import FakeHandler, framed


class Loop:
    """Event loop whose callbacks and executor calls run when the test says so."""

    def __init__(self) -> None:
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.reads: deque[tuple[Future[bytes], Callable[..., bytes], tuple[Any, ...]]] = deque()

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._soon.append((callback, arguments))

    def iterate(self) -> None:
        for _ in range(len(self._soon)):
            callback, arguments = self._soon.popleft()
            callback(*arguments)

    def run_in_executor(self, executor: None, function: Callable[..., bytes], *arguments: Any) -> Future[bytes]:
        self.reads.append((Future(), function, arguments))
        return self.reads[-1][0]

    def finish_read(self) -> None:
        future, function, arguments = self.reads.popleft()
        future.set_result(function(*arguments))


class Transport:
    """Transport whose kernel takes all bytes, or none while it is `full`."""

    def __init__(self) -> None:
        self.protocol: Connection
        self.full = False
        self.paused = False
        self.reading = True
        self.closing = False
        self.sent = b""

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("10.0.0.1", 5000), "sockname": ("10.0.0.2", 9092)}.get(name, default)

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return int(self.paused)

    def writelines(self, chunks: Iterable[bytes]) -> None:
        self.sent += b"".join(chunks)
        if self.full:
            self.fill()

    def fill(self) -> None:
        if not self.paused:
            self.paused = True
            self.protocol.pause_writing()

    def take(self) -> None:
        """Let the kernel take all bytes; while `full` is set, the next write fills it again."""
        self.paused = False
        self.protocol.resume_writing()

    def drain(self) -> None:
        self.full = False
        self.take()

    def abort(self) -> None:
        self.closing = True


class File:
    """Slice of a file, in the page cache or not."""

    def __init__(self, size: int, *, cached: bool) -> None:
        self.size = size
        self._cached = cached
        self.released = 0

    def read(self, offset: int, size: int) -> bytes:
        return b"f" * size

    def read_cached(self, offset: int, size: int) -> bytes | None:
        return b"f" * size if self._cached else None

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        return None

    def release(self) -> None:
        self.released += 1


Later = Deferred[Sequence[Chunk] | None]


class Bench:
    """Connection with a handler that answers frames by their first letter.

    `e` is answered at once, `l` with a long response, `f` and `c` with a file that is or is not in the page cache, `P` and `W` by `answer`
    (Produce lets others follow). `n` is left in the buffer while `not_yet` is set, and a frame beginning with `s` takes long.
    """

    def __init__(self) -> None:
        self.loop = Loop()
        self.clock = ManualClock()
        self.later: deque[Later] = deque()
        self.files: list[File] = []
        self.file_size = 1000
        self.not_yet = True
        self.acceptor = Acceptor(cast(Any, self.loop), self.clock, FakeHandler(self.handle), AcceptorLimits())
        self.listener = Listener("L", "broker", "", 9092)
        self.connection, self.transport = self.connect()

    def connect(self) -> tuple[Connection, Transport]:
        connection, transport = Connection(self.acceptor, self.listener), Transport()
        transport.protocol = connection
        connection.connection_made(cast(Any, transport))
        return connection, transport

    def handle(self, connection: Connection, frame: memoryview) -> Answer:
        match bytes(frame[:1]):
            case b"P" | b"W":
                self.later.append(Applied() if frame[:1] == b"P" else Deferred())
                return self.later[-1]
            case b"f" | b"c":
                self.files.append(File(self.file_size, cached=frame[:1] == b"f"))
                return [b"head", self.files[-1]]
            case b"l":
                return [bytes(5000)]
            case b"n" if self.not_yet:
                raise NotYetError
            case b"s":
                self.clock.advance_s(1)
        return [framed(bytes(frame))]

    def receive(self, *bodies: bytes, connection: Connection | None = None) -> None:
        """Receive frames in one read."""
        connection = connection or self.connection
        data = framed(*bodies)
        connection.get_buffer(-1)[: len(data)] = data
        connection.buffer_updated(len(data))

    def answer(self) -> None:
        self.later.popleft().complete([b"later"])
        self.loop.iterate()

    def lose(self) -> None:
        self.connection.connection_lost(None)

    @property
    def states(self) -> tuple[InboundState, OutboundState]:
        return self.connection.inbound.state, self.connection.outbound.state


CLOSED = (InboundState.CLOSED, OutboundState.CLOSED)


def delayed_and_read(bench: Bench) -> None:
    bench.connection.delay()
    assert bench.states == (DELAYED, OPEN)
    assert not bench.transport.reading
    bench.connection.start_reading()
    assert bench.states == (READING, OPEN)
    assert bench.transport.reading


def delayed_and_lost(bench: Bench) -> None:
    bench.connection.delay()
    bench.lose()
    bench.connection.start_reading()
    assert bench.states == CLOSED


def answered_with_nothing_behind(bench: Bench) -> None:
    bench.receive(b"W")
    assert bench.states == (WAITING, OPEN)
    assert bench.transport.reading
    bench.answer()
    assert bench.states == (READING, OPEN)


def answered_with_requests_behind(bench: Bench) -> None:
    bench.receive(b"W", b"e")
    assert bench.states == (WAITING, OPEN)
    bench.answer()
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (READING, OPEN)
    bench.loop.iterate()
    assert bench.transport.sent == b"later" + framed(b"e")


def requests_in_flight_while_reading(bench: Bench) -> None:
    bench.receive(b"P", b"P")
    assert bench.states == (READING, OPEN)
    bench.receive(b"e")
    assert bench.states == (WAITING, OPEN)
    bench.answer()
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (WAITING, OPEN)
    bench.answer()
    bench.loop.iterate()
    assert bench.states == (READING, OPEN)


def the_clients_time_is_used_up(bench: Bench) -> None:
    other, _ = bench.connect()
    bench.receive(b"s", connection=other)
    bench.receive(b"e")
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (READING, OPEN)


def queued_and_blocked(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(*[b"e"] * 20)
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (WAITING, BLOCKED)
    bench.transport.drain()
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    bench.loop.iterate()
    assert bench.transport.sent == framed(*[b"e"] * 20)
    assert bench.states == (READING, OPEN)


def queued_and_lost(bench: Bench) -> None:
    bench.receive(*[b"e"] * 20)
    bench.lose()
    bench.loop.iterate()
    assert bench.states == CLOSED


def short_responses_are_not_taken(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(b"e")
    assert bench.states == (READING, OPEN)
    bench.loop.iterate()
    assert bench.states == (WAITING, BLOCKED)
    bench.transport.drain()
    assert bench.states == (READING, OPEN)


def deferred_and_served(bench: Bench) -> None:
    bench.receive(b"e", b"n")
    assert bench.states == (DEFERRED, OPEN)
    bench.not_yet = False
    bench.connection.go_on()
    assert bench.states == (READING, OPEN)


def deferred_and_blocked(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(b"e", b"n")
    assert bench.states == (DEFERRED, BLOCKED)
    bench.connection.go_on()
    assert bench.states == (WAITING, BLOCKED)
    bench.not_yet = False
    bench.transport.drain()
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    bench.loop.iterate()
    assert bench.states == (READING, OPEN)


def deferred_and_lost(bench: Bench) -> None:
    bench.receive(b"n")
    bench.lose()
    bench.connection.go_on()
    assert bench.states == CLOSED


def muted(bench: Bench) -> None:
    bench.connection.mute(5)
    assert bench.states == (WAITING, OPEN)
    bench.receive(b"e")
    assert not bench.transport.reading
    bench.clock.advance_s(5)
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (READING, OPEN)
    assert bench.transport.reading


def muted_and_lost(bench: Bench) -> None:
    bench.connection.mute(5)
    bench.lose()
    bench.clock.advance_s(5)
    assert bench.states == CLOSED


def a_mute_ends_while_queued_or_deferred(bench: Bench) -> None:
    bench.receive(*[b"e"] * 16, b"n")
    bench.connection.mute(5)
    bench.clock.advance_s(5)
    assert bench.states == (QUEUED, OPEN)
    bench.loop.iterate()
    assert bench.states == (DEFERRED, OPEN)
    bench.connection.mute(5)
    bench.clock.advance_s(5)
    bench.loop.iterate()
    assert bench.states == (DEFERRED, OPEN)
    bench.not_yet = False
    bench.connection.go_on()
    assert bench.states == (READING, OPEN)


def a_mute_ends_before_the_peer_takes_responses(bench: Bench) -> None:
    bench.connection.mute(5)
    bench.transport.fill()
    bench.clock.advance_s(5)
    assert bench.states == (WAITING, BLOCKED)
    bench.transport.drain()
    assert bench.states == (READING, OPEN)


def a_long_response_is_not_taken(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(b"l")
    assert bench.states == (WAITING, BLOCKED)
    bench.lose()
    assert bench.states == CLOSED


def a_file_is_sent_at_once(bench: Bench) -> None:
    bench.receive(b"f")
    assert bench.states == (READING, OPEN)
    assert bench.transport.sent == b"head" + b"f" * bench.file_size
    assert bench.files[0].released == 1


def a_file_is_sent_in_parts(bench: Bench) -> None:
    bench.acceptor.unsent.most = 0  # the smallest parts
    bench.file_size = 10_000
    bench.transport.full = True
    bench.receive(b"f")
    taken = 0
    while bench.states[1] is DRAINING:
        bench.transport.take()
        taken += 1
    assert bench.states == (WAITING, BLOCKED)
    assert taken == 2
    bench.transport.drain()
    assert bench.states == (READING, OPEN)
    assert bench.transport.sent == b"head" + b"f" * bench.file_size


def a_file_behind_short_responses(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(b"e", b"f")
    assert bench.states == (WAITING, DRAINING)
    bench.transport.take()
    assert bench.states == (WAITING, BLOCKED)
    bench.transport.drain()
    assert bench.states == (READING, OPEN)
    assert bench.transport.sent == framed(b"e") + b"head" + b"f" * bench.file_size


def a_file_is_lost_in_parts(bench: Bench) -> None:
    bench.transport.full = True
    bench.receive(b"e", b"f")
    bench.lose()
    assert bench.states == CLOSED
    assert bench.files[0].released == 1


def a_file_is_read_in_an_executor(bench: Bench) -> None:
    bench.receive(b"c")
    assert bench.states == (WAITING, READING_FILE)
    bench.loop.finish_read()
    assert bench.states == (READING, OPEN)
    assert bench.transport.sent == b"head" + b"f" * bench.file_size


def alerts_fill_the_kernel_during_a_read(bench: Bench) -> None:
    bench.receive(b"c")
    bench.transport.fill()
    assert bench.states == (WAITING, READING_BLOCKED)
    bench.transport.drain()
    assert bench.states == (WAITING, READING_FILE)
    bench.transport.fill()
    bench.loop.finish_read()
    assert bench.states == (WAITING, BLOCKED)
    bench.transport.drain()
    assert bench.states == (READING, OPEN)


def the_peer_goes_during_a_read(bench: Bench) -> None:
    bench.receive(b"c")
    bench.lose()
    assert bench.states == (InboundState.CLOSED, READING_FILE)
    assert bench.files[0].released == 0, "the executor uses the file"
    bench.loop.finish_read()
    assert bench.states == CLOSED
    assert bench.files[0].released == 1


def the_peer_goes_at_once(bench: Bench) -> None:
    bench.lose()
    assert bench.states == CLOSED


STORIES = (
    delayed_and_read,
    delayed_and_lost,
    answered_with_nothing_behind,
    answered_with_requests_behind,
    requests_in_flight_while_reading,
    the_clients_time_is_used_up,
    queued_and_blocked,
    queued_and_lost,
    short_responses_are_not_taken,
    deferred_and_served,
    deferred_and_blocked,
    deferred_and_lost,
    muted,
    muted_and_lost,
    a_mute_ends_while_queued_or_deferred,
    a_mute_ends_before_the_peer_takes_responses,
    a_long_response_is_not_taken,
    a_file_is_sent_at_once,
    a_file_is_sent_in_parts,
    a_file_behind_short_responses,
    a_file_is_lost_in_parts,
    a_file_is_read_in_an_executor,
    alerts_fill_the_kernel_during_a_read,
    the_peer_goes_during_a_read,
    the_peer_goes_at_once,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story(story: Callable[[Bench], None]) -> None:
    story(Bench())


def test_each_transition_of_the_tables_happens(states: CheckedStates) -> None:
    for story in STORIES:
        story(Bench())
    assert states.inbound.seen == {(before, after) for before, allowed in INBOUND.items() for after in allowed}
    assert states.outbound.seen == {(before, after) for before, allowed in OUTBOUND.items() for after in allowed}


def test_a_transition_that_the_table_lacks_raises(states: CheckedStates) -> None:
    bench = Bench()
    with pytest.raises(RuntimeError, match="cannot go from READING to DEFERRED"):
        bench.connection.inbound.state = DEFERRED
    with pytest.raises(RuntimeError, match="cannot go from OPEN to READING_FILE"):
        bench.connection.outbound.state = READING_FILE
    states.inbound.wrong.clear()
    states.outbound.wrong.clear()


def test_sending_and_serving_never_rest() -> None:
    """`Bench.states` is read between events, so a state that a story finds is one in which a connection rests."""
    resting: set[object] = set()

    class Watched(Bench):
        @property
        def states(self) -> tuple[InboundState, OutboundState]:
            found = self.connection.inbound.state, self.connection.outbound.state
            resting.update(found)
            return found

    for story in STORIES:
        story(Watched())
    assert resting == (set(InboundState) | set(OutboundState)) - {SERVING, SENDING}
