"""The registry over HTTP: what it asks, remembers, tries again and refuses; and the folder that stands in for it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ConfigError, OdradekError
from odradek.client.schemas import (
    AsyncSchemaRegistry,
    AvroSerializer,
    JsonSerializer,
    RegistryDecoder,
    RegistryError,
    Schema,
    SchemaError,
    SchemaFolder,
    SchemaReference,
    SchemaRegistry,
    UnknownSchema,
)
from odradek.client.schemas.cache import Cache
from odradek.client.schemas.config import registry_config
from odradek.client.schemas.protobuf import schema_of
from odradek.client.schemas.registry_keys import MAX_RETRIES
from odradek.client.schemas.rest import Rest
from odradek.client.settings.config import ClientConfig
from odradek.testing import SchemaRegistryServer
from tests.client.certificates import Certificates
from tests.client.schemas.files import shop
from tests.client.schemas.peers import SchemaRegistryClient
from tests.network.web_servers import drips, served

STRING = Schema('"string"')
LONG = Schema('"long"')


def asked(server: SchemaRegistryServer) -> list[str]:
    paths = [f"{request.method} {request.path}" for request in server.requests]
    server.requests.clear()
    return paths


def test_what_was_asked_once_is_remembered(server: SchemaRegistryServer, registry: SchemaRegistry) -> None:
    first = registry.register("a/b", STRING)
    second = registry.register("a/b", LONG)
    assert (first.schema_id, first.version, second.schema_id, second.version) == (1, 1, 2, 2)
    assert asked(server) == ["POST /subjects/a%2Fb/versions"] * 2
    for _ in range(2):
        assert registry.schema(1) == STRING
        assert registry.latest("a/b").schema == LONG
        assert registry.version("a/b", 1).schema == STRING
        assert registry.lookup("a/b", STRING).version == 1
        assert first.guid is not None
        assert registry.schema_by_guid(first.guid) == STRING
        registry.register("a/b", STRING)
    assert len(asked(server)) == 5
    assert registry.subjects() == ["a/b"]
    assert registry.versions("a/b") == [1, 2]
    copy = pickle.loads(pickle.dumps(registry))
    assert copy.schema(2) == LONG
    copy.close()


def test_what_is_missing_is_asked_for_once_in_a_while(server: SchemaRegistryServer) -> None:
    for seconds, asked in ((10, 1), (0, 3)):
        with SchemaRegistry(server.url, missing_id_cache_ttl_sec=seconds) as registry:
            before = len(server.requests)
            for _ in range(3):
                with pytest.raises(UnknownSchema, match="does not have a schema with id 4711"):
                    registry.schema(4711)
            assert len(server.requests) - before == asked


def test_the_latest_version_may_be_asked_for_again(server: SchemaRegistryServer) -> None:
    with SchemaRegistry(server.url, latest_cache_ttl_sec=0) as registry:
        registry.register("s", STRING)
        registry.latest("s")
        server.register("s", '"long"')
        assert registry.latest("s").schema == LONG


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("location", ["prefix", "header"])
def test_a_serializer_asks_for_the_latest_version_again(server: SchemaRegistryServer, location: str) -> None:
    clock = Clock()
    with SchemaRegistry(server.url, latest_cache_ttl_sec=60) as registry:
        registry.clock = clock
        serializer = AvroSerializer(registry, None, {"use.latest.version": True, "schema.id.location": location})

        def written(content: Any) -> bytes:
            headers: list[tuple[str, bytes | None]] = []
            data = serializer.serialize("t", "value", content, headers)
            assert RegistryDecoder(registry).decode(data, headers) == content
            return headers[0][1] or b"" if headers else data[:5]

        server.register("t-value", '"string"')
        old = written("x")
        server.register("t-value", '"long"')
        clock.now += 59.8
        assert serializer.is_ready("t", "value", "x")
        assert written("x") == old
        clock.now += 0.15
        assert not serializer.is_ready("t", "value", "x"), "a loop must not find it over between two calls"
        clock.now += 0.05
        assert written(7) != old
        assert serializer.is_ready("t", "value", 7)
        asked_for = [path for path in asked(server) if path.endswith("/latest")]
        assert len(asked_for) == 2
        clock.now += 60
        server.fail(404)
        with pytest.raises(UnknownSchema):
            written(7)
        assert written(7) != old, "a failure is not remembered"


def test_the_latest_version_is_shared_by_serializers_and_renewed_by_a_registration(server: SchemaRegistryServer) -> None:
    with SchemaRegistry(server.url) as registry:
        serializers = [JsonSerializer(registry, None, use_latest_version=True) for _ in range(2)]
        registry.register("t-value", Schema("{}", "JSON"))
        ids = [[each.serialize("t", "value", 1, [])[4] for each in serializers]]
        registry.register("t-value", Schema('{"title": "two"}', "JSON"))
        ids.append([each.serialize("t", "value", 1, [])[4] for each in serializers])
        assert ids == [[1, 1], [2, 2]]
        assert len([path for path in asked(server) if path.endswith("/latest")]) == 2


def test_a_serializer_sees_a_version_that_comes_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "1.t-value-v1.avsc").write_text('"string"')
    os.utime(tmp_path, (1, 1))
    folder = SchemaFolder(tmp_path)
    serializer = AvroSerializer(folder, use_latest_version=True)
    assert serializer.serialize("t", "value", "x", [])[4] == 1
    assert serializer.is_ready("t", "value", "x")
    (tmp_path / "2.t-value-v2.avsc").write_text('"long"')
    assert not serializer.is_ready("t", "value", "x")
    assert serializer.serialize("t", "value", 7, [])[4] == 2
    now = time.time() + 3600
    os.utime(tmp_path, (now, now))
    assert serializer.serialize("t", "value", 7, [])[4] == 2
    (tmp_path / "3.t-value-v3.avsc").write_text('"int"')
    os.utime(tmp_path, (now, now))
    assert serializer.serialize("t", "value", 7, [])[4] == 3, "also within one step of the file system's clock"


def test_what_is_not_there_is_told(registry: SchemaRegistry) -> None:
    for ask in (
        lambda: registry.schema(7),
        lambda: registry.schema_by_guid(UUID(int=7)),
        lambda: registry.latest("gone"),
        lambda: registry.version("gone", 1),
        lambda: registry.lookup("gone", STRING),
        lambda: registry.versions("gone"),
    ):
        with pytest.raises(UnknownSchema, match="does not have"):
            ask()


def test_confluents_client_sees_the_same(server: SchemaRegistryServer, registry: SchemaRegistry) -> None:
    theirs = SchemaRegistryClient({"url": server.url})
    mine = registry.register("s", STRING)
    assert theirs.get_latest_version("s").schema_id == mine.schema_id
    assert theirs.get_subjects() == ["s"]
    assert theirs.get_version("s", 1).guid == str(mine.guid)
    assert theirs.delete_subject("s") == [1]
    assert registry.subjects() == []
    assert registry.schema(1) == STRING, "ids stay"
    theirs.close()


def test_an_older_registry_has_no_guids() -> None:
    with SchemaRegistryServer(guids=False) as server, SchemaRegistry(server.url) as registry:
        found = registry.register("s", STRING)
        assert (found.schema_id, found.version, found.guid) == (1, 1, None)
        with pytest.raises(SchemaError, match=r"has no GUID: schema\.id\.location=header needs"):
            AvroSerializer(registry, STRING, schema_id_location="header").serialize("s", "value", "x", [])
        with pytest.raises(UnknownSchema):
            registry.schema_by_guid(UUID(int=1))


class LongestWaits(random.Random):
    """Random numbers that are 1."""

    def random(self) -> float:
        return 1.0


def rest(server: SchemaRegistryServer, waits: list[float], **settings: Any) -> Rest:
    return Rest(registry_config({"url": server.url, **settings}, {}), sleep=waits.append, rng=LongestWaits())


def test_an_answer_that_never_ends_is_given_up() -> None:
    """Each read is in time."""
    with served(drips(b"HTTP/1.1 200 OK\r\n\r\n", b" ", 1000)) as address:
        rest = Rest(registry_config({"url": f"http://{address}", "http.read.timeout.ms": "200", "max.retries": "0"}, {}))
        with pytest.raises(RegistryError, match="did not respond in time"):
            rest.ask("GET", "/subjects")
        rest.close()


def test_an_answer_that_is_too_long_is_given_up() -> None:
    with served(drips(b"HTTP/1.1 200 OK\r\n\r\n", b" " * (1 << 20))) as address:
        rest = Rest(registry_config({"url": f"http://{address}", "max.retries": "0"}, {}))
        with pytest.raises(RegistryError, match="failed: its response has more than 16777216 bytes"):
            rest.ask("GET", "/subjects")
        rest.close()


def test_passing_failures_are_tried_again_with_growing_waits(server: SchemaRegistryServer) -> None:
    waits: list[float] = []
    client = rest(server, waits, **{"retries.wait.ms": 100, "retries.max.wait.ms": 350})
    server.fail(503)
    server.fail(0, 2)
    server.fail(429, headers={"Retry-After": "9999"})
    assert client.ask("GET", "/subjects") == []
    assert waits == [0.1, 0.2, 0.35]
    server.fail(500, 4)
    with pytest.raises(RegistryError, match="refuses the request: failure 500") as caught:
        client.ask("GET", "/subjects")
    assert (caught.value.status, caught.value.code) == (500, 50001)
    waits.clear()
    server.fail(422)
    with pytest.raises(RegistryError, match="failure 422"):
        client.ask("GET", "/subjects")
    assert waits == [], "that does not pass"
    client.close()


def test_the_next_url_is_asked(server: SchemaRegistryServer) -> None:
    with SchemaRegistry(url=f"http://localhost:1,{server.url}/", max_retries=0) as registry:
        assert registry.subjects() == []
        server.fail(409)
        with pytest.raises(RegistryError, match="failure 409"):
            registry.subjects()
    with (
        SchemaRegistry("http://localhost:1", max_retries=0) as registry,
        pytest.raises(RegistryError, match="failed: Connection refused"),
    ):
        registry.subjects()


def test_a_connection_that_was_closed_while_idle_is_no_failure(server: SchemaRegistryServer) -> None:
    with SchemaRegistry(server.url, max_retries=0) as registry:
        registry.subjects()
        port = int(server.url.rpartition(":")[2])
        server.close()
        with SchemaRegistryServer(port=port):
            assert registry.subjects() == []


def test_name_and_password_or_a_token_let_one_in() -> None:
    with SchemaRegistryServer(user_info="me:se:cret") as server:
        with SchemaRegistry(server.url, basic_auth_user_info="me:se:cret") as registry:
            assert registry.subjects() == []
        with SchemaRegistry(server.url.replace("//", "//me:se%3Acret@")) as registry:
            assert registry.subjects() == []
            assert "cret" not in str(registry.urls)
        with SchemaRegistry(server.url) as registry, pytest.raises(RegistryError, match=r"Unauthorized; basic\.auth\.user\.info"):
            registry.subjects()
    with SchemaRegistryServer(token="abc") as server:
        settings = {"schema.registry.url": server.url, "schema.registry.bearer.auth.token": "abc", "bearer.auth.logical.cluster": "lsrc-1"}
        with SchemaRegistry(settings) as registry:
            assert registry.subjects() == []
        assert server.requests[-1].headers["target-sr-cluster"] == "lsrc-1"


def test_tls_with_our_own_keys(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    with SchemaRegistryServer(tls=context) as server:
        with SchemaRegistry(server.url, ssl_ca_location=str(certificates.authority)) as registry:
            assert registry.subjects() == []
        with (
            SchemaRegistry(server.url, max_retries=0) as registry,
            pytest.raises(RegistryError, match=r"not accepted.*ssl\.truststore\.location"),
        ):
            registry.subjects()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "schema.registry.url does not name any registry"),
        ({"url": "ftp://x"}, "must be http://HOST"),
        ({"url": "http://me:secret@"}, "Invalid value http:// for"),
        ({"url": "http://a,https://b"}, "mixes http:// and https://"),
        ({"url": "http://a", "ssl.ca.location": "x"}, "ssl.ca.location has no effect"),
        ({"url": "http://a:b@c", "basic.auth.user.info": "a:b"}, "give one of them"),
        ({"url": "http://c", "basic.auth.user.info": "ab"}, "must be name:password"),
        ({"url": "http://c", "basic.auth.user.info": "a:b", "bearer.auth.token": "t"}, "give one of them"),
        ({"url": "http://c", "basic.auth.credentials.source": "USER_INFO"}, "needs basic.auth.user.info"),
        ({"url": "http://c", "bearer.auth.logical.cluster": "x"}, "has no effect without bearer.auth.token"),
        ({"url": "http://c", "bearer.auth.token": "a\nb"}, "characters that an HTTP header must not contain"),
        ({"url": "http://c", "schema.registry.url": "http://d"}, "given twice"),
        ({"url": "http://c", "security.protocol": "SSL"}, "the scheme of schema.registry.url decides"),
        ({"url": "http://c", "max.retries": "x"}, "max.retries"),
        ({"url": "http://c", "basic.auth.user": "x"}, "Unknown configuration key basic.auth.user"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")) as caught:
        SchemaRegistry(settings)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"use.latest.version": True, "auto.register.schemas": True}, "excludes auto.register.schemas=true"),
        ({"use.latest.version": True, "use.schema.id": 3}, "excludes use.latest.version"),
        ({"subject.name.strategy": "x"}, "one of topic, record, topic-record"),
        ({"schema.id.location": "x"}, "schema.id.location"),
        ({"normalise": True}, "Unknown configuration key normalise"),
    ],
)
def test_settings_of_serializers_that_do_not_fit(registry: SchemaRegistry, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        AvroSerializer(registry, STRING, settings)


def test_subjects_by_strategy_and_schemas_by_choice(server: SchemaRegistryServer, registry: SchemaRegistry) -> None:
    user = {"type": "record", "name": "User", "namespace": "n", "fields": []}
    for strategy in (
        "record",
        "topic-record",
        "io.confluent.kafka.serializers.subject.TopicNameStrategy",
        lambda *given: "/".join(map(str, given)),
    ):
        AvroSerializer(registry, user, subject_name_strategy=strategy).serialize("t", "key", {}, [])
    assert registry.subjects() == ["n.User", "t-key", "t-n.User", "t/key/n.User"]
    with pytest.raises(UnknownSchema, match="this schema under subject t-value"):
        AvroSerializer(registry, user, auto_register_schemas=False).serialize("t", "value", {}, [])
    server.register("t-value", '"string"')
    assert AvroSerializer(registry, use_latest_version=True).serialize("t", "value", "x", [])[:5] == b"\x00\x00\x00\x00\x02"
    assert AvroSerializer(registry, use_schema_id=1).serialize("t", "value", {}, []) == b"\x00\x00\x00\x00\x01"
    with pytest.raises(SchemaError, match="give a schema"):
        AvroSerializer(registry)
    with pytest.raises(SchemaError, match="of type AVRO instead of JSON"):
        JsonSerializer(registry, use_schema_id=1).serialize("t", "value", {}, [])
    with pytest.raises(ConfigError, match="needs the name of a record"):
        AvroSerializer(registry, STRING, subject_name_strategy="record").serialize("t", "value", "x", [])


def test_what_answers_otherwise_is_no_registry(
    server: SchemaRegistryServer, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer, said in (([], "is not a JSON object"), ({}, "has no schema"), ({"schema": "x", "references": [1]}, "a reference needs")):
        monkeypatch.setattr(server, "answer", lambda *_, answer=answer: (200, {}, answer))
        with pytest.raises(OdradekError, match=said):
            registry.schema(5)


async def _async_face(server: SchemaRegistryServer) -> None:
    threads: set[int] = set()
    registry = AsyncSchemaRegistry(server.url)
    ask = registry.blocking.register
    registry.blocking.register = lambda *args, **more: (threads.add(threading.get_ident()), ask(*args, **more))[1]  # type: ignore[method-assign]
    found = await registry.register("s", STRING)
    assert found.guid is not None
    assert [await registry.schema(1), (await registry.latest("s")).schema, await registry.schema_by_guid(found.guid)] == [STRING] * 3
    assert (await registry.lookup("s", STRING)).schema_id == (await registry.version("s", 1)).schema_id == 1
    assert (await registry.subjects(), await registry.versions("s")) == (["s"], [1])
    await registry.close()
    assert threading.get_ident() not in threads


def test_the_async_face_never_blocks_the_loop(server: SchemaRegistryServer) -> None:
    asyncio.run(_async_face(server))


def test_a_cache_forgets_what_was_used_least() -> None:
    cache: Cache[int, str] = Cache(2)
    cache.put(1, "a")
    cache.put(2, "b")
    assert cache.get(1) == "a"
    cache.put(3, "c")
    assert [cache.get(key) for key in (1, 2, 3)] == ["a", None, "c"]
    assert len(cache) == 2


def test_threads_that_want_one_schema_ask_once(server: SchemaRegistryServer, registry: SchemaRegistry) -> None:
    server.register("s", '"string"')
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        registry.schema(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked(server) == ["GET /schemas/ids/1"]


def test_a_request_that_takes_long_does_not_delay_those_for_other_schemas(
    server: SchemaRegistryServer, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.register("s", '"string"')
    under_way, answered = threading.Event(), threading.Event()
    slow = threading.Thread(target=lambda: registry.latest("s"))

    def clock() -> float:
        """Keep the first request for the latest version waiting."""
        if threading.current_thread() is slow:
            under_way.set()
            answered.wait()
        return 0.0

    monkeypatch.setattr(registry, "clock", clock)
    slow.start()
    under_way.wait()
    other = threading.Thread(target=lambda: registry.schema(1))
    other.start()
    try:
        other.join(30)
        assert not other.is_alive()
        assert asked(server) == ["GET /schemas/ids/1"]
    finally:
        answered.set()
        slow.join()
        other.join()


def test_a_folder_instead_of_a_registry(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path)
    assert folder.subjects() == []
    (tmp_path / "1.avsc").write_text('"string"')
    (tmp_path / "7.orders-value-v2.avsc").write_text('{"type": "array", "items": "Part"}')
    (tmp_path / "7.orders-value-v2.references.json").write_text('[{"name": "Part", "subject": "a/b", "version": 10}]')
    (tmp_path / "a%2Fb-v10.avsc").write_text('{"type": "enum", "name": "Part", "symbols": ["X"]}')
    (tmp_path / "a%2Fb-v9.avsc").write_text('"long"')
    (tmp_path / "9.desc").write_bytes(shop()["Refund"].DESCRIPTOR.file.serialized_pb)
    (tmp_path / "notes.txt").write_text("no schema")
    assert folder.schema(1) == STRING
    assert folder.subjects() == ["a/b", "orders-value"]
    assert folder.versions("a/b") == [9, 10]
    assert folder.latest("a/b").version == 10
    assert folder.latest("orders-value").schema.references == (SchemaReference("Part", "a/b", 10),)
    assert folder.schema(9).type == "PROTOBUF"
    travelled = pickle.loads(pickle.dumps(folder))
    data = AvroSerializer(travelled, use_latest_version=True).serialize("orders", "value", ["X"], [])
    assert RegistryDecoder(folder).decode(data) == ["X"]
    same = Schema(' {"items": "Part", "type": "array"}', references=(SchemaReference("Part", "a/b", 10),))
    assert folder.register("orders-value", same).schema_id == 7
    with pytest.raises(RegistryError, match="new schemas cannot be registered in a folder"):
        folder.register("orders-value", LONG)
    with pytest.raises(SchemaError, match="has no id"):
        AvroSerializer(folder, LONG, subject_name_strategy=lambda *_: "a/b").serialize("x", "value", 1, [])
    with pytest.raises(UnknownSchema, match="does not have a schema with id 5"):
        folder.schema(5)
    (tmp_path / "1.x-v1.json").write_text("{}")
    with pytest.raises(SchemaError, match=r"twice: 1\.avsc, 1\.x-v1\.json"):
        folder.schema(1)
    with pytest.raises(ConfigError, match="is not a folder"):
        SchemaFolder(tmp_path / "1.avsc")


def test_a_file_with_all_that_it_imports_needs_no_references(tmp_path: Path) -> None:
    from google.protobuf import descriptor_pb2, timestamp_pb2

    classes = shop()
    files = descriptor_pb2.FileDescriptorSet()
    for file in (timestamp_pb2.DESCRIPTOR, classes["Money"].DESCRIPTOR.file, classes["Order"].DESCRIPTOR.file):
        files.file.add().ParseFromString(file.serialized_pb)
    (tmp_path / "3.binpb").write_bytes(files.SerializeToString())
    order = classes["Order"](id=5, total=classes["Money"](cents=1))
    found = RegistryDecoder(SchemaFolder(tmp_path)).decode(b"\x00\x00\x00\x00\x03\x00" + order.SerializeToString())
    assert found["total"] == {"cents": 1, "currency": ""}
    (tmp_path / "4.desc").write_bytes(classes["Order"].DESCRIPTOR.file.serialized_pb)
    with pytest.raises(SchemaError, match=r"imports shop/money.proto, which is not among its references"):
        RegistryDecoder(SchemaFolder(tmp_path)).decode(b"\x00\x00\x00\x00\x04\x00")
    assert schema_of(classes["Money"].DESCRIPTOR).type == "PROTOBUF"


@pytest.mark.parametrize(
    ("missing", "call"),
    [("fastavro", "AvroSchema(None, Schema('1'))"), ("google.protobuf", "ProtobufSchema(None, Schema('', 'PROTOBUF'))")],
)
def test_without_the_libraries_it_says_what_to_install(missing: str, call: str) -> None:
    code = f"""
import sys
sys.modules["fastavro"] = None
sys.modules["google.protobuf"] = None
import odradek.client.schemas as schemas
for name in schemas.__all__:
    getattr(schemas, name)
from odradek.client.schemas.avro import AvroSchema
from odradek.client.schemas.protobuf import ProtobufSchema
from odradek.client.schemas import Schema
try:
    {call}
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert f"{missing.rpartition('.')[2]}: pip install 'odradek[schemas]'" in done.stdout


def test_the_clients_start_without_it() -> None:
    code = (
        "import sys; from odradek.client import Consumer, Producer\n"
        "print([name for name in sys.modules if 'schemas' in name or name == 'urllib3'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_keys_are_those_of_the_configuration() -> None:
    config = registry_config({"url": json.dumps("http://x").strip('"')}, {})
    assert isinstance(config, ClientConfig)
    assert config[MAX_RETRIES] == 3
