"""No key is accepted and ignored in silence: each is read somewhere, refused, or listed as having no effect and warned about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odradek
from odradek.base.errors import ConfigError
from odradek.config.broker import BROKER_CONFIG, standalone_config
from odradek.config.describe import BrokerLayers, describe_topic
from odradek.config.document import document
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.topic import SYNONYMS, TOPIC_CONFIG, check_topic_overrides
from odradek.config.unserved import UNSERVED, UNSERVED_SECURITY, UNSERVED_TOPIC
from odradek.config.without_effect import TOPIC_WITHOUT_EFFECT, WITHOUT_EFFECT, WITHOUT_EFFECT_BY_REASON, TopicWarnings, ineffective

SOURCE = Path(odradek.__file__).parent
_TABLES = {"deviations.py", "document.py", "dynamic.py", "rules.py", "topic.py", "unserved.py", "without_effect.py"}
_ELSEWHERE = {"client", "spark", "cli", "testing", "protocol"}
"""Rooms that have configurations of their own, or none."""


def broker_source() -> str:
    """The text of everything that may read a broker's configuration, without the tables that only name its keys."""
    texts: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts
        if room[0] in _ELSEWHERE or room[:2] == ("config", "keys") or (room[0] == "config" and path.name in _TABLES):
            continue
        texts.append(path.read_text(encoding="utf-8"))
    return "\n".join(texts)


@pytest.fixture(scope="module")
def source() -> str:
    return broker_source()


def is_read(source: str, name: str) -> bool:
    attribute = name.replace(".", "_")
    return f'"{name}"' in source or re.search(rf"config\.{attribute}\b|self\.{attribute}\b", source) is not None


def test_every_broker_key_is_read_refused_or_listed(source: str) -> None:
    topic_synonyms = {synonym for name, synonyms in SYNONYMS.items() if is_read(source, name) for synonym, _ in synonyms}
    accounted = WITHOUT_EFFECT.keys() | UNSERVED.keys() | topic_synonyms
    security = tuple(UNSERVED_SECURITY)
    silent = [
        key.name
        for key in BROKER_CONFIG
        if key.name not in accounted and not key.name.startswith(security) and not is_read(source, key.name)
    ]
    assert silent == []


def test_every_topic_key_is_read_refused_or_listed(source: str) -> None:
    accounted = TOPIC_WITHOUT_EFFECT.keys() | UNSERVED_TOPIC.keys()
    assert [key.name for key in TOPIC_CONFIG if key.name not in accounted and not is_read(source, key.name)] == []


def test_what_is_listed_exists_and_is_read_nowhere(source: str) -> None:
    assert [name for name in WITHOUT_EFFECT if name not in BROKER_CONFIG or f'"{name}"' in source or name in UNSERVED] == []
    assert [name for name in TOPIC_WITHOUT_EFFECT if name not in TOPIC_CONFIG or name in UNSERVED_TOPIC] == []
    assert sum(len(names) for names in WITHOUT_EFFECT_BY_REASON.values()) == len(WITHOUT_EFFECT)


def test_there_is_one_line_for_each_key_that_is_given() -> None:
    config = standalone_config({"num.io.threads": " 16", "log.cleanup.policy": "delete,compact", "num.partitions": "3"})
    lines = list(ineffective(config.given))
    assert len(lines) == 1
    assert lines[0].startswith("num.io.threads=16 has no effect: ")
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
        ("ssl.client.auth", "required"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-256"),
        ("delegation.token.max.lifetime.ms", "5"),
        ("security.providers", "org.example.Provider"),
    ],
)
def test_what_must_not_be_missing_unnoticed_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        standalone_config({name: value})


def test_security_keys_may_have_their_defaults_and_passwords_are_not_shown() -> None:
    standalone_config({"ssl.client.auth": "none", "sasl.kerberos.ticket.renew.jitter": "0.050"})
    with pytest.raises(ConfigError) as refused:
        standalone_config({"ssl.key.password": "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("name", "value"), [("leader.replication.throttled.replicas", "*"), ("remote.storage.enable", "true")])
def test_topics_cannot_ask_for_what_is_not_served(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        check_topic_overrides({name: value})


def test_the_page_is_current() -> None:
    page = SOURCE.parents[1] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m odradek.config.document > docs/configuration.md"
