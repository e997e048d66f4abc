"""`odradek produce`: lines of standard input or of files become records. The one-letter options are kcat's."""

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

from odradek.cli.client_command import CONTEXT_SETTINGS, client_settings, connection_options_with, read_properties, run, unescape
from odradek.cli.console_reader import line_parser, lines
from odradek.cli.progress import progress
from odradek.cli.record_json import parse_json_line
from odradek.cli.record_lines import Shape, limit, split
from odradek.cli.sending import Sink
from odradek.client.admin.blocking import Admin
from odradek.client.config import ADMIN_CONFIG
from odradek.client.producer.blocking import Producer

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
"""Options of kafka-console-producer that are configurations of the producer; of two for one configuration, the later wins, as there."""


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


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option("-t", "--topic", required=True, metavar="TOPIC", help="Where to write.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Always this partition; otherwise by key, or spread.")
@click.option("-K", "--key-delimiter", metavar="DELIM", help="What separates key and value in a line; a line without it has no key.")
@click.option("-k", "--key", metavar="KEY", help="The same key for all records.")
@click.option("-D", "--delimiter", metavar="DELIM", help="What separates records; \\n when left out.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for all records; may be repeated.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Empty keys and values are null (a tombstone).")
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
    help="Codec; gzip when none is named.",
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
    help="As kafka-console-producer: lines end with \\n, \\r or \\r\\n, and are parsed as --reader-property says.",
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
    "--reader-config", type=click.Path(path_type=Path), metavar="FILE", help="A file of such properties; --reader-property goes before it."
)
@click.option(
    "-J",
    "--json",
    "as_json",
    is_flag=True,
    help="Each line is a record as `consume -J` writes it: key, payload, headers, timestamp and, without -p, partition.",
)
@click.option("--sync", is_flag=True, help="Send one record at a time, and wait for its acknowledgement.")
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
    whole_files: tuple[Path, ...],
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Write records to a topic.

    Lines of standard input, lines of the files of -l, or each FILE as one record. Returns when every record is acknowledged; the first
    one that is not ends the command with status 1. With `-X transactional.id=ID` all of them are one transaction:
    read together or not at all.
    """
    if key is not None and key_delimiter is not None:
        raise click.UsageError("-k and -K exclude one another")
    if whole_files and (line_files or delimiter is not None):
        raise click.UsageError("each FILE is one record, which excludes -l and -D; -l FILE reads its lines")
    if "" in (delimiter, key_delimiter):
        raise click.UsageError("-D and -K need at least one character")
    properties = read_properties(reader_config, reader_properties, "--reader-property")
    parse = line_parser(properties) if console or properties else None
    shaped = any(each is not None for each in (key_delimiter, key, delimiter)) or bool(headers) or empty_is_null
    if parse is not None and shaped:
        raise click.UsageError("--console and --reader-property exclude -K, -k, -D, -H and -Z; its properties say the same")
    if parse is not None and (line_files or whole_files):
        raise click.UsageError("--console and --reader-property read standard input, which excludes -l and FILE")
    if as_json and (parse is not None or shaped or whole_files):
        raise click.UsageError("-J reads lines of JSON, which excludes -K, -k, -D, -H, -Z, FILE, --console and --reader-property")
    for path in (*whole_files, *line_files):
        path.open("rb").close()  # one that is missing is told before anything is written
    separator = unescape("\\n" if delimiter is None else delimiter)
    chosen = client_settings(
        bootstrap,
        settings,
        compression_type=compression,
        max_block_ms="10000",
        linger_ms="0" if sync else "20",
        max_request_size="67108864",
    )
    chosen |= _configured(context)
    shape = Shape(
        unescape(key_delimiter) if key_delimiter else None, key.encode() if key is not None else None, _headers(headers), empty_is_null
    )
    _remark_on_new_topic(chosen, topic)
    with Producer(chosen) as producer, producer.transaction() if "transactional.id" in chosen else nullcontext():
        sink = Sink(producer, topic, partition, shape, sync)
        if parse is not None:
            sink.write_parsed(limit(lines(sys.stdin.buffer), count), parse)
        elif whole_files:
            sink.write(limit((path.read_bytes() for path in whole_files), count))
        elif line_files:
            _write_files(partial(sink.write_parsed, parse=parse_json_line) if as_json else sink.write, line_files, separator, count)
        elif as_json:
            sink.write_parsed(limit(split(sys.stdin.buffer, separator, None), count), parse_json_line)
        else:
            sink.write(limit(split(sys.stdin.buffer, separator, None), count))
        sink.finish()


def _remark_on_new_topic(chosen: dict[str, str], topic: str) -> None:
    """The broker creates a topic that is not there, if it may; whoever mistyped a name should hear of it."""
    if not _TOPIC_NAME.fullmatch(topic):
        return  # The broker says why not.
    with Admin({name: value for name, value in chosen.items() if name in ADMIN_CONFIG}) as admin:
        names = [each.name for each in admin.list_topics(internal=True)]
    if topic not in names:
        close = get_close_matches(topic, names, 1)
        remark = f"topic {topic} is not there yet; the broker is asked to create it"
        click.echo(f"odradek produce: {remark}{f'. Did you mean {close[0]}?' if close else ''}", err=True)


def _headers(given: tuple[str, ...]) -> list[tuple[str, bytes | None]]:
    output: list[tuple[str, bytes | None]] = []
    for header in given:
        name, equals, value = header.partition("=")
        if not name:
            raise click.UsageError(f"-H {header}: this must be name=value")
        output.append((name, value.encode() if equals else None))
    return output


def _write_files(write: Callable[[Iterator[bytes]], None], files: tuple[Path, ...], delimiter: bytes, count: int | None) -> None:
    with progress(sum(path.stat().st_size for path in files)) as shown:

        def records() -> Iterator[bytes]:
            for path in files:
                with path.open("rb") as file:
                    yield from split(file, delimiter, shown)

        write(limit(records(), count))


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit status."""
    return run(command, "odradek produce", arguments)
