"""`odradek verifiable consume`: a member of a group that prints each event (kafka-verifiable-consumer.sh)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.client_command import connection_options_with
from odradek.cli.events import tell
from odradek.cli.perf_options import measured_settings
from odradek.cli.signals import stoppable
from odradek.client.consumer.blocking import Consumer
from odradek.client.consumer.listeners import RebalanceListener
from odradek.client.failures import WakeupError
from odradek.client.types import ConsumerRecord

_FOR_EVER_MS: Final = 3_600_000
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


@click.command(name="consume")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="What to read.")
@click.option("-G", "--group-id", "group", required=True, metavar="GROUP", help="The consumer group to be a member of.")
@click.option("--group-instance-id", "instance", metavar="ID", help="Be a static member of this name.")
@click.option(
    "--group-protocol",
    "protocol",
    type=click.Choice(["classic", "consumer"], case_sensitive=False),
    default="classic",
    show_default=True,
    help="How the group agrees.",
)
@click.option("--group-remote-assignor", "remote_assignor", metavar="NAME", help="The broker's assignor, with --group-protocol consumer.")
@click.option(
    "--assignment-strategy",
    "strategy",
    metavar="NAME",
    help="Assignor with --group-protocol classic: range (the default), roundrobin, sticky, cooperative-sticky, or a class of Java.",
)
@click.option(
    "-n",
    "--max-messages",
    "records",
    type=click.IntRange(-1),
    default=-1,
    metavar="N",
    help="How many records; -1, the default, until it is stopped.",
)
@click.option(
    "--session-timeout", type=click.IntRange(1), metavar="MS", help="Short for -X session.timeout.ms=MS, with --group-protocol classic."
)
@click.option("--enable-autocommit", "autocommit", is_flag=True, help="Commit from time to time, without events of it.")
@click.option(
    "--reset-policy",
    "reset",
    type=click.Choice(["earliest", "latest", "none"]),
    default="earliest",
    show_default=True,
    help="Where to begin without a committed offset.",
)
@click.option("--verbose", is_flag=True, help="Tell of every record.")
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
    """Read as a member of a group, tell each event.

    What has been read is committed after every poll, unless --enable-autocommit is given.
    """
    classic = protocol.lower() == "classic"
    if classic and remote_assignor is not None:
        raise click.UsageError("--group-remote-assignor is for --group-protocol consumer")
    for option, given in (("--assignment-strategy", strategy), ("--session-timeout", session_timeout)):
        if not classic and given is not None:
            raise click.UsageError(f"{option} is for --group-protocol classic")
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
            tell("startup_complete")
            consumer.subscribe([topic], Told())
            Reading(consumer, records, autocommit, verbose).run()
        except WakeupError:
            tell("shutdown_requested")
        finally:
            consumer.close()
            tell("shutdown_complete")
            if not stopping.signal:
                # Kafka's verifiable consumer prints this event whenever its process ends.
                tell("shutdown_requested")
    return stopping.status


def _place(partition: TopicPartition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition}


class Told(RebalanceListener):
    """Listener that prints assigned and revoked partitions."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        tell("partitions_assigned", partitions=[_place(each) for each in sorted(partitions)])

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        tell("partitions_revoked", partitions=[_place(each) for each in sorted(partitions)])


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
            records = self._consumer.poll(_FOR_EVER_MS)
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
            summaries.append({**_place(partition), "count": len(counted), "minOffset": first, "maxOffset": last})
            if self._verbose:
                self._tell_records(counted)
        tell("records_consumed", count=len(records), partitions=summaries)
        return offsets

    @staticmethod
    def _tell_records(records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            tell("record_data", key=_text(record.key), value=_text(record.value), **place)

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        committed = [{**_place(partition), "offset": offset} for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets)
        except OdradekError as error:
            if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
                raise
            tell("offsets_committed", offsets=committed, error=str(error), success=False)
        else:
            tell("offsets_committed", offsets=committed, success=True)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
