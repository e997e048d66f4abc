"""`odradek offsets`: first and last offsets of partitions, and offsets by time (kafka-get-offsets.sh)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import click

from odradek.base.errors import KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.cli.shared.client_command import CONTEXT_SETTINGS, client_settings, connection_options, run
from odradek.cli.shared.output import Output, output_option, show
from odradek.cli.shared.per_item import report_error
from odradek.cli.shared.times import instant_ms
from odradek.client.admin.blocking import Admin
from odradek.client.admin.types.topics import OffsetSpec

NAME: Final = "odradek offsets"
_SPECS: Final = {spec.name.lower().replace("_", "-"): spec for spec in OffsetSpec}
_QUERY: Final = re.compile(r"([a-zA-Z0-9._-]+):([0-9]{1,9}):(.+)", re.ASCII)
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]+)|([0-9]*)-([0-9]*))?)?", re.ASCII)

Wanted = Callable[[TopicPartition], bool]


@click.command(context_settings=CONTEXT_SETTINGS)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="REGEX[,...]|TOPIC:N:TIME",
    help="Topics whose whole name matches; all topics by default. Or a partition and a time, as for kcat's -Q. May be repeated.",
)
@click.option("-p", "--partitions", metavar="N,...", help="Only partitions with these numbers.")
@click.option(
    "--topic-partitions",
    metavar="REGEX:N,...",
    help="Topics and partitions: a (all partitions), a:0, a:0-3 (0 to 2), a:1- (from 1), a:-3 (0 to 2), :0 (partition 0 of all topics).",
)
@click.option(
    "--time",
    "time_spec",
    metavar="SPEC|MS|TIME",
    help="latest (-1, the default), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), earliest-pending-upload "
    "(-6), or a time for the first record at or after it: Unix milliseconds, or 2023-11-14T22:13:20 (UTC without a zone).",
)
@click.option("--exclude-internal-topics", "exclude_internal", is_flag=True, help="Omit Kafka's internal topics.")
@output_option
@connection_options
def command(
    topics: tuple[str, ...],
    partitions: str | None,
    topic_partitions: str | None,
    time_spec: str | None,
    exclude_internal: bool,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> int:
    """Print offsets of partitions.

    `-` means that the partition has no such offset. The exit status is 1 if a request for a partition fails.
    """
    if topic_partitions is not None and (topics or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    queries = _queries(topics)
    if queries and (partitions is not None or time_spec is not None):
        raise click.UsageError(f"-t {topics[0]} names a partition and a time, and cannot be used with --partitions and --time")
    wanted = _rules(topic_partitions) if topic_partitions is not None else _pattern_and_numbers(",".join(topics), partitions)
    spec = parse_spec("latest" if time_spec is None else time_spec)
    failed = 0
    rows: list[dict[str, object]] = []
    with Admin(client_settings(bootstrap, settings)) as admin:
        names = {partition.topic for partition, _ in queries} or [topic.name for topic in admin.list_topics(internal=not exclude_internal)]
        described = admin.describe_topics(names)
        all_ = [TopicPartition(str(name), number) for name, topic in described.items() for number in topic.partitions]
        asked = sorted(filter(wanted, all_)) if not queries else []
        if not asked and not queries:
            raise OdradekError("Could not match any topic-partitions with the specified filters; `odradek topics list` shows all topics")
        for partition, _ in queries:
            if partition not in all_:
                raise OdradekError(f"topic {partition.topic} has no partition {partition.partition}")
        for each in _requests(queries or [(partition, spec) for partition in asked]):
            for partition, found in admin.try_list_offsets(each).items():
                if isinstance(found, KafkaError):
                    failed += 1
                    report_error(NAME, found, str(partition))
                    continue
                rows.append(
                    {
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "offset": found.offset if found.offset >= 0 else None,
                        "timestamp": found.timestamp if found.timestamp >= 0 else None,
                    }
                )
    show(rows, output)
    return 1 if failed else 0


def _queries(topics: tuple[str, ...]) -> list[tuple[TopicPartition, OffsetSpec | int]]:
    """Return the partitions and times of `-t TOPIC:PARTITION:TIME` (kcat's -Q), [] when all texts are names of topics.

    Raises UsageError when some texts are names and others are not.
    """
    found = [_QUERY.fullmatch(text) for text in topics]
    named = [each for each in found if each is not None]
    if named and len(named) < len(found):
        raise click.UsageError(f"-t {named[0][0]}: TOPIC:PARTITION:TIME cannot be mixed with names of topics")
    return [(TopicPartition(each[1], int(each[2])), parse_spec(each[3])) for each in named]


def _requests(asked: list[tuple[TopicPartition, OffsetSpec | int]]) -> list[dict[TopicPartition, OffsetSpec | int]]:
    """Distribute the queries over as few requests as possible. A request can ask for only one offset per partition."""
    requests: list[dict[TopicPartition, OffsetSpec | int]] = []
    for partition, spec in asked:
        request_without = next((request for request in requests if partition not in request), None)
        if request_without is not None:
            request_without[partition] = spec
        else:
            requests.append({partition: spec})
    return requests


def parse_spec(text: str) -> OffsetSpec | int:
    """Return the special offset of a name or number, or Unix milliseconds. Raises UsageError for other text."""
    if text in _SPECS:
        return _SPECS[text]
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        number = int(text)
        if number >= 0:
            return number
        if number in list(OffsetSpec):
            return OffsetSpec(number)
    else:
        try:
            return instant_ms(text)
        except ValueError:
            pass
    raise click.UsageError(
        f"Malformed time argument {text}. It must be one of {', '.join(f'{spec.value} or {name}' for name, spec in _SPECS.items())}, "
        "Unix milliseconds, or a time such as 2023-11-14T22:13:20"
    )


def _pattern_and_numbers(topics: str, partitions: str | None) -> Wanted:
    numbers: set[int] | None = None
    if partitions:
        if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", partitions):
            raise click.UsageError(f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}")
        numbers = set(map(int, partitions.split(",")))
    matches = _pattern("--topic", (topics or ".*").replace(",", "|"))
    return lambda partition: bool(matches(partition.topic)) and (numbers is None or partition.partition in numbers)


def _pattern(option: str, text: str) -> Callable[[str], object]:
    try:
        return re.compile(text).fullmatch
    except re.error as error:
        raise click.UsageError(f"{option} {text}: invalid regular expression: {error}") from None


def _rules(text: str) -> Wanted:
    rules = [_rule(each) for each in text.split(",")]
    return lambda partition: any(rule(partition) for rule in rules)


def _rule(text: str) -> Wanted:
    found = _RULE.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--topic-partitions: Invalid rule specification: {text}")
    topic, only, first, end = found.groups()
    matches = _pattern("--topic-partitions", topic or ".*")
    lowest = int(only or first or 0)
    beyond = int(only) + 1 if only else int(end) if end else None
    return lambda partition: bool(matches(partition.topic)) and _between(partition.partition, lowest, beyond)


def _between(number: int, lowest: int, beyond: int | None) -> bool:
    return lowest <= number and (beyond is None or number < beyond)


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    return run(command, NAME, arguments)
