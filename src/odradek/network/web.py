"""One HTTP exchange with a server outside of the cluster: a provider of keys, a receiver of metrics.

The timeouts of sockets bound each read. A server that sends a byte now and then would hold a thread for good, so the whole exchange has a
bound as well: at its end the connection is shut down, whatever the thread is waiting for. No proxy of the environment is used, and no
redirection is followed, which could lead to where nobody has allowed to go.
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
    """Status, reason and body of an answer; a body longer than asked for is cut one byte behind."""

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
    """Ask a server, and read at most `largest` + 1 bytes of its answer; blocks, so call it in a thread of its own (`Jobs.apart`).

    `step_s` bounds connecting and each read, `total_s` all of it but for the resolution of the host's name. Raises OSError, TimeoutError
    among them, when there is no answer or what comes is no HTTP.
    """
    parts = urlsplit(url)
    host = parts.hostname
    if not host:
        raise OSError("the address names no host")
    secured = parts.scheme == "https"
    raw = socket.create_connection((host, parts.port or (443 if secured else 80)), min(step_s, total_s))
    with contextlib.closing(raw), TimeLimit() as limit:
        try:
            limit.watch(raw, total_s)
            sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secured else raw
            with contextlib.closing((HTTPSConnection if secured else HTTPConnection)(host, parts.port)) as connection:
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
    """Bound of an exchange that a thread waits for. When it is over, the connection is shut down: the thread reads its end.

    The block then ends with a TimeoutError, also where it would end well, as what was read may be a part only; errors other than those of
    connections and of HTTP pass.
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
        """Shut `connection` down in `total_s` seconds; what was watched before is left alone."""
        self._stop()
        # A descriptor of its own stays valid while TLS takes the socket over.
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
            # It may be at work: the descriptor must not be another connection's by then.
            self._timer.join()
            self._twin.close()
