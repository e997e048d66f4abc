"""TLS between a socket and its `Connection`. The socket's transport calls this object; for the connection this object is the transport.

    handshaking --handshake done--> open --close--> closed
         \\--failed--> refused --the peer has read the alert, or a second is over--> closed

asyncio's own TLS is not used on listeners, for four reasons:

1. A connection is admitted, counted and given its deadline before any computation for it.
2. Handshake steps, whose private-key operations take up to a millisecond, run in the executor. Only a bounded number runs at a time
   (`Handshakes`), so that a flood of handshakes takes no time from the requests of other connections.
3. As without TLS, the unsent bytes of a peer are those that the kernel has not taken.
4. Ciphertext is received into one buffer for all connections, so that an idle connection holds none.

OpenSSL's object belongs to the executor while a step runs, and to the loop otherwise. Nothing is read from the socket while a step runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from odradek.network.connection import Connection

if TYPE_CHECKING:
    from odradek.network.acceptor import Acceptor, Listener
    from odradek.security.principal import Principal

logger = logging.getLogger(__name__)

CIPHERTEXT = 256 * 1024
"""Bytes of the receive buffer that all connections share: each read of a socket is decrypted before the next."""
_RECORD = 16 * 1024
"""Plaintext bytes of the largest TLS record. Smaller chunks of a response are joined, since each record costs a call and 22 bytes."""
_STEP = 128 * 1024
"""Bytes that are encrypted before they are written to the socket: few enough to be still in the processor's caches then."""
_UNTAKEN = 64 * 1024
"""Most bytes of alerts and key updates that a peer may leave unread, without responses: a peer can ask for them without end."""
_LINGER_S = 1.0
"""Seconds that a refused peer has to read the alert. To close at once, with received bytes unread, would discard the alert."""

_NOT_TLS = {
    "HTTP_REQUEST": "it speaks HTTP",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it does not speak TLS, or only a version older than this listener's",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS",
}


class TlsServing:
    """TLS of a listener: `context` for new connections, `principal` to derive the client's principal from its certificate.

    `principal` takes the certificate in DER (None without a certificate), and raises ValueError for a certificate without a principal.
    """

    __slots__ = ("context", "principal")

    def __init__(self, context: ssl.SSLContext, principal: Callable[[bytes | None], Principal] | None) -> None:
        self.context = context
        self.principal = principal
        """None when TLS does not authenticate the client."""


class Handshakes:
    """Queue of handshake steps: `at_once` of them run in the executor, the others wait in order."""

    __slots__ = ("_at_once", "_loop", "_running", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int) -> None:
        self._loop = loop
        self._at_once = at_once
        self._running = 0
        self._waiting: deque[TlsLayer] = deque()

    @property
    def waiting(self) -> int:
        """Number of layers whose step waits."""
        return len(self._waiting)

    def run(self, layer: TlsLayer) -> None:
        """Run `layer.step()` in the executor, then `layer.stepped(outcome)` on the loop."""
        self._waiting.append(layer)
        self._next()

    def _next(self) -> None:
        while self._running < self._at_once and self._waiting:
            layer = self._waiting.popleft()
            if layer.gone:
                continue
            self._running += 1
            self._loop.run_in_executor(None, layer.step).add_done_callback(partial(self._done, layer))

    def _done(self, layer: TlsLayer, future: asyncio.Future[BaseException | bool]) -> None:
        self._running -= 1
        if not future.cancelled():
            layer.stepped(future.exception() or future.result())
        self._next()


class _State(Enum):
    HANDSHAKING = 1
    OPEN = 2
    REFUSED = 3


class TlsLayer(asyncio.BufferedProtocol, asyncio.Transport):
    """TLS layer of one accepted connection."""

    def __init__(self, acceptor: Acceptor, listener: Listener, serving: TlsServing) -> None:
        super().__init__()
        self._acceptor = acceptor
        self._serving = serving
        self._connection = Connection(acceptor, listener)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = serving.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport | None = None
        self._state = _State.HANDSHAKING
        self._stepping = False  # OpenSSL's object is in use by the executor, or will be
        self._decrypting = False  # `_decrypt` runs further up the stack
        self._continuing = False  # `_continue` is scheduled for the next loop iteration
        self._paused = False  # the connection does not take bytes
        self._untaken = 0
        """Bytes of alerts and key updates that were written since the socket's write buffer was last seen empty."""
        self._charged_pool = acceptor.pool
        self._charged = 0  # bytes of waiting ciphertext that count as memory of requests

    @property
    def gone(self) -> bool:
        return self._raw is None or self._raw.is_closing()

    # -- the socket's side ---------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._acceptor.begin_handshake(self._connection)
        self._connection.connection_made(self)
        if self._connection.delayed:
            # The deadline begins with the first read, see `resume_reading`.
            self._acceptor.end_handshake(self._connection)

    def connection_lost(self, exc: Exception | None) -> None:
        self._raw = None
        self._discharge()
        self._acceptor.end_handshake(self._connection)
        self._connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._acceptor.ciphertext

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is _State.REFUSED:
            return
        self._incoming.write(self._acceptor.ciphertext[:nbytes])
        if self._state is _State.OPEN:
            self._decrypt()
        else:
            self._step_soon()

    def eof_received(self) -> bool:
        if self._state is _State.OPEN:
            self._connection.eof_received()
        return False

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._untaken = 0
        self._connection.resume_writing()

    # -- the handshake -------------------------------------------------------------------------------------------------------------------

    def _step_soon(self) -> None:
        if not self._stepping and not self._paused:
            self._stepping = True
            self._settle()
            self._acceptor.handshakes.run(self)

    def step(self) -> BaseException | bool:
        """Advance the handshake with the received bytes. Return whether it is done, or its error. Runs in the executor."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, OSError) as error:
            return error
        return True

    def stepped(self, outcome: BaseException | bool) -> None:
        """Handle the outcome of a step, on the loop."""
        self._stepping = False
        if self.gone:
            return
        self._flush()
        if isinstance(outcome, BaseException):
            self._refuse(outcome)
        elif outcome:
            self._opened()
        else:
            self._settle()

    def _opened(self) -> None:
        serving = self._serving
        if serving.principal is not None:
            try:
                self._connection.principal = serving.principal(self._tls.getpeercert(binary_form=True))
            except ValueError as error:
                self._warn(str(error))
                self.abort()
                return
        self._state = _State.OPEN
        self._acceptor.end_handshake(self._connection)
        self._decrypt()

    def _refuse(self, error: BaseException) -> None:
        """Refuse the peer: the alert is on its way, and no further bytes are taken from the peer."""
        self._warn(_reason(error))
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        self._state = _State.REFUSED
        self._acceptor.clock.call_later(_LINGER_S, self.abort)
        if raw.can_write_eof():
            raw.write_eof()
        self._settle()

    def _warn(self, why: str) -> None:
        self._acceptor.quiet_log.warning("closing %s: TLS failed: %s", self._connection.connection_id, why)

    # -- reading -------------------------------------------------------------------------------------------------------------------------

    def _decrypt(self) -> None:
        """Decrypt the received bytes for the connection, until it pauses or none are left."""
        if self._decrypting:
            return
        self._decrypting = True
        self._discharge()
        connection = self._connection
        more = True
        try:
            while more and not self._paused and not self.gone and (self._incoming.pending or self._tls.pending()):
                filled, more = self._read(connection.get_buffer(-1))
                if filled:
                    connection.buffer_updated(filled)
                else:
                    connection.nothing_came()
        except ssl.SSLError as error:
            self._flush()
            self._warn(_reason(error))
            self.abort()
        finally:
            self._decrypting = False
        self._flush()
        self._settle()

    def _read(self, space: memoryview) -> tuple[int, bool]:
        """Return how many bytes were decrypted, and whether more may be available."""
        tls, size, filled = self._tls, len(space), 0
        try:
            while filled < size:
                got = cast(int, tls.read(size - filled, cast(Any, space[filled:] if filled else space)))
                if not got:  # the peer has announced that it sends no more
                    self._ended()
                    return filled, False
                filled += got
        except ssl.SSLWantReadError:
            return filled, False
        except ssl.SSLZeroReturnError:
            self._ended()
            return filled, False
        return filled, True

    def _ended(self) -> None:
        self._acceptor.loop.call_soon(self._end)

    def _end(self) -> None:
        if not self.gone:
            self._connection.eof_received()
            self.close()

    def _continue(self) -> None:
        self._continuing = False
        if self._paused or self.gone:
            return
        if self._state is _State.OPEN:
            self._decrypt()
        elif self._state is _State.HANDSHAKING and self._incoming.pending:
            self._step_soon()

    def _settle(self) -> None:
        """Pause or resume reading from the socket. While the connection is paused, waiting ciphertext counts as memory of requests."""
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        wanted = self._state is _State.REFUSED or not (self._paused or self._stepping)
        if wanted is not raw.is_reading():
            if wanted:
                raw.resume_reading()
            else:
                raw.pause_reading()
        if self._paused and not self._charged and not self._stepping:
            self._charged = self._incoming.pending
            self._charged_pool = self._connection.pool
            self._charged_pool.charge(self._charged)

    def _discharge(self) -> None:
        charged, self._charged = self._charged, 0
        if charged:
            self._charged_pool.charge(-charged)

    # -- the connection's side: asyncio.Transport ----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._serving.context
        if name == "ssl_object":
            return self._tls
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self.gone or self._state is _State.REFUSED

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        self._paused = True
        if not self._decrypting:
            self._settle()

    def resume_reading(self) -> None:
        self._paused = False
        if self._state is _State.HANDSHAKING and not self.gone:
            self._acceptor.begin_handshake(self._connection)
        if self._decrypting or self._stepping or self._continuing:
            return
        if self._incoming.pending or (self._state is _State.OPEN and self._tls.pending()):
            # Not from here: the connection makes this call in the middle of other work.
            self._continuing = True
            self._acceptor.loop.call_soon(self._continue)
        else:
            self._settle()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._state is not _State.OPEN or self.gone:
            return
        assert self._raw is not None
        try:
            self._encrypt(list_of_data, self._raw)
        except ssl.SSLError as error:
            self._warn(_reason(error))
            self.abort()

    def _encrypt(self, chunks: Iterable[bytes | bytearray | memoryview], raw: asyncio.Transport) -> None:
        write, outgoing = self._tls.write, self._outgoing
        small: list[bytes | bytearray | memoryview] = []
        size = 0
        for chunk in chunks:
            if len(chunk) < _RECORD:
                small.append(chunk)
                size += len(chunk)
                if size >= _RECORD:
                    write(b"".join(small))
                    small, size = [], 0
                continue
            if small:
                write(b"".join(small))
                small, size = [], 0
            whole = memoryview(chunk)
            for at in range(0, len(whole), _STEP):
                write(whole[at : at + _STEP])
                if outgoing.pending >= _STEP:
                    raw.write(outgoing.read())
        if size:
            write(small[0] if len(small) == 1 else b"".join(small))
        if outgoing.pending:
            raw.write(outgoing.read())

    def _flush(self) -> None:
        """Send OpenSSL's own messages, such as alerts and key updates."""
        raw = self._raw
        if raw is None or not self._outgoing.pending:
            return
        if raw.get_write_buffer_size() == 0:
            self._untaken = 0
        self._untaken += self._outgoing.pending
        if self._untaken > _UNTAKEN:
            self._warn(f"it left {_UNTAKEN} bytes unread")
            self.abort()
        elif not raw.is_closing():
            raw.write(self._outgoing.read())

    def close(self) -> None:
        """Announce the end to the peer, and close the socket after the bytes that it has are sent."""
        raw = self._raw
        if raw is None:
            return
        if self._state is _State.OPEN and not raw.is_closing():
            # `unwrap` writes the last record, and raises because the peer's is missing; no code waits for that one.
            with contextlib.suppress(ssl.SSLError, ValueError, OSError):
                self._tls.unwrap()
            self._flush()
        raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _NOT_TLS.get(reason, reason.replace("_", " ").lower())
    return str(error)
