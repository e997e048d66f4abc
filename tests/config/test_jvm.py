"""Our keys against the ConfigDefs in Kafka's jars."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

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
                + ",\\"internal\\":" + key.internalConfig + ",\\"validator\\":" + quoted(key.validator) + "}");
        }
    }
    public static void main(String[] args) throws Exception {
        dump("broker", org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF);
        dump("group", org.apache.kafka.coordinator.group.GroupConfig.CONFIG_DEF);
        dump("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
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
