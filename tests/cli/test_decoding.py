"""`odradek consume` prints keys and values that name their schema as JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client import Admin, NewTopic, Producer
from odradek.client.schemas import AvroSerializer, JsonSerializer, SchemaRegistry
from odradek.testing import SchemaRegistryServer
from odradek.testing.kit.embedded import unique_name
from tests.cli.conftest import Command

TEA = {"type": "record", "name": "Tea", "fields": [{"name": "name", "type": "string"}, {"name": "raw", "type": "bytes"}]}
NOT_FOUND = "does not have a schema with id 99; use --skip-message-on-error to continue"


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer(user_info="me:secret") as server:
        yield server


@pytest.fixture
def teas(bootstrap: str, registry: SchemaRegistryServer) -> str:
    """A topic with a tea under a JSON key, a tombstone, a value of no schema that is there, and another tea."""
    topic = unique_name("teas")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with SchemaRegistry(registry.url, basic_auth_user_info="me:secret") as client:
        key, value = JsonSerializer(client, {"title": "K"}), AvroSerializer(client, TEA)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number, name in enumerate(("Grün", None, "", "Mate")):
                content = b"\x00\x00\x00\x00\x63" if name == "" else None if name is None else value.serialize(
                    topic, "value", {"name": name, "raw": b"\xff"}, []
                )  # fmt: skip
                producer.send(topic, content, key=key.serialize(topic, "key", {"n": number}, []))
    return topic


def asking(registry: SchemaRegistryServer) -> list[str]:
    return ["-r", registry.url, "--schema-registry-property", "basic.auth.user.info=me:secret"]


def test_values_and_keys_by_the_registry(command: Command, bootstrap: str, teas: str, registry: SchemaRegistryServer) -> None:
    read = ["consume", "-b", bootstrap, "-t", teas, "-e", "-q"]
    answer = command(*read, "-c", "2", "-K", "=", "-s", "key=registry", "-s", "value=avro", *asking(registry))
    assert answer == (0, '{"n": 0}={"name": "Grün", "raw": "/w=="}\n{"n": 1}=\n', "")
    answer = command(*read, "-c", "1", "-J", "-s", "registry", *asking(registry))
    envelope = json.loads(answer.out)
    assert (envelope["key"], envelope["payload"], "base64" in envelope) == ({"n": 0}, {"name": "Grün", "raw": "/w=="}, False)
    answer = command(*read, "-c", "1", "-f", "%o %S %s\n", "--value-decoder", "avro", *asking(registry))
    assert answer.out == '0 32 {"name": "Grün", "raw": "/w=="}\n'


def test_what_cannot_be_decoded_ends_it_or_is_skipped(command: Command, bootstrap: str, teas: str, registry: SchemaRegistryServer) -> None:
    read = ["consume", "-b", bootstrap, "-t", teas, "-e", "-q", "--value-decoder", "registry", *asking(registry)]
    answer = command(*read)
    assert answer.status == 1
    assert answer.out.count("\n") == 2, "what comes before it is printed"
    assert f"odradek consume: {teas}-0 at offset 2: the value cannot be decoded: the schema registry at {registry.url}" in answer.err
    assert answer.err.endswith(f"{NOT_FOUND}\n")
    answer = command(*read, "--skip-message-on-error")
    assert (answer.status, answer.out.count("Mate")) == (0, 1)
    assert "skipped" in answer.err
    answer = command(*read[:-2], "--skip-message-on-error", "-c", "1")
    assert "Unauthorized; basic.auth.user.info or bearer.auth.token is missing or wrong" in answer.err


def test_values_without_a_registry(command: Command, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = unique_name("plain")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b'{"a":\n 1}', key=struct.pack(">q", 7))
        producer.send(topic, b"\x00\x00\x00\x00\x07\x06tea", key=struct.pack(">q", -1))
    read = ["consume", "-b", bootstrap, "-t", topic, "-e", "-q", "-K", " "]
    assert command(*read, "-c", "1", "--value-decoder", "json", "--key-decoder", "long").out == '7 {"a": 1}\n'
    (tmp_path / "7.avsc").write_text('"string"')
    monkeypatch.setenv("ODRADEK_SCHEMA_REGISTRY", str(tmp_path))
    assert command(*read, "-o", "1", "--value-decoder", "avro", "--key-decoder", "long").out == '-1 "tea"\n'
    assert command(*read, "-c", "1", "--key-decoder", "long").status == 0, "the environment may name it for others"
    answer = command(*read, "--key-decoder", "short")
    assert answer.err == (
        f"odradek consume: {topic}-0 at offset 0: the key cannot be decoded: 8 bytes are not a valid short; "
        "use --skip-message-on-error to continue\n"
    )


@pytest.mark.parametrize("form", [(), ("-J",)])
def test_half_a_surrogate_pair_stays_as_json_escapes_it(form: tuple[str, ...], command: Command, bootstrap: str) -> None:
    topic = unique_name("halves")
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b'"\\ud800 \\ud83c\\udf75"')
    answer = command("consume", "-b", bootstrap, "-t", topic, "-e", "-q", "--value-decoder", "json", *form)
    assert (answer.status, answer.err) == (0, "")
    assert (json.loads(answer.out)["payload"] if form else json.loads(answer.out)) == "\ud800 \N{TEACUP WITHOUT HANDLE}"
