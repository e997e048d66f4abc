"""TLS on a listener, over real sockets: who gets in, what is bounded, and that requests are served as without it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.base.deferred import Deferred
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.network.limits import AcceptorLimits
from odradek.network.secure import Handshakes, TlsLayer, TlsServing
from odradek.quotas.connections import Admission, ConnectionRates
from odradek.quotas.samples import Window
from odradek.security.principal import ANONYMOUS, Principal
from odradek.security.x509 import subject
from odradek.server.start.process import new_event_loop
from tests.client.certificates import Certificates
from tests.clock import ManualClock
from tests.loops import on_each_loop
from tests.network.support import Peer, echo, framed, listening
from tests.waiting import until

MIB = 1024 * 1024
APPLICATION_DATA = 23


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on either loop, for twenty seconds at most."""
    factory = new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as loop_runner:
            loop_runner.run(asyncio.wait_for(main, 20))

    return runner


Run = Callable[[Coroutine[Any, Any, None]], None]


def serving(made: Certificates, *, auth: ssl.VerifyMode = ssl.CERT_NONE, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> TlsServing:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.broker)
    context.load_verify_locations(made.authority)
    context.verify_mode = auth
    context.maximum_version = version
    return TlsServing(context, who)


def who(certificate: bytes | None) -> Principal:
    if certificate is None:
        return ANONYMOUS
    if b"strange" in subject(certificate):
        raise ValueError("nobody")
    return Principal("User", subject(certificate)[-6:].decode())


def client_context(made: Certificates, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.authority)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


@contextlib.asynccontextmanager
async def secured(port: int, context: ssl.SSLContext) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost", limit=4 * MIB)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def plain(port: int) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


# -- requests -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@on_each_loop
async def test_requests_of_all_sizes_are_answered_in_order(made: Certificates, version: ssl.TLSVersion) -> None:
    async with listening(tls=serving(made, version=version)) as (_, bound), secured(bound.port, client_context(made)) as client:
        bodies = [bytes([index % 251]) * (1 + index * index * 37) for index in range(150)] + [b"x" * 3 * MIB]
        client.send(*bodies)
        assert [await client.frame() for _ in bodies] == bodies


@on_each_loop
async def test_who_has_sent_nothing_yet_holds_no_buffer(made: Certificates) -> None:
    async with listening(tls=serving(made)) as (acceptor, bound), plain(bound.port) as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(made).wrap_bio(incoming, outgoing, server_hostname="localhost")
        while not acceptor.connections or acceptor.handshaking:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            client.writer.write(outgoing.read())
            if not tls.version() or acceptor.handshaking:
                with contextlib.suppress(TimeoutError):
                    incoming.write(await asyncio.wait_for(client.reader.read(MIB), 0.1))
        assert acceptor.pool.in_use == 0
        tls.write(framed(b"a" * 1000))
        record = outgoing.read()
        client.writer.write(record[:-1])
        (connection,) = acceptor.connections
        await until(lambda: connection.frames == 0 and acceptor.pool.in_use == 0)
        await asyncio.sleep(0.02)  # for a buffer to be taken, if one was
        assert acceptor.pool.in_use == 0
        client.writer.write(record[-1:])
        await until(lambda: connection.frames == 1)


@on_each_loop
async def test_one_request_is_in_flight_and_others_wait_encrypted(made: Certificates) -> None:
    waiting: list[Deferred[Any]] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        waiting.append(Deferred())
        return waiting[-1]

    async with listening(handle, tls=serving(made)) as (acceptor, bound), secured(bound.port, client_context(made)) as client:
        idle = acceptor.pool.in_use
        client.send(*[b"r" * 30_000] * 100)
        await until(lambda: len(waiting) == 1)
        await asyncio.sleep(0.05)  # for more to come, if it did
        assert len(waiting) == 1
        assert acceptor.pool.in_use < MIB, "what waits is bounded, and counts"
        for number in range(100):
            await until(lambda: len(waiting) > number)  # noqa: B023
            waiting[number].complete([framed(b"ok")])
            assert await client.frame() == b"ok"
        await until(lambda: acceptor.pool.in_use == idle)


@on_each_loop
async def test_what_waits_encrypted_is_no_memory_of_requests_after_its_connection(made: Certificates) -> None:
    """Closed by this side, as when a connection has to make way for another: nobody decrypts what waits any more."""
    waiting: list[Deferred[Any]] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        waiting.append(Deferred())
        return waiting[-1]

    async with listening(handle, tls=serving(made)) as (acceptor, bound):
        for _ in range(2):
            waiting.clear()
            async with secured(bound.port, client_context(made)) as client:
                client.send(*[b"r" * 30_000] * 100)
                await until(lambda: len(waiting) == 1)
                plaintext = acceptor.pool.in_use
                while acceptor.pool.in_use <= plaintext:
                    waiting[-1].complete([framed(b"ok")])
                    before = len(waiting)
                    await until(lambda: len(waiting) > before)  # noqa: B023
                (connection,) = acceptor.connections
                connection.abort()
                await until(lambda: not acceptor.connections)
            assert acceptor.pool.in_use == 0


class FileOfZeros:
    """A file chunk."""

    def __init__(self, size: int, *, cached: bool) -> None:
        self.size = size
        self.cached = cached
        self.released = False

    def read(self, offset: int, size: int) -> bytes:
        return bytes(size)

    def read_cached(self, offset: int, size: int) -> bytes | None:
        return bytes(size) if self.cached else None

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        raise AssertionError("the kernel cannot encrypt")

    def release(self) -> None:
        self.released = True


@pytest.mark.parametrize("cached", [True, False])
@on_each_loop
async def test_files_are_encrypted_and_not_sent_by_the_kernel(made: Certificates, *, cached: bool) -> None:
    chunk = FileOfZeros(5 * MIB, cached=cached)

    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", chunk.size + 4), b"head", chunk]

    async with listening(handle, tls=serving(made)) as (_, bound), secured(bound.port, client_context(made)) as client:
        client.send(b"read")
        assert await client.frame() == b"head" + bytes(chunk.size)
        await until(lambda: chunk.released)


@on_each_loop
async def test_what_a_peer_does_not_take_is_owed(made: Certificates) -> None:
    connections: list[Connection] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        connections.append(connection)
        return [framed(bytes(20 * MIB))]

    limits = AcceptorLimits(send_buffer=64 * 1024)
    async with listening(handle, limits, tls=serving(made)) as (acceptor, bound):
        reading = socket.create_connection(("127.0.0.1", bound.port))
        wrapped = await asyncio.to_thread(client_context(made).wrap_socket, reading, server_hostname="localhost")
        wrapped.sendall(framed(b"much"))
        await until(lambda: acceptor.unsent.in_memory > 0)
        assert acceptor.unsent.in_memory == 20 * MIB + 4
        assert connections[0].unsent() > 10 * MIB

        def take() -> int:
            left = 20 * MIB + 4
            while left:
                left -= len(wrapped.recv(MIB))
            return left

        assert await asyncio.to_thread(take) == 0
        await until(lambda: acceptor.unsent.in_memory == 0)
        wrapped.close()


class Socket(asyncio.Transport):
    """Socket of a connection, whose peer reads only when the test says so. Without a file descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = bytearray()
        self.ended = ""
        self._reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unread += data

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = self.ended or "aborted"


@on_each_loop
async def test_a_peer_that_ends_before_it_has_read_its_answer_still_gets_it(made: Certificates) -> None:
    """The bound on unread alerts does not count the bytes of responses."""
    async with listening(lambda connection, frame: [framed(bytes(400_000))], tls=serving(made)) as (acceptor, bound):
        assert bound.listener.tls is not None
        layer, sock = TlsLayer(acceptor, bound.listener, bound.listener.tls), Socket()
        layer.connection_made(sock)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(made).wrap_bio(incoming, outgoing, server_hostname="localhost")

        async def exchange(work: Callable[[], object]) -> None:
            """Do `work` with all that was sent, and send what it writes."""
            incoming.write(bytes(sock.unread))
            sock.unread.clear()
            with contextlib.suppress(ssl.SSLWantReadError):
                work()
            sent = outgoing.read()
            if sent:
                layer.get_buffer(-1)[: len(sent)] = sent
                layer.buffer_updated(len(sent))

        while acceptor.handshaking:
            await exchange(tls.do_handshake)
            await asyncio.sleep(0.001)
        await exchange(lambda: tls.write(framed(b"much")))
        await until(lambda: len(sock.unread) > 400_000)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        end = outgoing.read()
        layer.get_buffer(-1)[: len(end)] = end
        layer.buffer_updated(len(end))
        await until(lambda: sock.ended != "")
        assert sock.ended == "closed"
        layer.connection_lost(None)


@on_each_loop
async def test_small_pieces_of_an_answer_share_a_record(made: Certificates) -> None:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        return [struct.pack(">i", 100 * 300), *[memoryview(bytes(300))] * 100]

    async with listening(handle, tls=serving(made)) as (_, bound), plain(bound.port) as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(made).wrap_bio(incoming, outgoing, server_hostname="localhost")
        seen = bytearray()

        async def turn(work: Callable[[], Any]) -> Any:
            while True:
                try:
                    result = work()
                except ssl.SSLWantReadError:
                    result = None
                client.writer.write(outgoing.read())
                if result is not None:
                    return result
                received = await client.reader.read(MIB)
                seen.extend(received)
                incoming.write(received)

        await turn(lambda: tls.do_handshake() or True)
        await turn(lambda: tls.write(framed(b"a")))
        before, left = len(seen), 30_004
        while left:
            left -= len(await turn(partial(tls.read, left)))
        assert _records(bytes(seen)[before:]) <= 5, "two or three of answer, two tickets of the session"


def _records(stream: bytes) -> int:
    at = found = 0
    while at + 5 <= len(stream):
        found += stream[at] == APPLICATION_DATA
        at += 5 + int.from_bytes(stream[at + 3 : at + 5], "big")
    return found


# -- who gets in --------------------------------------------------------------------------------------------------------------------------


def principals(seen: list[Principal]) -> Callable[[Connection, memoryview], Answer]:
    def handle(connection: Connection, frame: memoryview) -> Answer:
        seen.append(connection.principal)
        return echo(connection, frame)

    return handle


@pytest.mark.parametrize("auth", [ssl.CERT_NONE, ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED])
@on_each_loop
async def test_a_certificate_says_who_the_client_is(made: Certificates, auth: ssl.VerifyMode) -> None:
    seen: list[Principal] = []
    async with listening(principals(seen), tls=serving(made, auth=auth)) as (acceptor, bound):
        async with secured(bound.port, client_context(made, made.client)) as client:
            client.send(b"a")
            await client.frame()
            assert acceptor.handshaking == 0
        if auth is not ssl.CERT_REQUIRED:
            async with secured(bound.port, client_context(made)) as client:
                client.send(b"a")
                await client.frame()
    assert seen == [ANONYMOUS if auth is ssl.CERT_NONE else Principal("User", "client"), ANONYMOUS][: len(seen)]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(("certificate", "alert"), [(None, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE"), ("strange_client", "UNKNOWN_CA")])
def test_who_is_refused_reads_why(
    run: Run, made: Certificates, version: ssl.TLSVersion, certificate: str | None, alert: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def ask() -> None:
            context = client_context(made, getattr(made, certificate) if certificate is not None else None)
            with socket.create_connection(("127.0.0.1", bound.port)) as raw, context.wrap_socket(raw, server_hostname="localhost") as tls:
                for _ in range(20):
                    tls.sendall(framed(b"a"))
                tls.recv(1)

        async with listening(tls=serving(made, auth=ssl.CERT_REQUIRED, version=version)) as (acceptor, bound):
            with pytest.raises(ssl.SSLError, match=alert):
                await asyncio.to_thread(ask)
            await until(lambda: not acceptor.connections)

    run(main())
    (line,) = [record.getMessage() for record in caplog.records if "TLS failed" in record.getMessage()]
    assert "certificate" in line


@on_each_loop
async def test_who_is_refused_and_stays_is_closed_before_the_time_for_its_handshake(made: Certificates) -> None:
    limits = AcceptorLimits(handshake_s=3600, idle_s=3600)
    async with listening(limits=limits, tls=serving(made)) as (acceptor, bound), plain(bound.port) as client:
        client.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await client.reader.read(1 << 16)
        await until(lambda: not acceptor.connections)
        assert acceptor.handshaking == 0


def test_a_certificate_that_stands_for_nobody_closes(run: Run, made: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tls = serving(made, auth=ssl.CERT_REQUIRED)
        tls.context.load_verify_locations(made.stranger)
        async with listening(tls=tls) as (_, bound), secured(bound.port, client_context(made, made.strange_client)) as client:
            client.send(b"a")
            assert await client.closed()

    run(main())
    assert "TLS failed: nobody" in caplog.text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP"),
        (framed(b"\0\x12\0\0\0\0\0\1\0\0"), "it does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + b"x" * 100, "TLS failed"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "unexpected message"),
        (b"SSH-2.0-OpenSSH_9\r\n", "TLS failed"),
    ],
)
def test_who_does_not_speak_tls_is_closed_with_a_line(
    run: Run, made: Certificates, sent: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with listening(tls=serving(made)) as (acceptor, bound), plain(bound.port) as client:
            client.writer.write(sent)
            await asyncio.wait_for(client.reader.read(), 10)
            client.writer.close()
            await until(lambda: not acceptor.connections)
            assert acceptor.handshaking == 0

    run(main())
    assert said in caplog.text
    assert "Traceback" not in caplog.text


def test_who_speaks_tls_where_there_is_none_is_closed_with_a_line(run: Run, made: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening() as (_, bound):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with secured(bound.port, client_context(made)):
                    pass

    run(main())
    assert "it speaks TLS" in caplog.text


# -- what is bounded ----------------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_connections_are_counted_before_their_handshake(made: Certificates) -> None:
    async with listening(limits=AcceptorLimits(max_connections=1), tls=serving(made)) as (acceptor, bound), plain(bound.port) as silent:
        await until(lambda: acceptor.handshaking == 1)
        async with plain(bound.port) as refused:
            assert await refused.closed()
        silent.writer.close()
        await until(lambda: not acceptor.connections)
        async with secured(bound.port, client_context(made)) as client:
            client.send(b"a")
            assert await client.frame() == b"a"


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_half_a_handshake_ends_at_its_deadline(run: Run, made: Certificates, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        limits = AcceptorLimits(frame_grace_s=0.4)  # which is swept for ten times a second
        async with listening(limits=limits, tls=serving(made)) as (acceptor, bound):
            async with secured(bound.port, client_context(made)) as neighbour:
                limits.handshake_s = 0.2  # not before: on a busy machine the neighbour's takes longer
                async with plain(bound.port) as client:
                    client.writer.write(sent)
                    assert await client.closed()
                neighbour.send(b"a")
                assert await neighbour.frame() == b"a", "who has ended its handshake has no deadline"
            await until(lambda: not acceptor.connections)

    run(main())
    assert "no TLS handshake within" in caplog.text


class MinuteOfWaiting(ConnectionRates):
    """Rates under which each connection waits for a minute."""

    def admit(self, listener: str, address: str, now_ms: int, *, protected: bool = False) -> Admission:
        return Admission(60_000, None)


@on_each_loop
async def test_the_deadline_of_a_handshake_begins_with_the_admission(made: Certificates) -> None:
    clock = ManualClock()
    async with listening(tls=serving(made), clock=clock) as (acceptor, bound):
        acceptor.admission.rates = {"broker": MinuteOfWaiting(Window(2, 1000))}
        async with plain(bound.port) as silent:
            await until(lambda: len(acceptor.connections) == 1)
            (connection,) = acceptor.connections
            assert acceptor.handshaking == 0
            clock.advance_s(59)
            assert not connection.closing, "it waits in the queue"
            clock.advance_s(1)
            assert acceptor.handshaking == 1
            clock.advance_s(29)
            assert not connection.closing
            clock.advance_s(6)
            assert await silent.closed()
        await until(lambda: not acceptor.connections)
        opening = asyncio.open_connection("127.0.0.1", bound.port, ssl=client_context(made), server_hostname="localhost")
        greeting = asyncio.ensure_future(opening)
        await until(lambda: len(acceptor.connections) == 1)
        clock.advance_s(60)
        reader, writer = await greeting
        await until(lambda: acceptor.handshaking == 0)
        clock.advance_s(40)
        client = Peer(reader, writer)
        client.send(b"a")
        assert await client.frame() == b"a", "who has ended its handshake has no deadline"
        await client.close()


@on_each_loop
async def test_a_handshake_that_drips_ends_at_its_deadline_too(made: Certificates) -> None:
    outgoing = ssl.MemoryBIO()
    tls = client_context(made).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    async with listening(limits=AcceptorLimits(handshake_s=0.3), tls=serving(made)) as (_, bound), plain(bound.port) as client:

        async def drip() -> None:
            for byte in hello[:-1]:
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.005)

        dripping = asyncio.ensure_future(drip())
        assert await client.closed()
        dripping.cancel()


def test_steps_of_handshakes_take_turns() -> None:
    class Loop:
        def __init__(self) -> None:
            self.running: list[asyncio.Future[Any]] = []

        def run_in_executor(self, executor: None, step: Callable[[], object]) -> asyncio.Future[Any]:
            self.running.append(future := loop.create_future())
            started.append(step())
            return future

    class Layer:
        def __init__(self, name: str) -> None:
            self.name = name
            self.gone = False

        def step(self) -> str:
            return self.name

        def stepped(self, outcome: object) -> None:
            ended.append((self.name, outcome))

    started: list[object] = []
    ended: list[tuple[str, object]] = []
    loop = asyncio.new_event_loop()
    try:
        fake = Loop()
        handshakes = Handshakes(cast(Any, fake), 2)
        layers = [Layer(name) for name in "abcde"]
        for layer in layers:
            handshakes.run(cast(TlsLayer, layer))
        assert (started, handshakes.waiting) == (["a", "b"], 3)
        layers[2].gone = True
        fake.running[1].set_result(True)
        loop.run_until_complete(asyncio.sleep(0))
        assert (started, ended) == (["a", "b", "d"], [("b", True)])
        fake.running[0].set_exception(MemoryError())
        loop.run_until_complete(asyncio.sleep(0))
        assert started == ["a", "b", "d", "e"]
        assert isinstance(ended[1][1], MemoryError)
    finally:
        loop.close()


# -- while it runs ------------------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_new_context_is_for_new_connections(made: Certificates) -> None:
    tls = serving(made)
    async with listening(tls=tls) as (_, bound), secured(bound.port, client_context(made)) as old:
        tls.context = serving(made, auth=ssl.CERT_REQUIRED).context
        old.send(b"still")
        assert await old.frame() == b"still"
        async with secured(bound.port, client_context(made)) as new:
            new.send(b"a")
            with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
                await new.frame()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@on_each_loop
async def test_both_sides_may_say_that_they_end(made: Certificates, version: ssl.TLSVersion) -> None:
    def until_told() -> bytes:
        context = client_context(made)
        raw = socket.create_connection(("127.0.0.1", bound.port))
        with context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as tls:
            tls.sendall(framed(b"a"))
            tls.recv(100)
            return tls.recv(100)  # b"" for close_notify, SSLEOFError without it

    async with listening(tls=serving(made, version=version)) as (acceptor, bound):
        async with secured(bound.port, client_context(made)) as client:
            client.send(b"a")
            await client.frame()
        await until(lambda: not acceptor.connections)
        told = asyncio.ensure_future(asyncio.to_thread(until_told))
        await until(lambda: any(each.frames for each in acceptor.connections))
        await acceptor.close()
        assert await told == b""
