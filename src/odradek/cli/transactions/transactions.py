"""`odradek transactions list|describe|describe-producers|find-hanging|abort|force-terminate` (kafka-transactions.sh)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.cli.shared.per_item import NUMBER, named_argument, one_of, partitions_of, report_error, single_name
from odradek.cli.transactions.hanging import candidates, hanging
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.transactions import AbortTransactionSpec, ProducerState, TransactionListing

F = TypeVar("F", bound=Callable[..., object])
NAME: Final = "odradek transactions"
_MINUTE_MS: Final = 60_000
_ACTIONS: Final = {
    "list": ["list"],
    "describe": ["describe"],
    "describe-producers": ["describe-producers"],
    "find-hanging": ["find-hanging"],
    "abort": ["abort", "--execute"],
    "forceTerminateTransaction": ["force-terminate", "--execute"],
}
"""Subcommands of kafka-transactions.sh. The script takes its connection options before them, and has no dry run."""

_topic = click.option("--topic", metavar="TOPIC", required=True, help="The topic of the partition.")
_partition = click.option("--partition", type=NUMBER, metavar="N", required=True, help="The number of the partition.")


@click.group(context_settings=CONTEXT_SETTINGS)
def command() -> None:
    """Show transactions; find and abort hanging ones."""


@command.command(name="list")
@click.option(
    "--duration-filter", "duration", type=int, default=-1, metavar="MS", help="Only transactions that are open for longer than this."
)
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match this RE2 pattern as a whole.")
@output_option
@connection_options
def list_(duration: int, pattern: str | None, output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """List transactional ids and their states."""
    failed = 0
    rows: list[Row] = []
    with Admin(client_settings(bootstrap, settings)) as admin:
        for broker, found in admin.try_list_transactions(duration_ms=duration, transactional_id_pattern=pattern).items():
            if isinstance(found, KafkaError):
                failed += 1
                report_error(NAME, found, f"broker {broker}")
                continue
            rows += [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": broker,
                    "producer_id": each.producer_id,
                    "transaction_state": each.state,
                }
                for each in found
            ]
    show(sorted(rows, key=lambda row: str(row["transactional_id"])), output)
    return 1 if failed else 0


@command.command()
@named_argument("names", "--transactional-id", "TRANSACTIONAL-ID", "The same as the argument; may be repeated.", required=True)
@output_option
@connection_options
def describe(names: tuple[str, ...], output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Show producer, state and open transaction."""
    rows: list[Row] = []
    failed = 0
    with Admin(client_settings(bootstrap, settings)) as admin:
        for name, found in admin.try_describe_transactions(names).items():
            if isinstance(found, KafkaError):
                failed += 1
                report_error(NAME, found, name)
                continue
            begun = found.transaction_start_time_ms
            rows.append(
                {
                    "coordinator_id": found.coordinator_id,
                    "transactional_id": name,
                    "producer_id": found.producer_id,
                    "producer_epoch": found.producer_epoch,
                    "transaction_state": found.state,
                    "transaction_timeout_ms": found.transaction_timeout_ms,
                    "current_transaction_start_time_ms": begun,
                    "transaction_duration_ms": _now_ms() - begun if begun is not None else None,
                    "topic_partitions": [str(partition) for partition in sorted(found.topic_partitions)],
                }
            )
    show(rows, output)
    return 1 if failed else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@command.command(name="describe-producers")
@_topic
@_partition
@click.option("--broker-id", type=NUMBER, metavar="ID", help="Ask this replica instead of the leader.")
@output_option
@connection_options
def describe_producers(
    topic: str, partition: int, broker_id: int | None, output: Output, bootstrap: str, settings: tuple[str, ...]
) -> None:
    """Show the producers of a partition."""
    with Admin(client_settings(bootstrap, settings)) as admin:
        (topic_partition,) = partitions_of(admin, {topic: [partition]})
        found = admin.describe_producers([topic_partition], broker_id=broker_id)[topic_partition]
    show([_producer_row(each) for each in sorted(found)], output)


def _producer_row(producer: ProducerState) -> Row:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "latest_coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "current_transaction_start_offset": producer.current_transaction_start_offset,
    }


@command.command(name="find-hanging")
@click.option("--broker-id", type=NUMBER, metavar="ID", help="Search the replicas on this broker.")
@click.option("--topic", metavar="TOPIC", help="Search this topic.")
@click.option("--partition", type=NUMBER, metavar="N", help="Search this partition of the topic.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Only transactions whose last record is older than this.",
)
@output_option
@connection_options
def find_hanging(
    broker_id: int | None,
    topic: str | None,
    partition: int | None,
    minutes: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Find transactions that no coordinator will end.

    Consumers with isolation.level=read_committed cannot read past a hanging transaction. `abort` ends it.
    """
    if topic is None and broker_id is None:
        raise click.UsageError("find-hanging requires either --topic or --broker-id to limit the scope of the search")
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")
    now = _now_ms()
    with Admin(client_settings(bootstrap, settings)) as admin:
        partitions = _searched(admin, broker_id, topic, partition)
        producers = admin.describe_producers(partitions, broker_id=broker_id) if partitions else {}
        suspects = candidates(producers, now - minutes * _MINUTE_MS)
        ids = {each.producer_id: each.transactional_id for each in _listed(admin, {suspect.producer.producer_id for suspect in suspects})}
        described = admin.try_describe_transactions(sorted(set(ids.values())))
        for transactional_id, outcome in described.items():
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise OdradekError(f"transactional id {transactional_id}: {outcome}")
        known = {name: found.topic_partitions for name, found in described.items() if not isinstance(found, KafkaError)}
        found = hanging(suspects, ids, known)
    rows: list[Row] = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "start_offset": each.producer.current_transaction_start_offset,
            "last_timestamp": each.producer.last_timestamp,
            "duration_min": (now - each.producer.last_timestamp) // _MINUTE_MS,
        }
        for each in found
    ]
    show(rows, output)


def _listed(admin: Admin, producer_ids: set[int]) -> Iterable[TransactionListing]:
    return admin.list_transactions(producer_ids=sorted(producer_ids)) if producer_ids else ()


def _searched(admin: Admin, broker_id: int | None, topic: str | None, partition: int | None) -> list[TopicPartition]:
    if topic is not None:
        partitions = partitions_of(admin, {topic: None if partition is None else [partition]})
    else:
        partitions = partitions_of(admin, {each.name: None for each in admin.list_topics(internal=True)})
    if broker_id is None:
        return partitions
    topics = admin.describe_topics(sorted({each.topic for each in partitions}))
    found = [each for each in partitions if broker_id in topics[each.topic].partitions[each.partition].replicas]
    if not found and broker_id not in {each.node_id for each in admin.describe_cluster().brokers}:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not in the cluster")
    return found


@command.command()
@_topic
@_partition
@click.option("--start-offset", type=click.IntRange(0), metavar="N", help="Offset at which the transaction starts.")
@click.option(
    "--producer-id", type=click.IntRange(0), metavar="ID", help="Use this instead of --start-offset for brokers before Kafka 3.0."
)
@click.option("--producer-epoch", type=click.IntRange(0, 32767), metavar="N", help="Required with --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(-1), metavar="N", help="Required with --producer-id.")
@execute_option
@connection_options
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    execute: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Abort a hanging transaction in a partition.

    Consumers with isolation.level=read_committed then skip the records of the transaction in this partition. Abort only transactions that
    `find-hanging` lists: a coordinator that still knows the transaction may commit it in other partitions.
    """
    if start_offset is None and producer_id is None:
        raise click.UsageError(
            "The transaction to abort must be identified either with --start-offset, or with --producer-id, --producer-epoch and "
            "--coordinator-epoch"
        )
    one_of({"--start-offset": start_offset is not None, "--producer-id": producer_id is not None}, needed=True)
    if start_offset is not None and (producer_epoch is not None or coordinator_epoch is not None):
        raise click.UsageError("--producer-epoch and --coordinator-epoch require --producer-id, and cannot be used with --start-offset")
    if producer_id is not None and (producer_epoch is None or coordinator_epoch is None):
        raise click.UsageError(f"Missing required argument {'--producer-epoch' if producer_epoch is None else '--coordinator-epoch'}")
    with Admin(client_settings(bootstrap, settings)) as admin:
        (topic_partition,) = partitions_of(admin, {topic: [partition]})
        if producer_id is not None:
            spec = AbortTransactionSpec(topic_partition, producer_id, producer_epoch or 0, max(coordinator_epoch or 0, 0))
        else:
            spec = _open_at(topic_partition, start_offset, admin.describe_producers([topic_partition])[topic_partition])
        words = f"the transaction of producer {spec.producer_id} (epoch {spec.producer_epoch}) in {topic_partition}"
        if execute:
            admin.abort_transaction(spec)
            click.echo(f"Aborted {words}.")
            return
    click.echo(f"Would abort {words}.")
    remark_dry_run(NAME)


def _open_at(topic_partition: TopicPartition, start_offset: int | None, producers: Iterable[ProducerState]) -> AbortTransactionSpec:
    for each in producers:
        if each.current_transaction_start_offset == start_offset:
            return AbortTransactionSpec(topic_partition, each.producer_id, each.producer_epoch, each.coordinator_epoch or 0)
    raise OdradekError(
        f"Could not find any open transactions starting at offset {start_offset} on partition {topic_partition}; `odradek transactions "
        f"describe-producers --topic {topic_partition.topic} --partition {topic_partition.partition}` shows the open transactions"
    )


@command.command(name="force-terminate")
@named_argument(
    "names",
    ("--transactionalId", "--transactional-id"),
    "TRANSACTIONAL-ID",
    "The same as the argument.",
    required=True,
)
@execute_option
@connection_options
def force_terminate(names: tuple[str, ...], execute: bool, bootstrap: str, settings: tuple[str, ...]) -> None:
    """Abort the transaction of a transactional id.

    This also aborts a transaction that is prepared for two-phase commit. The producer is fenced: the application must create a new one.
    """
    name = single_name(names, "TRANSACTIONAL-ID")
    with Admin(client_settings(bootstrap, settings)) as admin:
        state = admin.describe_transactions([name])[name].state  # Raises for an unknown id, which force-terminate would create.
        if execute:
            admin.force_terminate_transaction(name)
            click.echo(f"Ended the transaction of {name} and fenced its producer.")
            return
    click.echo(f"Would end the transaction of {name} ({state}) and fence its producer.")
    remark_dry_run(NAME)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments, _ACTIONS)
