"""HTTP servers of OAuth tokens."""

from __future__ import annotations

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes]


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that refuse its certificate are no error here."""


class Server:
    """Answers as the test says, one after the other, the last again and again; keeps what it was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answers: list[Answer] = []
        self.location = ""
        self.drips = ""
        """Of which part of the answer a byte comes now and then, a thousand times."""
        self.cut_off = 0
        """How many answers end in their middle."""
        self.arrived = threading.Event()
        self.silent = threading.Event()
        self.silent.set()
        self.ended = threading.Event()
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((self.command, self.path, dict(self.headers.items()), body))
                outer.arrived.set()
                outer.silent.wait(20)
                code, data = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                if outer.drips:
                    self.drip(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if outer.drips == "body" else b""))
                    return
                self.send_response(code)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if outer.cut_off:
                    outer.cut_off -= 1
                    data = data[:5]
                self.wfile.write(data)

            def drip(self, piece: bytes) -> None:
                with contextlib.suppress(OSError):
                    for _ in range(1000):
                        if outer.ended.wait(0.01):
                            return
                        self.wfile.write(piece)
                        piece = b" "

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.silent.set()
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}/realms/kafka/token"
