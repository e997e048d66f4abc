"""The options of the data source, named and meant as in Spark's Kafka connector (KafkaSourceProvider). Option names ignore case.

An option of the connector that is not served yet is refused by name, and so is an unknown one: nothing is accepted and ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.client.config import CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig, Setting
from odradek.config.definition import ConfigDef

EARLIEST = -2
LATEST = -1

_SERVED_READING = ("subscribe", "assign", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss", "includeHeaders")
_SERVED_WRITING = ("topic", "includeHeaders")

NOT_SERVED_YET = (
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafka.group.id",
)
"""Options of the connector that this source does not have yet."""

_REFUSED_CLIENT_KEYS = {
    "auto.offset.reset": "use the option startingOffsets instead",
    "key.deserializer": "keys are always bytes: use DataFrame operations on them",
    "value.deserializer": "values are always bytes: use DataFrame operations on them",
    "key.serializer": "keys are written as they are: cast the column to string or binary",
    "value.serializer": "values are written as they are: cast the column to string or binary",
    "enable.auto.commit": "no offsets are committed, Spark keeps them in its checkpoint",
    "interceptor.classes": "interceptors could change what Spark counts on",
}
"""`kafka.` keys that the connector refuses, too."""

OffsetSpec = int | dict[TopicPartition, int]
"""EARLIEST, LATEST, or an offset (or -2, -1) for each partition."""


class ReadOptions(NamedTuple):
    """How to read; exactly one of `subscribe` and `assign` is not None."""

    client: dict[str, str]
    subscribe: tuple[str, ...] | None
    assign: tuple[TopicPartition, ...] | None
    starting: OffsetSpec
    ending: OffsetSpec
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    include_headers: bool


class WriteOptions(NamedTuple):
    """How to write; `topic` beats the column of that name."""

    client: dict[str, str]
    topic: str | None


def wants_headers(options: Mapping[str, str]) -> bool:
    """Whether rows have a headers column."""
    return _boolean("includeHeaders", _lowered(options).get("includeheaders"), default=False)


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Checks the options of a read; ConfigError, one line naming the option."""
    given = _lowered(options)
    _check_names(given, _SERVED_READING, "reading")
    client = _client_settings(given, CONSUMER_CONFIG)
    subscribe, assign = _partitions(given)
    if streaming and "endingoffsets" in given:
        raise ConfigError("Option endingOffsets is for batch queries; a stream has no end")
    if not streaming and "maxoffsetspertrigger" in given:
        raise ConfigError("Option maxOffsetsPerTrigger is for streams; a batch reads from startingOffsets to endingOffsets")
    starting = _offsets("startingOffsets", given.get("startingoffsets"), LATEST if streaming else EARLIEST)
    ending = _offsets("endingOffsets", given.get("endingoffsets"), LATEST)
    if not streaming and _mentions(starting, LATEST):
        raise ConfigError("Option startingOffsets: a batch query cannot start at latest (-1)")
    if _mentions(ending, EARLIEST):
        raise ConfigError("Option endingOffsets: a batch query cannot end at earliest (-2)")
    return ReadOptions(
        client,
        subscribe,
        assign,
        starting,
        ending,
        _positive("maxOffsetsPerTrigger", given.get("maxoffsetspertrigger")),
        _boolean("failOnDataLoss", given.get("failondataloss"), default=True),
        _boolean("includeHeaders", given.get("includeheaders"), default=False),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Checks the options of a write; ConfigError, one line naming the option."""
    given = _lowered(options)
    _check_names(given, _SERVED_WRITING, "writing")
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("Option topic names no topic")
    return WriteOptions(_client_settings(given, PRODUCER_CONFIG), topic)


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    # `path` and `checkpointLocation` are Spark's own; Spark hands them to every source.
    spark_own = ("path", "checkpointlocation", "queryname", "outputmode")
    return {name.lower(): value for name, value in options.items() if name.lower() not in spark_own}


def _check_names(given: Mapping[str, str], served: tuple[str, ...], doing: str) -> None:
    known = {name.lower() for name in served}
    unserved = {name.lower(): name for name in NOT_SERVED_YET}
    elsewhere = {name.lower(): name for name in (*_SERVED_READING, *_SERVED_WRITING)}
    for name in given:
        if name in known:
            continue
        if name in unserved:
            raise ConfigError(f"Option {unserved[name]} is not served by this source yet (not yet: {', '.join(NOT_SERVED_YET)})")
        if name in elsewhere:
            raise ConfigError(f"Option {elsewhere[name]} has no meaning when {doing}")
        if not name.startswith("kafka."):
            raise ConfigError(f"Unknown option {name}; there are {', '.join(served)} and kafka.* when {doing}")


def _client_settings(given: Mapping[str, str], definition: ConfigDef) -> dict[str, str]:
    settings = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name, why in _REFUSED_CLIENT_KEYS.items():
        if name in settings:
            raise ConfigError(f"Option kafka.{name} is not supported: {why}")
    if not settings.get("bootstrap.servers"):
        raise ConfigError("Option kafka.bootstrap.servers must be given")
    ClientConfig(definition, cast(Mapping[str, Setting], settings))
    return settings


def _partitions(given: Mapping[str, str]) -> tuple[tuple[str, ...] | None, tuple[TopicPartition, ...] | None]:
    if ("subscribe" in given) == ("assign" in given):
        raise ConfigError("Exactly one of the options subscribe and assign must be given")
    if "subscribe" in given:
        topics = tuple(dict.fromkeys(name.strip() for name in given["subscribe"].split(",") if name.strip()))
        if not topics:
            raise ConfigError("Option subscribe names no topic")
        return topics, None
    wrong = ConfigError('Option assign must look like {"topicA":[0,1],"topicB":[2,4]}')
    parsed = _json(given["assign"], wrong)
    chosen: list[TopicPartition] = []
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list):
            raise wrong
        for partition in cast(list[object], partitions):
            if type(partition) is not int or partition < 0:
                raise wrong
            chosen.append(TopicPartition(topic, partition))
    if not chosen:
        raise ConfigError("Option assign names no partition")
    return None, tuple(sorted(set(chosen)))


def _offsets(name: str, text: str | None, default: int) -> OffsetSpec:
    if text is None:
        return default
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    wrong = ConfigError(f'Option {name} must be earliest, latest, or look like {{"topicA":{{"0":23,"1":-1}}}} (-2 earliest, -1 latest)')
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in _json(text, wrong).items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, offset in cast(dict[str, object], partitions).items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                raise wrong
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def _json(text: str, wrong: ConfigError) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    return cast(dict[str, object], parsed)


def _mentions(spec: OffsetSpec, sentinel: int) -> bool:
    return sentinel in spec.values() if isinstance(spec, dict) else spec == sentinel


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"Option {name} must be a number of at least 1, not {text}")
    return int(text)


def _boolean(name: str, text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"Option {name} must be true or false, not {text}")
    return text.strip().lower() == "true"
