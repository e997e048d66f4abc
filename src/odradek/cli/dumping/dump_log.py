"""`odradek dump-log`: contents of the files of a log, in the format of kafka-dump-log.sh."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

import click

from odradek.base.errors import OdradekError
from odradek.base.text import columns
from odradek.cli.dumping import decoders
from odradek.cli.dumping.decoders import PARTS, Decoder
from odradek.cli.dumping.index_text import IndexText, aborted_transactions, in_java_order, producers
from odradek.cli.dumping.log_text import ALL_BYTES, LogText
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, run
from odradek.storage.disk import OsDisk
from odradek.storage.producer_snapshot import CorruptSnapshotError

_LARGEST_MESSAGE: Final = 5 * 1024 * 1024
_TEXT: Final = next(iter(PARTS))
_NAMED: Final = "odradek.files"


def _remember(context: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    context.meta[_NAMED] = tuple(file for each in files for file in each.split(",") if file)


def _all_files(context: click.Context, parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    files = (*context.meta.get(_NAMED, ()), *files)
    if not files:
        raise click.MissingParameter(ctx=context, param=parameter)
    return tuple(os.path.normpath(file) if file.endswith("/") else file for file in files)


@click.command(context_settings=CONTEXT_SETTINGS)
@click.argument("files", nargs=-1, metavar="FILE...", callback=_all_files)
@click.option(
    "--files", "named", multiple=True, expose_value=False, is_eager=True, callback=_remember, metavar="FILE,...", help="More files."
)
@click.option("--deep-iteration", "deep", is_flag=True, help="Also print the records of each batch, one per line.")
@click.option("--print-data-log", "contents", is_flag=True, help="Also print keys and values of the records.")
@click.option("--offsets-decoder", "offsets", is_flag=True, help="Decode keys and values as records of __consumer_offsets.")
@click.option("--transaction-log-decoder", "transactions", is_flag=True, help="Decode keys and values as records of __transaction_state.")
@click.option("--cluster-metadata-decoder", "metadata", is_flag=True, help="Decode values as records of __cluster_metadata.")
@click.option("--share-group-state-decoder", "shares", is_flag=True, help="Decode keys and values as records of __share_group_state.")
@click.option(
    "--key-decoder-class",
    "key",
    type=click.Choice(list(PARTS)),
    metavar="CLASS",
    help="Decoder of keys: org.apache.kafka.tools.api. and StringDecoder (the default), IntegerDecoder or LongDecoder.",
)
@click.option(
    "--value-decoder-class",
    "value",
    type=click.Choice(list(PARTS)),
    metavar="CLASS",
    help="Decoder of values: org.apache.kafka.tools.api. and StringDecoder (the default), IntegerDecoder or LongDecoder.",
)
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--max-bytes", type=click.IntRange(0, ALL_BYTES), default=ALL_BYTES, help="Read at most this many bytes of each log.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1, ALL_BYTES),
    default=_LARGEST_MESSAGE,
    show_default=True,
    help="Largest batch in bytes that the check of an index reads.",
)
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option("--index-sanity-check", is_flag=True, help="Only check whether a broker would accept an index as it is.")
def command(
    files: tuple[str, ...],
    deep: bool,
    contents: bool,
    offsets: bool,
    transactions: bool,
    metadata: bool,
    shares: bool,
    key: str | None,
    value: str | None,
    skip_record_metadata: bool,
    max_bytes: int,
    max_message_size: int,
    verify_index_only: bool,
    index_sanity_check: bool,
) -> int:
    """Print the contents of the files of a log.

    FILE is a segment (.log), its .index, .timeindex or .txnindex, a producer snapshot (.snapshot), or a metadata snapshot (.checkpoint).
    The output is that of kafka-dump-log.sh, with one line per batch. The command only reads, and may run beside a broker. Errors in indexes
    are printed at the end, on standard error.
    """
    decoder = _decoder(offsets, transactions, metadata, shares, key, value, contents=contents)
    disk = OsDisk()
    indexes = IndexText(disk, sanity_only=index_sanity_check, verify_only=verify_index_only, max_message_size=max_message_size)
    gaps: dict[str, dict[int, int]] = {}
    for path in files:
        click.echo(f"Dumping {path}")
        suffix = os.path.splitext(os.path.basename(path))[1]
        if suffix in (".log", ".checkpoint"):
            text = LogText(
                deep=deep or decoder is not None, decoder=decoder, skip_record_metadata=skip_record_metadata, max_bytes=max_bytes
            )
            file = disk.open(path, readonly=True)
            try:
                _print(path, text.lines(file, path, os.path.basename(path)))
            finally:
                file.close()
            if text.gaps:
                gaps[os.path.abspath(path)] = text.gaps
        elif suffix == ".index":
            _print(path, indexes.offsets(path))
        elif suffix == ".timeindex":
            _print(path, indexes.times(path))
        elif suffix == ".txnindex":
            _print(path, aborted_transactions(disk, path))
        elif suffix == ".snapshot":
            try:
                _print(path, producers(disk, path))
            except CorruptSnapshotError as error:
                click.echo(str(error), err=True)
        else:
            click.echo(f"Ignoring unknown file {path}", err=True)
    for line in indexes.remarks():
        click.echo(line, err=True)
    for name, pairs in in_java_order(gaps):
        click.echo(f"Non-consecutive offsets in {name}", err=True)
        for first, second in sorted(pairs.items()):
            click.echo(f"  {first} is followed by {second}", err=True)
    return 0


def _decoder(
    offsets: bool, transactions: bool, metadata: bool, shares: bool, key: str | None, value: str | None, *, contents: bool
) -> Decoder | None:
    chosen = [
        make
        for wanted, make in (
            (offsets, decoders.offsets),
            (transactions, decoders.transactions),
            (metadata, lambda: decoders.cluster_metadata),
            (shares, decoders.share_group_state),
            (key is not None or value is not None, lambda: decoders.plain(PARTS[key or _TEXT], PARTS[value or _TEXT])),
        )
        if wanted
    ]
    if len(chosen) > 1:
        raise click.UsageError("give only one decoder")
    if chosen:
        return chosen[0]()
    return decoders.plain(PARTS[_TEXT], PARTS[_TEXT]) if contents else None


def _print(path: str, lines: Iterator[str]) -> None:
    # The output equals that of Kafka's tool byte for byte, except on a terminal: there records must not move the cursor or begin lines.
    terminal = sys.stdout.isatty()
    try:
        for line in lines:
            click.echo((columns(line) if terminal else line).encode(errors="replace"))
    except OdradekError as error:
        raise OdradekError(f"{path}: {error}") from None


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, "odradek dump-log", arguments)
