"""HTTP client for servers outside of the cluster: providers of keys, receivers of metrics, authorization servers, schema registries.

1. An exchange has two time limits: one for connecting (all addresses of the host, proxy, TLS handshake), and one from the first byte of the
   request to the last byte of the response. Socket timeouts bound a single read, and a server that sends a byte now and then would hold a
   thread for good. So a timer shuts the connection down at the end of the time, even while the thread waits.
2. A response has a largest size. Nothing is decompressed.
3. Redirections could lead to a server that no administrator has allowed. They, and proxies of the environment, are used where a caller says
   so.
4. Idle connections are kept until `WebClient.close`. A request for which an idle connection fails is sent again over a new one, once: the
   server may have closed the idle connection at that moment.
5. All failures are OSError. No message holds a header, or the name and password in a URL.

urllib3 does the rest. It takes 4 MB, so modules that a broker or a client always loads import this one inside of functions.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from http.client import HTTPException, IncompleteRead
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit
from weakref import WeakSet

from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager, Retry, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, InvalidHeader, NewConnectionError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError

from odradek import __version__

T = TypeVar("T")

_CHUNK: Final = 1 << 16
_MOST_IDLE: Final = 64
"""Idle connections that are kept for each server."""
_MOST_REDIRECTIONS: Final = 10
_MIN_TIMEOUT_S: Final = 0.001
"""A socket timeout of 0 would mean that the socket does not block."""
_LATE: Final = "no complete response within the time limit"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_FAILURES: Final = (OSError, HTTPException, HTTPError, ValueError)


class NotHttp(OSError):
    """Error for a peer whose response is not HTTP."""


class CutShort(OSError):
    """Error for a response whose end is missing."""


class WebAnswer(NamedTuple):
    """HTTP response; a body longer than the limit is truncated one byte after it."""

    status: int
    reason: str
    body: bytes
    headers: Mapping[str, str]
    """Values by name, in any case."""


class WebStream:
    """HTTP response whose body is read chunk by chunk; iterate to the end, or close it."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self.reason = response.reason or ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in chunks of at most 64 KiB. Raises OSError."""
        with contextlib.closing(self._response):
            while chunk := _translated(lambda: self._response.read(_CHUNK, decode_content=False)):
                yield chunk

    def close(self) -> None:
        """Close the connection, unless the body has been read."""
        self._response.close()


class WebClient:
    """HTTP client for the threads of a process. Each call blocks: call it in a separate thread (`Jobs.apart`, `asyncio.to_thread`).

    After a fork, `after_fork` has to be called in the child (`client.calls.forks`).
    """

    def __init__(self, tls: ssl.SSLContext | None = None, *, proxies: bool = False, redirections: bool = False) -> None:
        """Without `tls`, certificates are verified with the authorities of the system, or with those in SSL_CERT_FILE.

        `proxies` uses http_proxy, https_proxy and no_proxy of the environment. `redirections` follows at most 10 for each request.
        """
        self._tls = tls
        self._proxies = proxies
        self._redirections = redirections
        self._managers: dict[str, PoolManager] = {}
        """By URL of the proxy; "" without one."""
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def ask(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        largest: int,
        connect_s: float,
        answer_s: float,
    ) -> WebAnswer:
        """Send a request, and return the response with at most `largest` + 1 bytes of its body.

        `connect_s` bounds connecting, except for the resolution of the host name. `answer_s` bounds sending and the whole response. Both
        are seconds. Raises OSError, which includes TimeoutError, when no response comes or the response is not HTTP.
        """

        def whole() -> WebAnswer:
            with contextlib.closing(self._open(method, url, body, headers, answer_s)) as response:
                return WebAnswer(response.status, response.reason or "", _read(response, largest), response.headers)

        first = _Exchange(connect_s, answer_s, self._sockets)
        try:
            return first.run(whole)
        except (ConnectionError, NotHttp, CutShort):
            if not first.is_reused:
                raise
        return _Exchange(connect_s, answer_s, self._sockets, is_fresh=True).run(whole)

    def stream(self, method: str, url: str, *, step_s: float) -> WebStream:
        """Send a request, and return the response before its body is read. Raises OSError.

        `step_s` bounds connecting and each read, in seconds. The whole has no bound, as the caller may take its time for the body.
        """
        return _Exchange(step_s, None, self._sockets).run(lambda: WebStream(self._open(method, url, None, _NO_HEADERS, step_s)))

    def close(self) -> None:
        """Close the idle connections. A connection in use is closed after its request; a later call opens new ones."""
        self._managers.clear()

    def after_fork(self) -> None:
        """Close the child's descriptors of the parent's connections, without sending anything and without taking a lock.

        Parent and child would receive each other's responses. Connections that other threads of the parent use at the fork are closed, too.
        """
        for each in list(self._sockets):
            _close_descriptor(each)
        self._sockets = WeakSet()
        self._managers = {}

    def _open(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], read_s: float) -> BaseHTTPResponse:
        parts, address = _parse(url)
        retries = Retry(None, connect=False, read=False, redirect=_MOST_REDIRECTIONS, status=False, other=False)
        return self._manager(parts).urlopen(
            method,
            address,
            body=body,
            headers={"User-Agent": f"odradek/{__version__}", **headers},
            redirect=self._redirections,
            retries=retries if self._redirections else False,
            timeout=Timeout(connect=read_s, read=read_s),  # `_Exchange` bounds connecting; here it bounds sending
            preload_content=False,
            decode_content=False,
        )

    def _manager(self, parts: SplitResult) -> PoolManager:
        proxy, proxy_headers = _proxy_of(parts) if self._proxies else ("", {})
        found = self._managers.get(proxy)
        if found is None:
            if self._tls is None and parts.scheme == "https":
                self._tls = ssl.create_default_context()
            options: dict[str, Any] = {"maxsize": _MOST_IDLE, "ssl_context": self._tls}
            if self._tls is not None and not self._tls.check_hostname:
                # urllib3 would check the name where the context does not.
                options["assert_hostname"] = False
            manager = ProxyManager(proxy, proxy_headers=proxy_headers, **options) if proxy else PoolManager(**options)
            manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecuredPool}
            found = self._managers.setdefault(proxy, manager)
        return found


def exchange(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    *,
    largest: int,
    connect_s: float,
    answer_s: float,
    proxies: bool = False,
) -> WebAnswer:
    """Send one request over a new connection, and close the connection: see `WebClient.ask`."""
    with contextlib.closing(WebClient(proxies=proxies)) as client:
        return client.ask(method, url, body, headers, largest=largest, connect_s=connect_s, answer_s=answer_s)


def _close_descriptor(sock: socket.socket) -> None:
    """Close the descriptor of a socket at once, even while a file of it is open."""
    descriptor = sock.detach()
    if descriptor >= 0:
        os.close(descriptor)


def _read(response: BaseHTTPResponse, largest: int) -> bytes:
    data = bytearray()
    while len(data) <= largest:
        chunk = response.read(min(_CHUNK, largest + 1 - len(data)), decode_content=False)
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _parse(url: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL, and the URL without name, password and fragment. Raises OSError when it cannot be used."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
        if not parts.hostname:
            raise OSError("the address has no host name")
        port = netloc.rpartition("]")[2].partition(":")[2]
        if port and not (port.isascii() and port.isdecimal()):
            raise OSError(f"nonnumeric port: {port!r}")
        _ = parts.port  # Raises ValueError beyond 65535.
        # urllib3 needs another package for host names that are not ASCII.
        parts = parts._replace(netloc=netloc if netloc.isascii() else netloc.encode("idna").decode(), fragment="")
    except ValueError as error:
        raise OSError(f"the address cannot be used: {error}") from None
    return parts, parts.geturl()


def _proxy_of(parts: SplitResult) -> tuple[str, dict[str, str]]:
    """Return the URL of the environment's proxy for an address, and the headers for the proxy; "" without a proxy."""
    from urllib.request import getproxies, proxy_bypass

    found = getproxies().get(parts.scheme)
    if not found or proxy_bypass(parts.netloc):
        return "", {}
    proxy = urlsplit(found if "://" in found else f"http://{found}")
    user, _, address = proxy.netloc.rpartition("@")
    # Most settings for https: name a proxy without TLS, whatever the scheme of the proxy's URL says. Python's urllib takes them so.
    scheme = "http" if parts.scheme == "https" else proxy.scheme
    headers = {"Proxy-Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"} if ":" in user else {}
    return f"{scheme}://{unquote(address)}", headers


class _Exchange:
    """Time limits of one exchange, and the state of its connection."""

    def __init__(self, connect_s: float, answer_s: float | None, sockets: WeakSet[socket.socket], *, is_fresh: bool = False) -> None:
        self.is_fresh = is_fresh
        """True if the exchange may not use an idle connection."""
        self.is_reused = True
        """True until the exchange opens a connection."""
        self._connect_s = connect_s
        self._answer_s = answer_s
        self._sockets = sockets
        self._over = threading.Event()
        self._sock: socket.socket | None = None
        self._twin: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def run(self, action: Callable[[], T]) -> T:
        """Return what `action` returns. Raises OSError for errors of connections and of HTTP.

        Raises TimeoutError when the time is over, even after success, as the bytes that were read may be incomplete.
        """
        outer = _current.set(self)
        try:
            result = _translated(action)
        except OSError:
            self._stop()
            if self._sock is not None:
                # urllib3 leaves the response open whose headers it refuses.
                _close_descriptor(self._sock)
            if self._over.is_set():
                raise TimeoutError(_LATE) from None
            raise
        finally:
            _current.reset(outer)
            self._stop()
        if self._over.is_set():
            raise TimeoutError(_LATE)
        return result

    def dial(self, host: str, port: int) -> socket.socket:
        """Return a socket that is connected to one of the host's addresses. Raises OSError."""
        self.is_reused = False
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        until_s = time.monotonic() + self._connect_s
        failure = OSError("the host has no address")
        for family, kind, protocol, _, address in addresses:
            try:
                with contextlib.ExitStack() as undo:
                    sock = undo.enter_context(socket.socket(family, kind, protocol))
                    self.note(sock)
                    sock.settimeout(max(until_s - time.monotonic(), _MIN_TIMEOUT_S))
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.connect(address)
                    self._watch(sock, max(until_s - time.monotonic(), _MIN_TIMEOUT_S))
                    undo.pop_all()
                    return sock
            except OSError as error:
                failure = error
        raise failure

    def note(self, sock: socket.socket) -> None:
        """Have a forked child close `sock`."""
        self._sockets.add(sock)

    def answer_over(self, sock: socket.socket) -> None:
        """Begin the time of the response, over the connection `sock`."""
        self._sock = sock
        if self._answer_s is None:
            self._stop()
        else:
            self._watch(sock, self._answer_s)

    def _watch(self, sock: socket.socket, seconds: float) -> None:
        """Shut `sock` down in `seconds`, and watch no earlier connection."""
        self._stop()
        # A duplicated descriptor stays valid while TLS takes the socket over.
        self._twin = socket.socket(fileno=os.dup(sock.fileno()))
        self.note(self._twin)
        self._timer = threading.Timer(seconds, self._end, (self._twin,))
        self._timer.daemon = True
        self._timer.start()

    def _end(self, twin: socket.socket) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            twin.shutdown(socket.SHUT_RDWR)

    def _stop(self) -> None:
        if self._timer is not None and self._twin is not None:
            self._timer.cancel()
            # Wait for a timer that is running: afterwards its descriptor could belong to another connection.
            self._timer.join()
            self._twin.close()
            self._timer = self._twin = None


_current: ContextVar[_Exchange] = ContextVar("exchange")
"""Exchange of the thread that urllib3 runs in; urllib3 has no argument that reaches its connections."""


class _Plain(HTTPConnection):
    """Connection whose time the current exchange bounds."""

    def _new_conn(self) -> socket.socket:
        try:
            return _current.get().dial(self._dns_host, self.port)
        except OSError as error:
            raise NewConnectionError(self, "no connection") from error

    def connect(self) -> None:
        super().connect()
        exchange = _current.get()
        exchange.note(self.sock)
        self.sock.settimeout(self.timeout)
        exchange.answer_over(self.sock)

    @property
    def is_connected(self) -> bool:
        """Return False for a connection that the pool has to open again."""
        return not _current.get().is_fresh and super().is_connected

    def request(self, *arguments: Any, **more: Any) -> None:
        exchange = _current.get()
        if exchange.is_reused and self.sock is not None:
            exchange.answer_over(self.sock)
        super().request(*arguments, **more)


class _Secured(_Plain, HTTPSConnection):
    """Connection with TLS whose time the current exchange bounds."""


class _Idle(queue.LifoQueue[Any]):
    """Idle connections of a server. No lock is taken: a fork could copy a lock that another thread holds."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Keep a connection, or close it if there are too many. None, with which urllib3 fills its queues, is left out."""
        if item is None:
            return
        if len(self.queue) < self.maxsize:
            self.queue.append(item)
        else:
            item.close()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the connection that was used last. Raises queue.Empty without waiting."""
        try:
            return self.queue.pop()
        except IndexError:
            raise queue.Empty from None


class _PlainPool(HTTPConnectionPool):
    # pyright finds that urllib3's own connections differ from its protocol.
    ConnectionCls = cast(Any, _Plain)
    QueueCls = _Idle


class _SecuredPool(HTTPSConnectionPool):
    ConnectionCls = cast(Any, _Secured)
    QueueCls = _Idle


def _translated(action: Callable[[], T]) -> T:
    """Return what `action` returns. Raises OSError for errors of connections and of HTTP."""
    try:
        return action()
    except _FAILURES as error:
        raise _os_error(error) from None


def _os_error(error: BaseException) -> OSError:
    """Return the error that urllib3 has wrapped, as OSError. Its message holds nothing that the peer has sent."""
    while isinstance(error, HTTPError) and not isinstance(error, HTTPException):
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    if isinstance(error, (TimeoutError, Urllib3TimeoutError)):
        return TimeoutError(_LATE)
    if isinstance(error, IncompleteRead):
        return CutShort("its response is truncated")
    if isinstance(error, OSError):
        return error
    if isinstance(error, (HTTPException, InvalidHeader)):
        return NotHttp(f"its response is not HTTP ({type(error).__name__})")
    # The text of a ValueError may quote a header.
    return OSError(str(error) if isinstance(error, HTTPError) else "the request has an address or a header that cannot be sent")
