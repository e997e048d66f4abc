"""`odradek verifiable produce`: a writer of the numbers 0, 1, 2, ... that prints the outcome of each (kafka-verifiable-producer.sh)."""

from __future__ import annotations

import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

import click

from odradek.base.errors import OdradekError
from odradek.cli.perf.events import java_class, print_event
from odradek.cli.perf.perf_options import measured_settings
from odradek.cli.shared.client_command import connection_options_with
from odradek.cli.shared.send_rate import Pace
from odradek.cli.shared.signals import Stop, stoppable
from odradek.client.producer.blocking import Producer
from odradek.client.types import RecordMetadata

_LONGEST_WAIT_S: Final = 0.5

Outcome = tuple[str | None, str, RecordMetadata, BaseException | None]
"""Key, value, metadata and error of a record; the error is None for an acknowledged record."""


@click.command(name="produce")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Topic to write to.")
@click.option(
    "-n",
    "--max-messages",
    "records",
    type=click.IntRange(-1),
    default=-1,
    metavar="N",
    help="Number of records to write; -1 (the default) for no limit.",
)
@click.option(
    "--throughput",
    type=click.IntRange(-1),
    default=-1,
    metavar="RATE",
    help="Maximum number of records per second; -1 (the default) for no limit.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="-1",
    show_default=True,
    help="Acknowledged by none (0), by the leader (1), or by all in-sync replicas (-1).",
)
@click.option(
    "--message-create-time",
    "create_time",
    type=click.IntRange(-1),
    default=-1,
    metavar="MS",
    help="Timestamp of the first record in Unix milliseconds; later timestamps follow the clock. -1 (the default) for the current time.",
)
@click.option("--value-prefix", "prefix", type=int, metavar="N", help="Values are N.0, N.1, N.2, ...")
@click.option(
    "--repeating-keys", "keys", type=click.IntRange(1), metavar="N", help="Write the keys 0 to N-1, repeatedly; no keys by default."
)
@connection_options_with("--producer.config", settings=("--command-property",))
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    records: int,
    throughput: int,
    acks: str,
    create_time: int,
    prefix: int | None,
    keys: int | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Write numbers and print the outcome of each.

    Records are not retried unless -X retries=N is given. A failed record is an event, too: the exit status is 0 nevertheless.
    """
    if throughput == 0:
        raise click.UsageError("--throughput 0: must be greater than 0, or -1 for no limit")
    chosen = measured_settings(context, bootstrap, settings, acks=acks, retries="0", client_id="producer-1")
    start_s = time.time()
    outcomes: SimpleQueue[Outcome | None] = SimpleQueue()
    with stoppable(lambda: outcomes.put(None)) as stopping, Producer(chosen) as producer:
        writing = Writing(producer, topic, outcomes)
        print_event("startup_complete")
        with suppress(Stop):
            pace = Pace(throughput if throughput > 0 else None, time.monotonic())
            timestamp = create_time
            while writing.sent != records and not stopping.signal:
                writing.print_outcomes()
                if not pace.due(writing.sent, now := time.monotonic()):
                    writing.print_outcomes(min(pace.wait_s(writing.sent, now), _LONGEST_WAIT_S))
                    continue
                number = writing.sent
                key = None if keys is None else str(number % keys)
                with stopping.interruptible():
                    writing.send(key, str(number) if prefix is None else f"{prefix}.{number}", None if timestamp < 0 else timestamp)
                if timestamp >= 0:
                    # As in Kafka's verifiable producer, each record adds the whole time since the start.
                    timestamp += int((time.time() - start_s) * 1000)
        producer.close()
        while not outcomes.empty():
            writing.print_outcomes()
        print_event("shutdown_complete")
        elapsed_ms = max((time.time() - start_s) * 1000, 1.0)
        print_event(
            "tool_data",
            sent=writing.sent,
            acked=writing.acked,
            target_throughput=throughput,
            avg_throughput=1000 * writing.acked / elapsed_ms,
        )
    return stopping.status


class Writing:
    """Sender that prints the outcomes of its records. The client's thread queues outcomes, the sending thread prints them."""

    def __init__(self, producer: Producer, topic: str, outcomes: SimpleQueue[Outcome | None]) -> None:
        """Prepare to send. A None in the queue `outcomes` ends a wait in `print_outcomes`."""
        self.sent = 0
        self.acked = 0
        self._producer = producer
        self._topic = topic
        self._outcomes = outcomes

    def send(self, key: str | None, value: str, timestamp: int | None) -> None:
        """Send a record. If the producer refuses the record the error is an outcome, and is not raised."""

        def delivered(metadata: RecordMetadata, error: BaseException | None) -> None:
            self._outcomes.put((key, value, metadata, error))

        self.sent += 1
        try:
            self._producer.send(self._topic, value, key=key, timestamp=timestamp, on_delivery=delivered)
        except OdradekError as error:
            delivered(RecordMetadata(self._topic, -1, -1, -1), error)

    def print_outcomes(self, wait_s: float = 0.0) -> None:
        """Print all queued outcomes. Wait at most `wait_s` seconds for the first."""
        with suppress(Empty):
            outcome = self._outcomes.get(block=wait_s > 0, timeout=wait_s or None)
            while outcome is not None:
                self._print_outcome(*outcome)
                outcome = self._outcomes.get_nowait()

    def _print_outcome(self, key: str | None, value: str, metadata: RecordMetadata, error: BaseException | None) -> None:
        if error is None:
            self.acked += 1
            fields = {"offset": metadata.offset, "topic": metadata.topic, "partition": metadata.partition}
            print_event("producer_send_success", key=key, value=value, **fields)
        else:
            print_event("producer_send_error", key=key, value=value, topic=self._topic, message=str(error), exception=java_class(error))
