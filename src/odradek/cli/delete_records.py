"""`odradek delete-records`: deletion of the records before given offsets (kafka-delete-records.sh)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

import click

from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.client_command import CONTEXT_SETTINGS, client_settings, connection_options, explained, run
from odradek.cli.destroying import execute_option, remark_dry_run
from odradek.cli.output import Output, Row, output_option, show
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import OffsetSpec

_KAFKAS: Final = "--offset-json-file"
_HIGH_WATERMARK: Final = -1
_FORM: Final = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'


@click.command(context_settings=CONTEXT_SETTINGS)
@click.argument("places", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET...]")
@click.option(
    "-f",
    _KAFKAS,
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Offsets in Kafka's JSON; under the long name, and without --dry-run, it is done at once, as by Kafka's script.",
)
@execute_option
@output_option
@connection_options
def command(places: tuple[str, ...], file: Path | None, execute: bool, output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Delete the records before offsets.

    OFFSET is that of the first record that stays; -1 deletes all that are there. Says which records that concerns, and deletes them with
    --execute. Of several partitions, those that can be done are done.
    """
    if bool(places) == (file is not None):
        raise click.UsageError("name TOPIC:PARTITION:OFFSET or a file, one of the two")
    wanted = _parsed(places) if file is None else read_offsets(file)
    failed = 0
    rows: list[Row] = []
    with Admin(client_settings(bootstrap, settings)) as admin:
        errors = _missing(admin, wanted)
        there = [where for where in wanted if where not in errors]
        first = admin.try_list_offsets(dict.fromkeys(there, OffsetSpec.EARLIEST))
        last = admin.try_list_offsets(dict.fromkeys(there, OffsetSpec.LATEST))
        asked: dict[TopicPartition, tuple[int, int]] = {}
        for where in there:
            start, end = first[where], last[where]
            if isinstance(start, KafkaError):
                errors[where] = start
            elif isinstance(end, KafkaError):
                errors[where] = end
            elif wanted[where] > end.offset:
                errors[where] = KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"{wanted[where]} lies above {end.offset}, the end of partition {where}"
                )
            else:
                asked[where] = (start.offset, end.offset if wanted[where] == _HIGH_WATERMARK else wanted[where])
        done = admin.try_delete_records({where: wanted[where] for where in asked}) if execute and asked else {}
        for where, (beginning, before) in asked.items():
            low = done.get(where, before)
            if isinstance(low, KafkaError):
                errors[where] = low
            else:
                low = max(low, beginning)
                rows.append({"topic": where.topic, "partition": where.partition, "deleted": low - beginning, "low_watermark": low})
    show(rows, output)
    for where in wanted:
        if where in errors:
            failed += 1
            click.echo(f"odradek delete-records: {where}: {explained(errors[where])}", err=True)
    if rows and not execute:
        remark_dry_run("odradek delete-records")
    return 1 if failed else 0


def _missing(admin: Admin, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, KafkaError]:
    """Return the errors of partitions that do not exist. With them the command fails at once and does not wait for these partitions.

    Raises KafkaError when no broker responds.
    """
    topics = admin.try_describe_topics(list(dict.fromkeys(where.topic for where in wanted)))
    errors: dict[TopicPartition, KafkaError] = {}
    for where in wanted:
        topic = topics[where.topic]
        if isinstance(topic, KafkaError):
            if topic.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                raise topic
            errors[where] = topic
        elif where.partition not in topic.partitions:
            errors[where] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where.topic} has {len(topic.partitions)} partitions")
    return errors


def _parsed(places: tuple[str, ...]) -> dict[TopicPartition, int]:
    wanted: dict[TopicPartition, int] = {}
    for place in places:
        parts = place.split(":")
        if len(parts) != 3 or not parts[0] or not parts[1].isdecimal() or not (parts[2].isdecimal() or parts[2] == "-1"):
            raise click.UsageError(f"{place}: this must be TOPIC:PARTITION:OFFSET")
        where, offset = TopicPartition(parts[0], int(parts[1])), int(parts[2])
        if where in wanted:
            raise click.UsageError(f"{where} stands there twice")
        if where.partition > 0x7FFFFFFF or offset > 0x7FFFFFFFFFFFFFFF:
            raise click.UsageError(f"{place}: the number is too large")
        wanted[where] = offset
    return wanted


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets from a file in the format of kafka-delete-records.sh. Raises ConfigError for another format."""
    try:
        found: object = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: this is not JSON; it must be {_FORM}") from None
    document = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version = document.get("version", 1)
    if version != 1:
        raise ConfigError(f"{path}: version {version} is not known; it must be {_FORM}")
    listed = document.get("partitions")
    wanted: dict[TopicPartition, int] = {}
    for each in cast("list[object]", listed) if isinstance(listed, list) and listed else [None]:
        fields = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        topic, partition, offset = fields.get("topic"), fields.get("partition"), fields.get("offset")
        if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int:
            raise ConfigError(f"{path}: topic, partition and offset are missing in partitions; it must be {_FORM}")
        if not 0 <= partition <= 0x7FFFFFFF or not _HIGH_WATERMARK <= offset <= 0x7FFFFFFFFFFFFFFF:
            raise ConfigError(f"{path}: there can be no partition {partition} with the offset {offset}")
        if TopicPartition(topic, partition) in wanted:
            raise ConfigError(f"{path}: {topic}-{partition} stands there twice")
        wanted[TopicPartition(topic, partition)] = offset
    return wanted


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    if any(each == _KAFKAS or each.startswith(f"{_KAFKAS}=") for each in arguments):
        arguments = ["--execute", *arguments]  # first, so that a later --dry-run overrides it
    return run(command, "odradek delete-records", arguments)
