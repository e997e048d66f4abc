"""What `odradek acls` asks a broker for."""

from __future__ import annotations

import pytest

from odradek.client import Admin
from odradek.client.admin.types.security import AclBindingFilter, PatternType, ResourceType
from tests.cli.conftest import Command

CLUSTER = AclBindingFilter(ResourceType.CLUSTER, "kafka-cluster", pattern_type=PatternType.LITERAL)
"""The cluster has one literal name, however other names are meant."""


@pytest.mark.parametrize("action", ["list", "remove"])
@pytest.mark.parametrize("pattern", [PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH])
def test_the_pattern_is_that_of_names_and_not_of_the_cluster(
    action: str, pattern: PatternType, bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AclBindingFilter] = []
    monkeypatch.setattr(Admin, "describe_acls", lambda _, wanted: asked.append(wanted) or [])
    words = ("--cluster", "--topic", "t", "--group", "g", "--resource-pattern-type", pattern.name.lower())
    assert command("acls", action, *words, "-b", bootstrap).status == 0
    names = [AclBindingFilter(of, name, pattern_type=pattern) for of, name in ((ResourceType.TOPIC, "t"), (ResourceType.GROUP, "g"))]
    assert sorted(map(repr, asked)) == sorted(map(repr, [CLUSTER, *names]))


def test_every_resource_is_asked_for_each_principal(bootstrap: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[AclBindingFilter] = []
    monkeypatch.setattr(Admin, "describe_acls", lambda _, wanted: asked.append(wanted) or [])
    who = ("--principal", "User:a", "--principal", "User:b")
    assert command("acls", "list", *who, "-b", bootstrap).status == 0
    assert asked == [AclBindingFilter(principal="User:a"), AclBindingFilter(principal="User:b")]
    asked.clear()
    assert command("acls", "list", "--topic", "t", "--cluster", *who, "-b", bootstrap).status == 0
    assert {(each.resource_type, each.principal) for each in asked} == {
        (of, principal) for of in (ResourceType.TOPIC, ResourceType.CLUSTER) for principal in ("User:a", "User:b")
    }
