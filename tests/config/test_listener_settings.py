"""Settings of one listener."""

from __future__ import annotations

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, standalone_config
from odradek.config.keys.security import SSL_CLIENT_AUTH, SSL_ENABLED_PROTOCOLS
from odradek.config.listener_settings import is_set_for, key_of, listener_key, listener_value, own_value, parse_listener_key


def test_a_setting_of_a_listener_stands_over_the_one_of_all() -> None:
    config = standalone_config({"listener.name.controller.ssl.client.auth": "requested"})
    assert listener_value(config, "CONTROLLER", SSL_CLIENT_AUTH) == "requested"
    assert listener_value(config, "PLAINTEXT", SSL_CLIENT_AUTH) == "none"
    assert own_value(config, "controller", SSL_CLIENT_AUTH) == "requested"
    assert own_value(config, "PLAINTEXT", SSL_CLIENT_AUTH) is None
    assert listener_value(config, "PLAINTEXT", SSL_ENABLED_PROTOCOLS) == ["TLSv1.2", "TLSv1.3"]
    assert is_set_for(config, "Controller", SSL_CLIENT_AUTH)
    assert not is_set_for(config, "PLAINTEXT", SSL_CLIENT_AUTH)


@pytest.mark.parametrize(("key", "own", "value"), [("connections.max.reauth.ms", "0", 0), ("ssl.cipher.suites", "", [])])
def test_a_setting_of_a_listener_that_says_none_stands_over_the_one_of_all(key: str, own: str, value: object) -> None:
    config = standalone_config({key: "5", f"listener.name.plaintext.{key}": own})
    assert listener_value(config, "PLAINTEXT", BROKER_CONFIG[key]) == value
    assert listener_value(config, "CONTROLLER", BROKER_CONFIG[key]) in (5, ["5"])


def test_the_name_says_listener_mechanism_and_key() -> None:
    assert parse_listener_key("ssl.client.auth") is None
    assert parse_listener_key("listener.name.out.ssl.client.auth") == ("out", "", "ssl.client.auth")
    assert parse_listener_key("listener.name.out.scram-sha-256.sasl.jaas.config") == ("out", "scram-sha-256", "sasl.jaas.config")
    assert parse_listener_key("listener.name.out.plain.connections.max.reauth.ms") == ("out", "plain", "connections.max.reauth.ms")
    assert listener_key("OUT", "sasl.jaas.config", "PLAIN") == "listener.name.out.plain.sasl.jaas.config"
    defined = key_of("listener.name.out.plain.sasl.jaas.config")
    assert defined is not None
    assert defined.name == "sasl.jaas.config"
    assert key_of("listener.name.out.log.dirs") is None
    assert key_of("nonsense") is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("listener.name.plaintext.ssl.client.auth", "x", "Invalid value x for configuration listener.name.plaintext.ssl.client.auth: "),
        ("listener.name.PLAINTEXT.ssl.client.auth", "none", "in lower case, listener.name.plaintext.ssl.client.auth"),
        ("listener.name.plaintext.PLAIN.sasl.jaas.config", "x", "in lower case, listener.name.plaintext.plain.sasl.jaas.config"),
        ("listener.name.elsewhere.ssl.client.auth", "none", "the listener ELSEWHERE is not in listener.security.protocol.map"),
        ("listener.name.plaintext.log.dirs", "x", "log.dirs applies to the whole broker and cannot be set for one listener"),
        ("listener.name.plaintext.plain.ssl.client.auth", "x", "plain.ssl.client.auth is not a key of listeners"),
        ("listener.name.plaintext.bla", "x", "bla is not a key of listeners"),
        ("listener.name.", "x", "a setting of a listener has the form listener.name.NAME.KEY"),
    ],
)
def test_what_no_listener_follows_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as problem:
        standalone_config({name: value})
    assert message in str(problem.value)
    assert name in str(problem.value)


def test_a_secret_that_is_not_served_is_not_shown() -> None:
    with pytest.raises(ConfigError) as problem:
        standalone_config({"listener.name.plaintext.plain.sasl.jaas.config": "hush"})
    assert "hush" not in str(problem.value)
