"""No key is accepted and ignored in silence: each is read somewhere, refused, or listed as having no effect and warned about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import odradek
from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, standalone_config
from odradek.config.describe import BrokerLayers, describe_topic
from odradek.config.document import document
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.topic import SYNONYMS, TOPIC_CONFIG, check_topic_overrides
from odradek.config.unsupported import UNSUPPORTED, UNSUPPORTED_SECURITY, UNSUPPORTED_TOPIC
from odradek.config.without_effect import TOPIC_WITHOUT_EFFECT, WITHOUT_EFFECT, WITHOUT_EFFECT_BY_REASON, TopicWarnings, ineffective
from tests.config.reads import module, modules, used_keys

SOURCE = Path(odradek.__file__).parent
_OF_PROVIDERS = {"config.providers", "org.apache.kafka.automatic.config.providers"}
NOT_READ_BY_NAME = {"broker.id", "controller.quorum.bootstrap.servers", *_OF_PROVIDERS}
"""The first gives node.id its value. The second, or controller.quorum.voters, has to name a quorum; a node that is alone in it calls
nobody. Those of providers are asked before there is a configuration (odradek.providers)."""
ONLY_ON_REQUEST = {name for name in WITHOUT_EFFECT if name.startswith("share.coordinator.state.topic.")}
"""Keys that are listed as without effect, and still used when a client has the share coordinator's topic created."""


@pytest.fixture(scope="module")
def used() -> Mapping[str, set[str]]:
    return used_keys(modules(SOURCE), [key.name for definition in (BROKER_CONFIG, TOPIC_CONFIG) for key in definition])


def test_every_broker_key_is_used_refused_or_listed(used: Mapping[str, set[str]]) -> None:
    topic_synonyms = {synonym for name, synonyms in SYNONYMS.items() if name in used for synonym, _ in synonyms}
    accounted = WITHOUT_EFFECT.keys() | UNSUPPORTED.keys() | topic_synonyms | NOT_READ_BY_NAME | used.keys()
    security = tuple(UNSUPPORTED_SECURITY)
    assert [key.name for key in BROKER_CONFIG if key.name not in accounted and not key.name.startswith(security)] == []


def test_every_topic_key_is_used_refused_or_listed(used: Mapping[str, set[str]]) -> None:
    accounted = TOPIC_WITHOUT_EFFECT.keys() | UNSUPPORTED_TOPIC.keys() | used.keys()
    assert [key.name for key in TOPIC_CONFIG if key.name not in accounted] == []


def test_what_is_listed_exists_and_is_used_nowhere(used: Mapping[str, set[str]]) -> None:
    assert [name for name in WITHOUT_EFFECT if name not in BROKER_CONFIG or name in UNSUPPORTED] == []
    assert {name: used[name] for name in WITHOUT_EFFECT if name in used and name not in ONLY_ON_REQUEST} == {}
    assert {path for name in ONLY_ON_REQUEST & used.keys() for path in used[name]} == {"handlers/admin/auto_creation.py"}
    assert [name for name in TOPIC_WITHOUT_EFFECT if name not in TOPIC_CONFIG or name in UNSUPPORTED_TOPIC or name in used] == []
    assert sum(len(names) for names in WITHOUT_EFFECT_BY_REASON.values()) == len(WITHOUT_EFFECT)


IMPORTED = "from odradek.config.keys.network import THE_KEY\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server/x.py", '"""Waits for the.key."""'),
        ("server/x.py", 'KEYS = ("the.key",)\ndef f(config): return [config.given[name] for name in KEYS]'),
        ("server/x.py", "from odradek.server.numbers import THE_KEY\ndef f(config): return config[THE_KEY]"),
        ("server/x.py", IMPORTED),
        ("server/x.py", "from odradek.config.keys.network import OTHER_KEY, THE_KEY\ndef f(config): return config[OTHER_KEY]"),
        ("network/x.py", 'def f(keys): return keys.shown("the.key")'),
    ],
)
def test_a_name_alone_is_no_use(path: str, text: str) -> None:
    assert used_keys([module(path, text)], ["the.key"]) == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("server/x.py", IMPORTED + "def f(config): return config[THE_KEY] / 1000"),
        ("server/x.py", IMPORTED + 'TABLE = {"a": (THE_KEY, 5)}'),
        (
            "server/x.py",
            "def f(config):\n    from odradek.config.keys.network import THE_KEY as key\n    return own_value(config, 'A', key)",
        ),
        ("network/x.py", 'def f(keys): return keys.text("the.key")'),
    ],
)
def test_a_constant_in_code_is_a_use(path: str, text: str) -> None:
    assert used_keys([module(path, text)], ["the.key"]) == {"the.key": {path}}


def test_a_property_is_a_use_when_somebody_asks_for_it() -> None:
    class_text = IMPORTED + "class BrokerConfig:\n    @property\n    def a_value(self):\n        return self[THE_KEY]\n"
    definition = module("config/broker.py", class_text)
    assert used_keys([definition], ["the.key"]) == {}
    assert used_keys([definition, module("server/x.py", "print(services.config.a_value)")], ["the.key"]) == {"the.key": {"server/x.py"}}


def test_there_is_one_line_for_each_key_that_is_given() -> None:
    given = {"num.io.threads": " 16", "log.cleanup.policy": "delete,compact", "num.partitions": "3"}
    given |= {"share.coordinator.state.topic.num.partitions": "3", "log.initial.task.delay.ms": "5"}
    lines = list(ineffective(standalone_config(given).given))
    assert [line.split(": ")[0] for line in lines] == [
        "num.io.threads=16 has no effect",
        "share.coordinator.state.topic.num.partitions=3 has no effect",
    ]
    assert list(ineffective(standalone_config().given)) == []


def test_topics_are_warned_about_once_for_each_key() -> None:
    warnings = TopicWarnings()
    lines = list(warnings.lines("a", {"local.retention.ms": "5", "retention.ms": "5", "local.retention.bytes": "7"}.items()))
    assert [line.split(":")[:2] for line in lines] == [
        ["topic a", " local.retention.ms=5 has no effect"],
        ["topic a", " local.retention.bytes=7 has no effect"],
    ]
    assert list(warnings.lines("b", {"local.retention.ms": "6"}.items())) == []
    assert list(TopicWarnings().lines("c", {"cleanup.policy": "compact"}.items())) == []


def test_what_another_version_has_set_for_a_topic_is_ignored_aloud() -> None:
    overrides = {"message.format.version": "2.8", "retention.ms": "5", "segment.bytes": "many"}
    lines = list(TopicWarnings().lines("old", overrides.items()))
    assert [line.split(" has no effect")[0] for line in lines] == ["topic old: message.format.version=2.8", "topic old: segment.bytes=many"]
    config = DynamicBrokerConfig(standalone_config()).topic_config(overrides)
    assert (config.retention_ms, config.segment_bytes) == (5, 1073741824)
    layers = BrokerLayers(standalone_config())
    assert {each.name: each.value for each in describe_topic(layers, overrides)}["retention.ms"] == "5"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.engine.factory.class", "org.example.Engines"),
        ("sasl.kerberos.kinit.cmd", "/bin/kinit"),
        ("security.providers", "org.example.Provider"),
    ],
)
def test_what_must_not_be_missing_unnoticed_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        standalone_config({name: value})


def test_security_keys_may_have_their_defaults() -> None:
    standalone_config({"ssl.client.auth": "none", "sasl.kerberos.ticket.renew.jitter": "0.050"})


SECRETS = (
    "delegation.token.secret.key",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("where", ["", "listener.name.plaintext."])
def test_no_refusal_tells_a_secret(name: str, where: str) -> None:
    told = ""
    try:
        told = repr(standalone_config({where + name: "hunter2"}))
    except ConfigError as refused:
        told = str(refused)
    assert "hunter2" not in told


@pytest.mark.parametrize("name", ["sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase"])
def test_a_secret_that_would_have_no_effect_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} needs logins of nodes by OAUTHBEARER"):
        standalone_config({name: "hunter2"})


@pytest.mark.parametrize(("name", "value"), [("remote.log.copy.disable", "true"), ("remote.storage.enable", "true")])
def test_topics_cannot_ask_for_what_is_not_served(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        check_topic_overrides({name: value})


def test_the_page_is_current() -> None:
    page = SOURCE.parents[1] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m odradek.config.document > docs/configuration.md"
