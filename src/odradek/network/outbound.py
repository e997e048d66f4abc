"""Responses of an accepted connection, on their way to its socket. `network.states` has the states.

1. **Order.** A request whose response is not ready, and each request behind it, is `Pending`. A response that is ready early waits for the
   responses ahead of it. So does an error that closes the connection (docs/adr/0010-pipelined-produce.md).
2. **Short responses** wait in `Outbound.short` for the end of the loop iteration, and leave in one write. No response overtakes them.
3. **Files.** A response is a list of chunks: bytes, memoryviews, or slices of files. Slices are sent in parts as the socket drains, and
   released when they have left or the connection is gone. Large slices are sent by the kernel from its page cache to the socket (sendfile).
   When the kernel's buffer is full, a small part goes through the transport, which reports when the buffer has room again. Small slices,
   slices that are not in the page cache, and all slices on encrypted connections are read and written.
4. **Unsent bytes.** The transport's high mark is zero. Bytes that the kernel does not take count in `network.unsent_bytes`, which also
   decides how large a part of a file may be.

Methods that need the connection take it as an argument. An attribute would form a reference cycle, and closed connections would stay in
memory until the garbage collector runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import StorageError
from odradek.network.chunks import Bytes, Chunk, FileChunk, memory_of, release_chunks
from odradek.network.states import (
    FILE_READ,
    OPEN,
    READING_FILE,
    SENDING,
    UNSENT,
    WITH_CHUNKS,
    WITH_UNSENT,
    WITHOUT_CHUNKS,
    WITHOUT_UNSENT,
    OutboundState,
)

if TYPE_CHECKING:
    from odradek.network.acceptor import Acceptor
    from odradek.network.connection import Connection

logger = logging.getLogger(__name__)

SHORT: Final = 4096
"""Most bytes of a response that is sent together with responses to other requests of the same loop iteration."""
_MOST_SHORT: Final = 64 * 1024
"""Bytes of short responses after which they are sent before the loop iteration ends."""
_SENDFILE_FROM: Final = 64 * 1024
"""Least bytes of a file slice that the kernel sends itself. Fewer bytes are copied, and leave in one call with the chunks around them."""
_SENDFILE_MOST: Final = 1024 * 1024
"""Most bytes of a file that the kernel sends in one call: each call looks them all up in the page cache."""
_UNTIL_WRITABLE: Final = 16 * 1024
"""Bytes that the transport gets when the kernel's buffer is full: once they are taken, the buffer has room."""
_LOST: Final = -1
"""Result of `_send_file` when the file cannot be read, or the peer is gone."""


class Pending:
    """Request whose response is not ready, or waits for earlier responses."""

    __slots__ = ("answer", "applied", "done", "error", "size")

    def __init__(self, size: int, *, applied: bool) -> None:
        self.size = size
        """Bytes of the request, or of its response where that is larger."""
        self.applied = applied
        """Whether later requests may be served before this one is answered."""
        self.done = False
        self.answer: Sequence[Chunk] | None = None
        self.error: BaseException | None = None


class Outbound:
    """Responses of one connection."""

    __slots__ = (
        "_acceptor",
        "_chunks",
        "_chunks_memory",
        "_file_bytes",
        "_position",
        "_written",
        "pending",
        "pending_bytes",
        "short",
        "socket",
        "state",
        "transport",
    )

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor
        self.state = OPEN
        self.transport: asyncio.Transport | None = None
        self.socket = -1
        """Descriptor to which the kernel may send files; -1 when bytes must go through the transport."""
        self.pending: deque[Pending] = deque()
        """Requests in flight, in their order."""
        self.pending_bytes = 0
        self.short = b""
        """Short responses that leave at the end of the loop iteration."""
        self._chunks: list[Chunk] = []
        """Rest of the response with files that is being sent, last chunk first."""
        self._chunks_memory = 0
        """Bytes made in memory among `_chunks`."""
        self._position = 0
        """Offset within the chunk that is being sent."""
        self._written = 0
        """Bytes made in memory that the transport has and the kernel has not taken."""
        self._file_bytes = 0
        """Bytes of files that the executor reads, or that the transport has and the kernel has not taken."""

    def lost(self, connection: Connection) -> None:
        """Release everything: the transport is gone. Chunks that the executor reads are released when it has read them."""
        self.transport = None
        self._drop(connection)
        for one in self.pending:
            if one.answer is not None:
                release_chunks(one.answer)
        self.pending.clear()
        self.pending_bytes = 0

    # -- requests in flight ------------------------------------------------------------------------------------------------------

    def expect(self, size: int, *, applied: bool) -> Pending:
        """Add a request of `size` bytes whose response is not ready. Pass its response to `complete`."""
        one = Pending(size, applied=applied)
        self.pending.append(one)
        self.pending_bytes += size
        return one

    def queue(self, answer: Sequence[Chunk] | None, size: int, error: BaseException | None = None) -> None:
        """Queue a response, or an error that closes the connection, behind the requests in flight. `size` is that of its request."""
        if answer is not None or error is not None:
            self._ready(self.expect(size, applied=error is None), answer, error)

    def complete(self, one: Pending, deferred: Deferred[Sequence[Chunk] | None]) -> bool:
        """Take the response, or the error, of a request in flight. Return False when the connection is gone."""
        error = deferred.error
        answer = deferred.result() if error is None else None
        if self.transport is None:
            if answer is not None:
                release_chunks(answer)
            return False
        one.applied = error is None
        self._ready(one, answer, error)
        return True

    def _ready(self, one: Pending, answer: Sequence[Chunk] | None, error: BaseException | None) -> None:
        one.done = True
        one.answer = answer
        one.error = error
        if answer is not None and one is not self.pending[0]:
            # The response is not on its way to the socket yet.
            more = memory_of(answer) - one.size
            if more > 0:
                one.size += more
                self.pending_bytes += more

    def send_ready(self, connection: Connection) -> bool:
        """Send the responses that may leave now. Return whether all bytes have been taken, so that further requests may be served."""
        pending = self.pending
        while pending and pending[0].done:
            transport = self.transport
            if self.state is not OPEN or transport is None or transport.is_closing():
                return False
            error = pending[0].error
            if error is not None:
                connection.fail(error)
                return False
            answer = self._take_ready()
            if answer:
                self.send(connection, answer)
        return self.state is OPEN

    def _take_ready(self) -> Sequence[Chunk]:
        """Remove and return the responses that are ready. A large response is returned last: the peer must take it before the next."""
        pending = self.pending
        if len(pending) == 1:
            only = pending.popleft()
            self.pending_bytes = 0
            return only.answer or ()
        answers: list[Sequence[Chunk]] = []
        size = 0
        while pending and pending[0].done and pending[0].error is None and size < _MOST_SHORT:
            one = pending.popleft()
            self.pending_bytes -= one.size
            if one.answer is not None:
                answers.append(one.answer)
                size += memory_of(one.answer)
        return answers[0] if len(answers) == 1 else [chunk for answer in answers for chunk in answer]

    # -- short responses ---------------------------------------------------------------------------------------------------------

    def keep(self, connection: Connection, short: list[bytes]) -> bool:
        """Add responses to `short`. Return whether they were many, so that they were sent, and the peer has not taken them."""
        self.short += short[0] if len(short) == 1 else b"".join(short)
        if len(self.short) <= _MOST_SHORT:
            return False
        # One loop iteration may bring many reads: a peer that floods must notice at once that its responses are not taken.
        self.write_short(connection)
        return self.state is not OPEN

    def flush(self, connection: Connection, short: list[bytes]) -> None:
        """Write the responses of `short`, after those that were kept before, and clear the list."""
        self.short += b"".join(short)
        short.clear()
        self.write_short(connection)

    def write_short(self, connection: Connection) -> None:
        """Write the short responses that were kept."""
        short, self.short = self.short, b""
        transport = self.transport
        if short and transport is not None and not transport.is_closing():
            self._write(connection, transport, [short], len(short), 0)

    # -- sending -----------------------------------------------------------------------------------------------------------------

    def send(self, connection: Connection, answer: Sequence[Chunk]) -> None:
        """Write a response, or as much of it as the peer takes; its chunks of files are sent later. `state` says whether it has left."""
        transport = self.transport
        if transport is None or transport.is_closing():
            release_chunks(answer)
            return
        if len(answer) == 1 and isinstance(only := answer[0], bytes):
            # Nearly all responses are one chunk of bytes.
            self._write(connection, transport, [only], len(only), 0)
            return
        in_memory = memory_of(answer)
        for chunk in answer:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                break
        else:
            self._write(connection, transport, cast("Sequence[Bytes]", answer), in_memory, 0)
            return
        self._chunks = list(answer)
        self._chunks.reverse()
        self._position = 0
        self._chunks_memory = in_memory
        self.state = WITH_CHUNKS[self.state]
        self._send_chunks(connection)

    def _write(
        self, connection: Connection, transport: asyncio.Transport, chunks: Sequence[Bytes], in_memory: int, file_bytes: int
    ) -> None:
        """Write the chunks; count the bytes that the kernel does not take at once."""
        transport.writelines(chunks)
        if self.state is not OPEN and self.state in UNSENT:
            self._written += in_memory
            self._count_unsent(connection, file_bytes)

    def _count_unsent(self, connection: Connection, file_bytes: int) -> None:
        """Add `file_bytes` to the unsent bytes of files, and report the connection's unsent bytes."""
        unsent = self._acceptor.unsent
        self._file_bytes += file_bytes
        unsent.of_files += file_bytes
        unsent.report(connection, self._written + self._chunks_memory)

    def _reset_unsent(self, connection: Connection) -> None:
        """Count the bytes that were written to the transport as sent: the kernel has taken them."""
        self._written = 0
        self._count_unsent(connection, -self._file_bytes)

    def pause(self) -> None:
        """Note that the transport has bytes that the kernel does not take."""
        self.state = WITH_UNSENT.get(self.state, self.state)

    def resume(self, connection: Connection) -> None:
        """Note that the kernel has taken all bytes, and send further chunks."""
        self.state = WITHOUT_UNSENT.get(self.state, self.state)
        self._reset_unsent(connection)
        if self.state is SENDING:
            self._send_chunks(connection)

    # -- chunks of files ---------------------------------------------------------------------------------------------------------

    def _send_chunks(self, connection: Connection) -> None:
        """Write as much to the transport as it takes; file chunks in parts."""
        chunks = self._chunks
        while chunks and self.state is SENDING:
            transport = self.transport
            if transport is None or transport.is_closing():
                self._drop(connection)
                return
            in_memory = self._chunks_memory
            room = self._acceptor.unsent.chunk_size()
            if self._is_sendable(chunks[-1]):
                sent = self._send_file(connection, transport, chunks)
                if sent == _LOST:
                    self._fail_read(connection)
                    return
                if sent:
                    continue
                if sent == 0:
                    room = min(room, _UNTIL_WRITABLE)
            parts, file_bytes = self._gather(connection, chunks, room)
            if parts:
                self._write(connection, transport, parts, in_memory - self._chunks_memory, file_bytes)
            elif file_bytes < 0:
                self._fail_read(connection)
                return
        if not chunks:
            self.state = WITHOUT_CHUNKS[self.state]

    def _gather(self, connection: Connection, chunks: list[Chunk], room: int) -> tuple[list[Bytes], int]:
        """Remove parts from the response. Return them and how many bytes are of files: at most `room`, or -1 when a file cannot be read."""
        parts: list[Bytes] = []
        file_bytes = 0
        while chunks and room > 0:
            chunk = chunks[-1]
            if isinstance(chunk, (bytes, bytearray, memoryview)):
                parts.append(chunk)
                chunks.pop()
                self._chunks_memory -= len(chunk)
                continue
            if parts and self._is_sendable(chunk):
                break
            wanted = min(room, chunk.size - self._position)
            try:
                part = chunk.read_cached(self._position, wanted) if wanted else b""
            except (OSError, StorageError):
                logger.exception("the log for %s cannot be read", connection.connection_id)
                return [], -1
            if part is None:
                if not parts:
                    self._read_in_executor(connection, chunk, wanted)
                break
            if len(part) != wanted:
                return [], -1
            parts.append(part)
            room -= wanted
            file_bytes += wanted
            self._advance(chunks, chunk, wanted)
        return parts, file_bytes

    def _is_sendable(self, chunk: Chunk) -> bool:
        """Return whether the kernel sends the rest of the chunk."""
        return self.socket >= 0 and not isinstance(chunk, (bytes, bytearray, memoryview)) and chunk.size - self._position >= _SENDFILE_FROM

    def _send_file(self, connection: Connection, transport: asyncio.Transport, chunks: list[Chunk]) -> int | None:
        """Return how many bytes of the chunk the kernel took: 0 when its buffer is full, None when the bytes must be read, or `_LOST`."""
        if transport.get_write_buffer_size():
            return 0
        chunk = cast(FileChunk, chunks[-1])
        try:
            sent = chunk.send_cached(self.socket, self._position, min(_SENDFILE_MOST, chunk.size - self._position))
        except ConnectionError:
            return _LOST
        except (OSError, StorageError):
            logger.exception("the log for %s cannot be read", connection.connection_id)
            return _LOST
        if sent:
            connection.active = True
            self._advance(chunks, chunk, sent)
        return sent

    def _advance(self, chunks: list[Chunk], chunk: FileChunk, size: int) -> None:
        self._position += size
        if self._position >= chunk.size:
            chunks.pop()
            chunk.release()
            self._position = 0

    def _read_in_executor(self, connection: Connection, chunk: FileChunk, size: int) -> None:
        self.state = READING_FILE
        self._count_unsent(connection, size)
        future = self._acceptor.loop.run_in_executor(None, chunk.read, self._position, size)
        future.add_done_callback(partial(self._file_read, connection))

    def _file_read(self, connection: Connection, future: asyncio.Future[bytes]) -> None:
        """Write what the executor has read, and continue with the next chunks and responses."""
        self.state = FILE_READ[self.state]
        chunks = self._chunks
        if future.cancelled() or future.exception() is not None:
            if not future.cancelled():
                logger.error("the log for %s cannot be read: %s", connection.connection_id, future.exception())
            self._fail_read(connection)
            return
        transport = self.transport
        if transport is None or transport.is_closing():
            self._drop(connection)
            return
        part = future.result()
        if not part:
            self._fail_read(connection)
            return
        self._reset_unsent(connection)
        self._advance(chunks, cast(FileChunk, chunks[-1]), len(part))
        self._write(connection, transport, [part], 0, len(part))
        self._send_chunks(connection)
        connection.send_ready()

    def _fail_read(self, connection: Connection) -> None:
        """Close the connection: the size of the response has been sent, its bytes cannot be, and only closing tells the peer."""
        connection.abort()
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """Release the chunks that are left. While the executor uses a file, do nothing: `_file_read` calls this method again."""
        if self.state in FILE_READ:
            return
        self._chunks_memory = 0
        self._reset_unsent(connection)
        chunks, self._chunks = self._chunks, []
        release_chunks(chunks)
        self.state = WITHOUT_CHUNKS.get(self.state, self.state) if self.transport is not None else OutboundState.CLOSED
