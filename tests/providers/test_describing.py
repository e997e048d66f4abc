"""What DescribeConfigs shows of providers, policies and references: what Kafka does, and no more."""

from __future__ import annotations

from pathlib import Path

from odradek.config.broker import standalone_config
from odradek.config.describe import BrokerLayers, DescribedConfig, describe_broker, describe_cluster_default
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.providers.resolving import resolve_broker
from odradek.server.start.node import follow_references
from tests.providers.support import PROVIDERS, only, secrets

STORE, PASSWORD = "listener.name.plaintext.ssl.keystore.location", "listener.name.plaintext.ssl.keystore.password"


def described(config: DynamicBrokerConfig) -> dict[str, DescribedConfig]:
    layers = BrokerLayers(config.static, config.node, config.cluster, config.current)
    return {each.name: each for each in describe_broker(layers)}


def test_values_of_the_file_are_shown_as_they_hold_and_passwords_not_at_all(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    text = f"${{file:{file}:password}}"
    given = {**PROVIDERS, "broker.rack": text, PASSWORD: text, "config.providers.file.param.allowed.paths": str(tmp_path)}
    given |= {"alter.config.policy.class.name": "x:Y", "alter.config.policy.secret": text}
    found = described(DynamicBrokerConfig(standalone_config(resolve_broker(given)), follow_references))
    assert found["broker.rack"].value == "hunter2"
    assert found["config.providers"].value == "file,dir,env"
    assert not found["config.providers"].read_only
    for name in (PASSWORD, "config.providers.file.class", "config.providers.file.param.allowed.paths", "alter.config.policy.secret"):
        each = found[name]
        assert (each.value, each.sensitive, {synonym.value for synonym in each.synonyms}) == (None, True, {None}), name
        assert each.read_only


def test_values_set_at_run_time_are_shown_as_they_hold_and_their_synonyms_as_they_are_set(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    text = f"${{file:{file}:password}}"
    config = DynamicBrokerConfig(standalone_config({STORE: "of the file"}), follow_references)
    config.update({STORE: text, PASSWORD: text}, only("file"))
    found = described(config)
    assert found[STORE].value == "hunter2"
    assert [(each.value, each.source) for each in found[STORE].synonyms] == [(text, 2), ("of the file", 4)]
    assert (found[PASSWORD].value, found[PASSWORD].sensitive) == (None, True)
    assert (found["config.providers"].value, found["config.providers"].source) == ("file", 3)
    assert (found["config.providers.file.class"].value, found["config.providers.file.class"].source) == (None, 3)
    layers = BrokerLayers(config.static, config.node, config.cluster, config.current)
    assert {each.name: each.value for each in describe_cluster_default(layers)} == {
        "config.providers": "file",
        "config.providers.file.class": None,
    }
