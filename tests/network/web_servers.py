"""HTTP servers for tests of clients: what they say is up to the test, HTTP or not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat

Serve = Callable[[socket.socket, threading.Event], object]

OK = b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok"


@contextlib.contextmanager
def served(serve: Serve) -> Iterator[str]:
    """A server that takes one connection after the other; the address of it."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                peer, _ = server.accept()
                with peer:
                    serve(peer, stop)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def says(data: bytes) -> Serve:
    def serve(peer: socket.socket, stop: threading.Event) -> None:
        peer.recv(65536)
        peer.sendall(data)

    return serve


def drips(head: bytes, piece: bytes, times: int | None = None) -> Serve:
    """Never silent for as long as one read may take, and never done, or after `times` pieces."""

    def serve(peer: socket.socket, stop: threading.Event) -> None:
        with contextlib.suppress(OSError):
            for each in chain([head], repeat(piece) if times is None else repeat(piece, times)):
                if stop.wait(0.01):
                    return
                peer.sendall(each)

    return serve


class Server:
    """Server with many connections, each of which stays open after its response.

    `answer` gets the number of the connection and of the request in it, both from 0, and returns the response, or yields its parts. With
    None the server closes the connection.
    """

    def __init__(
        self,
        answer: Callable[[int, int], bytes | Iterator[bytes] | None] = lambda connection, request: OK,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[str] = []
        """Heads of all requests."""
        self.ended = threading.Semaphore(0)
        """Released for each connection that the client has closed."""
        self.answer = answer
        self._tls = tls
        self._accepted = 0
        self._peers: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}/keys"
        self._start(self._accept)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not wake a thread that waits in accept or recv.
        for each in (self._listening, *self._peers):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listening.accept()
                self._peers.append(peer)
                self._start(self._serve, peer, self._accepted)
                self._accepted += 1

    def _serve(self, peer: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(peer)
            if self._tls is not None:
                peer = stack.enter_context(self._tls.wrap_socket(peer, server_side=True))
                self._peers.append(peer)
            file = stack.enter_context(peer.makefile("rb"))
            for request in range(1000):
                head = b""
                with contextlib.suppress(OSError):
                    head = b"".join(iter(file.readline, b"\r\n")) if file.peek(1) else b""
                if not head:
                    self.ended.release()
                    return
                self.requests.append(head.decode())
                answer = self.answer(number, request)
                if answer is None:
                    return
                for part in [answer] if isinstance(answer, bytes) else answer:
                    peer.sendall(part)
