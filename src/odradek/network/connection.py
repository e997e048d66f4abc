"""Accepted connection: receives frames, sends responses in the order of the frames.

    reading --frame--> answering --answer handed to the transport, transport below its high mark--> reading
                            \\--transport above its high mark--> draining --drained--> reading

One request is in flight, with one exception. While all requests in flight are `Applied`, a request for which `FrameHandler.may_follow`
returns True is served, too. The bounds are `AcceptorLimits.pipelined_requests` and `pipelined_bytes`. A response that is ready early waits
for the responses ahead of it. So does an error that closes the connection (docs/adr/0010-pipelined-produce.md).

A client that exceeds a quota is answered at once, and then its connection is muted (`mute`). No further request is served during the mute;
responses to requests in flight still leave.

At most `_AT_ONCE` of the requests that one read brings are served before other connections continue. The requests of all clients together
have a few milliseconds of each loop iteration (`Acceptor.turn_over`). Connections that find this time used up are queued for the next
iteration. Requests for which `FrameHandler.goes_first` returns True (the quorum, heartbeats of brokers) are not queued, nor are timers:
both wait for one iteration.

While no further request may be served, at most one more read is taken from the socket. Then reading pauses until the response has left. A
response is a list of chunks: bytes, memoryviews, or slices of files. Slices of files are sent in parts as the socket drains, and released
when they have left or the connection is gone. Large slices are sent by the kernel from its page cache to the socket (sendfile). When the
kernel's buffer is full, a small part goes through the transport, which reports when there is room again. Small slices, slices that are not
in the page cache, and all slices on encrypted connections are read and written. The transport's high mark is zero: bytes that the kernel
does not take count in `network.unsent_bytes`, which also decides how large a part may be.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ProtocolError, StorageError
from odradek.network.frames import FrameReceiver
from odradek.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from odradek.base.clock import TimerHandle
    from odradek.network.acceptor import Acceptor, Listener
    from odradek.network.frames import BufferPool

logger = logging.getLogger(__name__)

_SHORT_ANSWER = 4096
"""Most bytes of a response that is sent together with responses to other requests of the same read."""
_MUCH = 64 * 1024
"""Bytes of short responses after which they are sent before the loop iteration ends."""
_AT_ONCE = 16
"""Most requests of one connection in a loop iteration. A read can bring thousands, for which all other connections would wait."""
_TURN_S = 0.001
"""Seconds after which other connections continue, even before `_AT_ONCE` requests: a malformed request can take long to refuse."""
_IN_LINE_S = 0.1
"""Seconds for which a connection queues its reads after it exceeded `_AT_ONCE` or `_TURN_S`."""
_HEAD = 2
"""Bytes of a request that decide whether it goes first: its API key."""
_SENT_FROM = 64 * 1024
"""Least bytes of a file slice that the kernel sends itself. Fewer bytes are copied, and leave in one call with the chunks around them."""
_SENT_AT_ONCE = 1024 * 1024
"""Most bytes of a file that the kernel sends in one call: each call looks them all up in the page cache."""
_UNTIL_WRITABLE = 16 * 1024
"""Bytes that the transport gets when the kernel's buffer is full: once they are taken, there is room for more."""
_LOST = -1
"""Result of `_send_file` when the file cannot be read, or the peer is gone."""


class FileChunk(Protocol):
    """Bytes of a file that are read when they are sent."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` within the chunk; may block. OSError, StorageError or a short result ends the connection."""
        ...

    def read_cached(self, offset: int, size: int) -> bytes | bytearray | None:
        """Return the same bytes as `read`, or None when that would block."""
        ...

    def send_cached(self, socket: int, offset: int, size: int) -> int | None:
        """Send the bytes from the kernel to a socket without copying, and return how many were taken: 0 when the socket is full.

        Return None when that would block or is impossible. Raises OSError (ConnectionError for a failure of the socket) or StorageError.
        """
        ...

    def release(self) -> None:
        """Release the chunk, which will not be read again."""
        ...


_Bytes: TypeAlias = "bytes | bytearray | memoryview"
Chunk: TypeAlias = "bytes | bytearray | memoryview | FileChunk"
Answer: TypeAlias = "Sequence[Chunk] | Deferred[Sequence[Chunk] | None] | None"
"""Whole frames, including the size prefix; None when the protocol wants no response. Chunks never alias the request's bytes."""


def release_chunks(chunks: Sequence[Chunk]) -> None:
    """Release the file chunks among `chunks`."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()


def join_chunks(chunks: Sequence[Chunk]) -> bytes:
    """Return the bytes of a response, for callers without a socket. File chunks are read, which may block, and released."""
    try:
        return b"".join([chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read(0, chunk.size) for chunk in chunks])
    finally:
        release_chunks(chunks)


class NotYetError(Exception):
    """Exception by which a handler leaves the request in the receive buffer; the handler calls `Connection.go_on` later."""


class _Awaited:
    """Request whose response is pending, or waits for earlier responses."""

    __slots__ = ("answer", "applied", "done", "error", "size")

    def __init__(self, size: int, *, applied: bool) -> None:
        self.size = size
        """Bytes of the request, or of its response where that is larger."""
        self.applied = applied
        """Whether later requests may be served before this one is answered."""
        self.done = False
        self.answer: Sequence[Chunk] | None = None
        self.error: BaseException | None = None


def _in_memory(answer: Sequence[Chunk]) -> int:
    return sum([len(chunk) for chunk in answer if isinstance(chunk, (bytes, bytearray, memoryview))])


class Connection(asyncio.BufferedProtocol):
    """Accepted connection. `connection_id` has Kafka's form local:port-remote:port-index."""

    __slots__ = (
        "_acceptor",
        "_awaited",
        "_awaited_bytes",
        "_busy",
        "_chunks",
        "_continuing",
        "_handed",
        "_in_line_until",
        "_in_process",
        "_kept",
        "_muted",
        "_muted_until",
        "_of_files",
        "_outgoing",
        "_position",
        "_reading_executor",
        "_receiver",
        "_sending",
        "_starved",
        "_transport",
        "_write_paused",
        "active",
        "connection_id",
        "delayed",
        "frames",
        "idle_since",
        "listener",
        "partial_frames",
        "partial_since",
        "peer_host",
        "peer_port",
        "pool",
        "principal",
        "session",
        "socket",
    )

    def __init__(self, acceptor: Acceptor, listener: Listener) -> None:
        self._acceptor = acceptor
        self.listener = listener
        self._transport: asyncio.Transport | None = None
        self.pool = acceptor.pool
        """Pool of the memory that requests are received into."""
        self._receiver = FrameReceiver(self.pool, acceptor.limits.request_size)
        self._busy = False  # no request may be served now
        self._awaited: deque[_Awaited] = deque()  # in the order of the requests
        self._awaited_bytes = 0
        self._sending = False  # `send_ready` is scheduled for the end of the loop iteration
        self._continuing = False  # `go_on` is scheduled for the next loop iteration, or queued in the acceptor
        self._in_line_until = 0.0  # set after a read brought more than one iteration serves; 0 for nearly all connections
        self._in_process = False  # the frame loop runs further up the stack
        self._starved = False  # waits for receive memory
        self._muted: TimerHandle | None = None
        self._muted_until = 0.0
        self._write_paused = False
        self._chunks: list[Chunk] | None = None  # the rest of the response, last chunk first
        self._position = 0  # within the chunk being sent
        self._outgoing = b""  # short responses that leave at the end of the loop iteration
        self._kept = 0  # bytes made in memory among the rest of the response
        self._handed = 0  # bytes made in memory that the transport has and the kernel has not
        self._of_files = 0  # bytes of files that the executor reads, or that the transport has and the kernel has not
        self._reading_executor = False
        self.delayed = False  # not read yet, because of the connection rate
        self.connection_id = ""
        self.peer_host = ""
        self.peer_port = 0
        self.principal: Principal = ANONYMOUS
        """Principal that the connection has authenticated as."""
        self.session: object | None = None
        """State that the handler keeps for a connection that authenticates by messages."""
        self.socket = -1
        """Descriptor to which the kernel may send files; -1 when bytes must go through the transport."""
        self.frames = 0
        # Written by the acceptor's sweep.
        self.active = True
        self.idle_since = 0.0
        self.partial_since = 0.0
        self.partial_frames = -1

    @property
    def closed(self) -> bool:
        return self._transport is None

    @property
    def busy(self) -> bool:
        """Whether a request waits for its response, or a response for the socket."""
        return self._busy or bool(self._awaited)

    @property
    def parked(self) -> bool:
        """Whether a request waits for its response (not for the socket, nor for the end of a mute)."""
        if self._muted is not None and not self._awaited:
            return False
        return self.busy and self._chunks is None and not self._write_paused

    @property
    def starved(self) -> bool:
        """Whether the connection waits for receive memory."""
        return self._starved

    @property
    def bytes_pending(self) -> int:
        """Bytes received that are not a whole request yet, or wait behind requests in flight."""
        return self._receiver.pending

    @property
    def closing(self) -> bool:
        """Whether the connection ends, or has ended."""
        return self._transport is None or self._transport.is_closing()

    @property
    def bytes_held(self) -> int:
        """Bytes of the receive buffer."""
        return self._receiver.capacity

    # -- asyncio's side --------------------------------------------------------------------------------------------------------

    def unsent(self) -> int:
        """Return the bytes that were written to the transport and that the kernel has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._acceptor.connected(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._drop_answer()
        self._drop_awaited()
        self._receiver.release()
        self._acceptor.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # Memory for a started frame is reserved in `_make_room`, outside this callback. The first memory of a connection is never refused.
        return self._receiver.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        self._receiver.received(nbytes)
        if self._busy or self.delayed:
            assert self._transport is not None
            self._transport.pause_reading()
        elif not self._in_process and not self._receiver.filling and not self._waits():
            self._process()

    def nothing_came(self) -> None:
        """Release the unused memory from `get_buffer`: the received bytes are not a whole TLS record yet."""
        if not self._receiver.pending:
            self._receiver.release()

    def eof_received(self) -> bool:
        self._write_outgoing()
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.active = True
        self._taken()
        if self._chunks is not None:
            self._pump()
        if not self._in_process:
            self._out()

    # -- requests --------------------------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Serve the whole frames that have arrived, until a frame has to wait. Short responses leave when the loop iteration ends."""
        receiver = self._receiver
        awaited = self._awaited
        short: list[bytes] = []
        left = _AT_ONCE
        until = 0.0  # monotonic seconds when other connections continue, from the second request on
        others_first = False
        self._in_process = True
        try:
            while self._transport is not None and not self._transport.is_closing() and not self.listener.quiet:
                if awaited and (self._write_paused or not awaited[-1].applied):
                    self._park()
                    return
                if self._muted is not None:
                    break
                frame = receiver.next_frame()
                if frame is None:
                    break
                if left < _AT_ONCE:
                    now = self._acceptor.clock.monotonic()
                    until = until or now + _TURN_S
                    if not left or now > until:
                        receiver.put_back(frame)
                        del frame
                        others_first = True
                        self._in_line_until = now + _IN_LINE_S
                        break
                left -= 1
                if awaited and not self._may_follow(frame):
                    receiver.put_back(frame)
                    del frame
                    self._park()
                    return
                self.frames += 1
                self._busy = True
                size = len(frame)
                try:
                    answer = self._acceptor.handler.handle_frame(self, frame)
                except NotYetError:
                    receiver.put_back(frame)
                    del frame
                    self.frames -= 1
                    self._flush(short)
                    self._continuing = True
                    self._park()
                    return
                del frame
                if isinstance(answer, Deferred):
                    if answer.done:
                        answer = answer.result()
                    else:
                        if short or self._outgoing:
                            self._flush(short)
                        self._await(answer, size)
                        self._busy = False
                        continue
                if awaited:
                    self._in_turn(answer, size)
                elif answer is not None:
                    if len(answer) == 1 and type(answer[0]) is bytes and len(answer[0]) <= _SHORT_ANSWER:
                        short.append(answer[0])
                    else:
                        self._flush(short)
                        self._send(answer)
                        if self._chunks is not None or self._write_paused:
                            self._park()
                            return
                self._busy = False
            if short:
                if not self._outgoing:
                    self._acceptor.write_soon(self)
                self._outgoing += short[0] if len(short) == 1 else b"".join(short)
                if len(self._outgoing) > _MUCH:
                    # One loop iteration may bring many reads: a peer that floods must notice at once that its responses are not taken.
                    self._write_outgoing()
                    if self._write_paused:
                        self._park()
                        return
            if others_first:
                self._let_others()
                return
        except Exception as error:
            self._flush(short)
            if awaited:
                self._in_turn(None, 0, error)
                self._park()
                return
            self._fail(error)
        finally:
            self._in_process = False
        self._make_room()

    def _waits(self) -> bool:
        """Return whether received requests have to wait: the connection had more than its share, or the clients' time is used up."""
        over = self._acceptor.turn_over()
        if self._in_line_until and self._acceptor.clock.monotonic() > self._in_line_until:
            self._in_line_until = 0.0
        if not self._in_line_until and not over:
            return False
        head = self._receiver.head(_HEAD)
        if self._acceptor.handler.goes_first(self, head) or not (head or self._in_line_until):
            return False
        self._let_others()
        return True

    def _let_others(self) -> None:
        """Queue the connection to continue with what was received. Until then, nothing looks for the end of what the peer sends."""
        self._park()
        if self._transport is not None:
            self._transport.pause_reading()
        if not self._continuing:
            self._continuing = True
            first = self._acceptor.handler.goes_first(self, self._receiver.head(_HEAD))
            self._acceptor.line_up(self, greedy=bool(self._in_line_until) and not first)

    def _flush(self, short: list[bytes]) -> None:
        """Write the short responses so far, and those from earlier reads."""
        self._outgoing += b"".join(short)
        short.clear()
        self._write_outgoing()

    def _write_outgoing(self) -> None:
        outgoing, self._outgoing = self._outgoing, b""
        transport = self._transport
        if outgoing and transport is not None and not transport.is_closing():
            self._hand_over(transport, [outgoing], len(outgoing), 0)

    def turn_over(self) -> None:
        """Write the short responses at the end of the loop iteration. If the peer does not take them, serve no further requests."""
        self._write_outgoing()
        if self._write_paused and not self._busy:
            self._park()

    def _park(self) -> None:
        """Stop serving requests for now; take at most one more read, into memory that is already reserved."""
        self._busy = True
        receiver = self._receiver
        if receiver.frame_done() and not receiver.room and self._transport is not None:
            self._transport.pause_reading()

    def _make_room(self) -> None:
        receiver = self._receiver
        if self._transport is None:
            receiver.release()
            return
        if self._muted is not None:
            self._park()
            return
        if self.listener.quiet:
            self._transport.pause_reading()
            return
        if receiver.frame_done() and not receiver.reserve():
            self._starve()
            return
        self._resume_reading()

    def _resume_reading(self) -> None:
        transport = self._transport
        if transport is not None and not self._starved and not self.delayed and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def _may_follow(self, frame: memoryview) -> bool:
        """Return whether the request may be served while earlier requests, all of which have taken effect, wait for their responses."""
        limits = self._acceptor.limits
        return (
            len(self._awaited) < limits.pipelined_requests
            and self._awaited_bytes + len(frame) <= limits.pipelined_bytes
            and self._acceptor.handler.may_follow(frame)
        )

    def _await(self, deferred: Deferred[Sequence[Chunk] | None], size: int) -> None:
        one = _Awaited(size, applied=isinstance(deferred, Applied))
        self._awaited.append(one)
        self._awaited_bytes += size
        deferred.add_callback(partial(self._complete, one))

    def _in_turn(self, answer: Sequence[Chunk] | None, size: int, error: BaseException | None = None) -> None:
        """Queue a response, or an error that closes the connection, behind responses that are pending."""
        if answer is None and error is None:
            return
        one = _Awaited(size, applied=error is None)
        self._awaited.append(one)
        self._awaited_bytes += size
        self._ready(one, answer, error)

    def _complete(self, one: _Awaited, deferred: Deferred[Sequence[Chunk] | None]) -> None:
        """Take the response, or the error, of a pending request."""
        error = deferred.error
        answer = deferred.result() if error is None else None
        if self._transport is None:
            if answer is not None:
                release_chunks(answer)
            return
        one.applied = error is None
        self._ready(one, answer, error)
        if not self._sending:
            self._sending = True
            self._acceptor.send_soon(self)

    def _ready(self, one: _Awaited, answer: Sequence[Chunk] | None, error: BaseException | None) -> None:
        one.done = True
        one.answer = answer
        one.error = error
        if answer is not None and one is not self._awaited[0]:
            # The response is not on its way to the socket yet.
            more = _in_memory(answer) - one.size
            if more > 0:
                one.size += more
                self._awaited_bytes += more

    def send_ready(self) -> None:
        """Send the responses that have become ready, up to the first that is pending; called at the end of the loop iteration."""
        self._sending = False
        self._out()

    def _out(self) -> None:
        """Send the responses that may leave now. When nothing is left for the socket, serve requests again."""
        awaited = self._awaited
        while awaited and awaited[0].done:
            transport = self._transport
            if self._chunks is not None or self._write_paused or transport is None or transport.is_closing():
                return
            error = awaited[0].error
            if error is not None:
                self._fail(error)
                return
            answer = self._take_ready()
            if answer:
                self._send(answer)
        if self._busy and self._chunks is None and not self._write_paused:
            self._answered()

    def _take_ready(self) -> Sequence[Chunk]:
        """Remove and return the responses that are ready. A large response is returned last: the peer must take it before the next."""
        awaited = self._awaited
        if len(awaited) == 1:
            only = awaited.popleft()
            self._awaited_bytes = 0
            return only.answer or ()
        answers: list[Sequence[Chunk]] = []
        size = 0
        while awaited and awaited[0].done and awaited[0].error is None and size < _MUCH:
            one = awaited.popleft()
            self._awaited_bytes -= one.size
            if one.answer is not None:
                answers.append(one.answer)
                size += _in_memory(one.answer)
        return answers[0] if len(answers) == 1 else [chunk for answer in answers for chunk in answer]

    def _answered(self) -> None:
        """Continue with what was received while the response was under way; nothing is left for the socket."""
        if not self._receiver.pending:
            self._busy = False
            self._make_room()
        elif not self._continuing:
            # Do not process here: another connection's request may have completed this one, and chains of such calls must not nest.
            self._continuing = True
            if self._acceptor.handler.goes_first(self, self._receiver.head(_HEAD)):
                self._acceptor.loop.call_soon(self.go_on)
            else:
                self._acceptor.line_up(self, greedy=False)

    def go_on(self) -> None:
        """Serve the received requests, unless a response is still on its way to the socket."""
        self._continuing = False
        if self._transport is not None and self._chunks is None and not self._write_paused:
            self._busy = False
            self._process()

    def _fail(self, error: BaseException) -> None:
        """Close the connection after a request that cannot be answered."""
        if isinstance(error, ProtocolError):
            self._reject(error)
        else:
            logger.error("closing %s: a request could not be answered", self.connection_id, exc_info=error)
            self.abort()

    def _reject(self, error: ProtocolError) -> None:
        self._acceptor.quiet_log.warning("closing %s: %s", self.connection_id or "a connection", error)
        self.abort()

    def _starve(self) -> None:
        self._starved = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._wait_for_memory()

    def _wait_for_memory(self) -> None:
        self.pool.wait(self._fed)
        if self.pool is self._acceptor.login_pool:
            self._acceptor.make_room_for_login(self)

    def _fed(self) -> None:
        if self._transport is None:
            return
        if self._receiver.reserve():
            self._starved = False
            self.partial_frames = -1  # the wait was the server's, so the deadline of the frame starts again
            if not self._busy:
                self._resume_reading()
        else:
            self._wait_for_memory()

    # -- answers ---------------------------------------------------------------------------------------------------------------

    def _send(self, answer: Sequence[Chunk]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            release_chunks(answer)
            return
        if len(answer) == 1 and isinstance(only := answer[0], bytes):
            # Nearly all responses are one chunk of bytes.
            self._hand_over(transport, [only], len(only), 0)
            return
        in_memory = _in_memory(answer)
        for chunk in answer:
            if not isinstance(chunk, (bytes, bytearray, memoryview)):
                break
        else:
            self._hand_over(transport, cast("Sequence[_Bytes]", answer), in_memory, 0)
            return
        self._chunks = list(answer)
        self._chunks.reverse()
        self._position = 0
        self._kept = in_memory
        self._pump()

    def _hand_over(self, transport: asyncio.Transport, pieces: Sequence[_Bytes], in_memory: int, of_files: int) -> None:
        """Write the chunks; count as owed the bytes that the kernel does not take at once."""
        transport.writelines(pieces)
        if self._write_paused:
            self._handed += in_memory
            self._owe(of_files)

    def _owe(self, of_files: int) -> None:
        """Add `of_files` to the unsent bytes of files, and report the connection's unsent bytes."""
        owed = self._acceptor.owed
        self._of_files += of_files
        owed.of_files += of_files
        owed.owes(self, self._handed + self._kept)

    def _taken(self) -> None:
        """Reset the bytes that were written to the transport: the kernel has taken them."""
        self._handed = 0
        self._owe(-self._of_files)

    def _pump(self) -> None:
        """Write as much to the transport as it takes; file chunks in parts."""
        while self._chunks and not self._write_paused and not self._reading_executor:
            transport = self._transport
            if transport is None or transport.is_closing():
                self._drop_answer()
                return
            kept = self._kept
            room = self._acceptor.owed.piece()
            if self._is_sendable(self._chunks[-1]):
                sent = self._send_file(transport, self._chunks)
                if sent == _LOST:
                    self._fail_read()
                    return
                if sent:
                    continue
                if sent == 0:
                    room = min(room, _UNTIL_WRITABLE)
            pieces, of_files = self._gather(self._chunks, room)
            if pieces:
                self._hand_over(transport, pieces, kept - self._kept, of_files)
            elif of_files < 0:
                self._fail_read()
                return
        if self._chunks is not None and not self._chunks:
            self._chunks = None

    def _gather(self, chunks: list[Chunk], room: int) -> tuple[list[_Bytes], int]:
        """Remove parts from the response. Return them and how many bytes are of files: at most `room`, or -1 when a file cannot be read."""
        pieces: list[_Bytes] = []
        of_files = 0
        while chunks and room > 0:
            chunk = chunks[-1]
            if isinstance(chunk, (bytes, bytearray, memoryview)):
                pieces.append(chunk)
                chunks.pop()
                self._kept -= len(chunk)
                continue
            if pieces and self._is_sendable(chunk):
                break
            wanted = min(room, chunk.size - self._position)
            try:
                piece = chunk.read_cached(self._position, wanted) if wanted else b""
            except (OSError, StorageError):
                logger.exception("cannot read a log for %s", self.connection_id)
                return [], -1
            if piece is None:
                if not pieces:
                    self._read_in_executor(chunk, wanted)
                break
            if len(piece) != wanted:
                return [], -1
            pieces.append(piece)
            room -= wanted
            of_files += wanted
            self._advance(chunks, chunk, wanted)
        return pieces, of_files

    def _is_sendable(self, chunk: Chunk) -> bool:
        """Return whether the kernel sends the rest of the chunk."""
        return self.socket >= 0 and not isinstance(chunk, (bytes, bytearray, memoryview)) and chunk.size - self._position >= _SENT_FROM

    def _send_file(self, transport: asyncio.Transport, chunks: list[Chunk]) -> int | None:
        """Return how many bytes of the chunk the kernel took: 0 when its buffer is full, None when the bytes must be read, or `_LOST`."""
        if transport.get_write_buffer_size():
            return 0
        chunk = cast(FileChunk, chunks[-1])
        try:
            sent = chunk.send_cached(self.socket, self._position, min(_SENT_AT_ONCE, chunk.size - self._position))
        except ConnectionError:
            return _LOST
        except (OSError, StorageError):
            logger.exception("cannot read a log for %s", self.connection_id)
            return _LOST
        if sent:
            self.active = True
            self._advance(chunks, chunk, sent)
        return sent

    def _advance(self, chunks: list[Chunk], chunk: FileChunk, size: int) -> None:
        self._position += size
        if self._position >= chunk.size:
            chunks.pop()
            chunk.release()
            self._position = 0

    def _read_in_executor(self, chunk: FileChunk, size: int) -> None:
        self._reading_executor = True
        self._owe(size)
        future = self._acceptor.loop.run_in_executor(None, chunk.read, self._position, size)
        future.add_done_callback(self._read_done)

    def _read_done(self, future: asyncio.Future[bytes]) -> None:
        self._reading_executor = False
        chunks = self._chunks
        if future.cancelled() or future.exception() is not None:
            if not future.cancelled():
                logger.error("cannot read a log for %s: %s", self.connection_id, future.exception())
            self._fail_read()
            return
        if self._transport is None or chunks is None or self._transport.is_closing():
            self._drop_answer()
            return
        piece = future.result()
        chunk = cast(FileChunk, chunks[-1])
        if not piece:
            self._fail_read()
            return
        self._taken()
        self._advance(chunks, chunk, len(piece))
        self._hand_over(self._transport, [piece], 0, len(piece))
        self._pump()
        self._out()

    def _fail_read(self) -> None:
        """Close the connection: the size of the response has been sent, its bytes cannot be, and only closing tells the peer."""
        self.abort()
        self._drop_answer()

    def _drop_answer(self) -> None:
        if self._reading_executor:
            return  # the executor uses the file; `_read_done` calls this method again
        self._kept = 0
        self._taken()
        chunks, self._chunks = self._chunks, None
        if chunks:
            release_chunks(chunks)

    def _drop_awaited(self) -> None:
        """Release the responses that have come; `_complete` releases later ones when they come."""
        for one in self._awaited:
            if one.answer is not None:
                release_chunks(one.answer)
        self._awaited.clear()
        self._awaited_bytes = 0

    # -- the acceptor's side ---------------------------------------------------------------------------------------------------

    def await_login(self, size: int) -> None:
        """Accept requests of at most `size` bytes until `logged_in`, in memory that is apart from the memory of clients."""
        self._receive(size, self._acceptor.login_pool)

    def logged_in(self, size: int) -> None:
        """Accept requests of at most `size` bytes from now on, in the memory of clients."""
        self._receive(size, self._acceptor.pool)

    def _receive(self, size: int, pool: BufferPool) -> None:
        self._receiver.limit(size, eager_bytes=0)
        self._receiver.use(pool)
        self.pool = pool

    def shrink(self) -> None:
        """Replace a large receive buffer by a small one, when nothing has come since the last sweep."""
        if not self._busy:
            self._receiver.shrink()

    def mute(self, delay_s: float) -> None:
        """Serve no request for `delay_s` seconds, nor before an earlier mute ends. Requests in flight are still answered."""
        clock = self._acceptor.clock
        until = clock.monotonic() + delay_s
        if self._transport is None or until <= self._muted_until:
            return
        if self._muted is not None:
            self._muted.cancel()
        self._muted_until = until
        self._muted = clock.call_later(delay_s, self._unmute)
        if not self._in_process:
            self._park()

    def _unmute(self) -> None:
        self._muted = None
        if self._busy and self._chunks is None and not self._write_paused:
            self._answered()

    @property
    def muted(self) -> bool:
        """Whether the connection waits because of a quota."""
        return self._muted is not None

    def start_reading(self) -> None:
        """End the delay that the connection rate put on this connection."""
        self.delayed = False
        if self._transport is not None:
            self._process()

    def close(self) -> None:
        """Close the connection after the bytes that the transport has are sent."""
        self._write_outgoing()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
