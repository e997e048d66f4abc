"""`odradek groups`: list, describe and delete groups, move their offsets, check patterns.

The command replaces kafka-groups.sh, kafka-consumer-groups.sh and kafka-streams-application-reset.sh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.cli.groups.group_applications import reset_application
from odradek.cli.groups.group_offsets import delete_offsets, reset_offsets
from odradek.cli.groups.group_report import NAME, Report, report
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, output_option, show
from odradek.cli.shared.per_item import named_argument, one_of, report_error, timeout_option, timeout_settings
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.groups import GroupListing, GroupState, GroupType

F = TypeVar("F", bound=Callable[..., object])
V = TypeVar("V")
_ANY: Final = "any"
_ACTIONS: Final = {
    "--list": ["list"],
    "--describe": ["describe"],
    "--delete": ["delete", "--execute"],
    "--delete-offsets": ["delete-offsets", "--execute"],
    "--reset-offsets": ["reset-offsets"],
    "--validate-regex": ["validate-regex"],
}
"""Subcommands by flag of kafka-consumer-groups.sh. In that script only --reset-offsets has a dry run, so the deletions are executed."""
_STATES: Final = {state.lower(): state for state in GroupState if state is not GroupState.UNKNOWN}
_TYPES: Final = {kind.lower(): kind for kind in GroupType if kind is not GroupType.UNKNOWN}


def _groups(*, required: bool) -> Callable[[F], F]:
    return named_argument("names", "--group", "GROUP", "The same as the argument GROUP; may be repeated.", required=required)


_all_groups = click.option("--all-groups", is_flag=True, help="All consumer groups.")


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show groups, members and lag; reset offsets."""


command.add_command(delete_offsets)
command.add_command(reset_offsets)
command.add_command(reset_application)


@command.command(name="list")
@click.option("--consumer", is_flag=True, help="Only groups of consumers: type consumer, and type classic with protocol consumer or none.")
@click.option("--share", is_flag=True, help="Only share groups.")
@click.option("--streams", is_flag=True, help="Only groups of Kafka Streams.")
@click.option("--type", "--group-type", "types", is_flag=False, flag_value=_ANY, metavar="[TYPE,...]", help="Only groups of these types.")
@click.option("--state", "states", is_flag=False, flag_value=_ANY, metavar="[STATE,...]", help="Only groups in these states.")
@click.option("--protocol", metavar="NAME", help="Only groups of this protocol, such as consumer or connect.")
@timeout_option
@output_option
@connection_options
def list_(
    consumer: bool,
    share: bool,
    streams: bool,
    types: str | None,
    states: str | None,
    protocol: str | None,
    timeout: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """List groups with type, protocol and state."""
    one_of({"--consumer": consumer, "--share": share, "--streams": streams, "--type": types not in (None, _ANY)}, needed=False)
    wanted_types = _chosen("types", types, _TYPES)
    wanted_states = _chosen("states", states, _STATES)
    if share or streams:
        wanted_types = [GroupType.SHARE if share else GroupType.STREAMS]
    with Admin(client_settings(bootstrap, settings, **timeout_settings(timeout))) as admin:
        found = admin.list_groups(states=wanted_states, types=wanted_types)
    if consumer:
        found = [each for each in found if _of_consumers(each)]
    if protocol is not None:
        found = [each for each in found if each.protocol == protocol]
    show(
        [
            {"group": each.group_id, "type": each.group_type, "protocol": each.protocol, "state": each.state}
            for each in sorted(found, key=lambda each: each.group_id)
        ],
        output,
    )


def _of_consumers(group: GroupListing) -> bool:
    return group.group_type is GroupType.CONSUMER or (group.group_type in (GroupType.CLASSIC, None) and group.protocol in ("", "consumer"))


def _chosen(what: str, text: str | None, known: Mapping[str, V]) -> list[V]:
    if text is None or text == _ANY:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(name.lower() in known for name in names):
        raise click.UsageError(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(map(str, known.values()))}")
    return [known[name.lower()] for name in names]


@command.command()
@_groups(required=False)
@_all_groups
@click.option("--offsets", is_flag=True, help="Show committed offset, end offset and lag of partitions; the default.")
@click.option("--members", is_flag=True, help="Show members instead of partitions.")
@click.option("--state", is_flag=True, help="Show coordinator, assignor, state and number of members of each group.")
@click.option("--verbose", is_flag=True, help="Also show epochs and the assignments of members.")
@click.option("--only-with-lag", is_flag=True, help="Only partitions with a lag greater than 0.")
@timeout_option
@output_option
@connection_options
def describe(
    names: tuple[str, ...],
    all_groups: bool,
    offsets: bool,
    members: bool,
    state: bool,
    verbose: bool,
    only_with_lag: bool,
    timeout: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Show offsets and lag, members or state.

    The exit status is 1 if a group does not exist.
    """
    _need_groups(names, all_groups)
    what = one_of({"--offsets": offsets, "--members": members, "--state": state}, needed=False) or "--offsets"
    if only_with_lag and what != "--offsets":
        raise click.UsageError(f"--only-with-lag cannot be used with {what}")
    with Admin(client_settings(bootstrap, settings, **timeout_settings(timeout))) as admin:
        found: Report = report(admin, _named(admin, names, all_groups), what, verbose=verbose)
    for line in found.remarks:
        click.echo(line, err=True)
    for group, error in found.errors.items():
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            click.echo(f"{NAME}: Consumer group '{group}' does not exist; `odradek groups list` shows all groups", err=True)
        else:
            report_error(NAME, error, group)
    rows = found.rows
    if only_with_lag:
        rows = [row for row in rows if row["lag"]]
    show(rows, output)
    return 1 if found.errors else 0


def _need_groups(names: tuple[str, ...], all_groups: bool) -> None:
    if not one_of({"GROUP": bool(names), "--all-groups": all_groups}, needed=False):
        raise click.UsageError("one of GROUP, --all-groups is required")


def _named(admin: Admin, names: tuple[str, ...], all_groups: bool) -> list[str]:
    return sorted(group.group_id for group in admin.list_consumer_groups()) if all_groups else list(names)


@command.command()
@_groups(required=False)
@_all_groups
@execute_option
@timeout_option
@connection_options
def delete(names: tuple[str, ...], all_groups: bool, execute: bool, timeout: int, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Delete groups and their offsets.

    Only a group without members can be deleted.
    """
    _need_groups(names, all_groups)
    failed = previewed = 0
    with Admin(client_settings(bootstrap, settings, **timeout_settings(timeout))) as admin:
        groups = _named(admin, names, all_groups)
        if execute:
            for group, error in admin.try_delete_consumer_groups(groups).items():
                if error is None:
                    click.echo(f"Deleted group {group}.")
                else:
                    failed += 1
                    report_error(NAME, error, group)
        else:
            for group, found in admin.try_describe_consumer_groups(groups).items():
                if isinstance(found, KafkaError):
                    failed += 1
                    report_error(NAME, found, group)
                elif found.state not in (GroupState.EMPTY, GroupState.DEAD):
                    failed += 1
                    report_error(NAME, KafkaError(ErrorCode.NON_EMPTY_GROUP, _members(len(found.members))), group)
                else:
                    previewed += 1
                    count = len(admin.list_consumer_group_offsets([group])[group])
                    click.echo(f"Would delete group {group} with {count} committed offset{'s' if count != 1 else ''}.")
    if previewed:
        remark_dry_run(NAME)
    return 1 if failed else 0


def _members(count: int) -> str:
    return f"the group has {count} member{'s' if count != 1 else ''}"


@command.command(name="validate-regex")
@click.argument("pattern")
def validate_regex(pattern: str) -> int:
    """Check whether a topic pattern is valid RE2 syntax.

    The check needs no broker.
    """
    from odradek.coordinator.patterns import compile_pattern

    try:
        compile_pattern(pattern)
    except KafkaError as error:
        click.echo(f"{NAME}: The regular expression is invalid: {error.message}", err=True)
        return 1
    click.echo(f"The regular expression `{pattern}` is valid.")
    return 0


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
