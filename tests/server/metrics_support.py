"""HTTP requests to the metrics listener."""

from __future__ import annotations

import asyncio


async def ask(port: int, path: str, *, method: str = "GET", head: str = "") -> tuple[str, dict[str, str], str]:
    """Status line, headers and body of one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
    raw = await reader.read()
    writer.close()
    top, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = top.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    if headers.get("transfer-encoding") == "chunked" and method == "GET":
        body = unchunked(body)
    return status, headers, body.decode()


def unchunked(data: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            assert data == b"\r\n"
            return b"".join(pieces)
        pieces.append(data[:length])
        assert data[length : length + 2] == b"\r\n"
        data = data[length + 2 :]
