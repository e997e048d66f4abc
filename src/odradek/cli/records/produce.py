"""`odradek produce`: writing of records from lines of standard input or from files. The one-letter options are kcat's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click

from odradek.cli.records.console_reader import LineParser, line_parser, lines
from odradek.cli.records.record_json import parse_json_line
from odradek.cli.records.record_lines import Shape, limit, record_chunks
from odradek.cli.records.sending import Sending, Sink
from odradek.cli.shared.client_command import (
    CONTEXT_SETTINGS,
    check_text,
    client_settings,
    connection_options_with,
    read_properties,
    run,
    typed_bytes,
    unescape,
)
from odradek.cli.shared.per_item import NUMBER
from odradek.cli.shared.progress import Meter
from odradek.client.admin.blocking import Admin
from odradek.client.producer.blocking import Producer
from odradek.client.settings.config import settings_of_admin

_CONFIGURATION: Final = "odradek.producer"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


F = TypeVar("F", bound=Callable[..., object])


_CONFIGURATIONS: Final = (
    ("--request-required-acks", "acks", "ACKS"),
    ("--batch-size", "batch.size", "BYTES"),
    ("--max-partition-memory-bytes", "batch.size", "BYTES"),
    ("--timeout", "linger.ms", "MS"),
    ("--message-send-max-retries", "retries", "N"),
    ("--retry-backoff-ms", "retry.backoff.ms", "MS"),
    ("--request-timeout-ms", "request.timeout.ms", "MS"),
    ("--metadata-expiry-ms", "metadata.max.age.ms", "MS"),
    ("--max-block-ms", "max.block.ms", "MS"),
    ("--max-memory-bytes", "buffer.memory", "BYTES"),
    ("--socket-buffer-size", "send.buffer.bytes", "BYTES"),
)
"""Options of kafka-console-producer that set configurations of the producer.

If two given options set the same configuration, the later in this table wins, as in Kafka.
"""


def _keep_configuration(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(_CONFIGURATION, {})[option.opts[0]] = value


def _configuration_options(function: F) -> F:
    for flag, key, unit in reversed(_CONFIGURATIONS):
        option = click.option(flag, expose_value=False, callback=_keep_configuration, metavar=unit, help=f"Short for -X {key}={unit}.")
        function = option(function)
    return function


def _configured(context: click.Context) -> dict[str, str]:
    given = context.meta.get(_CONFIGURATION, {})
    return {key: given[flag] for flag, key, _ in _CONFIGURATIONS if flag in given}


def _checked_rate(_: click.Context, __: click.Parameter, rate: float | None) -> float | None:
    if rate is not None and not 0.001 <= rate <= 1_000_000:
        raise click.BadParameter(f"{rate:g} is not in the range 0.001<=x<=1000000")
    return rate


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Topic to write to.")
@click.option(
    "-p", "--partition", type=NUMBER, metavar="N", help="Write to this partition; by default the key selects it, or the partitioner."
)
@click.option("-K", "--key-delimiter", metavar="DELIM", help="Separator of key and value; a line without it has no key.")
@click.option("-k", "--key", metavar="KEY", help="Key of all records.")
@click.option("-D", "--delimiter", metavar="DELIM", help="Separator of records; \\n by default.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of all records; may be repeated.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Write empty keys and values as null (a null value is a tombstone).")
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="Stop after this many records.")
@click.option(
    "-z",
    "--compression",
    "--compression-codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    is_flag=False,
    flag_value="gzip",
    default="none",
    show_default=True,
    help="Compression codec; gzip if -z has no value.",
)
@click.option(
    "-l",
    "--lines",
    "line_files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read records from this file; may be repeated.",
)
@click.option(
    "--console",
    is_flag=True,
    help="Behave as kafka-console-producer: lines end with \\n, \\r or \\r\\n and are parsed by --reader-property.",
)
@click.option(
    "--reader-property",
    "--property",
    "reader_properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parse lines as kafka-console-producer does: parse.key, parse.headers, ignore.error=true|false, key.separator, headers.delimiter, "
    "headers.separator, headers.key.separator, null.marker; may be repeated. Implies --console.",
)
@click.option(
    "--reader-config", type=click.Path(path_type=Path), metavar="FILE", help="A file of such properties; --reader-property overrides it."
)
@click.option(
    "-J",
    "--json",
    "as_json",
    is_flag=True,
    help="Each line is a record as `consume -J` writes it: key, payload, headers, timestamp and (without -p) partition.",
)
@click.option("--sync", is_flag=True, help="Wait for the acknowledgement of each record before the next one.")
@click.option(
    "--rate",
    type=float,
    callback=_checked_rate,
    metavar="N",
    help="Maximum number of records per second, evenly spaced; may be less than 1.",
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Write all records in one transaction; short for -X transactional.id=ID.",
)
@click.option(
    "--transaction-size",
    type=click.IntRange(1),
    metavar="N",
    help="Commit after every N records instead of at the end; requires --transactional-id.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no remarks, progress or summary on standard error.")
@_configuration_options
@click.argument("whole_files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE...]")
@connection_options_with("--producer.config", settings=("--command-property", "--producer-property"))
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    partition: int | None,
    key_delimiter: str | None,
    key: str | None,
    delimiter: str | None,
    headers: tuple[str, ...],
    empty_is_null: bool,
    count: int | None,
    compression: str,
    line_files: tuple[Path, ...],
    console: bool,
    reader_properties: tuple[str, ...],
    reader_config: Path | None,
    as_json: bool,
    sync: bool,
    rate: float | None,
    transactional_id: str | None,
    transaction_size: int | None,
    quiet: bool,
    whole_files: tuple[Path, ...],
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Write records to a topic.

    Records are the lines of standard input, the lines of the files of -l, or the contents of each FILE. The command ends when all records
    are acknowledged; the first failed record ends it with status 1. With --transactional-id, an error or Ctrl-C aborts the transaction.
    """
    if key is not None and key_delimiter is not None:
        raise click.UsageError("-k cannot be used with -K")
    if whole_files and (line_files or delimiter is not None):
        raise click.UsageError("FILE (one record per file) cannot be used with -l and -D; to read the lines of a file, use -l FILE")
    if "" in (delimiter, key_delimiter):
        raise click.UsageError("-D and -K must not be empty")
    properties = read_properties(reader_config, reader_properties, "--reader-property")
    shaped = any(each is not None for each in (key_delimiter, key, delimiter)) or bool(headers) or empty_is_null
    parse = _chosen_parser(properties, console, as_json, shaped, line_files, whole_files)
    linger_ms = "0" if sync else "20"
    defaults = {"compression_type": compression, "max_block_ms": "10000", "linger_ms": linger_ms, "max_request_size": "67108864"}
    chosen = client_settings(bootstrap, settings, **defaults) | _configured(context)
    in_transactions = _choose_transactions(chosen, transactional_id, transaction_size)
    check_text("-t", topic)
    _check_files(*whole_files, *line_files)
    separator = unescape("\\n" if delimiter is None else delimiter)
    shape = Shape(
        unescape(key_delimiter) if key_delimiter else None, typed_bytes(key) if key is not None else None, _headers(headers), empty_is_null
    )
    if not quiet:
        _remark_on_new_topic(chosen, topic)
    reads_terminal = sys.stdin.isatty() and not line_files and not whole_files
    meter = Meter(size=_size(line_files) if count is None else None, quiet=quiet or reads_terminal)
    sink: Sink | None = None
    try:
        with meter, Producer(chosen) as producer, producer.transaction() if in_transactions else nullcontext():
            sink = Sink(producer, topic, partition, shape, Sending(sync, rate, transaction_size), meter)
            if parse is not None and not as_json:
                sink.write_parsed(limit(([line] for line in lines(sys.stdin.buffer)), count), parse)
            else:
                write = sink.write if parse is None else partial(sink.write_parsed, parse=parse)
                write(limit(_records(whole_files, line_files, separator, meter), count))
            sink.finish()
    except BaseException:
        if sink is not None and sink.transactions and not quiet:
            click.echo(f"odradek produce: {_committed(sink.transactions, transaction_size or 0)}", err=True)
        raise
    if not quiet and sys.stderr.isatty():
        click.echo(f"% {meter.summary()}", err=True)


def _chosen_parser(
    properties: dict[str, str],
    console: bool,
    as_json: bool,
    shaped: bool,
    line_files: tuple[Path, ...],
    whole_files: tuple[Path, ...],
) -> LineParser | None:
    """Return the parser of --console or -J, None without them. Raises UsageError for options that exclude each other."""
    parse = line_parser(properties) if console or properties else None
    if parse is not None and shaped:
        raise click.UsageError(
            "--console and --reader-property cannot be used with -K, -k, -D, -H and -Z; use reader properties such as parse.key=true"
        )
    if parse is not None and (line_files or whole_files):
        raise click.UsageError("--console and --reader-property read standard input and cannot be used with -l and FILE")
    if as_json and (parse is not None or shaped or whole_files):
        raise click.UsageError("-J reads lines of JSON and cannot be used with -K, -k, -D, -H, -Z, FILE, --console and --reader-property")
    return parse_json_line if as_json else parse


def _choose_transactions(chosen: dict[str, str], transactional_id: str | None, transaction_size: int | None) -> bool:
    """Add the transactional id to the configuration; return whether records are written in transactions."""
    if transactional_id is not None:
        if chosen.get("transactional.id", transactional_id) != transactional_id:
            raise click.UsageError(f"--transactional-id {transactional_id} contradicts transactional.id={chosen['transactional.id']}")
        chosen["transactional.id"] = transactional_id
    in_transactions = "transactional.id" in chosen
    if transaction_size is not None and not in_transactions:
        raise click.UsageError("--transaction-size requires --transactional-id ID")
    return in_transactions


def _check_files(*paths: Path) -> None:
    """Raise OSError for a file that cannot be read, before any record is written. Pipes are left alone: opening and closing a pipe would
    lose what its writer writes.
    """
    for path in paths:
        if not path.is_fifo():
            path.open("rb").close()


def _size(line_files: tuple[Path, ...]) -> int | None:
    """Return the number of bytes to read, None when it is unknown."""
    if not line_files or any(path.is_fifo() for path in line_files):
        return None
    return sum(path.stat().st_size for path in line_files)


def _records(whole_files: tuple[Path, ...], line_files: tuple[Path, ...], separator: bytes, meter: Meter) -> Iterator[list[bytes]]:
    for path in whole_files:
        yield [path.read_bytes()]
    for path in line_files:
        with path.open("rb") as file:
            yield from record_chunks(file, separator, partial(meter.count, 0))
    if not whole_files and not line_files:
        yield from record_chunks(sys.stdin.buffer, separator)


def _committed(transactions: int, size: int) -> str:
    count = "1 transaction" if transactions == 1 else f"{transactions} transactions"
    return f"committed {count} with the first {transactions * size} records; the later records were aborted"


def _remark_on_new_topic(chosen: dict[str, str], topic: str) -> None:
    """Print a remark when the topic does not exist. The broker may create the topic, so a mistyped name is not an error."""
    if not _TOPIC_NAME.fullmatch(topic):
        return  # The broker responds with the reason.
    with Admin(settings_of_admin(chosen)) as admin:
        names = [each.name for each in admin.list_topics(internal=True)]
    if topic not in names:
        close = get_close_matches(topic, names, 1)
        remark = f"topic {topic} does not exist yet; the broker is asked to create it"
        click.echo(f"odradek produce: {remark}{f'. Did you mean {close[0]}?' if close else ''}", err=True)


def _headers(given: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    output: list[tuple[str, bytes | None]] = []
    for header in given:
        name, equals, value = header.partition("=")
        if not name:
            raise click.UsageError(f"-H {header}: expected NAME=VALUE")
        check_text("-H", name)
        output.append((name, typed_bytes(value) if equals else None))
    return output


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek produce", arguments)
