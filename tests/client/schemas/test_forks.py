"""Registries, serializers and decoders that were made before a fork work in the child, whatever the parent's threads were doing."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.client.schemas import AsyncSchemaRegistry, JsonSerializer, RegistryDecoder, Schema, SchemaRegistry
from odradek.client.schemas.cache import Cache
from odradek.testing import SchemaRegistryServer
from odradek.testing.kit.schema_registry import RegistryRequest
from tests.client.certificates import Certificates

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
_HANGS_S = 30


class Child:
    """A forked child that calls `action`; one that hangs is ended."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._reading, writing = os.pipe()
        self._id = os.fork()
        if self._id:
            os.close(writing)
            return
        signal.alarm(_HANGS_S)
        try:
            found = action()
        except BaseException as error:
            found = repr(error)
        os.write(writing, pickle.dumps(found))
        os._exit(0)

    def result(self) -> Any:
        """What `action` has returned, or the text of its error."""
        with open(self._reading, "rb") as pipe:
            said = pipe.read()
        os.waitpid(self._id, 0)
        return pickle.loads(said) if said else "the child hangs"


class Held:
    """Has the server keep back the answer to a path until `release`."""

    def __init__(self, server: SchemaRegistryServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._released = threading.Event()
        self._come = threading.Event()
        self._path = path
        self._answer = server.answer
        monkeypatch.setattr(server, "answer", self._held)

    def _held(self, request: RegistryRequest, body: bytes) -> Any:
        if request.path == self._path:
            self._come.set()
            self._released.wait(_HANGS_S)
        return self._answer(request, body)

    def wait_for_request(self) -> None:
        assert self._come.wait(_HANGS_S)

    def release(self) -> None:
        self._released.set()


def filled(server: SchemaRegistryServer) -> None:
    for subject, text in (("one", '"string"'), ("two", '"long"'), ("three", '"int"')):
        server.register(subject, text)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_the_child_gets_its_own_answers_and_the_parent_too(tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"max_retries": 0}
    context = None
    if tls:
        certificates = Certificates(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.broker)
        settings["ssl_ca_location"] = str(certificates.authority)
    with SchemaRegistryServer(tls=context) as server, SchemaRegistry(server.url, **settings) as registry:
        filled(server)
        registry.schema(1)  # Its connection is idle now.
        held = Held(server, "/schemas/ids/2", monkeypatch)
        child = Child(lambda: registry.schema(2))
        held.wait_for_request()
        assert registry.schema(3) == Schema('"int"'), "while the child waits for its answer"
        held.release()
        assert child.result() == Schema('"long"')


def test_a_fork_while_another_thread_asks(server: SchemaRegistryServer, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(server)
    decoder, serializer = RegistryDecoder(registry), JsonSerializer(registry, {})
    both = AsyncSchemaRegistry(server.url)
    held = Held(server, "/schemas/ids/2", monkeypatch)
    asking = [threading.Thread(target=each.schema, args=(2,)) for each in (registry, both.blocking)]
    for thread in asking:
        thread.start()
    held.wait_for_request()

    def use() -> list[Any]:
        written = serializer.serialize("t", "value", {"a": 1}, [])
        return [registry.schema(1), asyncio.run(both.schema(3)), decoder.decode(written), registry.subjects()[:1]]

    child = Child(use)
    assert child.result() == [Schema('"string"'), Schema('"int"'), {"a": 1}, ["one"]]
    held.release()
    for thread in asking:
        thread.join()
    assert registry.schema(2) == both.blocking.schema(2) == Schema('"long"')
    both.blocking.close()


def test_a_fork_while_another_thread_is_in_a_cache() -> None:
    class Slow:
        """A key that is compared for as long as the test wants."""

        def __hash__(self) -> int:
            compared.set()
            ended.wait(_HANGS_S)
            return 1

    compared, ended = threading.Event(), threading.Event()
    cache: Cache[Any, str] = Cache(10)
    cache.put("a", "b")
    thread = threading.Thread(target=cache.get, args=(Slow(),))
    thread.start()
    assert compared.wait(_HANGS_S)
    child = Child(lambda: cache.get("a"))
    assert child.result() == "b"
    ended.set()
    thread.join()
