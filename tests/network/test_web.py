"""An HTTP exchange with whatever listens there: it ends, in time, with an answer or an OSError."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from odradek.network.web import WebAnswer, exchange

Serve = Callable[[socket.socket, threading.Event], object]


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


def ask(address: str, scheme: str = "http", *, largest: int = 100, total_s: float = 20.0) -> WebAnswer:
    return exchange("GET", f"{scheme}://{address}/keys?of=all", largest=largest, step_s=min(5.0, total_s), total_s=total_s)


def test_an_answer_is_read() -> None:
    with served(says(b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\n\r\nok")) as address:
        assert ask(address) == (200, "Fine", b"ok")


def test_no_more_is_read_than_asked_for() -> None:
    with served(says(b"HTTP/1.1 200 Fine\r\n\r\n" + b"x" * 1000)) as address:
        assert ask(address).body == b"x" * 101


def test_a_redirection_is_an_answer() -> None:
    with served(says(b"HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as address:
        assert ask(address).status == 302


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-something\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"\0" * 70_000,
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_is_no_answer_is_an_error(scheme: str, data: bytes) -> None:
    with served(says(data)) as address, pytest.raises(OSError, match=r"[a-z]") as failed:
        ask(address, scheme)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    "serve",
    [
        drips(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"[:1]),
        drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        lambda peer, stop: stop.wait(),
    ],
    ids=["header", "body", "chunks", "silence"],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_whole_has_a_bound(scheme: str, serve: Serve) -> None:
    """Each read is in time."""
    with served(serve) as address, pytest.raises(OSError, match=r"no whole answer in time" if scheme == "http" else r"[a-z]"):
        ask(address, scheme, largest=1 << 20, total_s=0.2)


@pytest.mark.parametrize(
    "url",
    [
        "http:///keys",
        "http://127.0.0.1:1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:port/",
        "http://no such host/",
        "http://[::1/",
        f"http://{'a' * 70}.example/",
    ],
)
def test_an_address_that_leads_nowhere_is_an_error(url: str) -> None:
    with pytest.raises(OSError, match=r"[a-z]"):
        exchange("GET", url, largest=1, step_s=1.0, total_s=1.0)
