"""JSON files about partitions in the formats of Kafka's scripts. A malformed file is a ConfigError that names the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.replicas import TopicPartitionReplica

ANY_LOG_DIR: Final = "any"
_ELECTION: Final = '{"partitions": [{"topic": "orders", "partition": 0}]}'
_REASSIGNMENT: Final = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
_TOPICS: Final = '{"version": 1, "topics": [{"topic": "orders"}]}'
_GREATEST: Final = 0x7FFFFFFF


class Reassignment(NamedTuple):
    """Wanted brokers by partition, the preferred leader first, and wanted log directories of replicas for which the file names one."""

    replicas: dict[TopicPartition, tuple[int, ...]]
    log_dirs: dict[TopicPartitionReplica, str]


def read_election(path: Path) -> list[TopicPartition]:
    """Return the partitions of a file for --path-to-json-file of kafka-leader-election.sh. Raises ConfigError for a malformed file."""
    listed = _list(path, _document(path, _ELECTION), "partitions", _ELECTION)
    found = [_partition(path, each, _ELECTION) for each in listed]
    _check_unique(path, found)
    return found


def read_reassignment(path: Path) -> Reassignment:
    """Return the contents of --reassignment-json-file of kafka-reassign-partitions.sh. Raises ConfigError for a malformed file."""
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs: dict[TopicPartitionReplica, str] = {}
    listed = _list(path, _document(path, _REASSIGNMENT), "partitions", _REASSIGNMENT)
    _check_unique(path, [_partition(path, each, _REASSIGNMENT) for each in listed])
    for each in listed:
        partition = _partition(path, each, _REASSIGNMENT)
        brokers = _brokers(path, partition, each.get("replicas"))
        replicas[partition] = brokers
        directories = each.get("log_dirs", [ANY_LOG_DIR] * len(brokers))
        if not isinstance(directories, list) or not all(isinstance(name, str) for name in cast("list[object]", directories)):
            raise ConfigError(f"{path}: log_dirs of {partition} must be a list of paths, or of {ANY_LOG_DIR!r}")
        names = cast("list[str]", directories)
        if len(names) != len(brokers):
            raise ConfigError(f"{path}: {partition} has {len(brokers)} replicas, but {len(names)} log_dirs")
        for broker, name in zip(brokers, names, strict=True):
            if name != ANY_LOG_DIR:
                log_dirs[TopicPartitionReplica(partition.topic, partition.partition, broker)] = name
    return Reassignment(replicas, log_dirs)


def read_topics(path: Path) -> list[str]:
    """Return the topics of --topics-to-move-json-file of kafka-reassign-partitions.sh. Raises ConfigError for a malformed file."""
    found: list[str] = []
    for each in _list(path, _document(path, _TOPICS), "topics", _TOPICS):
        topic = each.get("topic")
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"{path}: topic is missing in topics; expected {_TOPICS}")
        if topic in found:
            raise ConfigError(f"{path}: {topic} is given twice")
        found.append(topic)
    return found


def reassignment_json(replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[TopicPartitionReplica, str] | None = None) -> str:
    """Return a reassignment in the JSON that kafka-reassign-partitions.sh writes and reads."""
    known = log_dirs or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(brokers),
            "log_dirs": [known.get(TopicPartitionReplica(partition.topic, partition.partition, broker), ANY_LOG_DIR) for broker in brokers],
        }
        for partition, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def _document(path: Path, form: str) -> dict[str, object]:
    try:
        found: object = json.loads(path.read_text())
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: invalid JSON; expected {form}") from None
    document = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version = document.get("version", 1)
    if version != 1:
        raise ConfigError(f"{path}: version {version} is unknown; expected {form}")
    return document


def _list(path: Path, document: dict[str, object], name: str, form: str) -> list[dict[str, object]]:
    listed = document.get(name)
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in cast("list[object]", listed)):
        raise ConfigError(f"{path}: {name} is missing or empty; expected {form}")
    return cast("list[dict[str, object]]", listed)


def _partition(path: Path, fields: dict[str, object], form: str) -> TopicPartition:
    topic, partition = fields.get("topic"), fields.get("partition")
    if not isinstance(topic, str) or not topic or type(partition) is not int:
        raise ConfigError(f"{path}: topic or partition is missing in partitions; expected {form}")
    if not 0 <= partition <= _GREATEST:
        raise ConfigError(f"{path}: partition {partition} of topic {topic} is not in the range 0 to 2147483647")
    return TopicPartition(topic, partition)


def _check_unique(path: Path, partitions: list[TopicPartition]) -> None:
    seen: set[TopicPartition] = set()
    for each in partitions:
        if each in seen:
            raise ConfigError(f"{path}: {each} is given twice")
        seen.add(each)


def _brokers(path: Path, partition: TopicPartition, listed: object) -> tuple[int, ...]:
    brokers = cast("list[object]", listed) if isinstance(listed, list) else []
    if not brokers or not all(type(each) is int and 0 <= each <= _GREATEST for each in brokers):
        raise ConfigError(f"{path}: replicas of {partition} must be a list of broker ids that is not empty")
    found = tuple(cast("list[int]", brokers))
    if len(set(found)) != len(found):
        raise ConfigError(f"{path}: replicas of {partition} may not contain duplicate entries: {','.join(map(str, found))}")
    return found
