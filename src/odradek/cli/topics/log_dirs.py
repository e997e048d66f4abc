"""`odradek log-dirs describe`: replicas by broker and log directory (kafka-log-dirs.sh)."""

from __future__ import annotations

from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.replicas import LogDirDescription, ReplicaInfo

_ACTIONS: Final = {"--describe": ["describe"]}


def _brokers(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    ids = [each.strip() for text in texts for each in text.split(",")]
    for each in ids:
        if not (each.isascii() and each.isdecimal() and int(each) <= 0x7FFFFFFF):
            raise click.BadParameter(f"{each!r} is not a broker id")
    return tuple(dict.fromkeys(map(int, ids)))


def _names(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in text.split(",") if name))


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show replicas, their directories and sizes."""


@command.command()
@click.option("--broker-list", "brokers", multiple=True, callback=_brokers, metavar="ID,...", help="Only these brokers.")
@click.option("--topic-list", "topics", multiple=True, callback=_names, metavar="TOPIC,...", help="Only replicas of these topics.")
@output_option
@connection_options
def describe(brokers: tuple[int, ...], topics: tuple[str, ...], output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """List replicas by broker and directory.

    OFFSET-LAG is the lag of a replica behind the high watermark, or of a future replica behind the current replica. The exit status is 1
    if a broker or a directory cannot be read; the others are shown.
    """
    rows: list[Row] = []
    failed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        known = sorted(each.node_id for each in admin.describe_cluster().brokers)
        unknown = [each for each in brokers if each not in known]
        if unknown:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"broker {_listed(unknown)} is not in the cluster, whose brokers are {_listed(known)}",
            )
        partitions: list[TopicPartition] | None = None
        if topics:
            described = admin.describe_topics(topics)
            partitions = [TopicPartition(topic.name, number) for topic in described.values() for number in topic.partitions]
        for broker, found in admin.try_describe_log_dirs(brokers or known, partitions=partitions).items():
            if isinstance(found, KafkaError):
                failed += 1
                click.echo(f"odradek log-dirs: broker {broker}: {found}", err=True)
                continue
            for path, directory in sorted(found.items()):
                failed += directory.error is not None
                rows += _rows(broker, path, directory)
    show(rows, output)
    return 1 if failed else 0


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def _rows(broker: int, path: str, directory: LogDirDescription) -> list[Row]:
    error = None if directory.error is None else str(directory.error)
    found: list[tuple[TopicPartition | None, ReplicaInfo | None]] = [*sorted(directory.replicas.items())] or [(None, None)]
    return [
        {
            "broker": broker,
            "log_dir": path,
            "topic": partition and partition.topic,
            "partition": None if partition is None else partition.partition,
            "size": None if replica is None else replica.size,
            "offset_lag": None if replica is None else replica.offset_lag,
            "is_future": None if replica is None else replica.is_future,
            "error": error,
        }
        for partition, replica in found
    ]


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek log-dirs", arguments, _ACTIONS)
