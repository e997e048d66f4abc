"""Our keys against the ConfigDefs in Kafka's jars."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from types import FunctionType

import pytest

from odradek.client.settings.config import ADMIN_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG
from odradek.client.settings.document import KAFKAS
from odradek.config.broker import BROKER_CONFIG
from odradek.config.definition import ConfigDef, format_value
from odradek.config.dynamic import DYNAMIC_KEYS
from odradek.config.group import GROUP_CONFIG
from odradek.config.keys import authorizer, odradek_only
from odradek.config.topic import SYNONYMS, TOPIC_CONFIG
from tests.config.kafka_ranges import BROKER, GROUP, TOPIC, ranges

pytestmark = pytest.mark.jvm

PROGRAM = """
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;

public class Dump {
    static String quoted(Object value) {
        if (value == null) return "null";
        return "\\"" + value.toString().replace("\\\\", "\\\\\\\\").replace("\\"", "\\\\\\"") + "\\"";
    }
    static void dump(String set, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            Object value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "required";
            System.out.println("{\\"set\\":" + quoted(set) + ",\\"name\\":" + quoted(key.name) + ",\\"type\\":" + quoted(key.type)
                + ",\\"default\\":" + quoted(value) + ",\\"importance\\":" + quoted(key.importance)
                + ",\\"internal\\":" + key.internalConfig + ",\\"validator\\":" + quoted(key.validator)
                + ",\\"group\\":" + quoted(key.group) + ",\\"order\\":" + key.orderInGroup + ",\\"width\\":" + quoted(key.width)
                + ",\\"display\\":" + quoted(key.displayName) + ",\\"dependents\\":" + quoted(key.dependents)
                + ",\\"recommender\\":" + quoted(key.recommender) + "}");
        }
    }
    public static void main(String[] args) throws Exception {
        dump("broker", org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF);
        dump("group", org.apache.kafka.coordinator.group.GroupConfig.CONFIG_DEF);
        dump("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
        dump("producer", org.apache.kafka.clients.producer.ProducerConfig.configDef());
        dump("consumer", org.apache.kafka.clients.consumer.ConsumerConfig.configDef());
        dump("admin", org.apache.kafka.clients.admin.AdminClientConfig.configDef());
        for (String name : org.apache.kafka.server.config.DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS)
            System.out.println("{\\"set\\":\\"dynamic\\",\\"name\\":" + quoted(name) + "}");
        org.apache.kafka.server.config.ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS.forEach((topic, broker) ->
            System.out.println("{\\"set\\":\\"synonym\\",\\"name\\":" + quoted(topic) + ",\\"broker\\":" + quoted(broker) + "}"));
    }
}
"""


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    root = Path(__file__).parents[2]
    libs = Path(os.environ.get("ODRADEK_JVM_LIBS", root / ".cache" / "jvm" / "libs"))
    if not libs.is_dir():
        pytest.fail("no JVM Kafka: make interop fetches it, or set ODRADEK_JVM_LIBS")
    source = tmp_path_factory.mktemp("dump") / "Dump.java"
    source.write_text(PROGRAM)
    ran = subprocess.run(["java", "-cp", f"{libs}/*", str(source)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize(("which", "ours"), [("broker", BROKER_CONFIG), ("topic", TOPIC_CONFIG), ("group", GROUP_CONFIG)])
def test_keys_types_defaults_and_importance_are_kafkas(dump: list[dict[str, object]], which: str, ours: ConfigDef) -> None:
    theirs = {row["name"]: row for row in dump if row["set"] == which}
    shared = [key for key in ours if key not in (*odradek_only.KEYS, *authorizer.KEYS)]
    assert {key.name for key in shared} == set(theirs)
    for key in shared:
        row = theirs[key.name]
        default = "required" if key.required else format_value(key.type, key.default_value())
        found = (key.type.name, default, key.importance.name, key.internal)
        assert found == (row["type"], row["default"], row["importance"], row["internal"]), key.name
        assert (key.validator is None) == (row["validator"] is None), key.name
        if not isinstance(key.validator, FunctionType | None):
            assert str(key.validator) == row["validator"], key.name


OF_CLIENTS: dict[str, tuple[str, str | None, str]] = {
    "batch.size": ("INT", "16384", "MEDIUM"),
    "key.serializer": ("CLASS", "required", "HIGH"),
    "value.serializer": ("CLASS", "required", "HIGH"),
    "key.deserializer": ("CLASS", "required", "HIGH"),
    "value.deserializer": ("CLASS", "required", "HIGH"),
    "partition.assignment.strategy": (
        "LIST",
        "class org.apache.kafka.clients.consumer.RangeAssignor,class org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "MEDIUM",
    ),
    "sasl.kerberos.service.name": ("STRING", None, "MEDIUM"),
    "sasl.login.connect.timeout.ms": ("INT", None, "LOW"),
    "sasl.login.read.timeout.ms": ("INT", None, "LOW"),
}
"""Type, default and importance in Kafka of keys that differ in Odradek's clients.

Other defaults that differ are in `client.settings.document.KAFKAS`.
"""


@pytest.mark.parametrize(("which", "ours"), [("producer", PRODUCER_CONFIG), ("consumer", CONSUMER_CONFIG), ("admin", ADMIN_CONFIG)])
def test_keys_of_clients_are_kafkas(dump: list[dict[str, object]], which: str, ours: ConfigDef) -> None:
    theirs = {str(row["name"]): row for row in dump if row["set"] == which}
    for name in theirs.keys() & ours.keys.keys():
        key, row = ours[name], theirs[name]
        expected = OF_CLIENTS.get(name, (key.type.name, format_value(key.type, key.default_value()), key.importance.name))
        if name in KAFKAS:
            expected = (key.type.name, row["default"], row["importance"])  # type: ignore[assignment]
        assert expected == (row["type"], row["default"], row["importance"]), name
    assert {name for name in OF_CLIENTS if name in ours} <= theirs.keys()


def test_no_key_of_kafka_belongs_to_a_form(dump: list[dict[str, object]]) -> None:
    """The fields that Kafka's ConfigDef has for Connect's forms: as long as no key uses them, `Key` does not have them."""
    fields = ("group", "order", "width", "display", "dependents", "recommender")
    keys = [row for row in dump if "type" in row]
    assert {row["set"] for row in keys} == {"broker", "group", "topic", "producer", "consumer", "admin"}
    for row in keys:
        unused = ["" if row["internal"] else None, -1, "NONE", row["name"], "[]", None]
        assert [row[field] for field in fields] == unused, row["name"]


@pytest.mark.parametrize(("which", "table"), [("broker", BROKER), ("topic", TOPIC), ("group", GROUP)])
def test_the_table_of_ranges_is_kafkas(dump: list[dict[str, object]], which: str, table: str) -> None:
    found = {}
    for row in dump:
        bounds = re.fullmatch(r"\[(.+?),\.\.\.(?:,(.+))?\]", str(row.get("validator")))
        if row["set"] == which and bounds is not None:
            found[row["name"]] = (bounds[1], bounds[2] or "")
    assert ranges(table) == found


def test_keys_that_may_change_at_run_time_are_kafkas(dump: list[dict[str, object]]) -> None:
    assert {row["name"] for row in dump if row["set"] == "dynamic"} == DYNAMIC_KEYS


def test_the_first_synonym_of_each_topic_key_is_kafkas(dump: list[dict[str, object]]) -> None:
    assert {row["name"]: row["broker"] for row in dump if row["set"] == "synonym"} == {k: v[0][0] for k, v in SYNONYMS.items()}
