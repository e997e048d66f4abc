"""Metrics and health over HTTP, with a small separate server, for Prometheus and for process monitors.

    GET /metrics        all metrics as Prometheus text 0.0.4
    GET /mbeans         the same as JSON: MBean -> its attributes, as JMX shows them, including rates
    GET /health/live    200 while the event loop answers
    GET /health/ready   200 while the node is ready, else 503 with the reason

A scrape is made in chunks. The loop serves other work between chunks, and a chunk is made when the peer has received the earlier ones.
Connections, bytes of a request and seconds of a request and response are bounded. When all connections are in use, a new connection
replaces the one that has waited longest without a request: silent peers cannot block the health checks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from odradek.metrics.beans import render_beans
from odradek.metrics.prometheus import CONTENT_TYPE, render

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.metrics.registry import Registry

logger = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
MOST_SCRAPES: Final = 4
"""Scrapes under way, at most; a further scrape gets 503."""
REQUEST_BYTES: Final = 8 * 1024
REQUEST_S: Final = 5.0
"""Seconds within which a request must arrive."""
ANSWER_S: Final = 30.0
"""Seconds within which the peer must have received the response."""
_SLICE_S: Final = 0.001
_SEND_AT: Final = 32 * 1024

Problems = Callable[[], list[str]]
"""Reasons why the node is not ready; empty when it is ready."""


class _Refused(Exception):
    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Exporter:
    """HTTP server on one address, from `start` to `close`."""

    def __init__(self, registry: Registry, clock: Clock, problems: Problems) -> None:
        self._registry = registry
        self._clock = clock
        self._problems = problems
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._asking: dict[asyncio.Task[None], asyncio.WriteTransport] = {}
        """Tasks of `_serving` whose request has not arrived, oldest first."""
        self._scrapes = 0
        self.refused = 0
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Bind the address. Raises OSError when the address is not available."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=REQUEST_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop the server and its responses."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= MOST_CONNECTIONS:
            self.refused += 1
            if not self._make_way():
                writer.transport.abort()
                return
        self._serving.add(task)
        self._asking[task] = writer.transport
        method = ""
        try:
            async with asyncio.timeout(REQUEST_S):
                method, path = await _read_request(reader)
            self._asking.pop(task, None)
            async with asyncio.timeout(ANSWER_S):
                await self._answer(writer, method, path)
                writer.close()
                await writer.wait_closed()
        except _Refused as refused:
            self.refused += 1
            body = b"" if method == "HEAD" else refused.text.encode()
            writer.write(_head(refused.status, "text/plain; charset=utf-8", len(refused.text)) + body)
            writer.close()
        except TimeoutError:
            self.refused += 1
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        except Exception:
            logger.exception("a request to the metrics listener failed")
            writer.transport.abort()
        finally:
            self._serving.discard(task)
            self._asking.pop(task, None)

    def _make_way(self) -> bool:
        """Close the connection that has waited longest without a request. Return whether there was such a connection."""
        longest = next(iter(self._asking), None)
        if longest is None:
            return False
        self._serving.discard(longest)
        self._asking.pop(longest).abort()
        return True

    async def _answer(self, writer: asyncio.StreamWriter, method: str, path: str) -> None:
        if path == "/metrics":
            await self._text(writer, method, CONTENT_TYPE, render(self._registry))
        elif path == "/mbeans":
            await self._text(writer, method, "application/json", render_beans(self._registry, self._clock.monotonic()))
        elif path == "/health/live":
            await self._short(writer, method, "200 OK", ["alive"])
        elif path == "/health/ready":
            problems = self._problems()
            await self._short(writer, method, "503 Service Unavailable" if problems else "200 OK", problems or ["ready"])
        elif path == "/":
            await self._short(writer, method, "200 OK", ["/metrics", "/mbeans", "/health/live", "/health/ready"])
        else:
            raise _Refused("404 Not Found", "the paths are /metrics, /mbeans, /health/live and /health/ready\n")

    async def _short(self, writer: asyncio.StreamWriter, method: str, status: str, lines: Iterable[str]) -> None:
        body = "".join(line + "\n" for line in lines).encode()
        writer.write(_head(status, "text/plain; charset=utf-8", len(body)) + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def _text(self, writer: asyncio.StreamWriter, method: str, content_type: str, chunks: Iterator[str]) -> None:
        if self._scrapes >= MOST_SCRAPES:
            raise _Refused("503 Service Unavailable", f"{MOST_SCRAPES} scrapes are in progress\n")
        writer.write(_head("200 OK", content_type, None))
        if method == "HEAD":
            return
        self._scrapes += 1
        try:
            await self._send(writer, chunks)
        finally:
            self._scrapes -= 1

    async def _send(self, writer: asyncio.StreamWriter, chunks: Iterator[str]) -> None:
        """Send the text as chunks of HTTP; yield to the loop when making them has taken `_SLICE_S` seconds."""
        waiting: list[bytes] = []
        size = 0
        begun = self._clock.monotonic()
        for chunk in chunks:
            data = chunk.encode()
            if data:
                waiting.append(data)
                size += len(data)
            if size >= _SEND_AT:
                writer.write(b"%x\r\n%b\r\n" % (size, b"".join(waiting)))
                waiting, size = [], 0
                await writer.drain()
            if self._clock.monotonic() - begun >= _SLICE_S:
                await asyncio.sleep(0)
                begun = self._clock.monotonic()
        rest = b"%x\r\n%b\r\n" % (size, b"".join(waiting)) if size else b""
        writer.write(rest + b"0\r\n\r\n")
        await writer.drain()


def _head(status: str, content_type: str, length: int | None) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{framing}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    ).encode()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    """Return method and path of a request without a body. Raises _Refused for any other request."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused("431 Request Header Fields Too Large", f"a request must not have more than {REQUEST_BYTES} bytes\n") from None
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise _Refused("400 Bad Request", "a request must have the form METHOD PATH HTTP/1.1\n")
    if words[0] not in (b"GET", b"HEAD"):
        raise _Refused("405 Method Not Allowed", "only GET and HEAD are supported\n")
    if words[2] == b"HTTP/1.0" and words[0] == b"GET":
        raise _Refused("505 HTTP Version Not Supported", "only HTTP/1.1 is supported\n")
    return words[0].decode("ascii"), words[1].split(b"?", 1)[0].decode("ascii", "replace")
