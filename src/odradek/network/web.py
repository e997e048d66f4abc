"""HTTP exchange with a server outside of the cluster: a provider of keys, a receiver of metrics.

Socket timeouts bound each read. A server that sends a byte now and then would hold a thread for good, so the whole exchange is bounded as
well. At the end of that time the connection is shut down, even while the thread waits. Proxies of the environment are not used.
Redirections are not followed, because they could lead to a server that no administrator has allowed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit


class WebAnswer(NamedTuple):
    """Status, reason and body of an HTTP response; a body longer than the limit is truncated one byte after it."""

    status: int
    reason: str
    body: bytes


def exchange(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    *,
    largest: int,
    step_s: float,
    total_s: float,
) -> WebAnswer:
    """Send a request, and return the response with at most `largest` + 1 bytes of its body. Blocks: call in a separate thread
    (`Jobs.apart`).

    `step_s` bounds connecting and each read, in seconds. `total_s` bounds the whole exchange except for the resolution of the host name.
    Raises OSError, which includes TimeoutError, when no response comes or the response is not HTTP.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if not host:
            raise OSError("the address names no host")
        secured = parts.scheme == "https"
        raw = socket.create_connection((host, port or (443 if secured else 80)), min(step_s, total_s))
    except ValueError as error:
        # For example a port beyond 65535, or a label of the host name that is longer than 63 letters (UnicodeError).
        raise OSError(f"the address cannot be used: {error}") from None
    with contextlib.closing(raw), TimeLimit() as limit:
        try:
            limit.watch(raw, total_s)
            sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secured else raw
            with contextlib.closing((HTTPSConnection if secured else HTTPConnection)(host, port)) as connection:
                connection.sock = sock
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request(method, path, body, dict(headers))
                with connection.getresponse() as answer:
                    data = answer.read(largest + 1)
                    if answer.length and len(data) <= largest:
                        raise OSError("its answer ends too early")
                return WebAnswer(answer.status, answer.reason, data)
        except TimeoutError:
            raise TimeoutError(_LATE) from None
        except HTTPException as error:
            raise OSError(f"it answers what is no HTTP ({type(error).__name__})") from None
        except ValueError as error:
            raise error if isinstance(error, OSError) else OSError(str(error)) from None


_LATE = "no whole answer in time"


class TimeLimit:
    """Time limit of an exchange that a thread waits for. When the time is over, the connection is shut down, so that the thread reads its
    end.

    The block then ends with a TimeoutError. It does so even after success, as the bytes that were read may be incomplete. Only errors that
    are not of connections or of HTTP pass.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._twin: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()
        if self._over.is_set() and (error is None or isinstance(error, (OSError, HTTPException, ValueError))):
            raise TimeoutError(_LATE) from None

    def watch(self, connection: socket.socket, total_s: float) -> None:
        """Shut `connection` down in `total_s` seconds, and stop watching the earlier connection."""
        self._stop()
        # A duplicated descriptor stays valid while TLS takes the socket over.
        self._twin = socket.socket(fileno=os.dup(connection.fileno()))
        self._timer = threading.Timer(total_s, self._end, (self._twin,))
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
