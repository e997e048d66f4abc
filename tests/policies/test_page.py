"""docs/policies.md: its policies judge as the page says."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client import Admin, ConfigChange, ConfigResource, NewTopic
from odradek.config.properties import parse_properties
from odradek.policies.loading import GROUP
from odradek.testing import EmbeddedBroker

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_policies_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ModuleType("rules")
    exec(compile(block("python"), "rules", "exec"), rules.__dict__)
    monkeypatch.setitem(sys.modules, "rules", rules)
    with EmbeddedBroker(parse_properties(block("properties"))) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("fits", 6)])
        with pytest.raises(KafkaError, match="large would have 7 partitions; 6 are the most here") as refused:
            admin.create_topics([NewTopic("large", 7)])
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        topic = ConfigResource("topic", "fits")
        admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "7200000")]})
        with pytest.raises(KafkaError, match="fits: an hour is the least"):
            admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "60000")]})


def test_the_entry_point_of_the_page() -> None:
    project = tomllib.loads(block("toml"))["project"]
    assert project["entry-points"][GROUP] == {"com.example.Sizes": "rules:Sizes"}
