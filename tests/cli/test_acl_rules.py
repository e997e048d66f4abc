"""Which rules the options of `odradek acls` mean."""

from __future__ import annotations

import click
import pytest

from odradek.cli.security.acl_rules import (
    CLUSTER,
    OPERATIONS,
    Permission,
    Resource,
    as_filter,
    bindings,
    check_operations,
    check_principals,
    operations,
    permissions,
    role_operations,
)
from odradek.client.admin.types.security import AclBinding, AclOperation, AclPermissionType, PatternType, ResourceType

TOPIC: Resource = (ResourceType.TOPIC, "t")
GROUP: Resource = (ResourceType.GROUP, "g")
TRANSACTIONAL: Resource = (ResourceType.TRANSACTIONAL_ID, "x")
READ, WRITE, DESCRIBE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE


def test_operations_are_those_of_kafka_in_any_case() -> None:
    assert operations(["Read", "idempotentwrite", "TWO_PHASE_COMMIT"]) == [
        READ,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    ]
    assert len(OPERATIONS) == 14
    with pytest.raises(click.UsageError, match="--operation Any: unknown operation; the operations are All, Read"):
        operations(["Any"])


def test_roles() -> None:
    assert role_operations([TOPIC, TRANSACTIONAL], producer=True, consumer=False, idempotent=True) == {
        TOPIC: [WRITE, DESCRIBE, CREATE],
        TRANSACTIONAL: [WRITE, DESCRIBE],
        (ResourceType.CLUSTER, CLUSTER): [AclOperation.IDEMPOTENT_WRITE],
    }
    assert role_operations([TOPIC, GROUP], producer=False, consumer=True, idempotent=False) == {TOPIC: [READ, DESCRIBE], GROUP: [READ]}
    both = role_operations([TOPIC, GROUP], producer=True, consumer=True, idempotent=False)
    assert both == {TOPIC: [WRITE, DESCRIBE, CREATE, READ], GROUP: [READ]}
    idempotent = role_operations([TOPIC, GROUP], producer=True, consumer=True, idempotent=True)
    assert idempotent == {**both, (ResourceType.CLUSTER, CLUSTER): [AclOperation.IDEMPOTENT_WRITE]}


@pytest.mark.parametrize(
    ("resources", "roles", "said"),
    [
        ([GROUP], "producer", "With --producer you must specify a --topic"),
        ([TOPIC], "consumer", "With --consumer you must specify a --topic and a --group"),
        ([TOPIC, GROUP], "producer", "--producer cannot be used with --group"),
        ([TOPIC, GROUP, TRANSACTIONAL], "consumer", "--consumer cannot be used with --transactional-id"),
        ([TOPIC, GROUP], "consumer idempotent", "--idempotent requires --producer"),
    ],
)
def test_roles_that_lack_something(resources: list[Resource], roles: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        role_operations(resources, producer="producer" in roles, consumer="consumer" in roles, idempotent="idempotent" in roles)


def test_who() -> None:
    assert permissions(["User:a"], ["User:b"], [], ["h"]) == [
        Permission(AclPermissionType.ALLOW, ["User:a"], ("*",)),
        Permission(AclPermissionType.DENY, ["User:b"], ["h"]),
    ]
    assert permissions([], [], [], []) == []
    with pytest.raises(click.UsageError, match="--deny-host requires --deny-principal"):
        permissions(["User:a"], [], [], ["h"])
    for principal in ("a", ":a", "User:", ""):
        with pytest.raises(click.UsageError, match="expected a principal TYPE:NAME"):
            check_principals([principal])


def test_what_an_operation_is_for() -> None:
    check_operations([TOPIC, GROUP], [READ, AclOperation.ALL])
    with pytest.raises(click.UsageError, match="Write is not an operation of group; its operations are All, AlterConfigs, "):
        check_operations([TOPIC, GROUP], [WRITE])


def test_one_rule_for_each() -> None:
    rules = [Permission(AclPermissionType.ALLOW, ["User:a", "User:b"], ["h", "i"])]
    found = bindings({TOPIC: [READ, WRITE], (ResourceType.CLUSTER, CLUSTER): [CREATE]}, rules, PatternType.PREFIXED)
    assert len(found) == len(set(found)) == 12
    assert found[0] == AclBinding(ResourceType.TOPIC, "t", "User:a", READ, AclPermissionType.ALLOW, "h", PatternType.PREFIXED)
    assert {each.pattern_type for each in found if each.resource_type is ResourceType.CLUSTER} == {PatternType.LITERAL}
    assert tuple(as_filter(found[0])) == (ResourceType.TOPIC, "t", "User:a", READ, AclPermissionType.ALLOW, "h", PatternType.PREFIXED)
