"""Tokens from a file and from an authorization server: what is asked, what is taken, what is tried again, and what is said."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.base.errors import ConfigError
from odradek.client.calls.clock import ClientClock
from odradek.client.security.credentials import credentials_of
from odradek.client.security.tokens import TokenSource
from odradek.client.settings.config import PRODUCER_CONFIG, ClientConfig, Setting
from odradek.security.sasl.client import OAuthToken
from odradek.security.sasl.errors import SaslError
from tests.client.certificates import Certificates
from tests.client.token_servers import Answer, Server
from tests.network.web_servers import says, served


def jwt(**claims: object) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "RS256"}, claims)]
    return ".".join([*parts, "c2lnbmVk"])


def given(**answer: object) -> Answer:
    return 200, json.dumps(answer).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


BASE: dict[str, Setting] = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
CREDENTIALS: dict[str, Setting] = {
    "sasl.oauthbearer.client.credentials.client.id": "client",
    "sasl.oauthbearer.client.credentials.client.secret": "the-secret",
}


def provider(url: str, settings: dict[str, Setting] | None = None, **others: Setting) -> Callable[[], Any]:
    keys = {**BASE, "sasl.oauthbearer.token.endpoint.url": url, **(CREDENTIALS if settings is None else settings), **others}
    credentials = credentials_of(ClientConfig(PRODUCER_CONFIG, keys))
    assert credentials is not None
    assert credentials.provider is not None
    assert "the-secret" not in repr(credentials)
    assert "the-secret" not in repr(credentials.provider)
    return credentials.provider


def token(url: str, settings: dict[str, Setting] | None = None, **others: Setting) -> OAuthToken:
    async def ask() -> OAuthToken:
        found = await provider(url, settings, **others)()
        assert isinstance(found, OAuthToken)
        return found

    return asyncio.run(ask())


def refused(url: str, settings: dict[str, Setting] | None = None, **others: Setting) -> str:
    with pytest.raises(SaslError) as raised:
        token(url, settings, **others)
    assert "the-secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# An authorization server -------------------------------------------------------------------------------------------------


def test_it_is_asked_with_the_clients_credentials(server: Server) -> None:
    server.answers = [given(access_token=jwt(sub="alice", exp=2_000_000_000), expires_in=5)]
    assert token(server.url(), **{"sasl.oauthbearer.scope": "read write"}) == OAuthToken(jwt(sub="alice", exp=2_000_000_000), 2 * 10**12)
    ((method, path, headers, body),) = server.asked
    assert (method, path, body) == ("POST", "/realms/kafka/token", b"grant_type=client_credentials&scope=read+write")
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"client:the-secret"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept"] == "application/json"


def test_without_a_scope_none_is_asked_for(server: Server) -> None:
    server.answers = [given(access_token="opaque")]
    token(server.url())
    assert server.asked[0][3] == b"grant_type=client_credentials"


@pytest.mark.parametrize(("encoded", "sent"), [("false", b"a b:c/d+e"), ("true", b"a+b:c%2Fd%2Be")])
def test_name_and_secret_are_encoded_where_that_is_wanted(server: Server, encoded: str, sent: bytes) -> None:
    server.answers = [given(access_token="opaque")]
    settings: dict[str, Setting] = {
        "sasl.oauthbearer.client.credentials.client.id": "a b",
        "sasl.oauthbearer.client.credentials.client.secret": "c/d+e",
        "sasl.oauthbearer.header.urlencode": encoded,
    }
    token(server.url(), settings)
    assert base64.b64decode(server.asked[0][2]["Authorization"].removeprefix("Basic ")) == sent


def test_the_line_of_java_says_the_same(server: Server) -> None:
    server.answers = [given(access_token="opaque")]
    jaas = 'a.OAuthBearerLoginModule required clientId="client" clientSecret="the-secret" scope="read";'
    token(server.url(), {"sasl.jaas.config": jaas})
    assert base64.b64decode(server.asked[0][2]["Authorization"].removeprefix("Basic ")) == b"client:the-secret"
    assert server.asked[0][3] == b"grant_type=client_credentials&scope=read"


def test_the_keys_of_librdkafka_say_the_same(server: Server) -> None:
    server.answers = [given(access_token="opaque")]
    token(server.url(), {"sasl.oauthbearer.client.id": "client", "sasl.oauthbearer.client.secret": "the-secret"})
    assert base64.b64decode(server.asked[0][2]["Authorization"].removeprefix("Basic ")) == b"client:the-secret"


@pytest.mark.parametrize(
    ("answer", "lifetime_s"),
    [
        (given(access_token="opaque", expires_in=300), 300),
        (given(access_token="a.b.c", expires_in=300), 300),
        (given(access_token=jwt(sub="a"), expires_in=300), 300),
        (given(access_token=jwt(exp="soon"), expires_in=300), 300),
        (given(access_token="opaque"), None),
        (given(access_token="opaque", expires_in="soon"), None),
        (given(access_token="opaque", expires_in=-5), None),
    ],
)
def test_when_a_token_ends_that_does_not_say_so(server: Server, answer: Answer, lifetime_s: int | None) -> None:
    server.answers = [answer]
    before = time.time()
    expires_ms = token(server.url()).expires_ms
    if lifetime_s is None:
        assert expires_ms is None
    else:
        assert expires_ms is not None
        assert before * 1000 - 1 <= expires_ms - lifetime_s * 1000 <= time.time() * 1000


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_what_may_be_better_soon_is_tried_again(server: Server, code: int) -> None:
    server.answers = [(code, b""), (code, b""), given(access_token="opaque")]
    assert token(server.url(), **{"sasl.login.retry.backoff.ms": "1"}).value == "opaque"
    assert len(server.asked) == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 501])
def test_a_refusal_is_final_and_its_code_is_said(server: Server, code: int) -> None:
    server.answers = [(code, b'{"error": "invalid_client", "error_description": "the-secret is wrong"}')]
    said = refused(server.url())
    assert (
        said
        == f"sasl.oauthbearer.token.endpoint.url: the token request to 127.0.0.1 failed: it responds with status {code} (invalid_client)"
    )
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b'{"error": "the-secret"}', b"the-secret", b'{"error": 7}', b"[", b"[" * 100_000, b"\xff"])
def test_of_a_refusal_nothing_else_is_said(server: Server, body: bytes) -> None:
    server.answers = [(401, body)]
    assert refused(server.url()).endswith("it responds with status 401")


def test_trying_again_has_an_end_and_the_first_failure_is_said(server: Server) -> None:
    server.answers = [(500, b""), (503, b"")]
    begin = time.monotonic()
    said = refused(server.url(), **{"sasl.login.retry.backoff.ms": "20", "sasl.login.retry.backoff.max.ms": "200"})
    assert "it responds with status 500" in said
    assert time.monotonic() - begin >= 0.2
    assert 2 <= len(server.asked) <= 6, "the pause doubles"


def test_a_refusal_after_failures_says_the_first_of_them(server: Server) -> None:
    server.answers = [(500, b""), (401, b"")]
    assert "it responds with status 500" in refused(server.url(), **{"sasl.login.retry.backoff.ms": "1"})
    assert len(server.asked) == 2


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[]", b'{"access_token": 7}', b'{"access_token": " "}', b'{"id_token": "the-secret"}'])
def test_an_answer_without_a_token(server: Server, body: bytes) -> None:
    server.answers = [(200, body)]
    assert "its response has no access_token" in refused(server.url())
    assert len(server.asked) == 1


def test_an_answer_without_end_is_not_read(server: Server) -> None:
    server.answers = [(200, b" " * ((1 << 20) + 1))]
    assert "more than 1048576 bytes" in refused(server.url())


def test_a_redirection_is_not_followed(server: Server) -> None:
    server.answers = [(302, b"")]
    server.location = server.url()
    assert "it responds with status 302" in refused(server.url())
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer_is_given_up(server: Server) -> None:
    server.answers = [given(access_token="late")]
    server.silent.clear()
    said = refused(server.url(), **{"sasl.login.read.timeout.ms": "100", "sasl.login.retry.backoff.max.ms": "0"})
    assert said.endswith("no response within the time limit")


@pytest.mark.parametrize("dripped", ["head", "body"])
def test_a_server_whose_answer_never_ends_is_given_up(server: Server, dripped: str) -> None:
    """Each read is in time."""
    server.drips = dripped
    server.answers = [given(access_token="late")]
    said = refused(
        server.url(),
        **{"sasl.login.read.timeout.ms": "200", "sasl.login.connect.timeout.ms": "600000", "sasl.login.retry.backoff.max.ms": "0"},
    )
    assert said.endswith("no response within the time limit")


def test_a_handshake_that_never_ends_is_given_up() -> None:
    stop = threading.Event()

    def drip() -> None:
        peer, _ = listening.accept()
        with peer, contextlib.suppress(OSError):
            # A record of TLS that takes a quarter of an hour to arrive.
            peer.sendall(b"\x16\x03\x03\x40\x00")
            while not stop.wait(0.05):
                peer.sendall(b"\x02")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/token"
        said = refused(url, **{"sasl.login.connect.timeout.ms": "200", "sasl.login.retry.backoff.max.ms": "0"})
        stop.set()
        thread.join()
    assert said.endswith("no response within the time limit")


def test_an_answer_that_is_cut_off_is_asked_for_again(server: Server) -> None:
    server.answers = [given(access_token="whole")]
    server.cut_off = 1
    assert token(server.url(), **{"sasl.login.retry.backoff.ms": "1"}).value == "whole"
    assert len(server.asked) == 2


def test_the_loop_goes_on_while_a_server_thinks(server: Server) -> None:
    server.answers = [given(access_token="late")]
    server.silent.clear()

    async def ask() -> OAuthToken:
        asking = asyncio.ensure_future(provider(server.url())())
        assert await asyncio.to_thread(server.arrived.wait, 20)
        server.silent.set()
        found = await asking
        assert isinstance(found, OAuthToken)
        return found

    assert asyncio.run(ask()).value == "late"
    assert len(server.asked) == 1, "it was not given up meanwhile"


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/token"
        assert refused(url, **{"sasl.login.retry.backoff.max.ms": "0"}).endswith("Connection refused")


def test_a_proxy_of_the_environment_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [given(access_token="opaque")]
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "")
    assert token("http://issuer.invalid/token").value == "opaque"
    assert server.asked[0][1] == "http://issuer.invalid/token"


def test_what_speaks_no_http_is_not_quoted() -> None:
    with served(says(b"SSH-2.0-something\r\n")) as address:
        said = refused(f"http://{address}/token", **{"sasl.login.retry.backoff.max.ms": "0"})
    assert said.endswith("its response is not HTTP (BadStatusLine)")


def test_over_tls_the_server_has_to_be_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    server = Server(context)
    try:
        server.answers = [given(access_token="opaque")]
        assert "CERTIFICATE_VERIFY_FAILED" in refused(server.url("https", "localhost"), **{"sasl.login.retry.backoff.max.ms": "0"})
        assert not server.asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        assert token(server.url("https", "localhost")).value == "opaque"
    finally:
        server.close()


# A file ------------------------------------------------------------------------------------------------------------------


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    ask = provider(path.as_uri(), {})
    for value in (jwt(sub="a", exp=2_000_000_000), jwt(sub="b", exp=2_000_000_000)):
        path.write_text(f"{value}\n")
        assert asyncio.run(ask()) == OAuthToken(value, 2 * 10**12)  # type: ignore[arg-type]


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b" \n", "it is empty"), (b"x" * ((1 << 20) + 1), "more than")])
def test_a_file_without_a_token(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    assert said in refused(path.as_uri(), {})


def test_what_a_connection_is_told_of_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    config = ClientConfig(PRODUCER_CONFIG, {**BASE, "sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    credentials = credentials_of(config)
    assert credentials is not None

    async def story() -> None:
        source = TokenSource(credentials, config, ClientClock(asyncio.get_running_loop()), random.Random(1))
        with pytest.raises(SaslError, match="No such file"):
            await source.token()
        path.write_text(jwt(exp=1_000_000_000))
        with pytest.raises(SaslError, match=r"sasl\.oauthbearer\.token\.endpoint\.url returned a token that has already expired"):
            await source.token()
        fresh = jwt(exp=int(time.time()) + 3600)
        path.write_text(fresh)
        assert (await source.token()).value == fresh
        path.unlink()
        assert (await source.token()).value == fresh, "until it is old"

    asyncio.run(story())


# Settings ----------------------------------------------------------------------------------------------------------------

URL = "sasl.oauthbearer.token.endpoint.url"
ID = "sasl.oauthbearer.client.credentials.client.id"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({URL: "ftp://a/b", **CREDENTIALS}, "file:, http: or https:"),
        ({URL: "https:///b", **CREDENTIALS}, "file:, http: or https:"),
        ({URL: "https://u:the-secret@a/b", **CREDENTIALS}, "file:, http: or https:"),
        ({URL: "file://elsewhere/b"}, "must name a file of this machine"),
        ({URL: "file://"}, "must name a file of this machine"),
        ({URL: "file:///b", **CREDENTIALS}, f"{ID} has no effect when {URL} is a file"),
        ({URL: "file:///b", "sasl.login.read.timeout.ms": "5"}, "sasl.login.read.timeout.ms has no effect when"),
        ({URL: "https://a/b"}, f"{URL} needs {ID}"),
        ({URL: "https://a/b", ID: "client"}, f"{URL} needs sasl.oauthbearer.client.credentials.client.secret"),
        (CREDENTIALS, f"{ID} has no effect without {URL}"),
        ({"sasl.oauthbearer.scope": "a"}, f"sasl.oauthbearer.scope has no effect without {URL}"),
        ({URL: "https://a/b", "sasl.jaas.config": 'OAuthBearerLoginModule required clientID="a";'}, "unknown option: clientID"),
        ({URL: "https://a/b", **CREDENTIALS, "sasl.jaas.config": 'OAuthBearerLoginModule required clientId="a";'}, "excludes clientId in"),
        ({URL: "https://a/b", **CREDENTIALS, "sasl.oauthbearer.token.provider": lambda: "a"}, f"token.provider excludes {URL}"),
        (
            {URL: "https://a/b", **CREDENTIALS, "sasl.jaas.config": 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";'},
            f"{URL} excludes a token in sasl.jaas.config",
        ),
        ({URL: "https://a/b", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "the-secret"}, "it is for OAUTHBEARER"),
        ({URL: "https://a/b", "sasl.mechanism": "GSSAPI"}, "it is for OAUTHBEARER"),
        ({"sasl.login.read.timeout.ms": "5", "sasl.mechanism": "GSSAPI"}, "it is for OAUTHBEARER"),
        ({"sasl.login.retry.backoff.ms": "5", "security.protocol": "SSL"}, "has no effect with security.protocol=SSL"),
        ({URL: "https://a/b", "security.protocol": "SSL"}, f"{URL} has no effect with security.protocol=SSL"),
        ({}, f"or {URL}"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Setting], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        credentials_of(ClientConfig(PRODUCER_CONFIG, {**BASE, **settings}))
    assert said in str(raised.value)
    assert "the-secret" not in str(raised.value)
