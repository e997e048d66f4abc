"""`odradek acls list|add|remove`: access rules (kafka-acls.sh)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click

from odradek.base.errors import KafkaError
from odradek.cli.security.acl_rules import (
    CLUSTER,
    OPERATIONS,
    SPELLED,
    Resource,
    as_filter,
    bindings,
    check_operations,
    check_principals,
    operations,
    permissions,
    role_operations,
)
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.cli.shared.per_item import report_error
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.security import AclBinding, AclBindingFilter, AclOperation, PatternType, ResourceType

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek acls"
_ACTIONS: Final = {"--list": ["list"], "--add": ["add"], "--remove": ["remove", "--execute"]}
_RESOURCES: Final = "odradek.acl_resources"
_KINDS: Final = {
    "--topic": (ResourceType.TOPIC, "TOPIC", "A topic, or * for all. All options of resources may be repeated."),
    "--group": (ResourceType.GROUP, "GROUP", "A group."),
    "--transactional-id": (ResourceType.TRANSACTIONAL_ID, "ID", "A transactional id."),
    "--delegation-token": (ResourceType.DELEGATION_TOKEN, "ID", "A delegation token."),
    "--user-principal": (ResourceType.USER, "PRINCIPAL", "A user, for the operations CreateTokens and DescribeTokens."),
}


def _resource_options(function: F) -> F:
    def kept(kind: ResourceType) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], None]:
        def keep(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
            context.meta.setdefault(_RESOURCES, []).extend((kind, name.strip()) for name in dict.fromkeys(names))

        return keep

    def keep_cluster(context: click.Context, _: click.Parameter, given: bool) -> None:
        if given:
            context.meta.setdefault(_RESOURCES, []).append((ResourceType.CLUSTER, CLUSTER))

    function = click.option(
        "--cluster", is_flag=True, expose_value=False, is_eager=True, callback=keep_cluster, help="The cluster itself."
    )(function)
    for option, (kind, metavar, text) in reversed(_KINDS.items()):
        function = click.option(option, multiple=True, expose_value=False, is_eager=True, callback=kept(kind), metavar=metavar, help=text)(
            function
        )
    return function


def _resources() -> list[Resource]:
    return list(click.get_current_context().meta.get(_RESOURCES, ()))


def _pattern_option(*kinds: PatternType) -> Callable[[F], F]:
    return click.option(
        "--resource-pattern-type",
        "pattern",
        type=click.Choice([kind.name for kind in kinds], case_sensitive=False),
        default=PatternType.LITERAL.name,
        show_default=True,
        help="How the names of resources are matched.",
    )


def _rule_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--allow-principal", "allowed", multiple=True, metavar="TYPE:NAME", help="Allow this principal, such as User:alice."
            ),
            click.option(
                "--deny-principal",
                "denied",
                multiple=True,
                metavar="TYPE:NAME",
                help="Deny this principal; a denial overrides all permissions.",
            ),
            click.option(
                "--allow-host", "allow_hosts", multiple=True, metavar="HOST", help="Allow from this address; from all addresses by default."
            ),
            click.option(
                "--deny-host", "deny_hosts", multiple=True, metavar="HOST", help="Deny from this address; from all addresses by default."
            ),
            click.option("--operation", "named", multiple=True, metavar="OPERATION", help=f"{', '.join(OPERATIONS)}; All by default."),
            click.option("--producer", is_flag=True, help="The operations that a producer needs on topics and transactional ids."),
            click.option(
                "--idempotent", is_flag=True, help="With --producer: also IdempotentWrite on the cluster, for brokers before Kafka 2.8."
            ),
            click.option("--consumer", is_flag=True, help="The operations that a consumer needs on topics and groups."),
        )
    ):
        function = option(function)
    return function


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show, add and remove access rules (ACLs)."""


@command.command(name="list")
@_resource_options
@click.option("--principal", "principals", multiple=True, metavar="TYPE:NAME", help="Only rules of this principal; may be repeated.")
@_pattern_option(PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH)
@controllers_option
@output_option
@connection_options
def list_(
    principals: tuple[str, ...], pattern: str, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """List rules of all or of the named resources."""
    resources = _resources()
    check_principals(principals)
    kind = PatternType[pattern.upper()]
    filters = [
        AclBindingFilter(of, name, principal, pattern_type=PatternType.LITERAL if of is ResourceType.CLUSTER else kind)
        if of is not ResourceType.ANY
        else AclBindingFilter(principal=principal)
        for of, name in resources or [(ResourceType.ANY, "")]
        for principal in principals or (None,)
    ]
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        found = {binding for each in filters for binding in admin.describe_acls(each)}
    show([_row(binding) for binding in sorted(found)], output)


def _row(binding: AclBinding) -> Row:
    return {
        "resource_type": binding.resource_type.name,
        "resource_name": binding.resource_name,
        "pattern_type": binding.pattern_type.name,
        "principal": binding.principal,
        "host": binding.host,
        "operation": SPELLED.get(binding.operation, binding.operation.name),
        "permission": binding.permission.name,
    }


def _wanted(named: Sequence[str], *, producer: bool, consumer: bool, idempotent: bool) -> dict[Resource, list[AclOperation]]:
    resources = _resources()
    if not resources:
        raise click.UsageError("You must specify at least one resource: --topic, --group, --cluster, --transactional-id")
    if producer or consumer:
        if named:
            raise click.UsageError("--producer and --consumer cannot be used with --operation")
        return role_operations(resources, producer=producer, consumer=consumer, idempotent=idempotent)
    if idempotent:
        raise click.UsageError("--idempotent requires --producer")
    chosen = operations(named) or [AclOperation.ALL]
    check_operations(resources, chosen)
    return dict.fromkeys(resources, chosen)


@command.command()
@_resource_options
@_rule_options
@_pattern_option(PatternType.LITERAL, PatternType.PREFIXED)
@controllers_option
@output_option
@connection_options
def add(
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    deny_hosts: tuple[str, ...],
    named: tuple[str, ...],
    producer: bool,
    idempotent: bool,
    consumer: bool,
    pattern: str,
    controllers: str | None,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Add rules and print them."""
    wanted = _wanted(named, producer=producer, consumer=consumer, idempotent=idempotent)
    rules = permissions(allowed, denied, allow_hosts, deny_hosts)
    if not rules:
        raise click.UsageError("You must specify one of: --allow-principal, --deny-principal")
    failed = 0
    rows: list[Row] = []
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        for binding, error in admin.try_create_acls(bindings(wanted, rules, PatternType[pattern.upper()])).items():
            if error is None:
                rows.append(_row(binding))
            else:
                failed += 1
                report_error(NAME, error, f"{binding.resource_type.name} {binding.resource_name}")
    show(rows, output)
    return 1 if failed else 0


@command.command()
@_resource_options
@_rule_options
@_pattern_option(PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH)
@click.option("--force", is_flag=True, help="The same as --execute; the option of Kafka's script.")
@controllers_option
@execute_option
@output_option
@connection_options
def remove(
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    allow_hosts: tuple[str, ...],
    deny_hosts: tuple[str, ...],
    named: tuple[str, ...],
    producer: bool,
    idempotent: bool,
    consumer: bool,
    pattern: str,
    force: bool,
    controllers: str | None,
    execute: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Remove rules and print them.

    Without principals and operations, remove all rules of the resources.
    """
    wanted = _wanted(named, producer=producer, consumer=consumer, idempotent=idempotent)
    rules = permissions(allowed, denied, allow_hosts, deny_hosts)
    kind = PatternType[pattern.upper()]
    filters = [as_filter(binding) for binding in bindings(wanted, rules, kind)]
    if not rules:
        if named or producer or consumer:
            raise click.UsageError("You must specify one of: --allow-principal, --deny-principal")
        filters = [
            AclBindingFilter(of, name, pattern_type=PatternType.LITERAL if of is ResourceType.CLUSTER else kind) for of, name in wanted
        ]
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        if execute or force:
            found, failed = _deleted(admin, filters)
        else:
            found, failed = {binding for each in filters for binding in admin.describe_acls(each)}, 0
    show([_row(binding) for binding in sorted(found)], output)
    if not (execute or force):
        remark_dry_run(NAME)
    return 1 if failed else 0


def _deleted(admin: Admin, filters: Sequence[AclBindingFilter]) -> tuple[set[AclBinding], int]:
    found: set[AclBinding] = set()
    failed = 0
    for outcome in admin.try_delete_acls(filters).values():
        if isinstance(outcome, KafkaError):
            failed += 1
            report_error(NAME, outcome)
            continue
        for deleted in outcome:
            if deleted.error is None:
                found.add(deleted.binding)
            else:
                failed += 1
                report_error(NAME, deleted.error, f"{deleted.binding.resource_type.name} {deleted.binding.resource_name}")
    return found, failed


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
