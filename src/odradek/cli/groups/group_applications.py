"""`odradek groups reset-application`: reset of a Kafka Streams application (kafka-streams-application-reset.sh)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.groups.group_offsets import Plan, Scenario, Targets, new_offsets, plan_in, target_options
from odradek.cli.groups.group_report import NAME
from odradek.cli.shared.client_command import client_settings, connection_options_with
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.cli.shared.per_item import PAUSE_S, named_argument, partitions_of, report_error, single_name
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.groups import GroupState

_INTERNAL: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-[0-9]+-topic)"
)
_LEAVE_TIMEOUT_S: Final = 10.0


def _names(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def internal_topics(application: str, topics: Iterable[str], named: Collection[str]) -> list[str]:
    """Return the topics that Kafka Streams created for an application, judged by their names. Topics in `named` are left out."""
    return sorted(each for each in topics if each.startswith(f"{application}-") and _INTERNAL.fullmatch(each) and each not in named)


@click.command(name="reset-application")
@named_argument("applications", "--application-id", "APPLICATION", "The same as the argument APPLICATION.", required=True)
@click.option(
    "--input-topics",
    "inputs",
    multiple=True,
    callback=_names,
    metavar="TOPIC,...",
    help="Topics that the application reads; their offsets are reset.",
)
@click.option(
    "--intermediate-topics",
    "intermediates",
    multiple=True,
    callback=_names,
    metavar="TOPIC,...",
    help="Topics that the application writes and reads; their offsets are set to the end.",
)
@click.option(
    "--internal-topics",
    "internals",
    multiple=True,
    callback=_names,
    metavar="TOPIC,...",
    help="Delete only these of the internal topics of the application.",
)
@target_options(
    earliest="Reset input topics to their first records; the default.",
    file="Reset to the offsets of a CSV file with lines topic,partition,offset.",
)
@click.option("--force", is_flag=True, help="Remove the members that are still in the group.")
@execute_option
@output_option
@connection_options_with("--config-file")
def reset_application(
    applications: tuple[str, ...],
    inputs: tuple[str, ...],
    intermediates: tuple[str, ...],
    internals: tuple[str, ...],
    targets: Targets,
    force: bool,
    execute: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Reset a Kafka Streams application.

    Resets the offsets of the application's input topics and deletes its internal topics. Stop all instances first, and delete their local
    state before they start again.
    """
    application = single_name(applications, "APPLICATION")
    chosen = targets.option(needed=False)
    if chosen is not None and not inputs:
        raise click.UsageError(f"{chosen} requires --input-topics")
    repeated = sorted({*inputs} & {*intermediates})
    if repeated:
        raise click.UsageError(f"{repeated[0]} is in --input-topics and in --intermediate-topics")
    scenario = targets.scenario(chosen or "--to-earliest")
    given = {} if targets.from_file is None else plan_in(targets.from_file, [application])[application]
    with Admin(client_settings(bootstrap, settings)) as admin:
        members = _members(admin, application)
        if members and not force:
            raise OdradekError(f"application {application} has {members}; stop all of its instances, or remove the members with --force")
        topics = [each.name for each in admin.list_topics(internal=True)]
        missing = [each for each in (*inputs, *intermediates) if each not in topics]
        for each in missing:
            click.echo(f"{NAME}: topic {each} does not exist; `odradek topics list` shows all topics", err=True)
        deletable = internal_topics(application, topics, {*inputs, *intermediates})
        unknown = [each for each in internals if each not in deletable]
        if unknown:
            raise OdradekError(f"{unknown[0]} is not an internal topic of application {application}; omit --internal-topics to see them")
        moves = _moves(admin, application, scenario, inputs, intermediates, missing, given)
        if members:
            click.echo(f"{NAME}: {'removing' if execute else 'would remove'} {members} of application {application}", err=True)
        rows, failed = apply(admin, application, moves, [*internals] or deletable, bool(members), execute)
    show(rows, output)
    if not execute and (rows or members):
        remark_dry_run(NAME)
    return 1 if failed or missing or moves.problems else 0


def _members(admin: Admin, application: str) -> str:
    """Return the number of members of the application's group as text ("2 members"), "" for none.

    Raises OdradekError when the group has no members and still is not empty, as in a rebalance.
    """
    found = admin.try_describe_consumer_groups([application])[application]
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return ""
        raise found
    count = len(found.members)
    if not count and found.state not in (GroupState.EMPTY, GroupState.DEAD):
        raise OdradekError(f"the group of application {application} is {found.state}; try again after the rebalance")
    return f"{count} member{'s' if count > 1 else ''}" if count else ""


class Moves(NamedTuple):
    """Committed and new offsets by partition; `problems` are already printed."""

    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    problems: list[str]


def _moves(
    admin: Admin,
    application: str,
    scenario: Scenario,
    inputs: Sequence[str],
    intermediates: Sequence[str],
    missing: Collection[str],
    given: Mapping[TopicPartition, int],
) -> Moves:
    input_partitions, intermediate_partitions = (
        partitions_of(admin, {each: None for each in names if each not in missing}) if {*names} - {*missing} else []
        for names in (inputs, intermediates)
    )
    if {*inputs} | {*intermediates} == {*missing}:
        return Moves({}, {}, [])
    try:
        committed = admin.list_consumer_group_offsets([application])[application]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    unchanged: list[str] = []
    if scenario.option == "--from-file":
        foreign = sorted(each for each in given if each not in input_partitions)
        if foreign:
            raise OdradekError(f"the file has an offset for {foreign[0]}, which is not a partition of --input-topics")
        unchanged = [f"{each} is not in the file; its offset stays unchanged" for each in input_partitions if each not in given]
        input_partitions = [each for each in input_partitions if each in given]
    plan = new_offsets(admin, scenario, input_partitions, committed, given)
    ends = (
        new_offsets(admin, Scenario("--to-latest"), intermediate_partitions, committed, {}) if intermediate_partitions else Plan({}, [], [])
    )
    problems = [*plan.problems, *ends.problems, *unchanged]
    for remark in (*plan.remarks, *problems):
        click.echo(f"{NAME}: {application}: {remark}", err=True)
    return Moves({partition: at.offset for partition, at in committed.items() if at is not None}, plan.offsets | ends.offsets, problems)


def apply(
    admin: Admin, application: str, moves: Moves, deletable: Sequence[str], has_members: bool, execute: bool
) -> tuple[list[Row], int]:
    """Return the rows of all resets and deletions, and the number of failures. Without `execute` nothing is changed."""
    rows: list[Row] = []
    failed = 0
    moved: Mapping[TopicPartition, KafkaError | None] = dict.fromkeys(moves.after)
    deleted: Mapping[str, KafkaError | None] = dict.fromkeys(deletable)
    if execute:
        if has_members:
            _remove_members(admin, application)
        moved = admin.try_alter_consumer_group_offsets(application, moves.after) if moves.after else {}
        # Topics that the application derived from its input stay when a reset failed: it could not derive them again.
        if any(moved.values()):
            deleted = {}
        elif deletable:
            deleted = {str(topic): error for topic, error in admin.try_delete_topics(deletable).items()}
    for partition, error in sorted(moved.items()):
        if error is None:
            rows.append(_row("reset", partition.topic, partition.partition, moves.before.get(partition), moves.after[partition]))
        else:
            failed += 1
            report_error(NAME, error, f"{application}: {partition}")
    for topic, error in sorted(deleted.items()):
        if error is None:
            rows.append(_row("delete", topic, None, None, None))
        else:
            failed += 1
            report_error(NAME, error, topic)
    return rows, failed


def _remove_members(admin: Admin, application: str) -> None:
    for error in admin.try_remove_members_from_consumer_group(application, reason="reset of the application").values():
        if error is not None and error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise error
    deadline = time.monotonic() + _LEAVE_TIMEOUT_S
    while members := _members(admin, application):
        if time.monotonic() > deadline:
            raise OdradekError(f"application {application} has {members} again; an instance of the application is running, stop it first")
        time.sleep(PAUSE_S)


def _row(action: str, topic: str, partition: int | None, before: int | None, after: int | None) -> Row:
    return {"action": action, "topic": topic, "partition": partition, "current_offset": before, "new_offset": after}
