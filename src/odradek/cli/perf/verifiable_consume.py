"""`odradek verifiable consume`: a member of a group that prints each event (kafka-verifiable-consumer.sh)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.perf.events import print_event
from odradek.cli.perf.perf_options import measured_settings
from odradek.cli.shared.client_command import connection_options_with
from odradek.cli.shared.signals import stoppable
from odradek.client.consumer.blocking import Consumer
from odradek.client.consumer.listeners import RebalanceListener
from odradek.client.failures import WakeupError
from odradek.client.types import ConsumerRecord

_POLL_TIMEOUT_MS: Final = 3_600_000
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


@click.command(name="consume")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Topic to read.")
@click.option("-G", "--group-id", "group", required=True, metavar="GROUP", help="Consumer group to join.")
@click.option("--group-instance-id", "instance", metavar="ID", help="Join as a static member with this id.")
@click.option(
    "--group-protocol",
    "protocol",
    type=click.Choice(["classic", "consumer"], case_sensitive=False),
    default="classic",
    show_default=True,
    help="Protocol of the group.",
)
@click.option(
    "--group-remote-assignor", "remote_assignor", metavar="NAME", help="Assignor of the broker; requires --group-protocol consumer."
)
@click.option(
    "--assignment-strategy",
    "strategy",
    metavar="NAME",
    help="Assignor with --group-protocol classic: range (the default), roundrobin, sticky, cooperative-sticky, or the Java class of one.",
)
@click.option(
    "-n",
    "--max-messages",
    "records",
    type=click.IntRange(-1),
    default=-1,
    metavar="N",
    help="Number of records to read; -1 (the default) for no limit.",
)
@click.option(
    "--session-timeout", type=click.IntRange(1), metavar="MS", help="Short for -X session.timeout.ms=MS, with --group-protocol classic."
)
@click.option("--enable-autocommit", "autocommit", is_flag=True, help="Commit at intervals; commits are then not printed.")
@click.option(
    "--reset-policy",
    "reset",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    show_default=True,
    help="Where to start without a committed offset.",
)
@click.option("--verbose", is_flag=True, help="Print an event for every record.")
@connection_options_with("--consumer.config", settings=("--command-property",))
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    group: str,
    instance: str | None,
    protocol: str,
    remote_assignor: str | None,
    strategy: str | None,
    records: int,
    session_timeout: int | None,
    autocommit: bool,
    reset: str,
    verbose: bool,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Read as a member of a group and print each event.

    Offsets are committed after every poll, unless --enable-autocommit is given.
    """
    classic = protocol.lower() == "classic"
    if classic and remote_assignor is not None:
        raise click.UsageError("--group-remote-assignor requires --group-protocol consumer")
    for option, given in (("--assignment-strategy", strategy), ("--session-timeout", session_timeout)):
        if not classic and given is not None:
            raise click.UsageError(f"{option} requires --group-protocol classic")
    chosen = measured_settings(context, bootstrap, settings, client_id="consumer-1")
    chosen |= {
        "group.id": group,
        "group.protocol": protocol.lower(),
        "auto.offset.reset": reset,
        "enable.auto.commit": str(autocommit).lower(),
    }
    if classic:
        chosen["partition.assignment.strategy"] = strategy or _RANGE
    for key, value in (
        ("group.instance.id", instance),
        ("group.remote.assignor", remote_assignor),
        ("session.timeout.ms", session_timeout),
    ):
        if value is not None:
            chosen[key] = str(value)
    consumer = Consumer(chosen)
    with stoppable(consumer.wakeup) as stopping:
        try:
            print_event("startup_complete")
            consumer.subscribe([topic], AssignmentPrinter())
            Reading(consumer, records, autocommit, verbose).run()
        except WakeupError:
            print_event("shutdown_requested")
        finally:
            consumer.close()
            print_event("shutdown_complete")
            if not stopping.signal:
                # Kafka's verifiable consumer prints this event whenever its process ends.
                print_event("shutdown_requested")
    return stopping.status


def _partition_fields(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


class AssignmentPrinter(RebalanceListener):
    """Listener that prints assigned and revoked partitions."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print_event("partitions_assigned", partitions=[_partition_fields(each) for each in sorted(partitions)])

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print_event("partitions_revoked", partitions=[_partition_fields(each) for each in sorted(partitions)])


class Reading:
    """Loop that polls, prints events and commits."""

    def __init__(self, consumer: Consumer, records: int, autocommit: bool, verbose: bool) -> None:
        self._consumer = consumer
        self._left = records
        self._autocommit = autocommit
        self._verbose = verbose

    def run(self) -> None:
        """Read until the wanted number of records is read. Raises WakeupError when the consumer is woken up."""
        while self._left:
            records = self._consumer.poll(_POLL_TIMEOUT_MS)
            if not records:
                continue
            offsets = self.take(records)
            if not self._autocommit:
                self.commit(offsets)

    def take(self, records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
        """Print the events of a poll's records, and return the offsets to commit. Offsets cover at most the wanted number of records."""
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        summaries: list[dict[str, object]] = []
        offsets: dict[TopicPartition, int] = {}
        for partition, found in by_partition.items():
            counted = found if self._left < 0 else found[: self._left]
            if not counted:
                break
            if self._left > 0:
                self._left -= len(counted)
            first, last = counted[0].offset, counted[-1].offset
            offsets[partition] = last + 1
            summaries.append({**_partition_fields(partition), "count": len(counted), "minOffset": first, "maxOffset": last})
            if self._verbose:
                self._print_records(counted)
        print_event("records_consumed", count=len(records), partitions=summaries)
        return offsets

    @staticmethod
    def _print_records(records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            fields = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            print_event("record_data", key=_text(record.key), value=_text(record.value), **fields)

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        committed = [{**_partition_fields(partition), "offset": offset} for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except OdradekError as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
                raise
            print_event("offsets_committed", offsets=committed, error=str(error), success=False)
        else:
            print_event("offsets_committed", offsets=committed, success=True)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
