"""The HTTP client: whatever listens there, each exchange ends in time, with an answer or an OSError."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.network import web
from odradek.network.web import CutShort, NotHttp, WebAnswer, WebClient, exchange
from tests.client.certificates import Certificates
from tests.network.web_servers import OK, Serve, Server, drips, says, served

_WAIT_S = 30.0
"""Longest wait of a test for something that has to happen."""


def ask(address: str, scheme: str = "http", *, largest: int = 100, answer_s: float = 20.0) -> WebAnswer:
    # A handshake that the server does not begin ends with the time to connect.
    connect_s = answer_s if scheme == "https" else 600
    return exchange("GET", f"{scheme}://{address}/keys?of=all", largest=largest, connect_s=connect_s, answer_s=answer_s)


def asked(client: WebClient, url: str, *, answer_s: float = _WAIT_S) -> WebAnswer:
    return client.ask("GET", url, largest=100, connect_s=_WAIT_S, answer_s=answer_s)


# Responses ---------------------------------------------------------------------------------------------------------------


def test_an_answer_is_read() -> None:
    with served(says(b"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\nok")) as address:
        answer = ask(address)
    assert answer[:3] == (200, "Fine", b"ok")
    assert answer.headers.get("retry-after") == answer.headers.get("Retry-After") == "7"


@pytest.mark.parametrize("head", [b"\r\n", b"Content-Length: 1000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n"])
def test_no_more_is_read_than_asked_for(head: bytes) -> None:
    with served(says(b"HTTP/1.1 200 Fine\r\n" + head + b"x" * 1000)) as address:
        assert ask(address).body == b"x" * 101


def test_an_answer_may_have_all_that_was_asked_for() -> None:
    with served(says(b"HTTP/1.1 200 Fine\r\nContent-Length: 100\r\n\r\n" + b"x" * 100)) as address:
        assert ask(address).body == b"x" * 100


def test_nothing_is_decompressed() -> None:
    data = b"HTTP/1.1 200 Fine\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"
    with served(says(data)) as address:
        assert ask(address).body == b"\x1f\x8b\x08"


def test_a_redirection_is_an_answer() -> None:
    with served(says(b"HTTP/1.1 302 There\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as address:
        assert ask(address).status == 302


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", ConnectionError),
        (b"SSH-2.0-something\r\n", NotHttp),
        (b"\x15\x03\x01\x00\x02\x02\x16", NotHttp),
        (b"HTTP/1.1 two hundred\r\n\r\n", NotHttp),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000, NotHttp),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nx", NotHttp),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", CutShort),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", CutShort),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000, NotHttp),
        (b"\0" * 70_000, NotHttp),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_is_no_answer_is_an_error(scheme: str, data: bytes, kind: type[OSError]) -> None:
    with served(says(data)) as address, pytest.raises(OSError, match=r"[a-z]") as failed:
        ask(address, scheme)
    assert "\n" not in str(failed.value)
    assert "SSH" not in str(failed.value)
    if scheme == "http":
        assert isinstance(failed.value, kind)


# Limits of time ----------------------------------------------------------------------------------------------------------


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
    with (
        served(serve) as address,
        pytest.raises(OSError, match=r"no complete response within the time limit" if scheme == "http" else r"[a-z]"),
    ):
        ask(address, scheme, largest=1 << 20, answer_s=0.2)


def test_sending_has_a_bound() -> None:
    with served(lambda peer, stop: stop.wait()) as address, pytest.raises(TimeoutError, match="no complete response within the time limit"):
        exchange("POST", f"http://{address}/", b"x" * (64 << 20), largest=1, connect_s=_WAIT_S, answer_s=0.2)


def test_an_answer_over_an_idle_connection_has_a_bound() -> None:
    """Each read is in time."""
    stop = threading.Event()

    def answer(connection: int, request: int) -> Iterator[bytes]:
        yield from OK.splitlines(keepends=True) if request == 0 else [b"HTTP/1.1 200 OK\r\n"]
        while request and not stop.wait(0.01):
            yield b"A"

    with Server(answer) as server, contextlib.closing(WebClient()) as client:
        asked(client, server.url)
        with pytest.raises(TimeoutError, match="no complete response within the time limit"):
            asked(client, server.url, answer_s=0.2)
        stop.set()


def test_a_proxy_that_never_opens_the_tunnel_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(drips(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n")) as address:
        monkeypatch.setenv("https_proxy", f"http://{address}")
        client = WebClient(proxies=True)
        with pytest.raises(TimeoutError, match="no complete response within the time limit"):
            client.ask("GET", "https://issuer.invalid/keys", largest=1, connect_s=0.2, answer_s=600)


def test_all_addresses_of_a_host_share_the_time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    now_s = 100.0

    class Socket(socket.socket):
        def settimeout(self, value: float | None) -> None:
            limits.append(value or 0.0)
            super().settimeout(value)

        def connect(self, address: Any) -> None:
            nonlocal now_s
            if address[1] == 1:
                now_s += 3
                raise TimeoutError
            super().connect(address)

    with Server() as server:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in (1, server.port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket, "socket", Socket)
        monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=lambda: now_s))
        answer = exchange("GET", "http://many.invalid/keys", largest=9, connect_s=5, answer_s=_WAIT_S)
    assert answer.body == b"ok"
    assert limits[:2] == [5, 2]


# Addresses and headers ---------------------------------------------------------------------------------------------------


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
        "ftp://127.0.0.1/",
    ],
)
@pytest.mark.parametrize("proxies", [False, True])
def test_an_address_that_leads_nowhere_is_an_error(url: str, proxies: bool) -> None:
    with pytest.raises(OSError, match=r"[a-z]") as failed:
        exchange("GET", url, largest=1, connect_s=1.0, answer_s=1.0, proxies=proxies)
    assert "\n" not in str(failed.value)


def test_a_name_that_is_not_ascii_is_looked_up_as_dns_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        names.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setitem(sys.modules, "idna", None)
    with pytest.raises(socket.gaierror):
        exchange("GET", "http://bücher.invalid:80/ä", largest=1, connect_s=1.0, answer_s=1.0)
    assert names == ["xn--bcher-kva.invalid"]


def test_name_and_password_in_an_address_are_neither_sent_nor_said() -> None:
    with Server() as server:
        exchange("GET", f"http://me:se-cret@{server.address}/keys#part", largest=9, connect_s=_WAIT_S, answer_s=_WAIT_S)
        (head,) = server.requests
    assert head.startswith("GET /keys HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n" in head
    assert "Authorization" not in head
    for url in ("http://me:se-cret@127.0.0.1:1/", "http://me:se-cret@127.0.0.1:x/", "http://me:se-cret@[::1/", "http://me:se-cret@a b/"):
        with pytest.raises(OSError, match=r"[a-z]") as failed:
            exchange("GET", url, largest=1, connect_s=1.0, answer_s=1.0)
        assert "se-cret" not in repr(failed.value)


def test_a_header_that_cannot_be_sent_is_not_quoted() -> None:
    with Server() as server:
        for value in ("se-cret\nX: y", "se-cret\u20ac"):
            with pytest.raises(OSError, match="cannot be sent") as failed:
                exchange("GET", server.url, None, {"Authorization": value}, largest=1, connect_s=_WAIT_S, answer_s=_WAIT_S)
            assert "se-cret" not in str(failed.value)
    assert server.requests == []


# Idle connections --------------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_until_it_is_closed() -> None:
    with Server(lambda connection, request: OK.replace(b"ok", f"{connection}{request}".encode())) as server:
        client = WebClient()
        assert [asked(client, server.url).body for _ in range(3)] == [b"00", b"01", b"02"]
        client.close()
        assert server.ended.acquire(timeout=_WAIT_S)
        assert asked(client, server.url).body == b"10"
        client.close()


def test_a_connection_in_use_is_closed_after_its_request() -> None:
    with Server() as server:
        client = WebClient()
        stream = client.stream("GET", server.url, step_s=_WAIT_S)
        client.close()
        assert b"".join(stream) == b"ok"
        del stream
        assert server.ended.acquire(timeout=_WAIT_S)


def test_a_connection_whose_answer_was_too_long_is_not_used_again() -> None:
    long = b"HTTP/1.1 200 Fine\r\nContent-Length: 200\r\n\r\n" + b"x" * 200
    with Server(lambda connection, request: OK if connection else long) as server, contextlib.closing(WebClient()) as client:
        assert asked(client, server.url).body == b"x" * 101
        assert asked(client, server.url).body == b"ok"


def test_a_request_that_an_idle_connection_does_not_serve_is_sent_again_over_a_new_one() -> None:
    with Server(lambda connection, request: None if request and connection < 2 else OK) as server:
        client = WebClient()
        # Both connections are idle afterwards.
        streams = [client.stream("GET", server.url, step_s=_WAIT_S) for _ in range(2)]
        assert [b"".join(each) for each in streams] == [b"ok", b"ok"]
        assert asked(client, server.url).body == b"ok"
        assert len(server.requests) == 4
        client.close()


def test_a_request_over_a_new_connection_is_sent_once() -> None:
    with Server(lambda connection, request: None) as server, contextlib.closing(WebClient()) as client:
        with pytest.raises(ConnectionError):
            asked(client, server.url)
        assert len(server.requests) == 1


def test_a_request_is_sent_again_once() -> None:
    with Server(lambda connection, request: None if connection or request else OK) as server, contextlib.closing(WebClient()) as client:
        asked(client, server.url)
        with pytest.raises(ConnectionError):
            asked(client, server.url)
        assert len(server.requests) == 3


def test_idle_connections_have_a_bound() -> None:
    with Server() as server:
        client = WebClient()
        streams = [client.stream("GET", server.url, step_s=_WAIT_S) for _ in range(66)]
        assert {b"".join(each) for each in streams} == {b"ok"}
        for _ in range(2):
            assert server.ended.acquire(timeout=_WAIT_S)
        assert not server.ended.acquire(blocking=False)
        del streams
        client.close()
        for _ in range(64):
            assert server.ended.acquire(timeout=_WAIT_S)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_holds_no_connection_of_its_parent() -> None:
    """The server sees the end of a connection when both processes have closed it."""
    with Server() as server:
        client = WebClient()
        in_use = [client.stream("GET", server.url, step_s=_WAIT_S) for _ in range(3)]
        assert b"".join(in_use.pop()) == b"ok", "its connection is idle now"
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(writing)
            client.after_fork()
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
        try:
            for each in in_use:
                each.close()
            del each, in_use
            client.close()
            for _ in range(3):
                assert server.ended.acquire(timeout=_WAIT_S)
        finally:
            os.close(writing)
            os.waitpid(child, 0)


# TLS, proxies, redirections ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def of_server(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    return context


def test_the_context_says_whether_names_are_checked(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(checked: bool) -> bytes:
        context = ssl.create_default_context(cafile=str(certificates.authority))
        context.check_hostname = checked
        with contextlib.closing(WebClient(context)) as client:
            return asked(client, f"https://elsewhere.invalid:{server.port}/").body

    with Server(tls=of_server(certificates)) as server:
        found = socket.getaddrinfo("127.0.0.1", server.port, type=socket.SOCK_STREAM)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert ask(checked=False) == b"ok"
        with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
            ask(checked=True)


def test_connections_with_tls_are_used_again(certificates: Certificates) -> None:
    with Server(lambda connection, request: OK.replace(b"ok", f"{connection}{request}".encode()), of_server(certificates)) as server:
        client = WebClient(ssl.create_default_context(cafile=str(certificates.authority)))
        assert [asked(client, f"https://localhost:{server.port}/").body for _ in range(3)] == [b"00", b"01", b"02"]
        client.close()


def test_a_proxy_of_the_environment_is_used_where_the_caller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as proxy, Server() as server:
        monkeypatch.setenv("http_proxy", f"me:se%2Dcret@{proxy.address}")
        for no_proxy, proxies in (("", True), ("127.0.0.1", True), ("", False)):
            monkeypatch.setenv("no_proxy", no_proxy)
            exchange("GET", server.url, largest=9, connect_s=_WAIT_S, answer_s=_WAIT_S, proxies=proxies)
    (head,) = proxy.requests
    assert head.startswith(f"GET {server.url} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6c2UtY3JldA==\r\n" in head
    assert len(server.requests) == 2
    assert "Proxy" not in "".join(server.requests)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_tunnel_leads_through_a_proxy_without_tls(certificates: Certificates, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the address of the proxy begins with https:, as for Python's urllib."""
    heads: list[bytes] = []

    def serve(peer: socket.socket, stop: threading.Event) -> None:
        heads.append(peer.recv(65536))
        peer.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        with of_server(certificates).wrap_socket(peer, server_side=True) as secured:
            heads.append(secured.recv(65536))
            secured.sendall(OK)

    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with served(serve) as address:
        monkeypatch.setenv("https_proxy", f"{scheme}://me:se-cret@{address}")
        answer = exchange("GET", "https://localhost/keys", largest=9, connect_s=_WAIT_S, answer_s=_WAIT_S, proxies=True)
    assert answer.body == b"ok"
    assert heads[0].startswith(b"CONNECT localhost:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6c2UtY3JldA==\r\n" in heads[0]
    assert heads[1].startswith(b"GET /keys HTTP/1.1\r\n")
    assert b"Proxy-Authorization" not in heads[1]


def test_a_proxy_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(says(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")) as address:
        monkeypatch.setenv("https_proxy", f"http://me:se-cret@{address}")
        with pytest.raises(OSError, match="Tunnel connection failed: 407") as failed:
            exchange("GET", "https://localhost/keys", largest=9, connect_s=_WAIT_S, answer_s=_WAIT_S, proxies=True)
    assert "cret" not in str(failed.value)


def test_redirections_are_followed_where_the_caller_says_so() -> None:
    def away(connection: int, request: int) -> bytes:
        return f"HTTP/1.1 302 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()

    with Server(away) as first, Server() as server:
        client = WebClient(redirections=True)
        to = server.url
        stream = client.stream("GET", first.url, step_s=_WAIT_S)
        assert (stream.status, b"".join(stream)) == (200, b"ok")
        to = first.url
        with pytest.raises(OSError, match="too many redirects"):
            client.stream("GET", first.url, step_s=_WAIT_S)
        del stream
        client.close()
