"""`odradek reassign generate|execute|verify|cancel|list`: moves of partitions to other brokers (kafka-reassign-partitions.sh)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, admin_settings, connection_options, controllers_option, explained, run
from odradek.cli.shared.output import JSON, Output, Row, output_option, show
from odradek.cli.shared.per_item import one_of
from odradek.cli.topics.partition_files import read_reassignment, read_topics, reassignment_json
from odradek.cli.topics.reassignment_plan import brokers_of, moves, proposal
from odradek.cli.topics.reassignment_steps import (
    active_directory_moves,
    check_reassignment_is_supported,
    clear_throttles,
    directory_rows,
    log_dirs_of,
    move_directories,
    partition_rows,
    throttle_directories,
    throttle_partitions,
)
from odradek.client.admin.blocking import Admin

NAME: Final = "odradek reassign"
_ACTIONS: Final = {
    "--generate": ["generate"],
    "--execute": ["execute"],
    "--verify": ["verify"],
    "--cancel": ["cancel"],
    "--list": ["list"],
}
_file = click.option(
    "-f",
    "--reassignment-json-file",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file of partitions and their brokers, as `generate` prints it.",
)
_preserve = click.option("--preserve-throttles", "preserve", is_flag=True, help="Do not remove throttles of topics and brokers.")
_timeout = click.option(
    "--timeout",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="How long to wait for the start of moves between log directories, in milliseconds.",
)


def _brokers(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    ids = [each.strip() for each in text.split(",")]
    for each in ids:
        if not (each.isascii() and each.isdecimal() and int(each) <= 0x7FFFFFFF):
            raise click.BadParameter(f"{each!r} is not a broker id")
    if len(set(ids)) != len(ids):
        raise click.BadParameter(f"Broker list contains duplicate entries: {text}")
    return tuple(map(int, ids))


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Move partitions to other brokers."""


@command.command()
@click.argument("names", nargs=-1, metavar="[TOPIC...]")
@click.option(
    "--topics-to-move-json-file",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='Topics as JSON: {"version": 1, "topics": [{"topic": "orders"}]}.',
)
@click.option(
    "--broker-list",
    "--brokerlist",
    "brokers",
    required=True,
    callback=_brokers,
    metavar="ID,...",
    help="Brokers to distribute the partitions over.",
)
@click.option("--disable-rack-aware", "without_racks", is_flag=True, help="Ignore the racks of brokers.")
@output_option
@connection_options
def generate(
    names: tuple[str, ...],
    file: Path | None,
    brokers: tuple[int, ...],
    without_racks: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Propose an assignment of partitions to brokers.

    The proposal distributes the topics evenly over the brokers. The current assignment is printed first; keep it to undo the moves. Nothing
    is changed.
    """
    one_of({"TOPIC": bool(names), "--topics-to-move-json-file": file is not None}, needed=True)
    topics = list(names) if file is None else read_topics(file)
    with Admin(admin_settings(bootstrap, settings, None)) as admin:
        known = {each.node_id: each.rack for each in admin.describe_cluster().brokers}
        _check_known(brokers, known)
        current = _assignment(admin, topics)
        current_json = reassignment_json(current, log_dirs_of(admin, current))
    racks = {broker: None if without_racks else known[broker] for broker in brokers}
    if len({rack is None for rack in racks.values()}) > 1:
        raise OdradekError("not all of these brokers have a rack; use --disable-rack-aware to ignore racks")
    proposed = reassignment_json(proposal(current, racks, random.SystemRandom()))
    if output == JSON:
        click.echo(json.dumps({"current": json.loads(current_json), "proposed": json.loads(proposed)}))
    else:
        click.echo(f"Current partition replica assignment\n{current_json}\n\nProposed partition reassignment configuration\n{proposed}")


def _check_known(brokers: Sequence[int], known: Mapping[int, object]) -> None:
    for each in brokers:
        if each not in known:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"Unknown broker id {each}; the brokers of the cluster are {','.join(map(str, sorted(known)))}",
            )


def _assignment(admin: Admin, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(topic.name, number): part.replicas
        for topic in admin.describe_topics(topics).values()
        for number, part in sorted(topic.partitions.items())
    }


@command.command()
@_file
@click.option(
    "--additional", is_flag=True, help="Start these moves while others are in progress; a partition that is moving gets the new target."
)
@click.option("--throttle", type=click.IntRange(1), metavar="BYTES", help="Limit copying between brokers to BYTES per second.")
@click.option(
    "--replica-alter-log-dirs-throttle",
    "directory_throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Limit copying between log directories of a broker to BYTES per second.",
)
@click.option(
    "--disallow-replication-factor-change",
    "same_number",
    is_flag=True,
    help="Refuse to change the number of replicas of a partition (KIP-860).",
)
@_timeout
@click.option("--dry-run", is_flag=True, help="Only show the moves.")
@output_option
@connection_options
def execute(
    file: Path,
    additional: bool,
    throttle: int | None,
    directory_throttle: int | None,
    same_number: bool,
    timeout: int,
    dry_run: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Start moving partitions.

    Odradek's own brokers do not support this yet. The current assignment is printed first. `odradek reassign verify` shows the progress of
    the moves, and removes throttles at the end.
    """
    wanted = read_reassignment(file)
    with Admin(admin_settings(bootstrap, settings, None)) as admin:
        check_reassignment_is_supported(admin)
        under_way = admin.list_partition_reassignments()
        if under_way and not additional:
            raise OdradekError("other moves are in progress; `odradek reassign list` shows them; use --additional to add more moves")
        known = {each.node_id: each.rack for each in admin.describe_cluster().brokers}
        _check_known(sorted({broker for each in wanted.replicas.values() for broker in each}), known)
        existing = _assignment(admin, sorted({partition.topic for partition in wanted.replicas}))
        missing = [str(partition) for partition in wanted.replicas if partition not in existing]
        if missing:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(missing)}")
        current = {partition: existing[partition] for partition in wanted.replicas}
        moving = moves(under_way, wanted.replicas, current)
        rows: list[Row] = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(current[partition]),
                "target": list(brokers),
                "result": "would move" if dry_run else "started",
            }
            for partition, brokers in sorted(wanted.replicas.items())
        ]
        if dry_run:
            show(rows, output)
            return 0
        if output != JSON:
            click.echo(f"Current partition replica assignment\n\n{reassignment_json(current, log_dirs_of(admin, current))}\n")
        if throttle is not None:
            throttle_partitions(admin, moving, brokers_of(moving), throttle)
        if directory_throttle is not None:
            throttle_directories(admin, sorted({each.broker_id for each in wanted.log_dirs}), directory_throttle)
        outcomes = admin.try_alter_partition_reassignments(wanted.replicas, allow_replication_factor_change=not same_number)
        errors = {partition: error for partition, error in outcomes.items() if error is not None}
        for partition, error in errors.items():
            click.echo(f"{NAME}: {partition}: {explained(error)}", err=True)
        show([row for row in rows if TopicPartition(str(row["topic"]), int(str(row["partition"]))) not in errors], output)
        if errors:
            return 1
        move_directories(admin, wanted.log_dirs, timeout)
    return 0


@command.command()
@_file
@_preserve
@output_option
@connection_options
def verify(file: Path, preserve: bool, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Show the progress of moves.

    When all moves are finished, the throttles of these topics and of all brokers are removed.
    """
    wanted = read_reassignment(file)
    with Admin(admin_settings(bootstrap, settings, None)) as admin:
        under_way = admin.list_partition_reassignments()
        rows = partition_rows(admin, wanted.replicas, under_way)
        rows += directory_rows(admin, wanted.log_dirs)
        show(rows, output)
        if not under_way and not preserve and not any(row["state"] == "in progress" for row in rows):
            clear_throttles(admin, wanted.replicas)


@command.command()
@_file
@_preserve
@_timeout
@controllers_option
@output_option
@connection_options
def cancel(
    file: Path, preserve: bool, timeout: int, controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]
) -> int:
    """Cancel moves that are in progress."""
    wanted = read_reassignment(file)
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        check_reassignment_is_supported(admin)
        under_way = admin.list_partition_reassignments(wanted.replicas)
        outcomes = admin.try_alter_partition_reassignments(dict.fromkeys(sorted(under_way)))
        for partition, error in outcomes.items():
            if error is not None:
                click.echo(f"{NAME}: {partition}: {explained(error)}", err=True)
        done = [partition for partition, error in outcomes.items() if error is None]
        rows: list[Row] = [{"topic": partition.topic, "partition": partition.partition, "result": "cancelled"} for partition in done]
        if rows or output == JSON:
            show(rows, output)
        elif not outcomes:
            click.echo("None of the specified partition reassignments are active.")
        if len(done) < len(outcomes):
            return 1
        if controllers is None:
            move_directories(admin, active_directory_moves(admin, wanted.log_dirs), timeout)
            if not preserve:
                clear_throttles(admin, wanted.replicas)
    return 0


@command.command(name="list")
@controllers_option
@output_option
@connection_options
def list_(controllers: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the moves that are in progress."""
    with Admin(admin_settings(bootstrap, settings, controllers)) as admin:
        found = admin.list_partition_reassignments()
    rows: list[Row] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": each.replicas,
            "adding": each.adding_replicas,
            "removing": each.removing_replicas,
        }
        for partition, each in sorted(found.items())
    ]
    if rows or output == JSON:
        show(rows, output)
    else:
        click.echo("No partition reassignments found.")


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
