"""Checks of the options of a query (`option_keys`), with the meanings of Spark's Kafka connector.

An unknown option is an error that names it, and so is an option without meaning for the kind of query: no option is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, cast
from uuid import uuid4

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.client.settings.config import CONSUMER_CONFIG, PRODUCER_CONFIG, ClientConfig, Setting
from odradek.config.definition import ConfigDef
from odradek.spark.option_keys import (
    ASSIGN,
    BEYOND_HIGH_WATERMARK,
    COMMIT_OFFSETS,
    EARLIEST,
    ENDING_OFFSETS,
    ENDING_OFFSETS_BY_TIMESTAMP,
    ENDING_TIMESTAMP,
    EXACTLY_ONCE,
    FAIL_ON_DATA_LOSS,
    FETCH_OFFSET_NUM_RETRIES,
    FETCH_OFFSET_RETRY_INTERVAL_MS,
    GROUP_ID_PREFIX,
    INCLUDE_HEADERS,
    ISOLATION_LEVEL,
    LATEST,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_RECORDS_PER_PARTITION,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
    MIN_PARTITIONS,
    POLL_TIMEOUT_MS,
    PUSH_FILTERS,
    READ,
    STARTING_OFFSETS,
    STARTING_OFFSETS_BY_TIMESTAMP,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    STARTING_TIMESTAMP,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
    TOPIC,
    TXN_APP_ID,
    TXN_VERSION,
    WRITE,
    Mode,
    OffsetSpec,
    Option,
    Options,
    options_of,
)

_SELECTING: Final = (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN)

_Position: TypeAlias = tuple[Option[int | None], Option[dict[TopicPartition, int] | None], Option[OffsetSpec | None]]

_STARTING: Final = (STARTING_TIMESTAMP, STARTING_OFFSETS_BY_TIMESTAMP, STARTING_OFFSETS)
_ENDING: Final = (ENDING_TIMESTAMP, ENDING_OFFSETS_BY_TIMESTAMP, ENDING_OFFSETS)

_REFUSED_CLIENT_KEYS = {
    "auto.offset.reset": "use the option startingOffsets instead",
    "key.deserializer": "keys are always bytes: use DataFrame operations on them",
    "value.deserializer": "values are always bytes: use DataFrame operations on them",
    "key.serializer": "keys are written unchanged: cast the column to string or binary",
    "value.serializer": "values are written unchanged: cast the column to string or binary",
    "enable.auto.commit": "offsets are not committed: Spark keeps them in its checkpoint",
    "interceptor.classes": "interceptors could change the data that Spark relies on",
    "partitioner.class": "the column partition, or the key, decides the partition of a row",
}
"""`kafka.` keys that the connector also refuses."""


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
    return _options(options)[INCLUDE_HEADERS]


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read. Raises ConfigError, one line that names the option."""
    given = _options(options)
    _check_names(given, READ, "reading")
    mode = Mode.STREAM if streaming else Mode.BATCH
    for option in options_of(READ):
        if option in given and mode not in option.modes:
            raise ConfigError(f"Option {option} is only for {'batch queries' if streaming else 'streams'}: {option.why}")
    subscribe, pattern, assign = _selection(given)
    late = given[STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY]
    starting = _position(given, _STARTING, LATEST if streaming else EARLIEST, latest_when_none=late)
    ending = _position(given, _ENDING, LATEST, latest_when_none=True)
    if not streaming and _mentions(starting, LATEST):
        raise ConfigError("Option startingOffsets: a batch query cannot start at latest (-1)")
    if _mentions(ending, EARLIEST):
        raise ConfigError("Option endingOffsets: a batch query cannot end at earliest (-2)")
    fewest, most = given[MIN_OFFSETS_PER_TRIGGER], given[MAX_OFFSETS_PER_TRIGGER]
    if fewest is not None and most is not None and fewest > most:
        raise ConfigError(f"Option minOffsetsPerTrigger ({fewest}) is more than maxOffsetsPerTrigger ({most})")
    commit_offsets = given[COMMIT_OFFSETS]
    if commit_offsets and "kafka.group.id" not in given.given:
        raise ConfigError("Option commitOffsets needs the option kafka.group.id, the group for which offsets are committed")
    return ReadOptions(
        client=_reading_client(given),
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=fewest,
        max_trigger_delay_ms=given[MAX_TRIGGER_DELAY],
        min_partitions=given[MIN_PARTITIONS],
        max_records_per_partition=given[MAX_RECORDS_PER_PARTITION],
        fail_on_data_loss=given[FAIL_ON_DATA_LOSS],
        include_headers=given[INCLUDE_HEADERS],
        poll_timeout_ms=given[POLL_TIMEOUT_MS],
        fetch_offset_retries=given[FETCH_OFFSET_NUM_RETRIES],
        fetch_offset_interval_ms=given[FETCH_OFFSET_RETRY_INTERVAL_MS],
        commit_offsets=commit_offsets,
        push_filters=given[PUSH_FILTERS],
    )


def log_options(options: Mapping[str, str]) -> LogOptions:
    """Check the options of a read of log directories. Raises ConfigError, one line that names the option."""
    given = _options(options)
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    directories = tuple(each.strip().removeprefix("file://") for each in path.split(",") if each.strip())
    if not directories:
        raise ConfigError("No log directory: give load() a path, or several paths separated by commas")
    served = {option.name.lower(): option.name for option in options_of(Mode.LOGS)}
    for name in given.given:
        if name not in served:
            raise ConfigError(f"Unknown option {name}; the options for reading log directories are {', '.join(served.values())}")
    chosen = sum(option in given for option in _SELECTING)
    if chosen > 1:
        raise ConfigError(f"At most one of the options {', '.join(map(str, _SELECTING))} may be given")
    subscribe, pattern, assign = _selection(given) if chosen else (None, None, None)
    isolation = given[ISOLATION_LEVEL]
    starting, ending = given[STARTING_OFFSETS], given[ENDING_OFFSETS]
    return LogOptions(
        directories=directories,
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        starting=EARLIEST if starting is None else starting,
        ending=LATEST if ending is None else ending,
        min_partitions=given[MIN_PARTITIONS],
        max_records_per_partition=given[MAX_RECORDS_PER_PARTITION],
        fail_on_data_loss=given[FAIL_ON_DATA_LOSS],
        include_headers=given[INCLUDE_HEADERS],
        read_committed=isolation,
        beyond_high_watermark=given[BEYOND_HIGH_WATERMARK],
    )


def write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Check the options of a write. Raises ConfigError, one line that names the option."""
    given = _options(options)
    _check_names(given, WRITE, "writing")
    topic = given[TOPIC]
    if topic is not None and not topic.strip():
        raise ConfigError("Option topic must not be empty")
    settings = _client_settings(given, PRODUCER_CONFIG)
    if "transactional.id" in settings:
        raise ConfigError("Option kafka.transactional.id is not supported: exactlyOnce gives each task a different one")
    return _exactly_once(given, WriteOptions(settings, None if topic is None else topic.strip()), streaming=streaming)


def _exactly_once(given: Options, options: WriteOptions, *, streaming: bool) -> WriteOptions:
    if not given[EXACTLY_ONCE]:
        for name in (TXN_APP_ID.name, TXN_VERSION.name, "kafka.transaction.timeout.ms", "kafka.transaction.two.phase.commit.enable"):
            if name.lower() in given.given:
                raise ConfigError(f"Option {name} has an effect only with exactlyOnce")
        return options
    app_id = given[TXN_APP_ID]
    if app_id is not None and (not app_id.strip() or "/" in app_id):
        raise ConfigError("Option txnAppId must not be empty or contain /")
    version = given[TXN_VERSION]
    if streaming and version is not None:
        raise ConfigError(f"Option txnVersion is only for batches: {TXN_VERSION.why}")
    if not streaming and (app_id is None or version is None):
        raise ConfigError(
            "exactlyOnce needs the options txnAppId, the name of the application, and txnVersion, a number that increases with "
            "each batch, so that a repeated batch is recognized"
        )
    ClientConfig(PRODUCER_CONFIG, {**options.client, "transactional.id": "checked"})
    return options._replace(exactly_once=True, app_id=app_id, version=version or 0)


def _options(options: Mapping[str, str]) -> Options:
    # `path` and `checkpointLocation` are Spark's own options, which Spark passes to every source.
    spark_own = ("path", "checkpointlocation", "queryname", "outputmode")
    return Options({name.lower(): value for name, value in options.items() if name.lower() not in spark_own})


def _check_names(given: Options, modes: Mode, doing: str) -> None:
    known = {option.name.lower(): option.name for option in options_of(modes)}
    elsewhere = {option.name.lower(): option.name for option in options_of(READ | WRITE)}
    for name in given.given:
        if name in known:
            continue
        if name in elsewhere:
            raise ConfigError(f"Option {elsewhere[name]} has no effect when {doing}")
        if not name.startswith("kafka."):
            raise ConfigError(f"Unknown option {name}; the options are {', '.join(known.values())} and kafka.* when {doing}")


def _reading_client(given: Options) -> dict[str, str]:
    settings = _client_settings(given, CONSUMER_CONFIG)
    prefix = given[GROUP_ID_PREFIX]
    if prefix is not None and "group.id" not in settings:
        # As in the connector kafka.group.id overrides the prefix, and each query has a different group.
        settings["group.id"] = f"{prefix}-{uuid4()}"
    return settings


def _client_settings(given: Options, definition: ConfigDef) -> dict[str, str]:
    settings = {name.removeprefix("kafka."): value for name, value in given.given.items() if name.startswith("kafka.")}
    for name, why in _REFUSED_CLIENT_KEYS.items():
        if name in settings:
            raise ConfigError(f"Option kafka.{name} is not supported: {why}")
    if not settings.get("bootstrap.servers"):
        raise ConfigError("Option kafka.bootstrap.servers must be given")
    ClientConfig(definition, cast(Mapping[str, Setting], settings))
    return settings


def _selection(given: Options) -> tuple[tuple[str, ...] | None, str | None, tuple[TopicPartition, ...] | None]:
    if sum(option in given for option in _SELECTING) != 1:
        raise ConfigError(f"Exactly one of the options {', '.join(map(str, _SELECTING))} must be given")
    return given[SUBSCRIBE], given[SUBSCRIBE_PATTERN], given[ASSIGN]


def _position(given: Options, options: _Position, default: int, *, latest_when_none: bool) -> PositionSpec:
    """Return the position of the options: one time for all partitions overrides times for each, which override offsets."""
    timestamp, by_timestamp, offsets = options
    if (time_ms := given[timestamp]) is not None:
        return TimeSpec(time_ms, latest_when_none)
    if (times_ms := given[by_timestamp]) is not None:
        return TimeSpec(times_ms, latest_when_none)
    spec = given[offsets]
    return default if spec is None else spec


def _mentions(spec: PositionSpec, sentinel: int) -> bool:
    if isinstance(spec, TimeSpec):
        return False
    return sentinel in spec.values() if isinstance(spec, dict) else spec == sentinel
