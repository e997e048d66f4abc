"""`odradek elections preferred|unclean`: elections of leaders (kafka-leader-election.sh)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options_with, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import JSON, Output, Row, output_option, show
from odradek.cli.shared.per_item import one_of, report_error
from odradek.cli.topics.partition_files import read_election
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.replicas import ElectionType

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek elections"
_KAFKA_OPTION: Final = "--election-type"
_connection = connection_options_with("--admin.config")


def _partitions_option(function: F) -> F:
    texts = click.argument("texts", nargs=-1, metavar="[TOPIC:PARTITION...]")
    topic = click.option("--topic", metavar="TOPIC", help="The topic of --partition.")
    partition = click.option("--partition", type=click.IntRange(0, 0x7FFFFFFF), metavar="N", help="A partition of --topic.")
    everything = click.option("--all-topic-partitions", "all_", is_flag=True, help="All partitions whose leader would change.")
    file = click.option(
        "--path-to-json-file",
        "file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help='Partitions as JSON: {"partitions": [{"topic": "orders", "partition": 0}]}.',
    )
    return texts(topic(partition(everything(file(function)))))


def selected_partitions(
    texts: Sequence[str], topic: str | None, partition: int | None, file: Path | None, *, all_: bool
) -> list[TopicPartition] | None:
    """Return the partitions of a command line, None for all. Raises UsageError when several options name partitions, or no option does."""
    given = {"TOPIC:PARTITION": bool(texts), "--topic": topic is not None, "--all-topic-partitions": all_}
    one_of({**given, "--path-to-json-file": file is not None}, needed=True)
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition must be given together")
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    if file is not None:
        return read_election(file)
    return None if all_ else list(dict.fromkeys(map(_partition, texts)))


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition(":")
    if not topic or not (number.isascii() and number.isdecimal() and int(number) <= 0x7FFFFFFF):
        raise click.UsageError(f"{text}: expected TOPIC:PARTITION")
    return TopicPartition(topic, int(number))


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Elect leaders of partitions."""


@command.command()
@_partitions_option
@output_option
@_connection
def preferred(
    texts: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    all_: bool,
    file: Path | None,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Elect the preferred (first) replicas as leaders.

    The preferred replica must be in sync. It is not an error if that replica is the leader already.
    """
    wanted = selected_partitions(texts, topic, partition, file, all_=all_)
    with Admin(client_settings(bootstrap, settings)) as admin:
        return _elect(admin, ElectionType.PREFERRED, wanted, output)


@command.command()
@_partitions_option
@execute_option
@output_option
@_connection
def unclean(
    texts: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    all_: bool,
    file: Path | None,
    execute: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Elect any live replica as leader.

    Use this for partitions without a leader whose in-sync replicas will not return. Records that the new leader does not have are lost.
    """
    wanted = selected_partitions(texts, topic, partition, file, all_=all_)
    with Admin(client_settings(bootstrap, settings)) as admin:
        if execute:
            return _elect(admin, ElectionType.UNCLEAN, wanted, output)
        rows, failed = _leaderless(admin, wanted)
    _print_rows(rows, output, "" if failed else "Every partition has a leader.")
    if rows:
        remark_dry_run(NAME)
    return 1 if failed else 0


def _elect(admin: Admin, kind: ElectionType, wanted: list[TopicPartition] | None, output: Output) -> int:
    rows: list[Row] = []
    failed = 0
    for partition, error in sorted(admin.try_elect_leaders(kind, wanted).items()):
        if error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED:
            result = "elected" if error is None else "not needed"
            rows.append({"topic": partition.topic, "partition": partition.partition, "election": kind.name.lower(), "result": result})
        else:
            failed += 1
            report_error(NAME, error, str(partition))
    _print_rows(rows, output, "" if failed else "No partition needs another leader.")
    return 1 if failed else 0


def _print_rows(rows: list[Row], output: Output, none: str) -> None:
    if rows or output == JSON:
        show(rows, output)
    elif none:
        click.echo(none)


def _leaderless(admin: Admin, wanted: list[TopicPartition] | None) -> tuple[list[Row], int]:
    """Return a row for each partition without a leader, and the number of wanted partitions that do not exist."""
    names = sorted({each.topic for each in wanted} if wanted is not None else {each.name for each in admin.list_topics(internal=True)})
    topics = admin.try_describe_topics(names)
    rows: list[Row] = []
    failed = 0
    existing = {
        TopicPartition(topic.name, number): part
        for topic in topics.values()
        if not isinstance(topic, KafkaError)
        for number, part in topic.partitions.items()
    }
    for partition in sorted(existing) if wanted is None else wanted:
        if partition not in existing:
            failed += 1
            error = topics[partition.topic]
            report_error(
                NAME,
                error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist"),
                str(partition),
            )
        elif existing[partition].leader < 0:
            part = existing[partition]
            up = [each for each in part.replicas if each not in part.offline_replicas]
            rows.append(
                {"topic": partition.topic, "partition": partition.partition, "replicas": part.replicas, "isr": part.isr, "candidates": up}
            )
    return rows, failed


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status.

    --election-type, the option of Kafka's script, stands for a subcommand. Kafka's script has no dry run, so "unclean" is executed.
    """
    for position, each in enumerate(arguments):
        option, equals, value = each.partition("=")
        if option == _KAFKA_OPTION and (equals or position + 1 < len(arguments)):
            kind = value if equals else arguments[position + 1]
            rest = arguments[:position] + arguments[position + (1 if equals else 2) :]
            words = [kind.lower(), *(["--execute"] if kind.lower() == "unclean" else [])]
            return run(command, NAME, [*words, *rest])
    return run(command, NAME, arguments)
