"""`odradek perf consume`: throughput of reading (kafka-consumer-perf-test.sh)."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import click

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.perf.perf_options import (
    INTERVAL_MS,
    KAFKA,
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
from odradek.cli.records.java_dates import DateFormat, java_date_format
from odradek.cli.shared.client_command import connection_options_with
from odradek.cli.shared.measuring import MEGABYTE
from odradek.cli.shared.output import Row, show
from odradek.cli.shared.per_item import one_of
from odradek.client.consumer.blocking import Consumer
from odradek.client.consumer.listeners import RebalanceListener
from odradek.client.metrics import MetricName
from odradek.client.types import ConsumerRecord

_POLL_MS: Final = 100
_MAX_POLL_RECORDS: Final = 500
_CLOSE_TIMEOUT_MS: Final = 1000
_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


@click.command(name="consume")
@click.option("-t", "--topic", metavar="TOPIC", help="Topic to read.")
@click.option("--include", metavar="REGEX", help="Read all topics whose whole name matches.")
@click.option(
    "-n", "--num-records", "--messages", "records", type=click.IntRange(1), required=True, metavar="N", help="Number of records to read."
)
@click.option("-G", "--group", metavar="GROUP", help="Consumer group to join; a new group by default.")
@click.option("--from-latest", is_flag=True, help="Start at the end of partitions without a committed offset.")
@click.option("--fetch-size", type=click.IntRange(0), metavar="BYTES", help="Short for -X max.partition.fetch.bytes=BYTES.")
@click.option("--socket-buffer-size", type=click.IntRange(-1), metavar="BYTES", help="Short for -X receive.buffer.bytes=BYTES.")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="Stop when no record arrives for MS milliseconds.",
)
@click.option("--show-detailed-stats", "detailed", is_flag=True, help="Also print figures for every reporting interval.")
@click.option("--hide-header", is_flag=True, help="Omit the line with the names of columns (with -o kafka).")
@click.option(
    "--date-format",
    metavar="PATTERN",
    default="yyyy-MM-dd HH:mm:ss:SSS",
    show_default=True,
    help="Format of times, a pattern of java.text.SimpleDateFormat.",
)
@reporting_interval_option
@print_metrics_option
@form_option
@connection_options_with("--consumer.config", settings=("--command-property",))
@click.pass_context
def command(
    context: click.Context,
    topic: str | None,
    include: str | None,
    records: int,
    group: str | None,
    from_latest: bool,
    fetch_size: int | None,
    socket_buffer_size: int | None,
    timeout: int,
    detailed: bool,
    hide_header: bool,
    date_format: str,
    interval: int | None,
    print_metrics: bool,
    form: Form,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Measure the throughput of a consumer.

    Reads as a member of a consumer group. The time until the member has partitions counts as rebalance time, all other time as fetch time.
    Only the bytes of keys and values are counted.
    """
    one_of({"--topic": topic is not None, "--include": include is not None}, needed=True)
    if hide_header and form != KAFKA:
        raise click.UsageError("--hide-header requires -o kafka")
    try:
        dates = java_date_format(date_format)
    except ValueError as error:
        raise click.UsageError(f"--date-format {error}") from None
    chosen = measured_settings(
        context, bootstrap, settings, client_id="perf-consumer-client", receive_buffer_bytes="2097152", check_crcs="false"
    )
    chosen["auto.offset.reset"] = "latest" if from_latest else "earliest"
    if group is not None:
        chosen["group.id"] = group
    chosen.setdefault("group.id", f"perf-consumer-{random.randrange(100_000)}")
    for key, value in (("max.partition.fetch.bytes", fetch_size), ("receive.buffer.bytes", socket_buffer_size)):
        if value is not None:
            chosen[key] = str(value)
    pattern = None if include is None else _pattern(include)
    with short_timeout_admin(chosen) as admin:
        if topic is None:
            admin.list_topics()
        else:
            admin.describe_topics([topic])
    printer = _Printer(form, dates, detailed, hide_header, progress_wanted(form, interval))
    with Consumer(chosen) as consumer:
        reading = Reading(time.time, (INTERVAL_MS if interval is None else interval) / 1000, printer.window)
        try:
            consumer.subscribe([topic] if topic is not None else pattern or [], reading.joining)
            read(consumer, reading, records, int(chosen.get("max.poll.records", _MAX_POLL_RECORDS)), timeout / 1000)
        except KeyboardInterrupt:
            printer.result(reading, None)
            # After Ctrl-C the user does not wait for a broker that may not respond.
            consumer.close(_CLOSE_TIMEOUT_MS)
            raise
        short = f"{reading.records} of {records} records were read, then no record came for {timeout} ms; use a longer --timeout"
        if reading.records < records and form == KAFKA:
            click.echo(
                f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout} ms) exceeded. "
                "You can use the --timeout option to increase the timeout."
            )
        printer.result(reading, consumer.metrics() if print_metrics else None)
    if reading.records < records:
        raise OdradekError(short)
    return 0


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"--include {text}: invalid regular expression: {error}") from None


def read(consumer: Consumer, reading: Reading, records: int, most: int, timeout_s: float) -> None:
    last = time.monotonic()
    while reading.records < records and time.monotonic() - last <= timeout_s:
        found = consumer.poll(_POLL_MS, min(most, records - reading.records))
        if found:
            reading.take(found)
            last = time.monotonic()  # after `take`, which may print: that time is not the broker's


class Span(NamedTuple):
    """Records and bytes that were read between two times (Unix seconds)."""

    start_s: float
    end_s: float
    size: int
    records: int
    joining_s: float

    @property
    def seconds(self) -> float:
        return max(self.end_s - self.start_s, 1e-9)

    @property
    def fetching_s(self) -> float:
        return self.end_s - self.start_s - self.joining_s


class Joining(RebalanceListener):
    """Listener that measures how many seconds the consumer was without partitions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.total_s = 0.0
        self._clock = clock
        self._since = clock()
        self._assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        had_partitions = bool(self._assigned)
        self._assigned.difference_update(partitions)
        if had_partitions and not self._assigned:
            self._since = self._clock()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self._assigned:
            now = self._clock()
            self.total_s += now - self._since
            self._since = now  # An empty assignment, as in a cooperative rebalance, goes on without partitions from here.
        self._assigned.update(partitions)


class Reading:
    """Counts of read records and bytes. After each interval of `interval_s` seconds `on_window(window, total)` is called."""

    def __init__(self, clock: Callable[[], float], interval_s: float, on_window: Callable[[Span, Span], None]) -> None:
        self.records = 0
        self.size = 0
        self.joining = Joining(clock)
        self._clock = clock
        self._interval_s = interval_s
        self._on_window = on_window
        self._start_s = clock()
        self._before = self.all()

    def all(self) -> Span:
        """Return the span from the start until now."""
        return Span(self._start_s, self._clock(), self.size, self.records, self.joining.total_s)

    def take(self, records: list[ConsumerRecord]) -> None:
        """Count the records of one poll."""
        self.records += len(records)
        self.size += sum([len(record.value or b"") + len(record.key or b"") for record in records])
        now = self.all()
        before = self._before
        if now.end_s - before.end_s >= self._interval_s:
            joining_s = now.joining_s - before.joining_s
            self._on_window(Span(before.end_s, now.end_s, now.size - before.size, now.records - before.records, joining_s), now)
            self._before = now


# -- results ------------------------------------------------------------------------------------------------------------------------------


def span_row(span: Span, start: object, end: object) -> Row:
    """Return a span as a row. A megabyte is 1,048,576 bytes. Rates of fetching are None when the whole time was a rebalance."""
    fetching = span.fetching_s if span.fetching_s > 0 else None
    return {
        "start_time": start,
        "end_time": end,
        "mb": round(span.size / MEGABYTE, 4),
        "mb_per_second": round(span.size / MEGABYTE / span.seconds, 4),
        "records": span.records,
        "records_per_second": round(span.records / span.seconds, 1),
        "rebalance_ms": int(span.joining_s * 1000),
        "fetch_ms": int(span.fetching_s * 1000),
        "fetch_mb_per_second": None if fetching is None else round(span.size / MEGABYTE / fetching, 4),
        "fetch_records_per_second": None if fetching is None else round(span.records / fetching, 1),
    }


def span_line(span: Span, begin: str, read: Span) -> str:
    """Return a line in the format of Kafka's script: `begin` (the first two columns), the sums of `read` and the rates of `span`."""
    fetching = max(span.fetching_s, 0.0)
    rates = (span.size / MEGABYTE / fetching, span.records / fetching) if fetching else (0.0, 0.0)
    return (
        f"{begin}, {read.size / MEGABYTE:.4f}, {span.size / MEGABYTE / span.seconds:.4f}, {read.records}, "
        f"{span.records / span.seconds:.4f}, {int(span.joining_s * 1000)}, {int(span.fetching_s * 1000)}, {rates[0]:.4f}, {rates[1]:.4f}"
    )


class _Printer:
    """Printer of the measurements in the form of `-o`."""

    def __init__(self, form: Form, dates: DateFormat, detailed: bool, hide_header: bool, progress: bool) -> None:
        self._form = form
        self._dates = dates
        self._detailed = detailed
        self._progress = progress
        self._rows: list[Row] = []
        if form == KAFKA and not hide_header:
            click.echo(f"{'time, threadId' if detailed else 'start.time, end.time'}, {_COLUMNS}")

    def _date(self, unix_s: float) -> str:
        return self._dates(int(unix_s * 1000))

    def _row(self, span: Span) -> Row:
        if self._form == "json":
            return span_row(span, int(span.start_s * 1000), int(span.end_s * 1000))
        return span_row(span, self._date(span.start_s), self._date(span.end_s))

    def window(self, span: Span, read: Span) -> None:
        """Print or keep the figures of an interval that has passed."""
        if self._detailed and self._form == KAFKA:
            click.echo(span_line(span, f"{self._date(span.end_s)}, 0", read))
        elif self._detailed:
            self._rows.append(self._row(span))
        if self._progress:
            rates = f"{span.records / span.seconds:.1f} records/sec ({span.size / MEGABYTE / span.seconds:.2f} MB/sec)"
            click.echo(f"{read.records} records read, {rates}", err=True)

    def result(self, reading: Reading, metrics: dict[MetricName, float] | None) -> None:
        """Print the figures of the whole test. As in Kafka's script, detailed figures in Kafka's form have no such line."""
        span = reading.all()
        if self._form == KAFKA:
            if not self._detailed:
                click.echo(span_line(span, f"{self._date(span.start_s)}, {self._date(span.end_s)}", span))
        else:
            row = self._row(span)
            if self._form == "json" and metrics is not None:
                row = {**row, "metrics": metric_values(metrics)}
            show([*self._rows, row], "json" if self._form == "json" else "table")
        if metrics is not None and self._form != "json":
            click.echo("\n".join(metric_lines(metrics)))
        sys.stdout.flush()
