"""`odradek topics create|list|describe|config|delete`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeVar

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, uuid_to_string
from odradek.cli.client_command import CONTEXT_SETTINGS, client_settings, connection_options, explained, run
from odradek.cli.destroying import execute_option, remark_dry_run
from odradek.cli.output import JSON, Output, output_option
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import OffsetSpec, TopicDescription
from odradek.client.types import ConfigChange, ConfigResource, NewTopic

F = TypeVar("F", bound=Callable[..., object])
_NAMES: Final = "odradek.topics"

_ACTIONS: Final = {
    "--create": ["create"],
    "--delete": ["delete", "--execute"],
    "--describe": ["describe"],
    "--list": ["list"],
}
"""What kafka-topics.sh names by flags; it has no dry run."""

SOURCE_TOPIC = 1
"""DescribeConfigs: set on the topic itself."""


def _topics_argument(*, required: bool) -> Callable[[F], F]:
    """TOPIC... as `names`, or `--topic TOPIC` as Kafka's script has it."""
    metavar = "TOPIC..." if required else "[TOPIC...]"

    def remember(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
        context.meta[_NAMES] = names

    def both(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
        names = (*names, *context.meta.get(_NAMES, ()))
        if required and not names:
            raise click.MissingParameter(ctx=context, param=parameter)
        return names

    argument = click.argument("names", nargs=-1, metavar=metavar, callback=both)
    option = click.option(
        "--topic", multiple=True, expose_value=False, is_eager=True, callback=remember, metavar="TOPIC", help="Another way to name a topic."
    )
    return lambda function: argument(option(function))


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Create, list, describe, configure and delete topics."""


@command.command()
@_topics_argument(required=True)
@click.option("-p", "--partitions", type=click.IntRange(1), metavar="N", help="Number of partitions; the broker's default when left out.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), metavar="N", help="Copies of each partition; the broker's default when left out."
)
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic configuration; may be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
@connection_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Create topics."""
    chosen: dict[str, str | None] = dict(_pairs("--config", configs))
    failed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        wanted = [NewTopic(name, partitions or -1, replication_factor or -1, chosen) for name in dict.fromkeys(names)]
        for name, topic in admin.try_create_topics(wanted, validate_only=validate_only).items():
            if not isinstance(topic, KafkaError):
                counts = (
                    f" ({topic.num_partitions} partition{'s' if topic.num_partitions != 1 else ''})" if topic.num_partitions > 0 else ""
                )
                click.echo(f"{'Would create' if validate_only else 'Created'} topic {name}{counts}.")
            elif topic.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
                click.echo(f"Topic {name} exists already.")
            elif topic.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                raise topic
            else:
                failed += 1
                error = topic
                if topic.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:  # whose message says what is wrong with the name
                    error = explained(topic)
                click.echo(f"odradek topics: {name}: {error}", err=True)
    return 1 if failed else 0


def _pairs(option: str, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{option} {text}: this must be key=value")
        pairs.append((key.strip(), value))
    return pairs


@command.command()
@_topics_argument(required=True)
@click.option("-s", "--set", "set_", multiple=True, metavar="KEY=VALUE", help="Set a key; may be repeated.")
@click.option("-d", "--delete", multiple=True, metavar="KEY", help="Let a key go back to its default; may be repeated.")
@click.option("-a", "--all", "all_", is_flag=True, help="Show defaults too.")
@click.option("--validate-only", is_flag=True, help="Only say whether it would work.")
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

    Shows what is set on the topics themselves when there is nothing to --set or --delete.
    """
    changes = [ConfigChange(key, value) for key, value in _pairs("--set", set_)]
    changes += [ConfigChange(key, operation="delete") for key in delete]
    resources = [ConfigResource("topic", name) for name in dict.fromkeys(names)]
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
@click.option("--internal", is_flag=True, help="Also Kafka's own topics.")
@output_option
@connection_options
def list_(internal: bool, output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """List the names of all topics."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        names = [topic.name for topic in admin.list_topics(internal=internal)]
    if output == JSON:
        click.echo(json.dumps(names))
    elif names:
        click.echo("\n".join(names))


@command.command()
@_topics_argument(required=False)
@output_option
@connection_options
def describe(names: tuple[str, ...], output: Output, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Show partitions, leaders and replicas.

    Also the configuration that is set on the topic itself. All topics when none is named.
    """
    with Admin(client_settings(bootstrap, settings)) as admin:
        topics = list(admin.describe_topics(names or [topic.name for topic in admin.list_topics()]).values())
        resources = [ConfigResource("topic", topic.name) for topic in topics]
        found = admin.describe_configs(resources)
    changed = [{entry.name: entry.value for entry in found[resource] if entry.source == SOURCE_TOPIC} for resource in resources]
    if output == JSON:
        click.echo(json.dumps([_row(topic, configs) for topic, configs in zip(topics, changed, strict=True)]))
    else:
        for topic, configs in zip(topics, changed, strict=True):
            click.echo(_text(topic, configs))


def _row(topic: TopicDescription, changed: dict[str, str | None]) -> dict[str, object]:
    partitions = [
        {"partition": part.partition, "leader": part.leader, "leader_epoch": part.leader_epoch, "replicas": part.replicas, "isr": part.isr}
        for part in topic.partitions.values()
    ]
    return {"topic": topic.name, "topic_id": uuid_to_string(topic.topic_id), "configs": changed, "partitions": partitions}


def _text(topic: TopicDescription, changed: dict[str, str | None]) -> str:
    replication = max((len(part.replicas) for part in topic.partitions.values()), default=0)
    configs = ",".join(f"{name}={value}" for name, value in changed.items())
    lines = [
        f"Topic: {topic.name}\tTopicId: {uuid_to_string(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication}\tConfigs: {configs}"
    ]
    for _, part in sorted(topic.partitions.items()):
        leader = str(part.leader) if part.leader >= 0 else "none"
        lines.append(f"\tPartition: {part.partition}\tLeader: {leader}\tReplicas: {_ids(part.replicas)}\tIsr: {_ids(part.isr)}")
    return "\n".join(lines)


def _ids(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


@command.command()
@_topics_argument(required=True)
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no error.")
@execute_option
@connection_options
def delete(names: tuple[str, ...], if_exists: bool, execute: bool, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Delete topics and their records."""
    failed = told = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        for name in dict.fromkeys(names):
            try:
                topic = admin.describe_topics([name])[name]  # An unknown topic fails at once, instead of being retried.
                if execute:
                    admin.delete_topics([name])
                    click.echo(f"Deleted topic {name}.")
                else:
                    told += 1
                    click.echo(f"Would delete topic {name} with {_records_of(admin, topic)}.")
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
                    click.echo(f"Topic {name} does not exist.")
                elif error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                    raise
                else:
                    failed += 1
                    click.echo(f"odradek topics: {explained(error)}", err=True)
    if told:
        remark_dry_run("odradek topics")
    return 1 if failed else 0


def _records_of(admin: Admin, topic: TopicDescription) -> str:
    partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
    earliest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    latest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    count = sum(latest[partition].offset - earliest[partition].offset for partition in partitions)
    return f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''} and {count} record{'s' if count != 1 else ''}"


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit status."""
    return run(command, "odradek topics", arguments, _ACTIONS)
