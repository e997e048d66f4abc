"""`odradek perf latency`: latency of a record from its producer to a consumer (kafka-e2e-latency.sh)."""

from __future__ import annotations

import random
import sys
import time
from typing import Final

import click

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.perf.perf_options import KAFKA, NAME, Form, form_option, measured_settings, short_timeout_admin
from odradek.cli.shared.client_command import connection_options
from odradek.cli.shared.measuring import Latencies
from odradek.cli.shared.output import Row, show
from odradek.client import NewTopic
from odradek.client.consumer.blocking import Consumer
from odradek.client.producer.blocking import Producer
from odradek.client.settings.config import CONSUMER_CONFIG, PRODUCER_CONFIG
from odradek.client.types import ConsumerRecord

_POLL_MS: Final = 60_000
_PRINT_EVERY: Final = 1000
_FRACTIONS: Final = {"p50_ms": 0.5, "p99_ms": 0.99, "p99.9_ms": 0.999}

Header = tuple[str, bytes | None]


@click.command(name="latency")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Topic to write and read; created if it does not exist.")
@click.option(
    "-n", "--num-records", "records", type=click.IntRange(1), required=True, metavar="N", help="Number of records, sent one after another."
)
@click.option(
    "--producer-acks",
    "acks",
    type=click.Choice(["1", "all"]),
    default="all",
    show_default=True,
    help="Acknowledged by the leader (1) or by all in-sync replicas.",
)
@click.option("--record-size", type=click.IntRange(0), required=True, metavar="BYTES", help="Size of each value.")
@click.option("--record-key-size", "key_size", type=click.IntRange(0), default=0, metavar="BYTES", help="Size of each key; 0 for no keys.")
@click.option("--num-headers", "headers", type=click.IntRange(0), default=0, metavar="N", help="Number of headers of each record.")
@click.option(
    "--record-header-key-size", "header_key_size", type=click.IntRange(0), default=0, metavar="BYTES", help="Size of each header's key."
)
@click.option(
    "--record-header-size",
    "header_size",
    type=click.IntRange(-1),
    default=0,
    metavar="BYTES",
    help="Size of each header's value; -1 for null.",
)
@form_option
@connection_options
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    records: int,
    acks: str,
    record_size: int,
    key_size: int,
    headers: int,
    header_key_size: int,
    header_size: int,
    form: Form,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Measure the end-to-end latency of records.

    A record is sent after the previous record was read. No other producer may write to the topic during the test.
    """
    chosen = measured_settings(context, bootstrap, settings)
    with short_timeout_admin(chosen) as admin:
        if topic not in {each.name for each in admin.list_topics(internal=True)}:
            if form == KAFKA:
                click.echo(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
            admin.create_topics([NewTopic(topic, 1, 1)])
            if form != KAFKA:
                click.echo(f"{NAME}: created topic {topic} with 1 partition", err=True)
    producing = {name: value for name, value in chosen.items() if name in PRODUCER_CONFIG or name not in CONSUMER_CONFIG}
    reading = {name: value for name, value in chosen.items() if name in CONSUMER_CONFIG or name not in PRODUCER_CONFIG}
    consuming = {"fetch.max.wait.ms": "0", "auto.offset.reset": "latest", **reading, "enable.auto.commit": "false"}
    latencies = Latencies()
    rng = random.Random(0)
    print_each = form == KAFKA or sys.stderr.isatty()
    with Consumer(consuming) as consumer, Producer({"linger.ms": "0", **producing, "acks": acks}) as producer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_end()
        for partition in partitions:
            consumer.position(partition)
        try:
            for number in range(records):
                value, key = _letters(rng, record_size), _letters(rng, key_size) or None
                named: list[Header] = [
                    (_letters(rng, header_key_size).decode(), None if header_size < 0 else _letters(rng, header_size))
                    for _ in range(headers)
                ]
                begin = time.perf_counter_ns()
                producer.send(topic, value, key=key, headers=named).result()
                found = consumer.poll(_POLL_MS)
                elapsed = time.perf_counter_ns() - begin
                check(found, key, value, named)
                latencies.record(elapsed // 1000)
                if print_each and number % _PRINT_EVERY == 0:
                    click.echo(f"{number}\t{elapsed / 1000 / 1000}", err=form != KAFKA)
        except KeyboardInterrupt:
            _report(latencies, form)
            raise
    _report(latencies, form)


def _letters(rng: random.Random, size: int) -> bytes:
    return bytes([65 + rng.randrange(26)]) * size


def check(found: list[ConsumerRecord], key: bytes | None, value: bytes, headers: list[Header]) -> None:
    """Raise OdradekError unless the consumer has read exactly the written record."""
    if not found:
        raise OdradekError(f"no record was read within {_POLL_MS} ms of its acknowledgement")
    first = found[0]
    if len(found) > 1 or (first.key, first.value, first.headers) != (key, value, tuple(headers)):
        what = f"{len(found)} records were" if len(found) > 1 else "another record was"
        raise OdradekError(f"{what} read instead of the written record; no other producer may write to topic {first.topic}")


def result_row(latencies: Latencies) -> Row:
    """Return the measured latencies as a row, in milliseconds."""
    found = latencies.percentiles([*_FRACTIONS.values()])
    return {
        "records": latencies.count,
        "average_ms": round(latencies.average / 1000, 4),
        **{name: each / 1000 for name, each in zip(_FRACTIONS, found, strict=True)},
        "max_ms": latencies.highest / 1000,
    }


def _report(latencies: Latencies, form: Form) -> None:
    if form != KAFKA:
        show([result_row(latencies)], "json" if form == "json" else "table")
    else:
        p50, p99, p99_9 = (each // 1000 for each in latencies.percentiles([*_FRACTIONS.values()]))
        click.echo(f"Avg latency: {latencies.average / 1000:.4f} ms\nPercentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p99_9}")
    sys.stdout.flush()
