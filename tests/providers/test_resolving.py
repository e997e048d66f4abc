"""References of settings are followed; what they stand for is hidden where it would be quoted."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from odradek.base.errors import ConfigError
from odradek.client.consumer.aio import AsyncConsumer
from odradek.client.producer.hooks import producer_settings
from odradek.client.settings.common_keys import CLIENT_ID
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig, check_setting
from odradek.config.keys.log import MESSAGE_MAX_BYTES
from odradek.config.references import hide
from odradek.config.without_effect import ineffective
from odradek.providers.resolving import AUTOMATIC, AUTOMATIC_VARIABLE, resolve, resolve_broker
from odradek.server.start.node import follow_references
from tests.providers.support import DIRECTORY, ENV, FILE, PROVIDERS, only, secrets


def test_a_value_is_put_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_TEST_RACK", "north")
    file = secrets(tmp_path)
    found = resolve(
        {
            **PROVIDERS,
            "broker.rack": "${env:ODRADEK_TEST_RACK}",
            "sasl.jaas.config": f'x username="${{dir:{tmp_path}:user}}" password="${{file:{file}:password}}";',
            "plain": "$100 ${no reference}",
            "number": 5,
        }
    )
    assert found["broker.rack"] == "north"
    assert found["sasl.jaas.config"] == 'x username="alice\n" password="hunter2";', "a file counts with all that is in it"
    assert (found["plain"], found["number"]) == ("$100 ${no reference}", 5)
    assert set(found.references) == {"broker.rack", "sasl.jaas.config"}


@pytest.mark.parametrize(
    "reference",
    [
        "${file:%s/secrets.properties:none}",
        "${file::password}",
        "${file:password}",
        "${dir:%s:none}",
        "${dir:%s:more}",
        "${dir:%s:more/deep}",
        "${dir:%s/more:../user}",
        "${dir:%s:..}",
        "${dir:%s/user:user}",
        "${env:ODRADEK_NO_SUCH_VARIABLE}",
        "${other:%s/secrets.properties:password}",
        "${file:%s/secrets.properties:password",
    ],
)
def test_what_leads_nowhere_stays_as_it_is(reference: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secrets(tmp_path)
    text = reference.replace("%s", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        found = resolve({**PROVIDERS, "broker.rack": text})
    assert found["broker.rack"] == text
    assert not found.references
    told = any("broker.rack: the provider" in line for line in caplog.messages)
    assert told != (text.startswith("${other") or not text.endswith("}"))


def test_what_is_put_in_is_not_looked_at_again(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    assert resolve({**PROVIDERS, "broker.rack": f"${{file:{file}:reference}}"})["broker.rack"] == "${file:x:y}"
    static = standalone_config(resolve_broker({**PROVIDERS, "broker.rack": f"${{file:{file}:reference}}"}))
    config = DynamicBrokerConfig(static, follow_references)
    assert config.update({"log.retention.ms": "5"}, {}) == []
    assert config.current.rack == "${file:x:y}"


def test_only_allowed_paths_are_read(tmp_path: Path) -> None:
    file, outside = secrets(tmp_path / "in"), secrets(tmp_path / "inner")
    settings = only("file", allowed_paths=f"{tmp_path / 'in'}")
    for path, seen in (
        (file, True),
        (outside, False),
        (f"{tmp_path}/in/../inner/secrets.properties", False),
        (f"{tmp_path}/in/./{file.name}", True),
    ):
        text = f"${{file:{path}:password}}"
        assert resolve({**settings, "x": text})["x"] == ("hunter2" if seen else text), path
    (tmp_path / "in" / "out").symlink_to(outside)
    (tmp_path / "in" / "away").symlink_to(tmp_path / "inner")
    for reference in ("${file:%s/in/out:password}", "${file:%s/in/away/secrets.properties:password}"):
        text = reference.replace("%s", str(tmp_path))
        assert resolve({**settings, "x": text})["x"] == text, "a link leads nobody out"
    settings = only("dir", allowed_paths=f"{tmp_path / 'in'}")
    for path, key, value in (("in", "link", "alice\n"), ("in", "out", None), ("in/away", "user", None), ("in", "user", "alice\n")):
        text = f"${{dir:{tmp_path / path}:{key}}}"
        assert resolve({**settings, "x": text})["x"] == (text if value is None else value)
    settings = only("dir", allowed_paths=f"/nowhere,{tmp_path}")
    with pytest.raises(ConfigError, match=r"config.providers.dir.param.allowed.paths: Path /nowhere is not valid"):
        resolve(settings)
    with pytest.raises(ConfigError, match="absolute and exist"):
        resolve(only("dir", allowed_paths="tests"))
    for kind in ("file", "dir"):
        for settings in (only(kind), only(kind, allowed_paths=f"{tmp_path}")):
            with pytest.raises(ConfigError, match="not contain a NUL character"):
                resolve({**settings, "x": f"${{{kind}:{tmp_path}/a\0b:password}}"})


def test_what_would_not_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (1 << 20) + b"x")
    (tmp_path / "fits").write_bytes(b"x" * (1 << 20))
    for reference, said in (
        (f"${{file:{tmp_path}/pipe:x}}", "it is not a regular file"),
        ("${file:/dev/zero:x}", "it is not a regular file"),
        (f"${{file:{tmp_path}:x}}", "it is not a regular file"),
        (f"${{file:{tmp_path}/large:x}}", "it has more than 1048576 bytes"),
        (f"${{dir:{tmp_path}:large}}", "it has more than 1048576 bytes"),
    ):
        with pytest.raises(ConfigError, match=said):
            resolve({**PROVIDERS, "x": reference})
    assert resolve({**PROVIDERS, "x": f"${{dir:{tmp_path}:pipe}}"})["x"] == f"${{dir:{tmp_path}:pipe}}"
    assert len(resolve({**PROVIDERS, "x": f"${{dir:{tmp_path}:fits}}"})["x"]) == 1 << 20


def test_only_allowed_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_TEST_A", "a")
    monkeypatch.setenv("OTHER_TEST_A", "b")
    settings = only("env", allowlist_pattern="^ODRADEK_.*")
    found = resolve({**settings, "x": "${env:ODRADEK_TEST_A}${env:OTHER_TEST_A}"})
    assert found["x"] == "a${env:OTHER_TEST_A}"
    monkeypatch.setenv("ODRADEK_TEST_A_SECRET", "c")
    whole = resolve({**only("env", allowlist_pattern="ODRADEK_TEST_A"), "x": "${env:ODRADEK_TEST_A}${env:ODRADEK_TEST_A_SECRET}"})
    assert whole["x"] == "a${env:ODRADEK_TEST_A_SECRET}", "the pattern has to match all of the name, as in Kafka"
    with pytest.raises(ConfigError, match=r"Invalid value \( for configuration config.providers.env.param.allowlist.pattern"):
        resolve(only("env", allowlist_pattern="("))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"config.providers": "vault"}, "config.providers names vault, but config.providers.vault.class is missing"),
        (
            {"config.providers": "a", "config.providers.a.class": "com.example.Vault"},
            "config.providers.a.class=com.example.Vault: Java classes",
        ),
        ({**PROVIDERS, "broker.rack": "${file:/no/such/file:x}"}, "broker.rack: Could not read properties from file /no/such/file"),
        (
            {**PROVIDERS, "broker.rack": "${env:/path:x}"},
            "broker.rack: Path is not supported for EnvVarConfigProvider, invalid value '/path'",
        ),
        ({**PROVIDERS, AUTOMATIC: "none"}, f"config.providers.file.class: {FILE} is not allowed. Update '{AUTOMATIC}'"),
        ({**PROVIDERS, AUTOMATIC: f"{FILE}, {DIRECTORY}"}, f"config.providers.env.class: {ENV} is not allowed"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_broker(settings)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_error_quotes_what_a_reference_stands_for(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    for key in (
        "num.partitions",
        "log.cleanup.policy",
        "listeners",
        "process.roles",
        "advertised.listeners",
        "max.connections.per.ip.overrides",
    ):
        for text in (f"${{file:{file}:password}}", f"x,${{file:{file}:password}}"):
            with pytest.raises(ConfigError) as refused:
                standalone_config(resolve_broker({**PROVIDERS, key: text}))
            assert "hunter2" not in str(refused.value).lower(), key
            if text.startswith("$"):
                assert f"{file}:password" in str(refused.value), key


def test_a_broker_shows_and_warns_of_nothing_it_should_not(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    given = {
        **PROVIDERS,
        "num.partitions": f"${{file:{file}:partitions}}",
        "config.providers.old.class": FILE,
        "num.io.threads": f"${{file:{file}:partitions}}",
    }
    config = standalone_config(resolve_broker(given))
    assert config.num_partitions == 7
    assert "config.providers.old.class has no effect: config.providers does not name old" in list(ineffective(config.given))
    warned = next(line for line in ineffective(config.given) if line.startswith("num.io"))
    assert config.hide(warned).startswith(f"num.io.threads=${{file:{file}:partitions}} has no effect")
    with pytest.raises(ConfigError, match=r"config.providers: the references have not been resolved"):
        standalone_config(given)


def test_settings_at_run_time_are_followed_by_each_broker(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    config = DynamicBrokerConfig(standalone_config(), follow_references)
    store = "listener.name.plaintext.ssl.keystore.location"
    reference = f"${{file:{file}:password}}"
    config.check({**PROVIDERS, store: reference}, for_node=True)
    assert config.update({**PROVIDERS, store: reference}, {}) == []
    assert (config.node[store], config.current.given[store]) == (reference, "hunter2")
    file.write_text("password=swordfish\n")
    assert config.update({**PROVIDERS, store: reference}, {}) == []
    assert config.current.given[store] == "swordfish", "set again, it is read again"
    (line,) = config.update({**PROVIDERS, store: "${file:/no/such/file:x}"}, {})
    assert line.startswith(f"A setting of this broker is ignored: {store}: Could not read")


def test_a_number_may_be_a_reference_to_a_provider_that_is_set_with_it(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    setting = {"message.max.bytes": f"${{file:{file}:partitions}}"}
    config = DynamicBrokerConfig(standalone_config(), follow_references)
    config.check({**only("file"), **setting}, for_node=False)
    assert config.update({}, {**only("file"), **setting}) == []
    assert (config[MESSAGE_MAX_BYTES], config.topic_config({}).max_message_bytes) == (7, 7)
    of_file = DynamicBrokerConfig(standalone_config(resolve_broker(only("file"))), follow_references)
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        of_file.check(setting, for_node=True)
    check_setting("message.max.bytes", "${file:x:y}", follows=True)
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        check_setting("message.max.bytes", "${nothing", follows=True)


def test_settings_at_run_time_may_use_the_providers_of_the_file_and_of_all_brokers(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    store, text = "listener.name.plaintext.ssl.keystore.password", f"${{file:{file}:password}}"
    of_file = DynamicBrokerConfig(standalone_config(resolve_broker(only("file"))), follow_references)
    of_file.check({store: text}, for_node=True)
    of_file.update({store: text}, {})
    assert of_file.current.given[store] == "hunter2"
    of_all = DynamicBrokerConfig(standalone_config(), follow_references)
    of_all.update({store: text}, only("file"))
    assert of_all.current.given[store] == "hunter2"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"message.max.bytes": "${file:%s:password}"}, "Not a number of type INT"),
        ({"replica.alter.log.dirs.io.max.bytes.per.second": "${file:%s:partitions}"}, "Not a number of type LONG"),
        ({"compression.type": "${file:%s:password}"}, "compression.type"),
        ({"config.providers": "file,vault"}, "config.providers.vault.class is missing"),
        ({"config.providers.file.class": "com.example.Vault"}, "Java classes"),
        ({"max.connections.per.ip.overrides": "${file:%s:password}:5,x"}, "max.connections.per.ip.overrides"),
        ({"listener.name.plaintext.ssl.keystore.type": "${file:/no/file:x}"}, "Could not read properties from file /no/file"),
    ],
)
def test_what_cannot_be_set_with_a_reference(settings: dict[str, str], said: str, tmp_path: Path) -> None:
    file = secrets(tmp_path)
    config = DynamicBrokerConfig(standalone_config(), follow_references)
    with pytest.raises(ConfigError) as refused:
        config.check({**only("file"), **{key: text.replace("%s", str(file)) for key, text in settings.items()}}, for_node=True)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_the_file_of_a_broker_limits_what_is_read_at_run_time(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    config = DynamicBrokerConfig(standalone_config({AUTOMATIC: ENV}), follow_references)
    settings = {**only("file"), "listener.name.plaintext.ssl.keystore.password": f"${{file:{file}:password}}"}
    with pytest.raises(ConfigError, match="is not allowed"):
        config.check(settings, for_node=True)
    with pytest.raises(ConfigError, match=f"Cannot update these configs dynamically: {AUTOMATIC}"):
        config.check({AUTOMATIC: FILE}, for_node=True)
    with pytest.raises(ConfigError, match="is not allowed"):
        config.check({**settings, AUTOMATIC: FILE}, for_node=True)
    problems = config.update({**settings, AUTOMATIC: FILE}, {})
    assert [line for line in problems if "is not allowed" in line]
    assert "listener.name.plaintext.ssl.keystore.password" not in config.current.given


def test_clients_follow_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = secrets(tmp_path)
    text = f"${{file:{file}:password}}"
    assert ClientConfig(ADMIN_CONFIG, {**only("file"), "client.id": text})[CLIENT_ID] == "hunter2"
    assert ClientConfig(ADMIN_CONFIG, only("file"), client_id=text)[CLIENT_ID] == "hunter2"
    keywords = {"config_providers": "file", "config_providers_file_class": FILE, "client_id": text}
    assert ClientConfig(ADMIN_CONFIG, None, **keywords)[CLIENT_ID] == "hunter2"
    assert producer_settings({**only("file"), "client.id": text}, {}).config[CLIENT_ID] == "hunter2"
    AsyncConsumer({**only("file"), "auto.offset.reset": f"${{dir:x:y}}{'earliest'}"[-8:], "value.deserializer": "string"})
    with pytest.raises(ConfigError) as refused:
        AsyncConsumer({**only("file"), "auto.offset.reset": text})
    assert (text in str(refused.value), "hunter2" in str(refused.value)) == (True, False)
    with pytest.raises(ConfigError, match="is given twice"):
        ClientConfig(ADMIN_CONFIG, {**only("file"), "client.id": text}, client_id="x")
    assert ClientConfig(ADMIN_CONFIG, {"client.id": text})[CLIENT_ID] == text, "without a provider it is text"
    monkeypatch.setenv(AUTOMATIC_VARIABLE, "none")
    with pytest.raises(ConfigError, match="is not allowed"):
        ClientConfig(ADMIN_CONFIG, {**only("file"), "client.id": text})
    monkeypatch.setenv(AUTOMATIC_VARIABLE, f"{ENV}, {FILE}")
    assert ClientConfig(ADMIN_CONFIG, {**only("file"), "client.id": text})[CLIENT_ID] == "hunter2"


def test_what_an_object_of_a_producer_is_configured_with_is_followed(tmp_path: Path) -> None:
    file = secrets(tmp_path)
    seen: list[object] = []

    class Interceptor:
        def configure(self, settings: dict[str, object]) -> None:
            seen.append(settings["client.id"])

        def on_send(self, record: object) -> object:
            return record

    producer_settings({**only("file"), "client.id": f"${{file:{file}:password}}", "interceptor.classes": Interceptor}, {})
    assert seen == ["hunter2"]


@pytest.mark.parametrize("order", [("hunter2", "hunter2-and-more", "unter"), ("unter", "hunter2-and-more", "hunter2")])
def test_of_secrets_that_are_parts_of_one_another_none_is_seen(order: tuple[str, ...]) -> None:
    found = {value: f"${{file:f:{number}}}" for number, value in enumerate(order)}
    for value, reference in found.items():
        assert hide(found, f"Invalid value {value} for configuration x") == f"Invalid value {reference} for configuration x"
