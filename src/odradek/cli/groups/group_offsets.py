"""`odradek groups reset-offsets` and `delete-offsets`: changes of a group's committed offsets."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.groups.group_report import NAME
from odradek.cli.shared.client_command import client_settings, connection_options, explained
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.help_page import with_advice
from odradek.cli.shared.output import Output, output_option, show
from odradek.cli.shared.per_item import (
    existing_partitions,
    named_argument,
    one_of,
    partition_scopes,
    partitions_of,
    report_error,
    single_name,
    timeout_option,
    timeout_settings,
)
from odradek.cli.shared.times import duration_ms, instant_ms
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.groups import ConsumerGroupDescription, GroupState, OffsetAndMetadata
from odradek.client.admin.types.topics import OffsetSpec

Committed: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata | None]

_INACTIVE: Final = (GroupState.EMPTY, GroupState.DEAD)
_LARGEST: Final = 2**63 - 1
_NUMBER: Final = re.compile("[0-9]{1,19}")
_OFFSET: Final = click.IntRange(-_LARGEST - 1, _LARGEST)


class Scenario(NamedTuple):
    """Target of a reset: the option's name and its value (an offset, a difference, or Unix milliseconds), 0 for options without one."""

    option: str
    value: int = 0


class Targets(NamedTuple):
    """Values of the options that say where offsets are moved, of which the user gives at most one (see `target_options`)."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: Path | None

    def option(self, *, needed: bool) -> str | None:
        """Return the given option, or None. Raises UsageError for two options, and for none when an option is needed."""
        given = self._asdict().items()
        return one_of({f"--{name.replace('_', '-')}": value is not None and value is not False for name, value in given}, needed=needed)

    def scenario(self, option: str) -> Scenario:
        """Return the scenario of `option`. Raises UsageError for a malformed time or duration."""
        try:
            if self.to_datetime is not None:
                return Scenario(option, instant_ms(self.to_datetime))
            if self.by_duration is not None:
                return Scenario(option, max(0, time.time_ns() // 1_000_000 - duration_ms(self.by_duration)))
        except ValueError as malformed:
            raise click.UsageError(f"{option} {malformed}") from None
        return Scenario(option, (self.to_offset if self.to_offset is not None else self.shift_by) or 0)


def target_options(*, earliest: str, file: str, current: str | None = None) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds the options of `Targets`, and passes them as `targets`.

    The arguments are the help texts of --to-earliest, --from-file and --to-current; --to-current is added only with `current`.
    """
    time_help = "Reset to the first record at or after this time, such as 2023-11-14T22:13:20.000 (UTC without a zone)."
    duration_help = "Reset to the first record that is not older than this duration."
    options = [
        click.option("--to-earliest", is_flag=True, help=earliest),
        click.option("--to-latest", is_flag=True, help="Reset to the end."),
        *([] if current is None else [click.option("--to-current", is_flag=True, help=current)]),
        click.option("--to-offset", type=_OFFSET, metavar="N", help="Reset to this offset, or to the nearest existing offset."),
        click.option("--shift-by", type=_OFFSET, metavar="N", help="Shift by N offsets; a negative N shifts backward."),
        click.option("--to-datetime", metavar="TIME", help=time_help),
        click.option("--by-duration", metavar="PnDTnHnMnS", help=duration_help),
        click.option("--from-file", type=click.Path(path_type=Path), metavar="FILE", help=file),
    ]

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def command(*, to_current: bool = False, **given: Any) -> int:
            targets = {name: given.pop(name) for name in Targets._fields if name in given}
            return function(targets=Targets(to_current=to_current, **targets), **given)

        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Plan(NamedTuple):
    """New offsets. `remarks` name offsets that differ from the requested ones, `problems` name partitions whose offset cannot be moved."""

    offsets: dict[TopicPartition, int]
    remarks: list[str]
    problems: list[str]


@click.command(name="reset-offsets")
@named_argument("names", "--group", "GROUP", "The same as the argument GROUP; may be repeated.", required=False)
@click.option("--all-groups", is_flag=True, help="All consumer groups.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:N,...]", help="Only this topic or these partitions of it; may be repeated."
)
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has a committed offset.")
@target_options(
    earliest="Reset to the first record.",
    current="Reset to the committed offset; without one, to the end.",
    file="Reset to the offsets of a CSV file, as --export prints it; - reads standard input.",
)
@click.option(
    "--export", is_flag=True, help="Print CSV for --from-file with the columns group (only for several groups), topic, partition, offset."
)
@execute_option
@timeout_option
@output_option
@connection_options
def reset_offsets(
    names: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    targets: Targets,
    export: bool,
    execute: bool,
    timeout: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Reset a group's committed offsets.

    The group must have no members. A group that does not exist is created.
    """
    one_of({"GROUP": bool(names), "--all-groups": all_groups}, needed=True)
    option = str(targets.option(needed=True))
    from_file = targets.from_file
    if one_of({"--topic": bool(topics), "--all-topics": all_topics, "--from-file": from_file is not None}, needed=False) is None:
        raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if export and output != "table":
        raise click.UsageError("--export prints CSV and cannot be used with -o json")
    scenario = targets.scenario(option)
    scopes = partition_scopes("--topic", topics)
    rows: list[dict[str, object]] = []
    failed = 0
    with Admin(client_settings(bootstrap, settings, **timeout_settings(timeout))) as admin:
        groups = sorted(group.group_id for group in admin.list_consumer_groups()) if all_groups else list(names)
        given = plan_in(from_file, groups) if from_file is not None else None
        scope = partitions_of(admin, scopes) if scopes else None
        for group, found in admin.try_describe_consumer_groups(groups).items():
            problem = refusal_of(group, found)
            if problem is not None:
                failed += 1
                click.echo(f"{NAME}: {problem}", err=True)
                continue
            committed = admin.list_consumer_group_offsets([group])[group]
            asked = scope if scope is not None else list(given[group] if given is not None else committed)
            plan = new_offsets(admin, scenario, asked, committed, given[group] if given is not None else {})
            for remark in (*plan.remarks, *plan.problems):
                click.echo(f"{NAME}: {group}: {remark}", err=True)
            failed += len(plan.problems)
            outcomes: Mapping[TopicPartition, KafkaError | None] = dict.fromkeys(plan.offsets)
            if execute and plan.offsets:
                outcomes = admin.try_alter_consumer_group_offsets(group, plan.offsets)
            for partition, error in outcomes.items():
                if error is not None:
                    failed += 1
                    report_error(NAME, error, f"{group}: {partition}")
                    continue
                at = committed.get(partition)
                rows.append(
                    {
                        "group": group,
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "current_offset": at.offset if at is not None else None,
                        "new_offset": plan.offsets[partition],
                    }
                )
    if export:
        click.echo(exported(rows, with_group=len(groups) > 1), nl=False)
    else:
        show(rows, output)
        if rows and not execute:
            remark_dry_run(NAME)
    return 1 if failed else 0


def plan_in(file: Path, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return offsets by group and partition from a CSV file, see `read_plan`; `-` is standard input.

    Raises OSError for a file that cannot be read, OdradekError for a file that is not UTF-8 and for a malformed one.
    """
    with click.open_file(str(file), "rb") as stream:
        content = stream.read()
    try:
        return read_plan(content.decode("utf-8-sig"), str(file), groups)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise OdradekError(f"{file}:{line}: the byte 0x{content[error.start]:02x} is not UTF-8") from None


def refusal_of(group: str, found: ConsumerGroupDescription | KafkaError) -> str | None:
    """Return the reason why a group's offsets cannot be moved, None when they can. Raises KafkaError when the cluster is unreachable."""
    if isinstance(found, KafkaError):
        if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        if found.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
            raise found
        return f"{group}: {explained(found)}"
    if found.state in _INACTIVE:
        return None
    return with_advice(
        f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {found.state}.",
        "stop the members of the group first",
    )


def new_offsets(
    admin: Admin,
    scenario: Scenario,
    partitions: Sequence[TopicPartition],
    committed: Committed,
    given: Mapping[TopicPartition, int],
) -> Plan:
    """Return the new offsets of the group's partitions. `given` are the group's offsets in the file of --from-file.

    A partition that does not exist is one of the plan's problems.
    """
    option, value = scenario
    current = {partition: at.offset for partition, at in committed.items() if at is not None}
    existing = existing_partitions(admin, partitions)
    problems = [f"{partition} does not exist; its offset stays unchanged" for partition in partitions if partition not in existing]
    partitions = existing
    if option == "--from-file":
        wanted = {partition: given[partition] for partition in partitions}
    elif option == "--to-offset":
        wanted = dict.fromkeys(partitions, value)
    elif option == "--shift-by":
        wanted = {partition: current[partition] + value for partition in partitions if partition in current}
        problems += [
            f"{partition} cannot be shifted: it has no current committed offset" for partition in partitions if partition not in current
        ]
    elif option == "--to-current":
        ends = _offsets(admin, [partition for partition in partitions if partition not in current], OffsetSpec.LATEST)
        return Plan({partition: current.get(partition, ends.get(partition, 0)) for partition in partitions}, [], problems)
    elif option in ("--to-earliest", "--to-latest"):
        return Plan(_offsets(admin, partitions, OffsetSpec.EARLIEST if option == "--to-earliest" else OffsetSpec.LATEST), [], problems)
    else:
        found = _offsets(admin, partitions, value)
        without_record = [partition for partition in partitions if found[partition] < 0]
        remarks = [f"{partition} has no record of that time or later; the end offset is used" for partition in without_record]
        return Plan(found | _offsets(admin, without_record, OffsetSpec.LATEST), remarks, problems)
    first, last = _offsets(admin, wanted, OffsetSpec.EARLIEST), _offsets(admin, wanted, OffsetSpec.LATEST)
    return within(wanted, first, last, problems)


def within(
    wanted: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int], last: Mapping[TopicPartition, int], problems: list[str]
) -> Plan:
    """Return a plan with each wanted offset limited to the range from `first` to `last` (both inclusive), with a remark if it changed."""
    offsets: dict[TopicPartition, int] = {}
    remarks: list[str] = []
    for partition, offset in wanted.items():
        offsets[partition] = min(max(offset, first[partition]), last[partition])
        if offset > last[partition]:
            remarks.append(f"{partition}: offset {offset} is higher than the latest offset; {last[partition]} is used")
        elif offset < first[partition]:
            remarks.append(f"{partition}: offset {offset} is lower than the earliest offset; {first[partition]} is used")
    return Plan(offsets, remarks, problems)


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition] | Mapping[TopicPartition, int], spec: OffsetSpec | int
) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}
    return {partition: each.offset for partition, each in found.items()}


def read_plan(text: str, file: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return offsets by group and partition from CSV lines `group,topic,partition,offset`, or `topic,partition,offset` for a single group.

    Raises OdradekError for a malformed line, and for a group that is not in `groups`.
    """
    plan: dict[str, dict[TopicPartition, int]] = {group: {} for group in groups}
    for number, cells in _numbered(text, file):
        if not cells:
            continue
        if len(cells) == 3 and len(groups) != 1:
            raise OdradekError(f"{file}:{number}: expected group,topic,partition,offset, because several groups are reset")
        group, topic, *rest = cells if len(cells) == 4 else (groups[0], *cells)
        if len(rest) != 2 or not topic or not _NUMBER.fullmatch(rest[0]) or not _NUMBER.fullmatch(rest[1].removeprefix("-")):
            raise OdradekError(f"{file}:{number}: expected topic,partition,offset or group,topic,partition,offset")
        if group not in plan:
            raise OdradekError(f"{file}:{number}: group {group} is not one of the groups to reset")
        partition, offset = int(rest[0]), int(rest[1])
        if partition > 0x7FFFFFFF or not -_LARGEST - 1 <= offset <= _LARGEST:
            raise OdradekError(f"{file}:{number}: the partition or the offset is too large")
        plan[group][TopicPartition(topic, partition)] = offset
    return plan


def _numbered(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(io.StringIO(text, newline=None))
    try:
        yield from enumerate(rows, 1)
    except csv.Error as error:
        raise OdradekError(f"{file}:{rows.line_num}: {error}") from None


def exported(rows: Sequence[Mapping[str, object]], *, with_group: bool) -> str:
    """Return the rows as CSV lines that `read_plan` reads."""
    text = io.StringIO()
    columns = (*(("group",) if with_group else ()), "topic", "partition", "new_offset")
    csv.writer(text, lineterminator="\n").writerows([[row[column] for column in columns] for row in rows])
    return text.getvalue()


@click.command(name="delete-offsets")
@named_argument("names", "--group", "GROUP", "The same as the argument GROUP.", required=True)
@click.option(
    "--topic", "topics", multiple=True, required=True, metavar="TOPIC[:N,...]", help="Delete the offsets of this topic; may be repeated."
)
@execute_option
@timeout_option
@output_option
@connection_options
def delete_offsets(
    names: tuple[str, ...], topics: tuple[str, ...], execute: bool, timeout: int, output: Output, bootstrap: str, settings: tuple[str, ...]
) -> int:
    """Delete a group's committed offsets.

    The topic need not exist any longer. Offsets of a topic that a member reads are not deleted.
    """
    group = single_name(names, "GROUP")
    scopes = partition_scopes("--topic", topics)
    with Admin(client_settings(bootstrap, settings, **timeout_settings(timeout))) as admin:
        admin.describe_consumer_groups([group])  # An unknown group is an error, not a group without offsets.
        committed = admin.list_consumer_group_offsets([group])[group]
        wanted, missing = _with_offsets(scopes, committed)
        for each in missing:
            click.echo(
                f"{NAME}: group {group} has no committed offset of {each}; `odradek groups describe {group}` shows its offsets", err=True
            )
        outcomes: Mapping[TopicPartition, KafkaError | None] = dict.fromkeys(wanted)
        if execute and wanted:
            outcomes = admin.try_delete_consumer_group_offsets(group, wanted)
    for partition, error in outcomes.items():
        if error is not None:
            report_error(NAME, error, f"{group}: {partition}")
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": at.offset,
            "status": "deleted" if execute else "to be deleted",
        }
        for partition, error in outcomes.items()
        if error is None and (at := committed[partition]) is not None
    ]
    show(rows, output)
    if rows and not execute:
        remark_dry_run(NAME)
    return 1 if missing or any(outcomes.values()) else 0


def _with_offsets(scopes: Mapping[str, Sequence[int] | None], committed: Committed) -> tuple[list[TopicPartition], list[str]]:
    existing: list[TopicPartition] = []
    missing: list[str] = []
    for topic, numbers in scopes.items():
        has = sorted(partition for partition, at in committed.items() if partition.topic == topic and at is not None)
        if numbers is None:
            existing += has
            missing += [topic] if not has else []
        else:
            wanted = [TopicPartition(topic, number) for number in numbers]
            existing += [partition for partition in wanted if partition in has]
            missing += [str(partition) for partition in wanted if partition not in has]
    return existing, missing
