"""Policies are found by import path or entry point; what cannot be used keeps the node from starting, in one line."""

from __future__ import annotations

import logging
from importlib import metadata
from pathlib import Path

import pytest

from odradek.base.errors import ConfigError
from odradek.client import Admin, NewTopic
from odradek.config.broker import standalone_config
from odradek.config.without_effect import ineffective
from odradek.policies.loading import close, load
from odradek.testing import EmbeddedBroker
from tests.policies.samples import ConfigRule, TopicRule, Unclosed

TOPICS, CONFIGS = "create.topic.policy.class.name", "alter.config.policy.class.name"
HERE = "tests.policies.samples"


def test_a_policy_is_made_and_configured() -> None:
    policy = load(TOPICS, f"{HERE}:TopicRule", {"node.id": "1"})
    assert isinstance(policy, TopicRule)
    assert policy.configs == {"node.id": "1"}
    close(policy)
    assert policy.closed == 1
    assert isinstance(load(CONFIGS, f"{HERE}:ConfigRule", {}), ConfigRule), "configure() need not be there"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "com.example.TopicRule",
            "the group odradek.policies has no entry point of this name, and Java classes cannot run here",
        ),
        (f"{HERE}:Missing", "AttributeError"),
        ("no.such.module:Policy", "ModuleNotFoundError"),
        (f"{HERE}:Unmade", "the policy cannot be created: ValueError: no luck"),
        (f"{HERE}:Unconfigured", "the policy refuses its configuration: KeyError: 'create.topic.policy.word'"),
        (f"{HERE}:NoPolicy", "this class is not a policy: it has no method validate(request)"),
        (":x", "ValueError"),
    ],
)
def test_what_is_none_is_said_in_one_line(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(TOPICS, name, {})
    assert str(refused.value).startswith(f"{TOPICS}={name}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_entry_point_may_have_the_name_of_a_java_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "rules-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: rules\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[odradek.policies]\ncom.example.TopicRule = {HERE}:TopicRule\nbroken = {HERE}:Gone\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    metadata.MetadataPathFinder().invalidate_caches()
    assert isinstance(load(TOPICS, "com.example.TopicRule", {}), TopicRule)
    with pytest.raises(ConfigError, match=r"the entry point tests.policies.samples:Gone cannot be loaded"):
        load(TOPICS, "broken", {})


def test_an_end_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        close(Unclosed())
    assert "a policy failed to close" in caplog.text


def test_a_policy_has_settings_of_its_own() -> None:
    config = standalone_config({TOPICS: f"{HERE}:TopicRule", "create.topic.policy.word": "please", "alter.config.policy.size": "5"})
    assert list(ineffective(config.given)) == [f"alter.config.policy.size has no effect: {CONFIGS} is not set"]
    with pytest.raises(ConfigError, match=r"Unknown configuration key create.topic.rule.word"):
        standalone_config({"create.topic.rule.word": "please"})
    alone = {**config.given, "process.roles": "broker"}
    assert any(line.startswith(f"{TOPICS}={HERE}:TopicRule has no effect: controllers apply the policies") for line in ineffective(alone))


def test_a_whole_broker_asks_its_policies_and_ends_them() -> None:
    settings = {TOPICS: f"{HERE}:TopicRule", "create.topic.policy.word": "please"}
    with EmbeddedBroker(settings) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        policy = TopicRule.made[-1]
        assert policy.configs["create.topic.policy.word"] == "please"
        assert policy.configs["node.id"] == "1"
        admin.create_topics([NewTopic("good", 2)])
        with pytest.raises(Exception, match="POLICY_VIOLATION") as refused:
            admin.create_topics([NewTopic("violation", 3)])
        assert "violation 3 1 null {} please" in str(refused.value)
        assert [request.topic for request in policy.asked] == ["good", "violation"]
        assert policy.closed == 0
    assert policy.closed == 1
