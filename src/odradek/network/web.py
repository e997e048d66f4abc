"""One HTTP exchange with a server outside of the cluster: a provider of keys, a receiver of metrics.

The timeouts of sockets bound each read. A server that sends a byte now and then would hold a thread for good, so the whole exchange has a
bound as well: at its end the connection is shut down, whatever the thread is waiting for. No proxy of the environment is used, and no
redirection is followed, which could lead to where nobody has allowed to go.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType
from typing import NamedTuple
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
    late = threading.Event()
    raw = socket.create_connection((host, parts.port or (443 if secured else 80)), min(step_s, total_s))
    # Its twin stays valid while TLS takes the socket over.
    with raw.dup() as twin:
        timer = threading.Timer(total_s, _end, (twin, late))
        timer.daemon = True
        timer.start()
        try:
            sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secured else raw
            with contextlib.closing((HTTPSConnection if secured else HTTPConnection)(host, parts.port)) as connection:
                connection.sock = sock
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request(method, path, body, dict(headers))
                with connection.getresponse() as answer:
                    data = answer.read(largest + 1)
                    if answer.length and len(data) <= largest:
                        raise OSError("its answer ends too early")
                if late.is_set():
                    raise TimeoutError(_LATE)
                return WebAnswer(answer.status, answer.reason, data)
        except TimeoutError:
            raise TimeoutError(_LATE) from None
        except (OSError, HTTPException, ValueError) as error:
            if late.is_set():
                raise TimeoutError(_LATE) from None
            if isinstance(error, HTTPException):
                raise OSError(f"it answers what is no HTTP ({type(error).__name__})") from None
            raise error if isinstance(error, OSError) else OSError(str(error)) from None
        finally:
            timer.cancel()
            raw.close()


_LATE = "no whole answer in time"


def _end(twin: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        twin.shutdown(socket.SHUT_RDWR)
