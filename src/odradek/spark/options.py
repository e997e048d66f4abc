"""Options of the data source, with the names and meanings of Spark's Kafka connector (KafkaSourceProvider). Names ignore case.

`commitOffsets`, `pushFilters`, `exactlyOnce`, `txnAppId` and `txnVersion` are additions of this project. An unknown option is an error that
names it, and so is an option without meaning for the kind of query: no option is silently ignored.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, cast
from uuid import uuid4

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.client.config import CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig, Setting
from odradek.config.definition import ConfigDef

EARLIEST = -2
LATEST = -1

_MOST: Final = 2**63 - 1

_SELECTING: Final = ("assign", "subscribe", "subscribePattern")
_STREAMS_ONLY: Final = {
    "maxOffsetsPerTrigger": "a batch reads from its starting to its ending offsets",
    "minOffsetsPerTrigger": "a batch reads from its starting to its ending offsets",
    "maxTriggerDelay": "a batch reads at once",
    "commitOffsets": "a batch leaves no offsets",
}
_BATCHES_ONLY: Final = {
    "endingTimestamp": "a stream has no end",
    "endingOffsetsByTimestamp": "a stream has no end",
    "endingOffsets": "a stream has no end",
    "pushFilters": "Spark does not push the conditions of streams",
}
_READING: Final = (
    *_SELECTING,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    *_BATCHES_ONLY,
    *_STREAMS_ONLY,
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
)
_READING_LOGS: Final = (
    *_SELECTING,
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "isolationLevel",
    "beyondHighWatermark",
)
_EXACTLY_ONCE: Final = ("exactlyOnce", "txnAppId", "txnVersion")
_WRITING: Final = ("topic", "includeHeaders", *_EXACTLY_ONCE)

_REFUSED_CLIENT_KEYS = {
    "auto.offset.reset": "use the option startingOffsets instead",
    "key.deserializer": "keys are always bytes: use DataFrame operations on them",
    "value.deserializer": "values are always bytes: use DataFrame operations on them",
    "key.serializer": "keys are written as they are: cast the column to string or binary",
    "value.serializer": "values are written as they are: cast the column to string or binary",
    "enable.auto.commit": "no offsets are committed, Spark keeps them in its checkpoint",
    "interceptor.classes": "interceptors could change what Spark counts on",
    "partitioner.class": "rows go where their column partition or their key says",
}
"""`kafka.` keys that the connector also refuses."""

OffsetSpec: TypeAlias = int | dict[TopicPartition, int]
"""EARLIEST, LATEST, or an offset (or -2, -1) for each partition."""


class TimeSpec(NamedTuple):
    """First offset at or after a time in Unix milliseconds: one time for all partitions, or one for each."""

    times: int | dict[TopicPartition, int]
    latest_when_none: bool
    """True if a partition without such a record is read from its end; else that is an error."""


PositionSpec: TypeAlias = OffsetSpec | TimeSpec


class ReadOptions(NamedTuple):
    """Options of a read; exactly one of `subscribe`, `pattern` and `assign` is set, the others are None."""

    client: dict[str, str]
    subscribe: tuple[str, ...] | None
    pattern: str | None
    assign: tuple[TopicPartition, ...] | None
    starting: PositionSpec
    ending: PositionSpec
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    poll_timeout_ms: int
    """Milliseconds that a read may wait for data that must exist."""
    fetch_offset_retries: int
    fetch_offset_interval_ms: int
    commit_offsets: bool
    """True if the ends of finished micro-batches are committed to the group `kafka.group.id`, for tools that watch the query's progress."""
    push_filters: bool
    """True if filters of the query restrict the read."""


class WriteOptions(NamedTuple):
    """Options of a write; `topic` overrides the column of that name."""

    client: dict[str, str]
    topic: str | None
    exactly_once: bool = False
    app_id: str | None = None
    """Name of the sink; if None, a stream uses Spark's id of the query."""
    version: int = 0
    """Number of the batch, unless a micro-batch gives the number."""


class LogOptions(NamedTuple):
    """Options of a read of log directories; at most one of `subscribe`, `pattern` and `assign` is set, the others are None."""

    directories: tuple[str, ...]
    subscribe: tuple[str, ...] | None
    pattern: str | None
    assign: tuple[TopicPartition, ...] | None
    starting: OffsetSpec
    ending: OffsetSpec
    min_partitions: int | None
    max_records_per_partition: int | None
    fail_on_data_loss: bool
    include_headers: bool
    read_committed: bool
    beyond_high_watermark: bool
    """True if records above the high watermark are read, which a new leader might not have."""


def wants_headers(options: Mapping[str, str]) -> bool:
    """Return whether rows have a headers column."""
    return _boolean("includeHeaders", _lowered(options).get("includeheaders"), default=False)


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read. Raises ConfigError, one line that names the option."""
    given = _lowered(options)
    _check_names(given, _READING, "reading")
    if streaming:
        for name, why in _BATCHES_ONLY.items():
            if name.lower() in given:
                raise ConfigError(f"Option {name} is for batch queries; {why}")
    else:
        for name, why in _STREAMS_ONLY.items():
            if name.lower() in given:
                raise ConfigError(f"Option {name} is for streams; {why}")
    subscribe, pattern, assign = _selection(given)
    starting = _position(given, "starting", LATEST if streaming else EARLIEST, latest_when_none=_latest_when_none(given))
    ending = _position(given, "ending", LATEST, latest_when_none=True)
    if not streaming and _mentions(starting, LATEST):
        raise ConfigError("Option startingOffsets: a batch query cannot start at latest (-1)")
    if _mentions(ending, EARLIEST):
        raise ConfigError("Option endingOffsets: a batch query cannot end at earliest (-2)")
    fewest, most = _count("minOffsetsPerTrigger", given), _count("maxOffsetsPerTrigger", given)
    if fewest is not None and most is not None and fewest > most:
        raise ConfigError(f"Option minOffsetsPerTrigger ({fewest}) is more than maxOffsetsPerTrigger ({most})")
    commit_offsets = _boolean("commitOffsets", given.get("commitoffsets"), default=False)
    if commit_offsets and "kafka.group.id" not in given:
        raise ConfigError("Option commitOffsets needs the option kafka.group.id, the group that the offsets are committed for")
    return ReadOptions(
        client=_reading_client(given),
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=fewest,
        max_trigger_delay_ms=_duration_ms("maxTriggerDelay", given.get("maxtriggerdelay", "15m")),
        min_partitions=_count("minPartitions", given, most=2**31 - 1),
        max_records_per_partition=_count("maxRecordsPerPartition", given),
        fail_on_data_loss=_boolean("failOnDataLoss", given.get("failondataloss"), default=True),
        include_headers=_boolean("includeHeaders", given.get("includeheaders"), default=False),
        poll_timeout_ms=_count("kafkaConsumer.pollTimeoutMs", given) or 120_000,
        fetch_offset_retries=_count("fetchOffset.numRetries", given) or 3,
        fetch_offset_interval_ms=_count("fetchOffset.retryIntervalMs", given, least=0, default=1000) or 0,
        commit_offsets=commit_offsets,
        push_filters=_boolean("pushFilters", given.get("pushfilters"), default=False),
    )


def log_options(options: Mapping[str, str]) -> LogOptions:
    """Check the options of a read of log directories. Raises ConfigError, one line that names the option."""
    given = _lowered(options)
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    directories = tuple(each.strip().removeprefix("file://") for each in path.split(",") if each.strip())
    if not directories:
        raise ConfigError("No log directory: give load() the path of one, or several with commas between them")
    for name in given:
        if name not in {each.lower() for each in _READING_LOGS}:
            raise ConfigError(f"Unknown option {name}; there are {', '.join(_READING_LOGS)} when log directories are read")
    chosen = [name for name in _SELECTING if name.lower() in given]
    if len(chosen) > 1:
        raise ConfigError(f"At most one of the options {', '.join(_SELECTING)} may be given")
    subscribe, pattern, assign = _selection(given) if chosen else (None, None, None)
    isolation = given.get("isolationlevel", "read_committed").strip().lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ConfigError(f"Option isolationLevel must be read_committed or read_uncommitted, not {isolation}")
    return LogOptions(
        directories=directories,
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        starting=_offsets("startingOffsets", given.get("startingoffsets"), EARLIEST),
        ending=_offsets("endingOffsets", given.get("endingoffsets"), LATEST),
        min_partitions=_count("minPartitions", given, most=2**31 - 1),
        max_records_per_partition=_count("maxRecordsPerPartition", given),
        fail_on_data_loss=_boolean("failOnDataLoss", given.get("failondataloss"), default=True),
        include_headers=_boolean("includeHeaders", given.get("includeheaders"), default=False),
        read_committed=isolation == "read_committed",
        beyond_high_watermark=_boolean("beyondHighWatermark", given.get("beyondhighwatermark"), default=False),
    )


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Check the options of a write. Raises ConfigError, one line that names the option."""
    given = _lowered(options)
    _check_names(given, _WRITING, "writing")
    topic = given["topic"].strip() if "topic" in given else None
    if topic == "":
        raise ConfigError("Option topic names no topic")
    settings = _client_settings(given, PRODUCER_CONFIG)
    if "transactional.id" in settings:
        raise ConfigError("Option kafka.transactional.id is not supported: with exactlyOnce every task has one of its own")
    return _exactly_once(given, WriteOptions(settings, topic), streaming=streaming)


def _exactly_once(given: Mapping[str, str], options: WriteOptions, *, streaming: bool) -> WriteOptions:
    if not _boolean("exactlyOnce", given.get("exactlyonce"), default=False):
        for name in (*_EXACTLY_ONCE[1:], "kafka.transaction.timeout.ms", "kafka.transaction.two.phase.commit.enable"):
            if name.lower() in given:
                raise ConfigError(f"Option {name} has a meaning only with exactlyOnce")
        return options
    app_id = given.get("txnappid")
    if app_id is not None and (not app_id.strip() or "/" in app_id):
        raise ConfigError("Option txnAppId must be a name without /")
    version = _count("txnVersion", given, least=0)
    if streaming and version is not None:
        raise ConfigError("Option txnVersion is for batches: those of a stream have numbers")
    if not streaming and (app_id is None or version is None):
        raise ConfigError(
            "exactlyOnce needs the options txnAppId, which names what writes, and txnVersion, a number that is larger for each batch, "
            "so that a batch that is written again is known"
        )
    ClientConfig(PRODUCER_CONFIG, {**options.client, "transactional.id": "checked"})
    return options._replace(exactly_once=True, app_id=app_id, version=version or 0)


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    # `path` and `checkpointLocation` are Spark's own options, which Spark passes to every source.
    spark_own = ("path", "checkpointlocation", "queryname", "outputmode")
    return {name.lower(): value for name, value in options.items() if name.lower() not in spark_own}


def _check_names(given: Mapping[str, str], served: tuple[str, ...], doing: str) -> None:
    known = {name.lower() for name in served}
    elsewhere = {name.lower(): name for name in (*_READING, *_WRITING)}
    for name in given:
        if name in known:
            continue
        if name in elsewhere:
            raise ConfigError(f"Option {elsewhere[name]} has no meaning when {doing}")
        if not name.startswith("kafka."):
            raise ConfigError(f"Unknown option {name}; there are {', '.join(served)} and kafka.* when {doing}")


def _reading_client(given: Mapping[str, str]) -> dict[str, str]:
    settings = _client_settings(given, CONSUMER_CONFIG)
    prefix = given.get("groupidprefix")
    if prefix is not None and "group.id" not in settings:
        # As in the connector kafka.group.id overrides the prefix, and each query has a different group.
        settings["group.id"] = f"{prefix}-{uuid4()}"
    return settings


def _client_settings(given: Mapping[str, str], definition: ConfigDef) -> dict[str, str]:
    settings = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name, why in _REFUSED_CLIENT_KEYS.items():
        if name in settings:
            raise ConfigError(f"Option kafka.{name} is not supported: {why}")
    if not settings.get("bootstrap.servers"):
        raise ConfigError("Option kafka.bootstrap.servers must be given")
    ClientConfig(definition, cast(Mapping[str, Setting], settings))
    return settings


def _selection(given: Mapping[str, str]) -> tuple[tuple[str, ...] | None, str | None, tuple[TopicPartition, ...] | None]:
    if sum(name.lower() in given for name in _SELECTING) != 1:
        raise ConfigError(f"Exactly one of the options {', '.join(_SELECTING)} must be given")
    if "subscribe" in given:
        topics = tuple(dict.fromkeys(name.strip() for name in given["subscribe"].split(",") if name.strip()))
        if not topics:
            raise ConfigError("Option subscribe names no topic")
        return topics, None, None
    if "subscribepattern" in given:
        pattern = given["subscribepattern"].strip()
        if not pattern:
            raise ConfigError("Option subscribePattern matches no topic's name")
        try:
            with warnings.catch_warnings():
                # Python warns of sets such as [a-z&&[^b]]: Python takes them literally, Java does not.
                warnings.simplefilter("error", FutureWarning)
                re.compile(pattern)
        except (re.error, FutureWarning) as error:
            raise ConfigError(f"Option subscribePattern is no regular expression of Python's: {error}") from None
        if _SET_IN_SET.match(pattern):
            raise ConfigError("Option subscribePattern is no regular expression of Python's: it has a set in a set; a plain [ is \\[")
        return None, pattern, None
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
    return None, None, tuple(sorted(set(chosen)))


_SET_IN_SET: Final = re.compile(
    r"""(?xs)
    ( [^\\[] | \\. | \[ \^? \]? ( [^\\\[\]] | \\. )* \] )*  # whole sets, and what is in none
    \[ \^? \]? ( [^\\\[\]] | \\. )* \[                  # a set that is not over yet
    """
)
"""Pattern of a nested set: Java reads `[a[b]]` as a set in a set, Python as a set with a bracket, followed by a bracket."""


def _latest_when_none(given: Mapping[str, str]) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = given.get(name.lower(), "error").lower()
    if text not in ("error", "latest"):
        raise ConfigError(f"Option {name} must be error or latest, not {text}")
    return text == "latest"


def _position(given: Mapping[str, str], which: str, default: int, *, latest_when_none: bool) -> PositionSpec:
    """Return the position of the options: one time for all partitions overrides times for each, which override offsets."""
    name = f"{which}Timestamp"
    if (text := given.get(name.lower())) is not None:
        if not _is_number(text.strip(), least=0, most=_MOST):
            raise ConfigError(f"Option {name} must be milliseconds since 1970, not {text}")
        return TimeSpec(int(text), latest_when_none)
    name = f"{which}OffsetsByTimestamp"
    if (text := given.get(name.lower())) is not None:
        wrong = ConfigError(f'Option {name} must look like {{"topicA":{{"0":1700000000000}}}}, in milliseconds since 1970')
        return TimeSpec(_by_partition(text, wrong, least=0), latest_when_none)
    name = f"{which}Offsets"
    return _offsets(name, given.get(name.lower()), default)


def _offsets(name: str, text: str | None, default: int) -> OffsetSpec:
    if text is None:
        return default
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    wrong = ConfigError(f'Option {name} must be earliest, latest, or look like {{"topicA":{{"0":23,"1":-1}}}} (-2 earliest, -1 latest)')
    return _by_partition(text, wrong, least=EARLIEST)


def _by_partition(text: str, wrong: ConfigError, *, least: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _json(text, wrong).items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, number in cast(dict[str, object], partitions).items():
            if not (partition.isascii() and partition.isdecimal()) or type(number) is not int or not least <= number <= _MOST:
                raise wrong
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json(text: str, wrong: ConfigError) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict):
        raise wrong
    return cast(dict[str, object], parsed)


def _mentions(spec: PositionSpec, sentinel: int) -> bool:
    if isinstance(spec, TimeSpec):
        return False
    return sentinel in spec.values() if isinstance(spec, dict) else spec == sentinel


def _count(name: str, given: Mapping[str, str], *, least: int = 1, most: int = _MOST, default: int | None = None) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return default
    if not _is_number(text, least=least, most=most):
        raise ConfigError(f"Option {name} must be a number of at least {least}{f' and at most {most}' if most < _MOST else ''}, not {text}")
    return int(text)


def _is_number(text: str, *, least: int, most: int) -> bool:
    return re.fullmatch(r"\+?[0-9]+", text) is not None and least <= int(text) <= most


_UNITS_MS: Final = {"us": 0.001, "ms": 1, "": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(name: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"Option {name} must be a time such as 15m, 30s or 500ms, not {text}")
    return int(int(found[1]) * _UNITS_MS[found[2]])


def _boolean(name: str, text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"Option {name} must be true or false, not {text}")
    return text.lower() == "true"
