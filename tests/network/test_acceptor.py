"""What a connection may expect of its listener, over real sockets: order, one request in flight, limits, bounded memory."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ProtocolError
from odradek.network.acceptor import Acceptor, BoundListener, Listener, ListenError
from odradek.network.chunks import Answer, Chunk
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from odradek.server.start.process import new_event_loop
from odradek.testing.kit.node_thread import NodeLoop
from tests.clock import ManualClock
from tests.loops import on_each_loop
from tests.network.support import FakeHandler, echo, framed, listening, peer, turns
from tests.waiting import until

MIB = 1024 * 1024
Pending = Deferred[Sequence[Chunk] | None]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on either loop, for ten seconds at most."""
    factory = new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop_runner:
            loop_runner.run(asyncio.wait_for(main, 10))

    return runner


Run = Callable[[Coroutine[Any, Any, None]], None]


@on_each_loop
async def test_requests_are_answered_in_order() -> None:
    async with listening() as (_, bound), peer(bound) as client:
        bodies = [str(index).encode() * (1 + index * 37) for index in range(200)]
        client.send(*bodies)
        assert [await client.frame() for _ in bodies] == bodies


@on_each_loop
async def test_one_request_is_in_flight_at_a_time() -> None:
    seen: list[bytes] = []
    waiting: list[Pending] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        seen.append(bytes(frame))
        waiting.append(Deferred())
        return waiting[-1]

    async with listening(handle) as (_, bound), peer(bound) as client:
        client.send(b"one", b"two")
        await until(lambda: bool(seen))
        client.send(b"three")
        await asyncio.sleep(0.02)
        assert seen == [b"one"]
        for count, body in enumerate((b"one", b"two", b"three"), 1):
            await until(lambda count=count: len(waiting) == count)
            waiting[-1].complete([framed(body)])
            assert await client.frame() == body


@on_each_loop
async def test_a_request_without_an_answer_lets_the_next_one_in() -> None:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        return None if frame[:1] == b"-" else echo(connection, frame)

    async with listening(handle) as (_, bound), peer(bound) as client:
        client.send(b"-silent", b"loud")
        assert await client.frame() == b"loud"


@on_each_loop
async def test_what_a_client_sends_while_it_waits_stays_bounded() -> None:
    pending: Pending = Deferred()
    first = True

    def handle(connection: Connection, frame: memoryview) -> Answer:
        nonlocal first
        if not first:
            return echo(connection, frame)
        first = False
        return pending

    async with listening(handle) as (acceptor, bound), peer(bound) as client:
        client.send(b"wait")
        await until(lambda: not first)
        bodies = [b"x" * MIB] * 20
        client.send(*bodies)
        await until(lambda: acceptor.pool.in_use > 0)
        await turns()
        assert client.writer.transport.get_write_buffer_size() > 0, "there was more to be read"
        assert acceptor.pool.in_use <= 512 * 1024
        pending.complete([framed(b"done")])
        assert await client.frame() == b"done"
        assert [await client.frame() for _ in bodies] == bodies


@pytest.mark.parametrize(
    "start", [struct.pack(">i", -1), struct.pack(">i", 0), struct.pack(">i", 101 * MIB), b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01"]
)
@on_each_loop
async def test_a_bad_size_closes_the_connection_at_once(start: bytes) -> None:
    async with listening() as (acceptor, bound), peer(bound) as client, peer(bound) as neighbour:
        client.writer.write(start)
        assert await client.closed()
        neighbour.send(b"still here")
        assert await neighbour.frame() == b"still here"
        await client.close()
        await until(lambda: len(acceptor.connections) == 1)


@on_each_loop
async def test_a_malformed_request_and_a_failing_handler_close_only_their_connection() -> None:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        if frame[:1] == b"!":
            raise ProtocolError("nonsense")
        if frame[:1] == b"?":
            raise ZeroDivisionError
        return echo(connection, frame)

    async with listening(handle) as (_, bound), peer(bound) as bad, peer(bound) as worse, peer(bound) as good:
        bad.send(b"!")
        worse.send(b"?")
        assert await bad.closed()
        assert await worse.closed()
        good.send(b"fine")
        assert await good.frame() == b"fine"


@on_each_loop
async def test_declared_but_unsent_bytes_cost_next_to_nothing() -> None:
    limits = AcceptorLimits(frame_grace_s=2.0)
    async with listening(limits=limits) as (acceptor, bound):
        writers = []
        for _ in range(100):
            _, writer = await asyncio.open_connection("127.0.0.1", bound.port)
            writer.write(struct.pack(">i", 99 * MIB) + b"x")
            writers.append(writer)
        await until(lambda: len(acceptor.connections) == 100)
        await until(lambda: acceptor.pool.in_use <= 100 * 4096)
        # ... and the deadline for the rest of the request ends them.
        await until(lambda: not acceptor.connections)
        assert acceptor.pool.in_use == 0
        for writer in writers:
            writer.close()


@on_each_loop
async def test_a_slow_request_in_time_is_served() -> None:
    async with listening(limits=AcceptorLimits(frame_grace_s=5)) as (_, bound), peer(bound) as client:
        data = framed(b"slowly")
        for index in range(len(data)):
            client.writer.write(data[index : index + 1])
            await asyncio.sleep(0.002)
        assert await client.frame() == b"slowly"


@on_each_loop
async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    pending: Pending = Deferred()

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return pending

    async with listening(handle, AcceptorLimits(idle_s=0.1)) as (acceptor, bound), peer(bound) as idle, peer(bound) as waiting:
        waiting.send(b"long poll")
        assert await idle.closed()
        for _ in range(3):
            async with peer(bound) as later:
                assert await later.closed(), "the same time is over once more"
        assert len(acceptor.connections) == 1
        pending.complete([framed(b"at last")])
        assert await waiting.frame() == b"at last"


@on_each_loop
async def test_connections_are_counted_by_listener() -> None:
    limits = AcceptorLimits(max_connections_of={"L": 1, "OTHER": 0})
    async with listening(limits=limits) as (acceptor, bound):
        bound.listener.name = "L"
        async with peer(bound) as one, peer(bound) as two:
            assert await two.closed()
            one.send(b"1")
            assert await one.frame() == b"1"
            acceptor.limits = AcceptorLimits(max_connections_of={"L": 2})
            async with peer(bound) as three:
                three.send(b"3")
                assert await three.frame() == b"3"
            one.send(b"1")
            assert await one.frame() == b"1"
        await until(lambda: not acceptor.connections)
        assert bound.listener.connections == 0


@on_each_loop
async def test_clients_give_way_to_nodes() -> None:
    async with listening() as (acceptor, bound):
        acceptor.limits = AcceptorLimits(max_connections=2, protected=["NODES"])  # as when the configuration changes
        nodes = await acceptor.bind(Listener("NODES", bound.scope, "127.0.0.1", 0))
        await acceptor.serve(nodes)
        async with peer(bound) as one, peer(bound) as two:
            for each in (two, one):
                each.send(b"1")
                await each.frame()
            of_one, of_two = acceptor.connections
            of_one.idle_since, of_two.idle_since = 6.0, 5.0
            async with peer(nodes) as node:
                node.send(b"3")
                assert await node.frame() == b"3"
                assert await two.closed(), "it was idle for longest"
                one.send(b"1")
                assert await one.frame() == b"1"
                async with peer(bound) as late:
                    assert await late.closed(), "no client is let in for another"
                async with peer(nodes) as other:
                    other.send(b"4")
                    assert await other.frame() == b"4"
                    assert await one.closed()
                    async with peer(nodes) as third:
                        assert await third.closed(), "nodes do not give way to one another"
        await until(lambda: not acceptor.connections)
        async with peer(bound) as one, peer(bound) as two:
            one.send(b"1")
            two.send(b"1")
            await one.frame()
            await two.frame()
            comers = [Connection(acceptor, nodes.listener) for _ in range(3)]
            assert list(map(acceptor.eviction.make_way, comers)) == [True, True, False], "each has another give way to it, also in one turn"
            assert await one.closed()
            assert await two.closed()


@on_each_loop
async def test_connections_are_counted_in_total_and_by_address() -> None:
    limits = AcceptorLimits(max_connections=2)
    async with listening(limits=limits) as (_, bound), peer(bound) as one, peer(bound) as two, peer(bound) as three:
        assert await three.closed()
        one.send(b"1")
        two.send(b"2")
        assert (await one.frame(), await two.frame()) == (b"1", b"2")
    async with listening(limits=AcceptorLimits(max_connections_per_ip=5, per_ip_overrides={"127.0.0.1": 1})) as (acceptor, bound):
        async with peer(bound) as one, peer(bound) as two:
            assert await two.closed()
            one.send(b"1")
            assert await one.frame() == b"1"
        await until(lambda: not acceptor.connections)
        async with peer(bound) as later:
            later.send(b"3")
            assert await later.frame() == b"3"


@on_each_loop
async def test_an_address_may_have_as_many_connections_again_as_it_has_closed() -> None:
    async with listening(limits=AcceptorLimits(max_connections_per_ip=2)) as (acceptor, bound), peer(bound) as one:
        one.send(b"1")
        assert await one.frame() == b"1"
        async with peer(bound) as two:
            two.send(b"2")
            assert await two.frame() == b"2"
        await until(lambda: len(acceptor.connections) == 1)
        async with peer(bound) as three, peer(bound) as four:
            assert await four.closed()
            three.send(b"3")
            assert await three.frame() == b"3"


class FakeFile:
    """A chunk of a file that is not there, and counts what is read and released."""

    def __init__(self, size: int, *, cached: bool = True, fails_at: int | None = None) -> None:
        self.size = size
        self.cached = cached
        self.fails_at = fails_at
        self.most_read = 0
        self.read_bytes = 0
        self.released = 0

    def read(self, offset: int, size: int) -> bytes:
        if self.fails_at is not None and offset >= self.fails_at:
            raise OSError(5, "Input/output error")
        self.read_bytes += size
        self.most_read = max(self.most_read, size)
        return bytes([(offset + 7) % 251]) * size

    def read_cached(self, offset: int, size: int) -> bytes | None:
        return self.read(offset, size) if self.cached else None

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        return None

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("cached", [True, False])
@on_each_loop
async def test_files_are_sent_in_pieces_and_released(cached: bool) -> None:
    files = [FakeFile(3 * MIB + 17, cached=cached), FakeFile(0, cached=cached), FakeFile(100, cached=cached)]
    total = sum(file.size for file in files)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", total + 4), b"head", *files]

    async with listening(handle) as (acceptor, bound), peer(bound) as client:
        client.send(b"fetch")
        body = await client.frame()
        assert len(body) == total + 4
        assert body[:4] == b"head"
        assert body[-100:] == bytes([7]) * 100
        assert max(file.most_read for file in files) <= MIB
        client.send(b"fetch")  # the connection goes on
        await client.frame()
        await until(lambda: all(file.released == 2 for file in files))
        # The transport may tell that the kernel has taken the last piece after the peer has read it.
        await until(lambda: (acceptor.unsent.of_files, acceptor.unsent.in_memory) == (0, 0))


@on_each_loop
async def test_peers_that_never_read_hold_little_memory_and_release_on_loss() -> None:
    files: list[FakeFile] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        files.append(FakeFile(64 * MIB))
        return [struct.pack(">i", files[-1].size), files[-1]]

    limits = AcceptorLimits(response_memory=4 * MIB)
    async with listening(handle, limits) as (acceptor, bound):
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", bound.port, limit=1024)
            writer.write(framed(b"fetch"))
            writers.append(writer)
        await until(lambda: len(files) == 20)
        await turns()
        held = acceptor.unsent.of_files
        assert 0 < held <= 4 * MIB + 20 * 64 * 1024
        for writer in writers:
            writer.transport.abort()
        await until(lambda: all(file.released == 1 for file in files))
        assert (acceptor.unsent.of_files, acceptor.unsent.in_memory) == (0, 0)


@pytest.mark.parametrize("cached", [True, False])
@on_each_loop
async def test_a_file_that_cannot_be_read_closes_the_connection(cached: bool) -> None:
    file = FakeFile(3 * MIB, cached=cached, fails_at=MIB)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", file.size), file]

    async with listening(handle) as (_, bound), peer(bound) as client:
        client.send(b"fetch")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.frame()
        await until(lambda: file.released == 1)


@on_each_loop
async def test_a_file_is_not_released_while_it_is_read_for_a_peer_that_has_gone() -> None:
    reading, go_on = threading.Event(), threading.Event()

    class SlowFile(FakeFile):
        def read(self, offset: int, size: int) -> bytes:
            reading.set()
            go_on.wait(10)
            return super().read(offset, size)

    file = SlowFile(100, cached=False)
    async with listening(lambda connection, frame: [struct.pack(">i", 100), file]) as (acceptor, bound):
        async with peer(bound) as client:
            client.send(b"fetch")
            await until(reading.is_set)
        try:
            await until(lambda: not acceptor.connections)
            assert file.released == 0
        finally:
            go_on.set()
        await until(lambda: file.released == 1)


def test_a_file_that_gives_fewer_bytes_than_it_has_closes_the_connection(run: Run) -> None:
    class Short(FakeFile):
        def read(self, offset: int, size: int) -> bytes:
            return super().read(offset, size)[1:]

    async def main() -> None:
        file = Short(1000)
        async with listening(lambda connection, frame: [struct.pack(">i", 1000), file]) as (_, bound), peer(bound) as client:
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.frame()
            await until(lambda: file.released == 1)

    run(main())


@on_each_loop
async def test_an_answer_for_a_peer_that_has_gone_is_released() -> None:
    pending: Pending = Deferred()
    file = FakeFile(100)
    async with listening(lambda connection, frame: pending) as (acceptor, bound):
        async with peer(bound) as client:
            client.send(b"fetch")
            await until(lambda: any(connection.busy for connection in acceptor.connections))
        await until(lambda: not acceptor.connections)
        pending.complete([struct.pack(">i", 100), file])
        assert file.released == 1


@on_each_loop
async def test_answers_of_one_turn_are_sent_together_and_those_for_the_lost_are_released() -> None:
    pending: list[Pending] = []
    connections: list[Connection] = []
    file = FakeFile(100)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        connections.append(connection)
        pending.append(Deferred())
        return pending[-1]

    async with listening(handle) as (_, bound), peer(bound) as one, peer(bound) as two, peer(bound) as gone:
        for client in (one, two, gone):
            client.send(b"wait")
        await until(lambda: len(pending) == 3)
        order = {connection.peer_port: deferred for connection, deferred in zip(connections, pending, strict=True)}
        first, second, third = (order[client.writer.get_extra_info("sockname")[1]] for client in (one, two, gone))
        first.complete([framed(b"first")])
        third.complete([struct.pack(">i", 100), file])
        second.complete([framed(b"second")])
        assert all(connection.busy for connection in connections), "nothing is sent before the turn is over"
        connections[pending.index(third)].abort()
        assert [await one.frame(), await two.frame()] == [b"first", b"second"]
        assert file.released == 1


@on_each_loop
async def test_short_answers_wait_for_the_turn_to_end_and_long_ones_do_not_overtake_them() -> None:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [framed(bytes(frame) * (5000 if frame[:1] == b"l" else 1))]

    async with listening(handle) as (acceptor, bound), peer(bound) as client:
        client.send(b"s1")
        assert await client.frame() == b"s1"
        (connection,) = acceptor.connections
        for body in (b"s2", b"l3", b"s4"):
            # As if they came one by one within a turn.
            space = connection.get_buffer(-1)
            space[: len(framed(body))] = framed(body)
            connection.buffer_updated(len(framed(body)))
        assert [await client.frame() for _ in range(3)] == [b"s2", b"l3" * 5000, b"s4"]
        client.send(b"end")
        client.writer.write_eof()
        assert await client.frame() == b"end"


@pytest.mark.parametrize("new_loop", [new_event_loop, NodeLoop])
@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_is_accepted_while_the_listener_closes_is_turned_away(
    new_loop: Callable[[], asyncio.AbstractEventLoop], turns: int
) -> None:
    async def main() -> None:
        async with listening() as (acceptor, bound):
            with socket.create_connection(("127.0.0.1", bound.port)) as client:
                client.setblocking(False)
                for _ in range(turns):
                    await asyncio.sleep(0)
                await acceptor.close()
                loop = asyncio.get_running_loop()
                answer = b""
                with suppress(ConnectionError):
                    await loop.sock_sendall(client, framed(b"hello"))
                    answer = await loop.sock_recv(client, 1)
                assert answer == b""
                assert not acceptor.connections

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(main(), 10))


@on_each_loop
async def test_an_answer_that_is_ready_is_sent_before_the_acceptor_closes() -> None:
    pending: Pending = Deferred()
    async with listening(lambda connection, frame: pending) as (acceptor, bound), peer(bound) as client:
        client.send(b"wait")
        await until(lambda: any(connection.busy for connection in acceptor.connections))
        pending.complete([framed(b"last")])
        await acceptor.close()
        assert await client.frame() == b"last"


@on_each_loop
async def test_localhost_listens_on_both_families_with_one_port() -> None:
    async with listening(host="localhost") as (_, bound):
        assert bound.port > 0
        for host in ("127.0.0.1", "::1")[: len(bound.servers)]:
            async with peer(bound, host) as client:
                client.send(host.encode())
                assert await client.frame() == host.encode()


@on_each_loop
async def test_a_port_in_use_is_named() -> None:
    async with listening() as (acceptor, bound):
        with pytest.raises(ListenError, match=rf"listener OTHER: cannot listen on 127.0.0.1:{bound.port}"):
            await acceptor.bind(Listener("OTHER", "broker", "127.0.0.1", bound.port))


class ServersByAddress:
    """Event loop whose addresses fail with an error number each, some of them at their first port only."""

    def __init__(self, failing: dict[str, int], once: tuple[str, ...] = ()) -> None:
        self._failing = failing
        self._once = list(once)
        self.open: list[tuple[str, int]] = []

    async def create_server(self, make: object, host: str, port: int, **options: object) -> Any:
        port = port or 1000 + len(self._once)
        if host in self._once:
            self._once.remove(host)
            raise OSError(errno.EADDRINUSE, "in use")
        if host in self._failing:
            raise OSError(self._failing[host], "fails")
        self.open.append((host, port))
        name = SimpleNamespace(getsockname=lambda: (host, port))
        return SimpleNamespace(sockets=[name], close=lambda: self.open.remove((host, port)))


def bind_by_address(loop: ServersByAddress, host: str, port: int = 9092) -> BoundListener:
    acceptor = Acceptor(cast(asyncio.AbstractEventLoop, loop), ManualClock(), FakeHandler(echo), AcceptorLimits())
    return asyncio.run(acceptor.bind(Listener("L", "broker", host, port)))


@pytest.mark.parametrize(
    ("host", "failing", "bound"),
    [
        ("", {}, ["0.0.0.0", "::"]),
        ("", {"::": errno.EADDRNOTAVAIL}, ["0.0.0.0"]),
        ("", {"::": errno.EAFNOSUPPORT}, ["0.0.0.0"]),
        ("", {"0.0.0.0": errno.EADDRNOTAVAIL}, ["::"]),
        ("localhost", {"127.0.0.1": errno.EADDRNOTAVAIL}, ["::1"]),
    ],
)
def test_a_listener_goes_on_with_the_family_that_there_is(host: str, failing: dict[str, int], bound: list[str]) -> None:
    loop = ServersByAddress(failing)
    bind_by_address(loop, host)
    assert loop.open == [(each, 9092) for each in bound]


@pytest.mark.parametrize(
    ("host", "failing", "named"),
    [
        ("", {"0.0.0.0": errno.EADDRINUSE}, "0.0.0.0:9092: Address already in use"),
        ("", {"::": errno.EADDRINUSE}, "[::]:9092: Address already in use"),
        ("localhost", {"127.0.0.1": errno.EADDRINUSE}, "localhost:9092: Address already in use"),
        ("localhost", {"::1": errno.EADDRINUSE}, "[::1]:9092: Address already in use"),
        ("", {"0.0.0.0": errno.EACCES, "::": errno.EACCES}, "*:9092: Permission denied"),
    ],
)
def test_half_a_listener_is_an_error_that_names_the_address_in_use(host: str, failing: dict[str, int], named: str) -> None:
    loop = ServersByAddress(failing)
    with pytest.raises(ListenError, match=re.escape(f"listener L: cannot listen on {named}")):
        bind_by_address(loop, host)
    assert loop.open == []


def test_any_free_port_is_free_on_both_families() -> None:
    loop = ServersByAddress({}, once=("::", "::"))
    assert bind_by_address(loop, "", 0).port == 1000
    assert loop.open == [("0.0.0.0", 1000), ("::", 1000)]
    with pytest.raises(ListenError, match=r"\[::1\]:1000: Address already in use"):
        bind_by_address(ServersByAddress({"::1": errno.EADDRINUSE}), "localhost", 0)


@on_each_loop
async def test_nothing_is_answered_before_serving_begins() -> None:
    async with listening() as (acceptor, _):
        bound = await acceptor.bind(Listener("LATER", "broker", "127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", bound.port)
        await acceptor.serve(bound)
        async with peer(bound) as client:
            client.send(b"now")
            assert await client.frame() == b"now"


async def quiet_peer(port: int, body: bytes) -> asyncio.StreamWriter:
    """A peer with small buffers that has asked, and takes nothing."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=own, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(framed(body))
    del reader
    return writer


@on_each_loop
async def test_those_that_take_no_large_answer_are_closed_for_others_who_never_wait() -> None:
    asked: list[int] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        if frame[:1] != b"x":
            return echo(connection, frame)
        asked.append(connection.peer_port)
        return [framed(bytes(frame) * MIB)]

    limits = AcceptorLimits(response_memory=8 * MIB, send_buffer=16 * 1024)
    async with listening(handle, limits) as (acceptor, bound), peer(bound) as neighbour:
        writers = []
        for number in range(1, 13):
            writers.append(await quiet_peer(bound.port, b"x"))
            await until(lambda number=number: len(asked) == number)
            neighbour.send(b"hello")
            assert await neighbour.frame() == b"hello"
            assert acceptor.unsent.in_memory <= 4 * MIB
        ports = [writer.get_extra_info("sockname")[1] for writer in writers]
        await until(lambda: len(acceptor.connections) <= 4)
        assert [connection.peer_port for connection in acceptor.connections][1:] == ports[-3:], "the latest are there"
        for writer in writers:
            writer.transport.abort()
        await until(lambda: len(acceptor.connections) == 1)
        assert acceptor.unsent.in_memory == 0


@on_each_loop
async def test_a_large_answer_is_owed_until_its_peer_has_taken_it() -> None:
    file = FakeFile(2 * MIB)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", 3 * MIB + file.size), b"h" * MIB, file, b"t" * 2 * MIB]

    async with listening(handle, AcceptorLimits(send_buffer=16 * 1024)) as (acceptor, bound), peer(bound) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(b"fetch")
        await until(lambda: acceptor.unsent.in_memory > 2 * MIB)
        assert acceptor.unsent.in_memory in (3 * MIB + 4, 2 * MIB), "what waits behind the file counts as well"
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        body = await client.frame()
        assert (body[:MIB], body[-2 * MIB :]) == (b"h" * MIB, b"t" * 2 * MIB)
        await until(lambda: (acceptor.unsent.in_memory, acceptor.unsent.of_files) == (0, 0))


@on_each_loop
async def test_what_waits_behind_a_file_is_owed_no_more_when_its_peer_has_gone() -> None:
    file = FakeFile(2 * MIB)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", file.size + MIB), file, b"t" * MIB]

    async with listening(handle, AcceptorLimits(send_buffer=16 * 1024)) as (acceptor, bound), peer(bound) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(b"fetch")
        await until(lambda: acceptor.unsent.in_memory >= MIB)
        client.writer.transport.abort()
        await until(lambda: not acceptor.connections)
        assert (acceptor.unsent.in_memory, acceptor.unsent.of_files) == (0, 0)


@on_each_loop
async def test_a_connection_that_has_sent_much_keeps_little() -> None:
    """Event loops look for more after a read that filled its space: that look takes no large buffer."""
    async with listening(lambda connection, frame: [framed(b"ok")]) as (acceptor, bound):
        clients = [await asyncio.open_connection("127.0.0.1", bound.port) for _ in range(20)]
        for reader, writer in clients:
            writer.write(framed(b"y" * 400_000))
            assert await reader.readexactly(6) == framed(b"ok")
        await asyncio.sleep(0)
        assert acceptor.pool.in_use <= 20 * 4096
        for _, writer in clients:
            writer.transport.abort()
