"""`odradek delete-records`: deletion of the records before given offsets (kafka-delete-records.sh)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

import click

from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, explained, run
from odradek.cli.shared.dry_run import execute_option, remark_dry_run
from odradek.cli.shared.output import Output, Row, output_option, show
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import OffsetSpec

_KAFKA_OPTION: Final = "--offset-json-file"
_HIGH_WATERMARK: Final = -1
_FORM: Final = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'


@click.command(context_settings=CONTEXT_SETTINGS)
@click.argument("texts", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET...]")
@click.option(
    "-f",
    _KAFKA_OPTION,
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of offsets in the JSON format of Kafka's script. The long name implies --execute unless --dry-run is given.",
)
@execute_option
@output_option
@connection_options
def command(texts: tuple[str, ...], file: Path | None, execute: bool, output: Output, bootstrap: str, settings: tuple[str, ...]) -> int:
    """Delete the records before offsets.

    OFFSET is the offset of the first record to keep; -1 deletes all records. Without --execute the command only shows the records that it
    would delete. A failure of one partition does not stop the others.
    """
    if bool(texts) == (file is not None):
        raise click.UsageError("give either TOPIC:PARTITION:OFFSET or a file with -f")
    wanted = _parsed(texts) if file is None else read_offsets(file)
    failed = 0
    rows: list[Row] = []
    with Admin(client_settings(bootstrap, settings)) as admin:
        errors = _missing(admin, wanted)
        existing = [partition for partition in wanted if partition not in errors]
        first = admin.try_list_offsets(dict.fromkeys(existing, OffsetSpec.EARLIEST))
        last = admin.try_list_offsets(dict.fromkeys(existing, OffsetSpec.LATEST))
        asked: dict[TopicPartition, tuple[int, int]] = {}
        for partition in existing:
            start, end = first[partition], last[partition]
            if isinstance(start, KafkaError):
                errors[partition] = start
            elif isinstance(end, KafkaError):
                errors[partition] = end
            elif wanted[partition] > end.offset:
                errors[partition] = KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{wanted[partition]} is higher than {end.offset}, the end offset of partition {partition}",
                )
            else:
                asked[partition] = (start.offset, end.offset if wanted[partition] == _HIGH_WATERMARK else wanted[partition])
        done = admin.try_delete_records({partition: wanted[partition] for partition in asked}) if execute and asked else {}
        for partition, (beginning, before) in asked.items():
            low = done.get(partition, before)
            if isinstance(low, KafkaError):
                errors[partition] = low
            else:
                low = max(low, beginning)
                rows.append({"topic": partition.topic, "partition": partition.partition, "deleted": low - beginning, "low_watermark": low})
    show(rows, output)
    for partition in wanted:
        if partition in errors:
            failed += 1
            click.echo(f"odradek delete-records: {partition}: {explained(errors[partition])}", err=True)
    if rows and not execute:
        remark_dry_run("odradek delete-records")
    return 1 if failed else 0


def _missing(admin: Admin, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, KafkaError]:
    """Return the errors of partitions that do not exist. With them the command fails at once and does not wait for these partitions.

    Raises KafkaError when no broker responds.
    """
    topics = admin.try_describe_topics(list(dict.fromkeys(partition.topic for partition in wanted)))
    errors: dict[TopicPartition, KafkaError] = {}
    for partition in wanted:
        topic = topics[partition.topic]
        if isinstance(topic, KafkaError):
            if topic.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                raise topic
            errors[partition] = topic
        elif partition.partition not in topic.partitions:
            errors[partition] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {partition.topic} has only {len(topic.partitions)} partitions"
            )
    return errors


def _parsed(texts: tuple[str, ...]) -> dict[TopicPartition, int]:
    wanted: dict[TopicPartition, int] = {}
    for text in texts:
        parts = text.split(":")
        if len(parts) != 3 or not parts[0] or not parts[1].isdecimal() or not (parts[2].isdecimal() or parts[2] == "-1"):
            raise click.UsageError(f"{text}: expected TOPIC:PARTITION:OFFSET")
        partition, offset = TopicPartition(parts[0], int(parts[1])), int(parts[2])
        if partition in wanted:
            raise click.UsageError(f"{partition} is given twice")
        if partition.partition > 0x7FFFFFFF or offset > 0x7FFFFFFFFFFFFFFF:
            raise click.UsageError(f"{text}: the partition or the offset is too large")
        wanted[partition] = offset
    return wanted


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets from a file in the format of kafka-delete-records.sh. Raises ConfigError for another format."""
    try:
        found: object = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: invalid JSON; expected {_FORM}") from None
    document = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version = document.get("version", 1)
    if version != 1:
        raise ConfigError(f"{path}: version {version} is unknown; expected {_FORM}")
    listed = document.get("partitions")
    wanted: dict[TopicPartition, int] = {}
    for each in cast("list[object]", listed) if isinstance(listed, list) and listed else [None]:
        fields = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        topic, partition, offset = fields.get("topic"), fields.get("partition"), fields.get("offset")
        if not isinstance(topic, str) or type(partition) is not int or type(offset) is not int:
            raise ConfigError(f"{path}: topic, partition and offset are missing in partitions; expected {_FORM}")
        if not 0 <= partition <= 0x7FFFFFFF or not _HIGH_WATERMARK <= offset <= 0x7FFFFFFFFFFFFFFF:
            raise ConfigError(f"{path}: partition {partition} or offset {offset} is out of range")
        if TopicPartition(topic, partition) in wanted:
            raise ConfigError(f"{path}: {topic}-{partition} is given twice")
        wanted[TopicPartition(topic, partition)] = offset
    return wanted


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    if any(each == _KAFKA_OPTION or each.startswith(f"{_KAFKA_OPTION}=") for each in arguments):
        arguments = ["--execute", *arguments]  # first, so that a later --dry-run overrides it
    return run(command, "odradek delete-records", arguments)
