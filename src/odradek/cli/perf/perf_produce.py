"""`odradek perf produce`: throughput of writing, and latency of acknowledgements (kafka-producer-perf-test.sh)."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple
from uuid import uuid4

import click

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import uuid_to_string
from odradek.cli.perf.perf_options import (
    INTERVAL_MS,
    KAFKA,
    NAME,
    Form,
    form_option,
    measured_settings,
    metric_lines,
    metric_values,
    print_metrics_option,
    progress_wanted,
    reporting_interval_option,
    short_timeout_admin,
)
from odradek.cli.shared.client_command import connection_options_with
from odradek.cli.shared.measuring import MEGABYTE, Throughput, Window
from odradek.cli.shared.output import Row, show
from odradek.cli.shared.per_item import one_of
from odradek.cli.shared.send_rate import Pace
from odradek.client.metrics import MetricName
from odradek.client.producer.blocking import Producer
from odradek.client.producer.futures import RecordFuture

_CHUNK_RECORDS: Final = 100
_CHUNK_BYTES: Final = 1 << 16
"""Maximum of records and bytes in one call of the producer. All records of a call have one latency, which makes measuring cheap."""
_POOL_BYTES: Final = (4 << 20) - 3
"""Bytes of the pool. A prime, so that the values differ each time the pool starts over."""
_SHORTEST_SLEEP_S: Final = 0.001
_LONGEST_SLEEP_S: Final = 0.1
_TRANSACTION_MS: Final = 3000
_FRACTIONS: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99.9_ms": 0.999}

Payloads = Callable[[int, int], Sequence[bytes]]
"""Function from the number of the first record and a count of records to their values."""
Chunk = tuple[float, Sequence[bytes]]
"""Time (seconds of the meter's clock) at which values are given to the producer, and the values."""


@click.command(name="produce")
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Topic to write to.")
@click.option("-n", "--num-records", "records", type=click.IntRange(1), required=True, metavar="N", help="Number of records to write.")
@click.option("--record-size", type=click.IntRange(1), metavar="BYTES", help="Write values of BYTES random letters.")
@click.option(
    "--payload-file", type=click.Path(path_type=Path), metavar="FILE", help="Write values that are picked at random from a UTF-8 file."
)
@click.option("--payload-delimiter", metavar="REGEX", default="\\n", show_default=True, help="Separator of the values in --payload-file.")
@click.option("--payload-monotonic", is_flag=True, help="Write the numbers 0, 1, 2, ...")
@click.option(
    "--throughput", type=float, default=-1, show_default=True, metavar="RATE", help="Maximum number of records per second; -1 for no limit."
)
@click.option("--transactional-id", metavar="ID", help="Write in transactions; the same as -X transactional.id=ID.")
@click.option(
    "--transaction-duration-ms",
    type=click.IntRange(1),
    metavar="MS",
    help=f"Write in transactions of this duration; {_TRANSACTION_MS} if only --transactional-id is given. By default its ID is random.",
)
@click.option(
    "--warmup-records",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Also print figures without the first N records.",
)
@reporting_interval_option
@print_metrics_option
@form_option
@connection_options_with("--producer.config", settings=("--command-property", "--producer-props"))
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    records: int,
    record_size: int | None,
    payload_file: Path | None,
    payload_delimiter: str,
    payload_monotonic: bool,
    throughput: float,
    transactional_id: str | None,
    transaction_duration_ms: int | None,
    warmup_records: int,
    interval: int | None,
    print_metrics: bool,
    form: Form,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Measure the throughput of a producer.

    The latency of a record is the time from the call of the producer to the acknowledgement. Records are given to the producer in lists of
    up to 100, which is the fastest way for this client.
    """
    one_of(
        {"--record-size": record_size is not None, "--payload-file": payload_file is not None, "--payload-monotonic": payload_monotonic},
        needed=True,
    )
    if throughput != -1 and not 0 < throughput < float("inf"):
        raise click.UsageError(f"--throughput {throughput:g}: must be greater than 0, or -1 for no limit")
    if warmup_records >= records:
        raise click.UsageError(f"--warmup-records {warmup_records}: must be less than --num-records {records}")
    if payload_file is not None:
        payloads = file_payloads(payload_file, payload_delimiter)
    else:
        payloads = _monotonic if record_size is None else random_payloads(record_size)
    chosen = measured_settings(context, bootstrap, settings, client_id="perf-producer-client")
    if transactional_id is not None:
        chosen["transactional.id"] = transactional_id
    elif transaction_duration_ms is not None:
        chosen.setdefault("transactional.id", f"performance-producer-{uuid_to_string(uuid4())}")
    transaction_s = None if "transactional.id" not in chosen else (transaction_duration_ms or _TRANSACTION_MS) / 1000
    with short_timeout_admin(chosen) as admin:
        found = admin.try_describe_topics([topic])[topic]
        if isinstance(found, KafkaError):
            if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            if form != KAFKA:
                click.echo(f"{NAME}: topic {topic} does not exist yet; the broker is asked to create it", err=True)
    if form == KAFKA and warmup_records:
        click.echo(f"Warmup first {warmup_records} records. Steady state results will print after the complete test summary.")
    on_window = _window_printer(form, interval)
    with Producer(chosen) as producer:
        if transaction_s is not None:
            producer.init_transactions()
        meter = Meter(warmup_records, (INTERVAL_MS if interval is None else interval) / 1000, on_window, time.perf_counter)
        try:
            pace = Pace(throughput if throughput > 0 else None, meter.all.start_s)
            _drive(producer, topic, _chunks(payloads, records, pace, meter), meter, transaction_s)
        except KeyboardInterrupt:
            meter.take()
            _report(meter, form, None)
            raise
        _report(meter, form, producer.metrics() if print_metrics else None)
    if meter.failed:
        error = meter.error
        raise OdradekError(f"{meter.failed} of {records} records were not written; the first error is {str(error) or type(error).__name__}")
    return 0


# -- payloads -----------------------------------------------------------------------------------------------------------------------------


def _monotonic(first: int, count: int) -> Sequence[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def random_payloads(size: int) -> Payloads:
    """Return values of random letters A to Z, the same in every test. A compression codec sees no repetition within its window."""
    letters = bytes(65 + each * 26 // 256 for each in range(256))
    pool = random.Random(0).randbytes(_POOL_BYTES).translate(letters)
    # The beginning of the pool is repeated at its end, so that the values of a chunk are consecutive slices.
    pool = (pool * (2 + (_CHUNK_BYTES + 2 * size) // _POOL_BYTES))[: _POOL_BYTES + _CHUNK_BYTES + 2 * size]

    def values(first: int, count: int) -> Sequence[bytes]:
        begin = first * size % _POOL_BYTES
        return [pool[start : start + size] for start in range(begin, begin + count * size, size)]

    return values


def _between(delimiter: re.Pattern[str], text: str) -> list[str]:
    """Return the parts of a text between the delimiters. `re.split` would return the delimiter's groups, too."""
    parts: list[str] = []
    begin = 0
    for found in delimiter.finditer(text):
        parts.append(text[begin : found.start()])
        begin = found.end()
    return [*parts, text[begin:]]


def file_payloads(path: Path, delimiter: str) -> Payloads:
    """Return values picked at random from a file, the same in every test.

    Raises OdradekError for a file without values or not in UTF-8, UsageError for an invalid delimiter.
    """
    try:
        parts = _between(re.compile(delimiter), path.read_text(encoding="utf-8"))
    except re.error as error:
        raise click.UsageError(f"--payload-delimiter {delimiter}: invalid regular expression: {error}") from None
    except UnicodeDecodeError as error:
        raise OdradekError(f"{path}: not valid UTF-8: {error}") from None
    # As in java.util.Scanner, a delimiter at the beginning or the end of the file does not delimit an empty value.
    parts = parts[1:] if len(parts) > 1 and not parts[0] else parts
    parts = parts[:-1] if not parts[-1] else parts
    if not parts:
        raise OdradekError(f"{path}: the file contains no values; expected one value on each line")
    choices = [each.encode() for each in parts]
    rng = random.Random(0)
    return lambda first, count: rng.choices(choices, k=count)


# -- measuring ----------------------------------------------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """Outcome of records that were sent in one call of the producer. `steady` means that they were sent after the warm-up."""

    sent_s: float
    acknowledged_s: float
    records: int
    size: int
    steady: bool
    error: Exception | None


class Meter:
    """Outcomes of the sent records. The client's thread queues outcomes, the sending thread counts them in `take`."""

    def __init__(self, warmup: int, interval_s: float, on_window: Callable[[Window, bool], None], clock: Callable[[], float]) -> None:
        """Start the measurement. `take` calls `on_window(window, steady)` when a window of `interval_s` seconds ends."""
        self.clock = clock
        self.all = Throughput(clock(), interval_s)
        self.steady: Throughput | None = None
        self.warmup = warmup
        self.sent = 0
        self.failed = 0
        self.error: Exception | None = None
        self.end_s = self.all.start_s
        self._interval_s = interval_s
        self._on_window = on_window
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()

    def begin(self, wanted: int) -> tuple[int, float]:
        """Return how many of the `wanted` records to send in one chunk, and the current time. A chunk ends with the warm-up."""
        now = self.clock()
        if self.warmup and self.sent >= self.warmup and self.steady is None:
            self.steady = Throughput(now, self._interval_s)
        return (min(wanted, self.warmup - self.sent) if self.sent < self.warmup else wanted), now

    def count_sent(self, sent_s: float, values: Sequence[bytes], futures: Sequence[RecordFuture]) -> None:
        """Count records that were given to the producer at `sent_s`, and queue their outcomes when these are known."""
        start = 0
        steady = self.steady is not None
        for future in futures:
            count = future.record_count
            future.add_done_callback(partial(self._completed, sent_s, sum(map(len, values[start : start + count])), steady))
            start += count
        self.sent += start

    def _completed(self, sent_s: float, size: int, steady: bool, future: RecordFuture) -> None:
        error: Exception | None = None
        try:
            future.result(0)
        except Exception as problem:
            error = problem
        self._outcomes.put(_Outcome(sent_s, self.clock(), future.record_count, size, steady, error))

    def take(self) -> None:
        """Count the queued outcomes."""
        try:
            while True:
                self._count(self._outcomes.get_nowait())
        except Empty:
            self.end_s = self.clock()

    def _count(self, outcome: _Outcome) -> None:
        if outcome.error is not None:
            self.failed += outcome.records
            self.error = self.error or outcome.error
            return
        latency = int((outcome.acknowledged_s - outcome.sent_s) * 1_000_000)
        window = self.all.record(latency, outcome.records, outcome.size, outcome.acknowledged_s)
        if self.steady is not None:
            # As in Kafka, after the warm-up the windows are those of the steady state.
            window = self.steady.record(latency, outcome.records, outcome.size, outcome.acknowledged_s) if outcome.steady else None
        if window is not None:
            self._on_window(window, self.steady is not None)


def _drive(producer: Producer, topic: str, chunks: Iterator[Chunk], meter: Meter, transaction_s: float | None) -> None:
    """Send all records, and return when their outcomes are counted.

    Each transaction lasts `transaction_s` seconds; with None there are no transactions.
    """
    for sent_s, values in chunks:
        with producer.transaction() if transaction_s is not None else nullcontext():
            meter.count_sent(sent_s, values, producer.send_many(topic, values))
            for later_s, more in chunks if transaction_s is None or meter.clock() - sent_s < transaction_s else ():
                meter.count_sent(later_s, more, producer.send_many(topic, more))
                if transaction_s is not None and meter.clock() - sent_s >= transaction_s:
                    break
    producer.flush()
    meter.take()


def _chunks(payloads: Payloads, records: int, pace: Pace, meter: Meter) -> Iterator[Chunk]:
    """Yield each chunk when it is due. Count the queued outcomes in between."""
    most = 1
    while meter.sent < records:
        meter.take()
        now = meter.clock()
        due = min(pace.due(meter.sent, now), records - meter.sent, most)
        if not due:
            # Sleep for a millisecond at least; at higher rates several records are due after a sleep.
            time.sleep(min(max(pace.wait_s(meter.sent, now), _SHORTEST_SLEEP_S), _LONGEST_SLEEP_S))
            continue
        count, sent_s = meter.begin(due)
        values = payloads(meter.sent, count)
        yield sent_s, values
        most = max(min(_CHUNK_BYTES // max(*map(len, values), 1), _CHUNK_RECORDS), 1)


# -- results ------------------------------------------------------------------------------------------------------------------------------


def window_line(window: Window) -> str:
    """Return a window as a line in the format of Kafka's script."""
    return (
        f"{window.records} records sent, {window.records / window.seconds:.1f} records/sec "
        f"({window.size / window.seconds / MEGABYTE:.2f} MB/sec), "
        f"{window.latency_total / window.records / 1000:.1f} ms avg latency, {window.latency_highest // 1000:.1f} ms max latency."
    )


class Result(NamedTuple):
    """Measurements of a part of the test: "all", or "steady" (without the warm-up). Latencies are microseconds."""

    part: str
    records: int
    size: int
    seconds: float
    average: float
    percentiles: tuple[int, ...]
    highest: int


def results(meter: Meter) -> list[Result]:
    """Return the result of the whole test, and of the steady part if there was a warm-up."""
    parts = [("all", meter.all), *([("steady", meter.steady)] if meter.steady is not None else [])]
    return [
        Result(
            part,
            measured.latencies.count,
            measured.size,
            max(meter.end_s - measured.start_s, 1e-9),
            measured.latencies.average,
            tuple(measured.latencies.percentiles([*_FRACTIONS.values()])),
            measured.latencies.highest,
        )
        for part, measured in parts
    ]


def result_row(result: Result) -> Row:
    """Return a result as a row. A megabyte is 1,048,576 bytes."""
    return {
        "part": result.part,
        "records": result.records,
        "seconds": round(result.seconds, 3),
        "records_per_second": round(result.records / result.seconds, 1),
        "mb_per_second": round(result.size / result.seconds / MEGABYTE, 2),
        "average_ms": round(result.average / 1000, 3),
        **{name: each / 1000 for name, each in zip(_FRACTIONS, result.percentiles, strict=True)},
        "max_ms": result.highest / 1000,
    }


def total_line(result: Result) -> str:
    """Return a result as a line in the format of Kafka's script: highest latency and percentiles are whole milliseconds."""
    p50, p95, p99, p99_9 = (each // 1000 for each in result.percentiles)
    return (
        f"{result.records}{'' if result.part == 'all' else ' steady state'} records sent, {result.records / result.seconds:f} records/sec "
        f"({result.size / result.seconds / MEGABYTE:.2f} MB/sec), {result.average / 1000:.2f} ms avg latency, "
        f"{result.highest // 1000:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p99_9} ms 99.9th."
    )


def _window_printer(form: Form, interval: int | None) -> Callable[[Window, bool], None]:
    wanted = progress_wanted(form, interval)

    def on_window(window: Window, steady: bool) -> None:
        if form == KAFKA or wanted:
            if steady and window.number == 0:
                click.echo("In steady state.", err=wanted)
            click.echo(window_line(window), err=wanted)

    return on_window


def _report(meter: Meter, form: Form, metrics: dict[MetricName, float] | None) -> None:
    found = results(meter)
    rows = list(map(result_row, found))
    if form == KAFKA:
        click.echo("\n".join(map(total_line, found)))
    elif form == "json":
        named = {} if metrics is None else {"metrics": metric_values(metrics)}
        show([{**row, **named} for row in rows], "json")
    else:
        show(rows, "table")
    if metrics is not None and form != "json":
        click.echo("\n".join(metric_lines(metrics)))
    sys.stdout.flush()
