"""`odradek topics create|alter|list|describe|config|delete` (kafka-topics.sh)."""

from __future__ import annotations

import json
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.text import printable
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, explained, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import JSON, Output, output_option
from odradek.cli.shared.per_item import named_argument, one_of, report_error
from odradek.cli.topics.topic_names import TopicPattern, internal_option, names_and_patterns, pattern_option, replica_lists, selected_topics
from odradek.cli.topics.topic_report import SOURCE_TOPIC, describe
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import NewPartitions, OffsetSpec, TopicDescription
from odradek.client.types import ConfigChange, ConfigResource, NewTopic

NAME: Final = "odradek topics"
_ACTIONS: Final = {
    "--create": ["create"],
    "--alter": ["alter"],
    "--delete": ["delete", "--execute"],
    "--describe": ["describe", "--internal"],
    "--list": ["list", "--internal"],
}
"""Subcommands by flag of kafka-topics.sh. That script has no dry run, and shows internal topics by default."""

_named = named_argument("names", "--topic", "TOPIC", "The same as the argument TOPIC; may be repeated.", required=True)
_assignment = click.option(
    "--replica-assignment",
    "assignment",
    metavar="ID:ID,...",
    help="The brokers of each partition, the preferred leader first: 1:2,2:3 are two partitions.",
)
_if_exists = click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
_validate_only = click.option("--validate-only", is_flag=True, help="Validate the change without making it.")


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Create, alter, list, describe and delete topics."""


command.add_command(describe)


@command.command()
@_named
@click.option(
    "-p", "--partitions", type=click.IntRange(1), metavar="N", help="Number of partitions; the broker's num.partitions by default."
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1, 0x7FFF),
    metavar="N",
    help="Number of replicas of each partition; the broker's default.replication.factor by default.",
)
@_assignment
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic configuration; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Ignore topics that exist already.")
@_validate_only
@connection_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Create topics."""
    chosen: dict[str, str | None] = dict(_pairs("--config", configs))
    given = {"--partitions": partitions is not None, "--replication-factor": replication_factor is not None}
    for option, is_given in given.items():
        one_of({"--replica-assignment": assignment is not None, option: is_given}, needed=False)
    assignments = {} if assignment is None else dict(enumerate(replica_lists(assignment)))
    failed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        wanted = [NewTopic(name, partitions or -1, replication_factor or -1, chosen, assignments) for name in names]
        for name, topic in admin.try_create_topics(wanted, validate_only=validate_only).items():
            if not isinstance(topic, KafkaError):
                counts = (
                    f" ({topic.num_partitions} partition{'s' if topic.num_partitions != 1 else ''})" if topic.num_partitions > 0 else ""
                )
                click.echo(f"{'Would create' if validate_only else 'Created'} topic {name}{counts}.")
            elif topic.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
                click.echo(f"Topic {name} already exists.")
            elif topic.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                raise topic
            else:
                failed += 1
                error = topic
                if topic.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:  # the message of that error gives the reason
                    error = explained(topic)
                click.echo(f"{NAME}: {name}: {error}", err=True)
    return 1 if failed else 0


def _pairs(option: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {text}: expected KEY=VALUE")
        pairs.append((key.strip(), value))
    return pairs


@command.command()
@_named
@click.option("-s", "--set", "set_", multiple=True, metavar="KEY=VALUE", help="Set a key; may be repeated.")
@click.option("-d", "--delete", multiple=True, metavar="KEY", help="Reset a key to its default; may be repeated.")
@click.option("-a", "--all", "all_", is_flag=True, help="Also show defaults.")
@_validate_only
@connection_options
def config(
    names: tuple[str, ...],
    set_: tuple[str, ...],
    delete: tuple[str, ...],
    all_: bool,
    validate_only: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Show or change configurations.

    Without --set and --delete, show the keys that are set on the topics themselves.
    """
    changes = [ConfigChange(key, value) for key, value in _pairs("--set", set_)]
    changes += [ConfigChange(key, operation="delete") for key in delete]
    resources = [ConfigResource("topic", name) for name in names]
    with Admin(client_settings(bootstrap, settings)) as admin:
        admin.describe_topics([resource.name for resource in resources])  # An unknown topic fails at once, instead of being retried.
        if delete:
            known = {entry.name for entries in admin.describe_configs(resources).values() for entry in entries}
            for key in delete:
                if key not in known:
                    raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
        if changes:
            for resource in resources:
                admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)
                click.echo(f"{'Would change' if validate_only else 'Changed'} topic {resource.name}.")
            return
        for resource, entries in admin.describe_configs(resources).items():
            for entry in entries:
                if all_ or entry.source == SOURCE_TOPIC:
                    click.echo(f"{resource.name}\t{entry.name}={'' if entry.value is None else entry.value}")


@command.command(name="list")
@pattern_option
@internal_option
@output_option
@connection_options
def list_(patterns: tuple[TopicPattern, ...], internal: bool | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the names of topics.

    Lists all topics, or the topics that match a pattern.
    """
    with Admin(client_settings(bootstrap, settings)) as admin:
        names = selected_topics(admin, (), patterns, internal=internal, if_exists=True)
    if output == JSON:
        click.echo(json.dumps(names))
    elif names:
        click.echo("\n".join(map(printable, names)))


@command.command()
@names_and_patterns(required=True)
@click.option("-p", "--partitions", type=click.IntRange(1), required=True, metavar="N", help="New total number of partitions.")
@_assignment
@_if_exists
@_validate_only
@connection_options
def alter(
    names: tuple[str, ...],
    patterns: tuple[TopicPattern, ...],
    partitions: int,
    assignment: str | None,
    if_exists: bool,
    validate_only: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Add partitions to topics.

    Partitions cannot be removed again, and a key may belong to another partition afterwards. --replica-assignment lists the brokers of all
    partitions, but existing partitions do not move.
    """
    lists = None if assignment is None else replica_lists(assignment)
    failed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        counts: dict[str, NewPartitions] = {}
        for name, topic in admin.try_describe_topics(selected_topics(admin, names, patterns, if_exists=if_exists)).items():
            if not isinstance(topic, KafkaError):
                counts[topic.name] = NewPartitions(partitions, None if lists is None else lists[len(topic.partitions) :])
            elif topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
                click.echo(f"Topic {name} does not exist.")
            else:
                failed += 1
                report_error(NAME, topic)
        for name, error in admin.try_create_partitions(counts, validate_only=validate_only).items():
            if error is None:
                click.echo(f"{'Would change' if validate_only else 'Changed'} topic {name} to {partitions} partitions.")
            else:
                failed += 1
                report_error(NAME, error, name)
    return 1 if failed else 0


@command.command()
@names_and_patterns(required=True)
@_if_exists
@execute_option
@connection_options
def delete(
    names: tuple[str, ...],
    patterns: tuple[TopicPattern, ...],
    if_exists: bool,
    execute: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Delete topics and their records."""
    failed = previewed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        for name in selected_topics(admin, names, patterns, if_exists=if_exists):
            try:
                topic = admin.describe_topics([name])[name]  # An unknown topic fails at once, instead of being retried.
                if execute:
                    admin.delete_topics([name])
                    click.echo(f"Deleted topic {name}.")
                else:
                    previewed += 1
                    click.echo(f"Would delete topic {name} with {_records_of(admin, topic)}.")
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
                    click.echo(f"Topic {name} does not exist.")
                elif error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                    raise
                else:
                    failed += 1
                    click.echo(f"odradek topics: {explained(error)}", err=True)
    if previewed:
        remark_dry_run(NAME)
    return 1 if failed else 0


def _records_of(admin: Admin, topic: TopicDescription) -> str:
    partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
    earliest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    latest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    count = sum(latest[partition].offset - earliest[partition].offset for partition in partitions)
    return f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''} and {count} record{'s' if count != 1 else ''}"


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
