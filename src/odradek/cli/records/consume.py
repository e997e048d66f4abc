"""`odradek consume`: printing of records, from all partitions or as a member of a group. The one-letter options are kcat's."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from odradek.base.errors import OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.records.console_formatter import DEFAULT, NO_OP, Formatter, Undecodable, console_formatter
from odradek.cli.records.decoding import Decoding, chosen_decoding, decoded, decoding_options
from odradek.cli.records.ranges import BEGINNING, END, Range, parse_range
from odradek.cli.records.record_formats import no_output, plain, template_formatter
from odradek.cli.records.record_json import json_line
from odradek.cli.records.seeking import Ends, EndsOfMember, seek
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options_with, read_properties, run, unescape
from odradek.cli.shared.per_item import NUMBER
from odradek.cli.shared.progress import Meter
from odradek.cli.shared.signals import Stop, Stopping, Terminated, stoppable
from odradek.cli.shared.streams import check_output
from odradek.client.admin.blocking import Admin
from odradek.client.consumer.blocking import Consumer
from odradek.client.failures import WakeupError
from odradek.client.settings.config import settings_of_admin
from odradek.client.types import ConsumerRecord


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option("-t", "--topic", "topics", multiple=True, metavar="TOPIC", help="Topic to read; may be repeated.")
@click.option(
    "--include",
    metavar="REGEX",
    help="Read all topics whose whole name matches, also topics that are created later. Reads as a member of a group; without -G of a new "
    "group.",
)
@click.option(
    "-G",
    "--group",
    metavar="GROUP",
    help="Read as a member of this consumer group from its committed offsets, and commit the offsets of printed records. Without a "
    "committed offset start at -o beginning or -o end.",
)
@click.option("-p", "--partition", "partitions", type=NUMBER, multiple=True, metavar="N", help="Read only this partition; may be repeated.")
@click.option(
    "-o",
    "--offset",
    "offsets",
    multiple=True,
    metavar="START[:END]",
    help="Where to start: beginning (the default), end (the default of --console), offset N, +N (after the first offset), -N (before the "
    "end), or @TIME. A range START:END also sets the end, such as 10:20, :end, @-2h:-1h, @2023-11-14:1d (UTC without a zone). kcat's s@MS "
    "and e@MS set the start and the end; give both in two options.",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o beginning.")
@click.option("-c", "--count", "--max-messages", type=click.IntRange(1), metavar="N", help="Stop after this many records.")
@click.option("--timeout-ms", type=click.IntRange(1), metavar="MS", help="Stop when no record has arrived for MS milliseconds.")
@click.option("-e", "--exit", "exit_at_end", is_flag=True, help="Stop at the end of the partitions instead of waiting for new records.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Print the key before the value, separated by DELIM.")
@click.option("-D", "--delimiter", metavar="DELIM", help="Text to print after each record; \\n by default.")
@click.option(
    "-f",
    "--format",
    "template",
    metavar="FORMAT",
    help="%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T timestamp, %S and %K lengths, %% a percent sign, \\n, \\t.",
)
@click.option("-J", "--json", "as_json", is_flag=True, help="Print one JSON object per record, as kcat does; `produce -J` reads them.")
@click.option("-q", "--quiet", is_flag=True, help="Print no remarks on standard error.")
@click.option(
    "--console",
    is_flag=True,
    help="Behave as kafka-console-consumer: start at the end by default, print null values as null, end with the number of records.",
)
@click.option(
    "--formatter-property",
    "--property",
    "formatter_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Print as kafka-console-consumer does: print.timestamp, print.partition, print.offset, print.delivery, print.headers, print.key, "
    "print.value=true|false, key.separator, line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, "
    "headers.deserializer; may be repeated.",
)
@click.option(
    "--formatter-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of such properties; --formatter-property overrides it.",
)
@click.option(
    "--formatter", type=click.Choice([DEFAULT, NO_OP]), metavar="CLASS", help="Kafka's DefaultMessageFormatter, or NoOpMessageFormatter."
)
@click.option("--key-deserializer", metavar="CLASS", help="Short for --formatter-property key.deserializer=CLASS.")
@click.option("--value-deserializer", metavar="CLASS", help="Short for --formatter-property value.deserializer=CLASS.")
@click.option("--skip-message-on-error", "skip_errors", is_flag=True, help="Skip records that the deserializer cannot read.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="read_committed hides records of transactions until they are committed.",
)
@decoding_options
@connection_options_with("--consumer.config", settings=("--command-property", "--consumer-property"))
def command(
    topics: tuple[str, ...],
    include: str | None,
    group: str | None,
    partitions: tuple[int, ...],
    offsets: tuple[str, ...],
    from_beginning: bool,
    count: int | None,
    timeout_ms: int | None,
    exit_at_end: bool,
    key_delimiter: str | None,
    delimiter: str | None,
    template: str | None,
    as_json: bool,
    quiet: bool,
    console: bool,
    formatter_properties: tuple[str, ...],
    formatter_config: Path | None,
    formatter: str | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
    skip_errors: bool,
    isolation_level: str | None,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Print the records of topics.

    Takes the options of kcat and of kafka-console-consumer. With --console, --formatter, --formatter-property or a deserializer, the output
    is that of kafka-console-consumer.
    """
    if bool(topics) == (include is not None):
        raise click.UsageError("one of --topic, --include is required" + (", not both" if topics else ""))
    if include is not None and partitions:
        raise click.UsageError("--include cannot be used with -p")
    if from_beginning and offsets:
        raise click.UsageError("--from-beginning cannot be used with -o")
    of_kafka = _FormatterOptions(console, formatter, formatter_config, formatter_properties, key_deserializer, value_deserializer)
    render = _chosen_format(as_json, template, key_delimiter, delimiter, of_kafka)
    decoding = _decoding(of_kafka)
    check_output()
    meter = Meter(quiet=quiet or sys.stdout.isatty())
    printer = Printer(decoded(render, decoding, nested=as_json), count, timeout_ms, skip_errors, meter)
    wanted = parse_range(offsets, END if console and not from_beginning else BEGINNING, time.time_ns() // 1_000_000)
    chosen = client_settings(bootstrap, settings)
    if isolation_level is not None:
        chosen["isolation.level"] = isolation_level
    group = _group(group, chosen.pop("group.id", None))
    fetching = {"auto.offset.reset": "earliest", "allow.auto.create.topics": "false", "max.poll.records": "10000", **chosen}
    if group is not None or include is not None:
        if partitions:
            raise click.UsageError("-p cannot be used with -G: the group assigns the partitions")
        option = "--from-beginning" if from_beginning else " ".join(f"-o {text}" for text in offsets)
        fetching |= _member_settings(group, wanted, option, chosen)
        subscription = _subscription(chosen, topics, include)
        with Consumer(fetching) as member, meter:
            member.subscribe(subscription)
            # Closing the member commits the offsets of the printed records.
            printer.run(member, EndsOfMember(member) if exit_at_end else None)
    else:
        reading = _chosen(_known_partitions(chosen, topics), partitions)
        if exit_at_end and wanted.end is None:
            wanted = wanted._replace(end=END)
        with Consumer(fetching) as consumer, meter:
            at_end = _print_range(consumer, reading, wanted, printer, quiet)
        if at_end and not quiet and sys.stderr.isatty():
            click.echo(f"% Reached the end of {', '.join(topics)}", err=True)
    if console and not quiet:
        click.echo(f"Processed a total of {printer.printed} messages", err=True)


class _FormatterOptions(NamedTuple):
    """Options of kafka-console-consumer that choose the format."""

    console: bool
    formatter: str | None
    file: Path | None
    pairs: tuple[str, ...]
    key_deserializer: str | None
    value_deserializer: str | None

    def properties(self) -> dict[str, str]:
        found = read_properties(self.file, self.pairs, "--formatter-property")
        short = {"key.deserializer": self.key_deserializer, "value.deserializer": self.value_deserializer}
        return found | {name: value for name, value in short.items() if value is not None}


def _chosen_format(
    as_json: bool, template: str | None, key_delimiter: str | None, delimiter: str | None, options: _FormatterOptions
) -> Formatter:
    """Return the formatter that the options choose. Raises UsageError for options that exclude each other."""
    if as_json and (template is not None or key_delimiter is not None):
        raise click.UsageError("-J cannot be used with -f and -K")
    if (as_json or template is not None) and delimiter is not None:
        raise click.UsageError("-D cannot be used with -f and -J")
    if template is not None and key_delimiter is not None:
        raise click.UsageError("-f cannot be used with -K; use %k for the key")
    properties = options.properties()
    kafka_format = bool(properties) or options.formatter is not None
    if kafka_format and (as_json or template is not None):
        raise click.UsageError("--formatter and --formatter-property cannot be used with -J and -f")
    kafka_format = kafka_format or options.console
    if kafka_format and (delimiter is not None or key_delimiter is not None):
        raise click.UsageError(
            "-K and -D cannot be used with --console and --formatter; use --formatter-property key.separator=DELIM and line.separator=DELIM"
        )
    if template is not None:
        return template_formatter(unescape(template))
    if as_json:
        return json_line
    if kafka_format:
        render = console_formatter(properties)
        return no_output if options.formatter == NO_OP else render
    return plain(unescape("\\n" if delimiter is None else delimiter), unescape(key_delimiter) if key_delimiter is not None else None)


def _decoding(of_kafka: _FormatterOptions) -> Decoding | None:
    decoding = chosen_decoding(click.get_current_context())
    if decoding is not None and (of_kafka.key_deserializer is not None or of_kafka.value_deserializer is not None):
        raise click.UsageError("--key-deserializer and --value-deserializer cannot be used with --key-decoder and --value-decoder")
    return decoding


def _member_settings(group: str | None, wanted: Range, option: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of a member of `group`, or of a new group without commits.

    `option` gave the start of `wanted`, "" without one. Raises UsageError when a member of a group cannot start there.
    """
    if wanted.end is not None or wanted.start.kind not in ("beginning", "end"):
        raise click.UsageError(f"{option}: with {'-G' if group is not None else '--include'} the offset must be beginning or end")
    reset = "earliest" if wanted.start.kind == "beginning" else "latest"
    configured = chosen.get("auto.offset.reset", reset)
    if configured != reset and option:
        raise click.UsageError(f"{option} contradicts auto.offset.reset={configured}")
    if group is None:
        group = f"console-consumer-{random.randrange(100_000)}"
        return {"auto.offset.reset": configured, "enable.auto.commit": "false", "group.id": group}
    return {"auto.offset.reset": configured, "group.id": group}


def _group(given: str | None, configured: str | None) -> str | None:
    if given is not None and configured is not None and given != configured:
        raise click.UsageError(f"-G {given} contradicts group.id={configured}")
    return given if given is not None else configured


def _print_range(consumer: Consumer, partitions: list[TopicPartition], wanted: Range, printer: Printer, quiet: bool) -> bool:
    """Print the records of partitions in the range, and return whether their ends were reached."""
    consumer.assign(partitions)
    remarks, ends = seek(consumer, partitions, wanted)
    for remark in remarks:
        if not quiet:
            click.echo(f"odradek consume: {remark}", err=True)
    printer.run(consumer, ends)
    return ends is not None and ends.reached()


def _subscription(chosen: dict[str, str], topics: tuple[str, ...], include: str | None) -> list[str] | re.Pattern[str]:
    """Return the topics, which must exist, or the pattern of --include. Raises UsageError for a malformed pattern."""
    if include is None:
        _known_partitions(chosen, topics)
        return list(topics)
    try:
        return re.compile(include)
    except re.error as error:
        raise click.UsageError(f"--include {include}: invalid regular expression: {error}") from None


def _known_partitions(chosen: dict[str, str], topics: tuple[str, ...]) -> dict[str, list[int]]:
    with Admin(settings_of_admin(chosen)) as admin:
        return {topic.name: sorted(topic.partitions) for topic in admin.describe_topics(topics).values()}


def _chosen(known: dict[str, list[int]], partitions: tuple[int, ...]) -> list[TopicPartition]:
    for topic, numbers in known.items():
        unknown = sorted(set(partitions) - set(numbers))
        if unknown:
            raise OdradekError(f"topic {topic} has no partition {unknown[0]}; its partitions are {numbers[0]} to {numbers[-1]}")
    return [TopicPartition(topic, number) for topic, numbers in known.items() for number in (sorted(set(partitions)) or numbers)]


_OUTPUT_TIMEOUT_S = 0.5
"""Seconds after a signal until a blocked write to standard output is interrupted."""


class Printer:
    """Printer of the records that a consumer reads."""

    def __init__(self, render: Formatter, count: int | None, timeout_ms: int | None, skip_errors: bool, meter: Meter) -> None:
        self.printed = 0
        self._render = render
        self._count = count
        self._timeout_ms = timeout_ms
        self._skip_errors = skip_errors
        self._meter = meter
        self._shown = 0
        """Number of records of the last poll that are on standard output when printing fails."""

    def run(self, consumer: Consumer, ends: Ends | EndsOfMember | None) -> None:
        """Print until `count` records are printed, the ends are reached, or no record has arrived for `timeout_ms` milliseconds.

        If some of the records are not printed, the consumer seeks back to them. Raises OdradekError for a record that cannot be shown,
        OSError when standard output fails, Terminated after a signal that asks to end.
        """
        with stoppable(consumer.wakeup) as stopping, suppress(Stop, WakeupError):
            self._print_all(consumer, ends, stopping)
        if stopping.signal:
            raise Terminated(stopping.signal)

    def _print_all(self, consumer: Consumer, ends: Ends | EndsOfMember | None, stopping: Stopping) -> None:
        last = time.monotonic()
        longest = 500 if ends is not None else 3_600_000
        while self.printed != self._count and not (ends is not None and ends.reached()):
            left_ms = longest
            if self._timeout_ms is not None:
                left_ms = self._timeout_ms - int((time.monotonic() - last) * 1000)
                if left_ms <= 0:
                    return
            limit = min(self._count - self.printed, 10_000) if self._count is not None else None
            records = consumer.poll(min(left_ms, longest), max_records=limit)
            if stopping.signal:
                _seek_back(consumer, records)
                return
            received = bool(records)
            if ends is not None:
                records = ends.before(records)
            try:
                with stopping.interruptible(_OUTPUT_TIMEOUT_S):
                    self._print(records)
            except BaseException:
                _seek_back(consumer, records[self._shown :])
                raise
            self.printed += len(records)
            self._meter.count(len(records))
            if received:
                last = time.monotonic()  # after printing: a slow reader of standard output does not count as a lack of records

    def _print(self, records: list[ConsumerRecord]) -> None:
        output = sys.stdout.buffer
        self._shown = 0
        try:
            output.write(b"".join(map(self._render, records)))
        except Undecodable:
            self._print_readable(records)
        output.flush()

    def _print_readable(self, records: Iterable[ConsumerRecord]) -> None:
        for index, record in enumerate(records):
            try:
                sys.stdout.buffer.write(self._render(record))
            except Undecodable as error:
                place = f"{record.topic}-{record.partition} at offset {record.offset}: {error}"
                if not self._skip_errors:
                    sys.stdout.buffer.flush()
                    self._shown = index
                    raise OdradekError(f"{place}; use --skip-message-on-error to continue") from None
                click.echo(f"odradek consume: skipped {place}", err=True)


def _seek_back(consumer: Consumer, records: Iterable[ConsumerRecord]) -> None:
    """Seek each partition to the first of these records, which are not printed. Closing the consumer then commits only printed records."""
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    for partition, offset in first.items():
        with suppress(OdradekError, ValueError):  # the partition may belong to another member by now
            consumer.seek(partition, offset)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek consume", arguments)
