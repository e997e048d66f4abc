"""The keys of a provider: read at the start, read anew, and kept when they cannot be."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from joserfc.jwk import RSAKey

from odradek.base.deferred import Deferred
from odradek.base.errors import ConfigError
from odradek.config.sasl import BearerSettings
from odradek.security.sasl.oauthbearer import TokenRefused
from odradek.server.clock import LoopClock
from odradek.server.security.bearer_keys import BearerKeys
from odradek.server.start.process import run_loop
from odradek.server.upkeep.jobs import Jobs
from tests.clock import ManualClock
from tests.security.bearer_support import RSA, key_set, part
from tests.waiting import until

OTHER = RSAKey.generate_key(2048, {"kid": "other"})
TOKEN = f"{part({'alg': 'RS256', 'kid': 'other'})}.{part({})}.AAAA"


def document(*keys: RSAKey) -> str:
    return json.dumps({"keys": [each.as_dict(private=False) for each in keys]})


def refusal(keys: BearerKeys) -> str:
    with pytest.raises(TokenRefused) as refused:
        keys.validate(TOKEN)
    return str(refused.value)


def with_keys(url: str, story: Callable[[BearerKeys], object]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        keys = BearerKeys(BearerSettings(url=url), LoopClock(loop), Jobs(loop))
        try:
            await keys.load()
            result = story(keys)
            if asyncio.iscoroutine(result):
                await result
        finally:
            keys.close()

    run_loop(asyncio.wait_for(main(), 30))


def test_a_key_that_is_missing_has_the_file_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(document(RSA))

    async def story(keys: BearerKeys) -> None:
        path.write_text(document(RSA, OTHER))
        assert refusal(keys) == "the key set has no key with this id"
        await until(lambda: refusal(keys) == "the signature is wrong")
        path.write_text("nonsense")
        keys.refresh()
        await until(lambda: not keys.reading)
        assert refusal(keys) == "the signature is wrong", "what was known stays"

    with_keys(f"file://{path}", story)


@pytest.mark.parametrize("content", [None, "nonsense", '{"keys": []}'])
def test_keys_that_cannot_be_read_end_the_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url=file:"):
        with_keys(f"file://{path}", lambda keys: None)


def test_what_speaks_no_http_ends_the_start_with_a_line_that_names_the_key() -> None:
    def serve() -> None:
        with server.accept()[0] as peer:
            peer.recv(4096)
            peer.sendall(b"SSH-2.0-something\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        with pytest.raises(
            ConfigError, match=rf"^sasl\.oauthbearer\.jwks\.endpoint\.url={url}: the keys cannot be read: its response is not HTTP"
        ):
            with_keys(url, lambda keys: None)
        thread.join()


def test_a_slow_provider_holds_no_thread_of_others() -> None:
    """TLS, SCRAM and fsync share the loop's threads: here there is one, and it is free while several providers do not answer."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        jobs = Jobs(loop)
        providers = [BearerKeys(BearerSettings(url=url, connect_s=0.2, read_s=0.2), LoopClock(loop), jobs) for _ in range(3)]
        loading = [each.load() for each in providers]
        assert await jobs.run(lambda: sum(not each.done for each in loading)) == 3
        for each in await asyncio.gather(*loading, return_exceptions=True):
            assert isinstance(each, ConfigError)
            assert (
                str(each)
                == f"sasl.oauthbearer.jwks.endpoint.url={url}: the keys cannot be read: no complete response within the time limit"
            )
        for provider in providers:
            provider.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        run_loop(asyncio.wait_for(main(), 30))


class Provider(BaseHTTPRequestHandler):
    """Serves keys, and a redirection."""

    def do_GET(self) -> None:
        if self.path == "/keys":
            body = document(RSA, OTHER).encode()
            self.send_response(200)
        else:
            body = b""
            self.send_response(302)
            self.send_header("Location", "/keys")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_an_address_is_asked_and_no_other_that_it_names() -> None:
    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        at = f"http://127.0.0.1:{server.server_port}"
        with_keys(f"{at}/keys", lambda keys: refusal(keys) == "the signature is wrong")
        with pytest.raises(ConfigError, match="it responds with status 302"):
            with_keys(f"{at}/elsewhere", lambda keys: None)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_sets_of_these_tests_are_sets() -> None:
    assert len(key_set(RSA, OTHER)) == 2


# -- on virtual time -------------------------------------------------------------------------------------------------------------------


class Refreshed:
    """Keys in a file, read when the test lets the job run; `times` are the seconds at which the file was read."""

    def __init__(self, path: Path, **settings: float) -> None:
        self.path = path
        self.clock = ManualClock()
        self.times: list[float] = []
        self.held: list[Callable[[], None]] | None = None
        """Jobs that wait, where the test holds them."""
        path.write_text(document(RSA))
        self.keys = BearerKeys(BearerSettings(url=f"file://{path}")._replace(**settings), self.clock, cast(Jobs, self))
        assert self.keys.load().error is None

    def apart(self, job: Callable[[], Any]) -> Deferred[Any]:
        """See `Jobs`."""
        done: Deferred[Any] = Deferred()

        def work() -> None:
            self.times.append(round(self.clock.now_s, 3))
            try:
                result = job()
            except Exception as error:
                done.fail(error)
            else:
                done.complete(result)

        if self.held is None:
            work()
        else:
            self.held.append(work)
        return done

    def read_within(self, seconds: float) -> list[float]:
        """Seconds from now at which the keys are read."""
        self.times.clear()
        begin = self.clock.now_s
        self.clock.advance_s(seconds)
        return [round(each - begin, 3) for each in self.times]

    def ask(self, key_id: str) -> bool:
        """Whether a token with this key has the keys read at once."""
        before = len(self.times)
        with pytest.raises(TokenRefused):
            self.keys.validate(f"{part({'alg': 'RS256', 'kid': key_id})}.{part({})}.AAAA")
        return len(self.times) > before


def test_keys_that_cannot_be_read_for_a_while_are_tried_again_less_and_less_and_each_time_anew(tmp_path: Path) -> None:
    world = Refreshed(tmp_path / "keys.json", retry_s=0.1, retry_max_s=1.0, refresh_s=4.0)
    for _ in range(2):
        assert world.read_within(9) == [4.0, 8.0]
        world.path.write_text("nonsense")
        assert world.read_within(6) == [3.0, 3.1, 3.3, 3.7, 4.5, 5.5]
        assert not world.ask(str(RSA.kid)), "the known keys are kept"
        world.path.write_text(document(RSA))
        assert world.read_within(5) == [0.5, 4.5]
        world.clock.advance_s(3.5)
    world.keys.close()
    assert world.read_within(100) == []


def test_keys_that_are_closed_during_their_first_read_are_not_read_again(tmp_path: Path) -> None:
    world = Refreshed(tmp_path / "keys.json")
    world.keys = BearerKeys(BearerSettings(url=f"file://{world.path}"), world.clock, cast(Jobs, world))
    world.held = []
    loading = world.keys.load()
    world.keys.close()
    (job,), world.held = world.held, None
    job()
    assert loading.error is None
    # The timer of the fixture's own keys is the only one.
    assert len(world.read_within(5)) == 1
    assert not world.ask("gone")


def test_a_key_that_is_missing_is_asked_for_once_a_minute_and_again_after_it(tmp_path: Path) -> None:
    world = Refreshed(tmp_path / "keys.json", refresh_s=1e9)
    for _ in range(3):
        assert world.ask("gone")
        assert not world.ask("gone")
        world.clock.stall_s(59)
        assert not world.ask("gone")
        world.clock.stall_s(1)


def test_names_of_keys_that_are_made_up_take_bounded_memory_and_those_asked_for_last_are_known(tmp_path: Path) -> None:
    world = Refreshed(tmp_path / "keys.json", refresh_s=1e9)
    assert all(world.ask(f"key-{number}") for number in range(40))
    assert not any(world.ask(f"key-{number}") for number in range(39, 23, -1))
    assert world.ask("key-0"), "forgotten"
    assert not world.ask("x" * 1001)


def test_one_reading_at_a_time_and_another_after_each_end(tmp_path: Path) -> None:
    world = Refreshed(tmp_path / "keys.json", refresh_s=1e9)
    for number, content in enumerate(("nonsense", document(RSA), "nonsense")):
        world.held = []
        world.ask(f"a-{number}")
        world.ask(f"b-{number}")
        assert len(world.held) == 1
        world.path.write_text(content)
        (job,), world.held = world.held, None
        job()
        assert world.ask(f"c-{number}")
