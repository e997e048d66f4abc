"""`odradek topics describe`: topics and partitions, all or those with a problem (kafka-topics.sh --describe)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import click

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, uuid_to_string
from odradek.base.text import columns
from odradek.cli.shared.client_command import client_settings, connection_options
from odradek.cli.shared.output import JSON, Output, output_option
from odradek.cli.shared.per_item import id_of, one_of
from odradek.cli.topics.topic_names import TopicPattern, internal_option, names_and_patterns, selected_topics
from odradek.client.admin.blocking import Admin
from odradek.client.admin.topics import PAGE_SIZE
from odradek.client.admin.types.replicas import PartitionReassignment
from odradek.client.admin.types.topics import TopicDescription, TopicPartitionInfo
from odradek.client.types import ConfigEntry, ConfigResource

SOURCE_TOPIC: Final = 1
"""Source in DescribeConfigs of a value that is set on the topic itself."""

UNDER_REPLICATED: Final = "--under-replicated-partitions"
UNAVAILABLE: Final = "--unavailable-partitions"
UNDER_MIN_ISR: Final = "--under-min-isr-partitions"
AT_MIN_ISR: Final = "--at-min-isr-partitions"
_MIN_ISR: Final = "min.insync.replicas"
_NO_REASSIGNMENTS: Final = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Described(NamedTuple):
    """Topic with the configurations set on it and its moves by partition. `min_isr` is min.insync.replicas, None if unknown."""

    topic: TopicDescription
    configs: Mapping[str, str | None]
    min_isr: int | None
    moves: Mapping[int, PartitionReassignment]


def replication_factor(part: TopicPartitionInfo, move: PartitionReassignment | None) -> int:
    """Return the number of the partition's replicas. During a move replicas that are being added do not count."""
    if move is not None and {*move.adding_replicas, *move.removing_replicas} & {*part.replicas}:
        return len(move.replicas) - len(move.adding_replicas)
    return len(part.replicas)


def has_problem(
    part: TopicPartitionInfo, move: PartitionReassignment | None, min_isr: int | None, live: Collection[int], problems: Collection[str]
) -> bool:
    """Return whether the partition has one of the problems; `live` are the brokers that are up."""
    found = {
        UNDER_REPLICATED: replication_factor(part, move) > len(part.isr),
        UNAVAILABLE: part.leader not in live,
        UNDER_MIN_ISR: part.leader < 0 or (min_isr is not None and len(part.isr) < min_isr),
        AT_MIN_ISR: len(part.isr) == min_isr,
    }
    return any(found[each] for each in problems)


@click.command()
@names_and_patterns(required=False)
@click.option("--topic-id", metavar="ID", help="The topic with this id.")
@click.option(UNDER_REPLICATED, "under_replicated", is_flag=True, help="Only partitions with a replica that is not in sync.")
@click.option(UNAVAILABLE, "unavailable", is_flag=True, help="Only partitions without a live leader.")
@click.option(UNDER_MIN_ISR, "under_min_isr", is_flag=True, help="Only partitions with fewer in-sync replicas than min.insync.replicas.")
@click.option(AT_MIN_ISR, "at_min_isr", is_flag=True, help="Only partitions with exactly min.insync.replicas in-sync replicas.")
@click.option("--topics-with-overrides", "overrides", is_flag=True, help="Only topics with a configuration that differs from the defaults.")
@internal_option
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@click.option(
    "--partition-size-limit-per-response",
    "page_size",
    type=click.IntRange(1),
    default=PAGE_SIZE,
    metavar="N",
    help="Maximum number of partitions in one response of a broker.",
)
@output_option
@connection_options
def describe(
    names: tuple[str, ...],
    patterns: tuple[TopicPattern, ...],
    topic_id: str | None,
    under_replicated: bool,
    unavailable: bool,
    under_min_isr: bool,
    at_min_isr: bool,
    overrides: bool,
    internal: bool | None,
    if_exists: bool,
    page_size: int,
    output: Output,
    bootstrap: str,
    settings: tuple[str, ...],
) -> None:
    """Show partitions, leaders and replicas.

    Also shows the configuration that is set on the topic itself. Without TOPIC, shows all topics. With several options such as
    --under-replicated-partitions, shows partitions that have at least one of the problems.
    """
    flags = {UNDER_REPLICATED: under_replicated, UNAVAILABLE: unavailable, UNDER_MIN_ISR: under_min_isr, AT_MIN_ISR: at_min_isr}
    problems = [name for name, given in flags.items() if given]
    one_of({**dict.fromkeys(problems[:1], True), "--topics-with-overrides": overrides}, needed=False)
    named = bool(names or patterns)
    one_of({"--topic-id": topic_id is not None, "TOPIC": named}, needed=False)
    if if_exists and not named and topic_id is None:
        raise click.UsageError("--topic or --topic-id is required to describe a topic")
    wanted_id = None if topic_id is None else id_of("--topic-id", topic_id)
    with Admin(client_settings(bootstrap, settings)) as admin:
        keys: list[str | UUID] = (
            [*selected_topics(admin, names, patterns, internal=internal, if_exists=if_exists)] if wanted_id is None else []
        )
        topics = _topics(admin, [wanted_id] if wanted_id is not None else keys, if_exists, page_size)
        described = _described(admin, topics)
        live = [each.node_id for each in admin.describe_cluster().brokers] if unavailable else []
    if overrides:
        described = [each for each in described if each.configs]
    rows = [(each, _partitions(each, live, problems)) for each in described]
    if problems:
        rows = [(each, parts) for each, parts in rows if parts]
    if output == JSON:
        click.echo(json.dumps([_row(each, parts) for each, parts in rows]))
        return
    for each, parts in rows:
        lines = [] if problems else [_heading(each)]
        lines += [] if overrides else [_line(each, part) for part in parts]
        click.echo("\n".join(map(columns, lines)))


def _topics(admin: Admin, keys: list[str | UUID] | list[UUID], if_exists: bool, page_size: int) -> list[TopicDescription]:
    topics: list[TopicDescription] = []
    for found in admin.try_describe_topics(keys, page_size=page_size).values():
        if not isinstance(found, KafkaError):
            topics.append(found)
        elif not (if_exists and found.code in _UNKNOWN):
            raise found
    return topics


def _described(admin: Admin, topics: list[TopicDescription]) -> list[Described]:
    if not topics:
        return []
    resources = [ConfigResource("topic", topic.name) for topic in topics]
    configs = admin.describe_configs(resources)
    moves = _moves(admin)
    return [
        Described(
            topic,
            {entry.name: entry.value for entry in configs[resource] if entry.source == SOURCE_TOPIC},
            _min_isr(configs[resource]),
            {number: moves[at] for number in topic.partitions if (at := TopicPartition(topic.name, number)) in moves},
        )
        for topic, resource in zip(topics, resources, strict=True)
    ]


def _min_isr(entries: list[ConfigEntry]) -> int | None:
    return next((int(entry.value) for entry in entries if entry.name == _MIN_ISR and entry.value is not None), None)


def _moves(admin: Admin) -> dict[TopicPartition, PartitionReassignment]:
    try:
        return admin.list_partition_reassignments()
    except KafkaError as error:
        if error.code not in _NO_REASSIGNMENTS:
            raise
        return {}


def _partitions(described: Described, live: Collection[int], problems: Collection[str]) -> list[TopicPartitionInfo]:
    parts = [part for _, part in sorted(described.topic.partitions.items())]
    if not problems:
        return parts
    return [part for part in parts if has_problem(part, described.moves.get(part.partition), described.min_isr, live, problems)]


def _row(described: Described, parts: list[TopicPartitionInfo]) -> dict[str, object]:
    topic, moves = described.topic, described.moves
    return {
        "topic": topic.name,
        "topic_id": uuid_to_string(topic.topic_id),
        "internal": topic.is_internal,
        "configs": described.configs,
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": part.replicas,
                "isr": part.isr,
                "adding_replicas": moves[part.partition].adding_replicas if part.partition in moves else [],
                "removing_replicas": moves[part.partition].removing_replicas if part.partition in moves else [],
                "elr": part.eligible_leader_replicas,
                "last_known_elr": part.last_known_eligible_leader_replicas,
            }
            for part in parts
        ],
    }


def _heading(described: Described) -> str:
    topic = described.topic
    factors = [replication_factor(part, described.moves.get(number)) for number, part in sorted(topic.partitions.items())]
    configs = ",".join(f"{name}={value}" for name, value in described.configs.items())
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_to_string(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factors[0] if factors else 0}\tConfigs: {configs}"
    )


def _line(described: Described, part: TopicPartitionInfo) -> str:
    words = {
        "Topic": described.topic.name,
        "Partition": str(part.partition),
        "Leader": str(part.leader) if part.leader >= 0 else "none",
        "Replicas": _ids(part.replicas),
        "Isr": _ids(part.isr),
    }
    move = described.moves.get(part.partition)
    if move is not None:
        words |= {"Adding Replicas": _ids(move.adding_replicas), "Removing Replicas": _ids(move.removing_replicas)}
    words |= {"Elr": _ids(part.eligible_leader_replicas), "LastKnownElr": _ids(part.last_known_eligible_leader_replicas)}
    return "".join(f"\t{name}: {value}" for name, value in words.items())


def _ids(numbers: tuple[int, ...] | None) -> str:
    return "N/A" if numbers is None else ",".join(map(str, numbers))
