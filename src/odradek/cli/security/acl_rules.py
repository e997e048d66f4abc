"""Access rules from the options of `odradek acls`: resources, roles, principals and hosts (AclCommand of Kafka)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import click

from odradek.client.admin.types.security import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, PatternType, ResourceType

ANY_HOST: Final = "*"
CLUSTER: Final = "kafka-cluster"
"""Name of the only resource of type cluster."""

_ALL: Final = AclOperation.ALL
OPERATIONS: Final[Mapping[str, AclOperation]] = {
    "".join(word.capitalize() for word in operation.name.split("_")): operation
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
"""Operations by their names in Kafka's tools, such as Read and IdempotentWrite."""
SPELLED: Final[Mapping[AclOperation, str]] = {operation: name for name, operation in OPERATIONS.items()}
_OPERATIONS_OF: Final[Mapping[ResourceType, frozenset[str]]] = {
    ResourceType.TOPIC: frozenset({"Read", "Write", "Create", "Describe", "Delete", "Alter", "DescribeConfigs", "AlterConfigs"}),
    ResourceType.GROUP: frozenset({"Read", "Describe", "Delete", "DescribeConfigs", "AlterConfigs"}),
    ResourceType.CLUSTER: frozenset({"Create", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "Alter", "Describe"}),
    ResourceType.TRANSACTIONAL_ID: frozenset({"Describe", "Write", "TwoPhaseCommit"}),
    ResourceType.DELEGATION_TOKEN: frozenset({"Describe"}),
    ResourceType.USER: frozenset({"CreateTokens", "DescribeTokens"}),
}
"""Operations of each resource type, besides All, which every type has (AclEntry.supportedOperations)."""

Resource: TypeAlias = tuple[ResourceType, str]


class Permission(NamedTuple):
    """Principals and hosts that a rule allows or denies."""

    permission: AclPermissionType
    principals: Sequence[str]
    hosts: Sequence[str]


def operations(names: Iterable[str]) -> list[AclOperation]:
    """Return the operations with these names, in upper or lower case. Raises UsageError for an unknown name."""
    known = {name.lower(): operation for name, operation in OPERATIONS.items()}
    found: list[AclOperation] = []
    for name in names:
        if name.replace("_", "").lower() not in known:
            raise click.UsageError(f"--operation {name}: unknown operation; the operations are {', '.join(OPERATIONS)}")
        found.append(known[name.replace("_", "").lower()])
    return found


def check_operations(resources: Iterable[Resource], wanted: Iterable[AclOperation]) -> None:
    """Raise UsageError when a wanted operation does not exist for one of the resources."""
    for kind, _ in resources:
        for operation in wanted:
            if operation is not _ALL and SPELLED[operation] not in _OPERATIONS_OF[kind]:
                known = ", ".join(("All", *sorted(_OPERATIONS_OF[kind])))
                raise click.UsageError(f"{SPELLED[operation]} is not an operation of {kind.name.lower()}; its operations are {known}")


def check_principals(principals: Iterable[str]) -> None:
    """Raise UsageError for a principal that is not written TYPE:NAME, such as `User:alice`."""
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not colon or not kind or not name:
            raise click.UsageError(f"{principal}: expected a principal TYPE:NAME, such as User:alice or User:*")


def permissions(allowed: Sequence[str], denied: Sequence[str], allow_hosts: Sequence[str], deny_hosts: Sequence[str]) -> list[Permission]:
    """Return the allowed and the denied principals with their hosts; without hosts a rule holds for all hosts.

    Raises UsageError for hosts without principals, and for a malformed principal.
    """
    check_principals((*allowed, *denied))
    for hosts, principals, word in ((allow_hosts, allowed, "allow"), (deny_hosts, denied, "deny")):
        if hosts and not principals:
            raise click.UsageError(f"--{word}-host requires --{word}-principal")
    found: list[Permission] = []
    if allowed:
        found.append(Permission(AclPermissionType.ALLOW, allowed, allow_hosts or (ANY_HOST,)))
    if denied:
        found.append(Permission(AclPermissionType.DENY, denied, deny_hosts or (ANY_HOST,)))
    return found


def role_operations(
    resources: Sequence[Resource], *, producer: bool, consumer: bool, idempotent: bool
) -> dict[Resource, list[AclOperation]]:
    """Return the operations that a producer or a consumer needs on each resource.

    Raises UsageError when a needed resource type is missing, or a resource is of a type that the role does not need.
    """
    kinds = [kind for kind, _ in resources]
    if idempotent and not producer:
        raise click.UsageError("--idempotent requires --producer")
    if producer and ResourceType.TOPIC not in kinds:
        raise click.UsageError("With --producer you must specify a --topic")
    if consumer and (ResourceType.TOPIC not in kinds or ResourceType.GROUP not in kinds):
        raise click.UsageError("With --consumer you must specify a --topic and a --group")
    allowed = [ResourceType.TOPIC, *([ResourceType.GROUP] if consumer else []), *([ResourceType.TRANSACTIONAL_ID] if producer else [])]
    for kind in kinds:
        if kind not in allowed:
            raise click.UsageError(
                f"{'--consumer' if consumer else '--producer'} cannot be used with --{kind.name.lower().replace('_', '-')}"
            )
    found: dict[Resource, list[AclOperation]] = {}
    for resource in resources:
        wanted: list[AclOperation] = []
        if resource[0] is ResourceType.TOPIC:
            wanted = [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE] if producer else []
            wanted += [AclOperation.READ, *([] if producer else [AclOperation.DESCRIBE])] if consumer else []
        elif resource[0] is ResourceType.GROUP:
            wanted = [AclOperation.READ]
        else:
            wanted = [AclOperation.WRITE, AclOperation.DESCRIBE]
        found[resource] = wanted
    if idempotent:
        found[ResourceType.CLUSTER, CLUSTER] = [AclOperation.IDEMPOTENT_WRITE]
    return found


def bindings(wanted: Mapping[Resource, Sequence[AclOperation]], rules: Iterable[Permission], pattern: PatternType) -> list[AclBinding]:
    """Return a rule for each resource, operation, principal and host. Rules for the cluster are literal, others have `pattern`."""
    all_rules = list(rules)
    return [
        AclBinding(
            kind, name, principal, operation, each.permission, host, PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern
        )
        for (kind, name), operations_ in wanted.items()
        for operation in operations_
        for each in all_rules
        for principal in each.principals
        for host in each.hosts
    ]


def as_filter(binding: AclBinding) -> AclBindingFilter:
    """Return the filter that matches this rule. With pattern type ANY or MATCH the filter may match several rules."""
    return AclBindingFilter(
        binding.resource_type,
        binding.resource_name,
        binding.principal,
        binding.operation,
        binding.permission,
        binding.host,
        binding.pattern_type,
    )
