"""Large pieces of files that the kernel sends to the socket itself: the same bytes in the same order, and nothing in memory."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from pathlib import Path

import pytest

from odradek.base.errors import StorageError
from odradek.network.chunks import Answer
from odradek.network.connection import Connection
from odradek.storage.disk import OsDisk
from odradek.storage.slices import FileSlice, Pin
from tests.loops import on_each_loop
from tests.network.support import Run, framed, listening, peer
from tests.waiting import until

MIB = 1 << 20
PIECE = 16 * 1024
"""What is copied each time that the kernel's buffer is full."""


class Slice(FileSlice):
    """Counts what takes which way."""

    __slots__ = ("asked", "copied", "freed", "full", "sendable", "sent")

    def __init__(self, path: Path, size: int, position: int = 0) -> None:
        self.freed = False
        file = OsDisk().open(str(path))
        super().__init__(file, position, size, Pin(file.close))
        self.asked = self.copied = self.sent = self.full = 0
        self.sendable = size
        """From there on the kernel does not send."""

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        self.asked = max(self.asked, size)
        if offset >= self.sendable:
            return None
        sent = super().send_cached(socket, offset, size)
        assert sent is not None
        self.sent += sent
        self.full += sent == 0
        return sent

    def read_cached(self, offset: int, size: int) -> bytes | bytearray | None:
        self.copied += size
        return super().read_cached(offset, size)

    def release(self) -> None:
        assert not self.freed
        self.freed = True
        super().release()


DATA = random.Random(7).randbytes(20 * MIB)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that holds DATA."""
    path = tmp_path / "f"
    path.write_bytes(DATA)
    return path


@on_each_loop
async def test_bytes_and_files_keep_their_order(path: Path) -> None:
    slices: list[Slice] = []

    def handle(connection: Connection, frame: memoryview) -> Answer:
        parts = [
            Slice(path, 3 * MIB + 17, 5),
            Slice(path, 100),
            Slice(path, 64 * 1024 - 1, 9),
            Slice(path, 64 * 1024),
            Slice(path, MIB),
        ]
        slices.extend(parts)
        chunks = [b"head", parts[0], b"x" * 300_000, parts[1], parts[2], b"middle", parts[3], parts[4], b"tail"]
        size = sum(len(chunk) for chunk in chunks)
        return [struct.pack(">i", size), *chunks]

    expected = b"".join(
        (b"head", DATA[5 : 5 + 3 * MIB + 17], b"x" * 300_000, DATA[:100], DATA[9 : 9 + 64 * 1024 - 1], b"middle")
    ) + b"".join((DATA[: 64 * 1024], DATA[:MIB], b"tail"))
    async with listening(handle) as (acceptor, bound), peer(bound) as client:
        for _ in range(3):
            client.send(b"fetch", b"fetch")
            assert await client.frame() == expected
            assert await client.frame() == expected
        await until(lambda: all(each.freed for each in slices))
        await until(lambda: (acceptor.unsent.of_files, acceptor.unsent.in_memory) == (0, 0))
    large = [each for each in slices if each.size >= 64 * 1024]
    # Copied is only what has to wait for the socket, and the rest of a slice that is too small to be worth a call.
    assert all(each.sent + each.copied == each.size for each in large)
    assert all(each.copied <= each.full * PIECE + 64 * 1024 for each in large)
    assert sum(each.sent for each in large) > sum(each.size for each in large) // 2
    assert all(each.sent == 0 for each in slices if each.size < 64 * 1024)
    assert max(each.asked for each in slices) <= MIB


@on_each_loop
async def test_a_peer_that_reads_late_holds_next_to_no_memory(path: Path) -> None:
    file = Slice(path, 20 * MIB)
    async with listening(lambda connection, frame: [struct.pack(">i", file.size), file]) as (acceptor, bound):
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port, limit=1024)
        writer.write(framed(b"fetch"))
        await until(lambda: file.full > 0)
        assert acceptor.unsent.of_files <= PIECE
        received = bytearray()
        while len(received) < file.size + 4:
            received += await reader.read(1 << 20)
            assert acceptor.unsent.of_files <= PIECE
        assert received[4:] == DATA
        assert file.full > 1
        await until(lambda: file.freed)
        writer.close()


@on_each_loop
async def test_what_is_not_in_the_cache_is_copied(path: Path) -> None:
    file = Slice(path, 20 * MIB)
    file.sendable = 2 * MIB
    async with listening(lambda connection, frame: [struct.pack(">i", file.size), file]) as (_, bound), peer(bound) as client:
        client.send(b"fetch")
        assert await client.frame() == DATA
        assert 0 < file.sent <= 2 * MIB + file.asked
        await until(lambda: file.freed)


def test_a_file_that_ends_too_early_closes_the_connection(run: Run, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        file = Slice(path, 21 * MIB)
        async with listening(lambda connection, frame: [struct.pack(">i", file.size), file]) as (_, bound), peer(bound) as client:
            client.send(b"fetch")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.frame()
            await until(lambda: file.freed)

    run(main())
    (record,) = [record for record in caplog.records if record.name == "odradek.network.outbound"]
    assert record.exc_info is not None
    assert record.exc_info[0] is StorageError


def test_the_file_of_a_peer_that_goes_is_released_without_a_word(run: Run, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        files: list[Slice] = []

        def handle(connection: Connection, frame: memoryview) -> Answer:
            files.append(Slice(path, 20 * MIB))
            return [struct.pack(">i", files[-1].size), files[-1]]

        async with listening(handle) as (acceptor, bound):
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", bound.port, limit=1024)
                writer.write(framed(b"fetch"))
                await reader.readexactly(100_000)
                writer.transport.abort()
            await until(lambda: not acceptor.connections and all(file.freed for file in files))
            assert acceptor.unsent.of_files == 0

    run(main())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_socket_that_breaks_while_the_kernel_sends_ends_the_connection(run: Run, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Slice):
        def send_cached(self, socket: int, offset: int, size: int) -> int | None:
            raise BrokenPipeError

    async def main() -> None:
        file = Broken(path, 20 * MIB)
        async with listening(lambda connection, frame: [struct.pack(">i", file.size), file]) as (acceptor, bound), peer(bound) as client:
            client.send(b"fetch")
            assert await client.reader.read(4) == struct.pack(">i", file.size)
            assert await client.closed()
            await until(lambda: file.freed and not acceptor.connections)

    run(main())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(("context", "sends"), [(None, True), (object(), False)])
def test_the_kernel_sends_to_no_socket_whose_bytes_are_encrypted(context: object, sends: bool) -> None:
    class Socket:
        def fileno(self) -> int:
            return 5

    class Transport:
        def get_extra_info(self, name: str) -> object:
            return {"socket": Socket(), "sslcontext": context}.get(name)

        def set_write_buffer_limits(self, high: int) -> None:
            pass

        def abort(self) -> None:
            pass

    async def main() -> None:
        async with listening() as (acceptor, bound):
            connection = Connection(acceptor, bound.listener)
            acceptor.connected(connection, Transport())  # type: ignore[arg-type]
            acceptor.disconnected(connection)
            assert connection.outbound.socket == (5 if sends else -1)

    asyncio.run(main())
