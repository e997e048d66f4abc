"""Options of the data source as keys, with the kinds of query that have them.

Options have the names of Spark's Kafka connector (KafkaSourceProvider); `commitOffsets`, `pushFilters`, `exactlyOnce`, `txnAppId` and
`txnVersion` are additions of this project. Names ignore case.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from enum import Flag, auto
from typing import Any, Final, TypeAlias, TypeVar, cast

from odradek.base.errors import ConfigError
from odradek.base.ids import TopicPartition
from odradek.config.definition import BOOLEAN, INT, LIST, LONG, MEDIUM, STRING, ConfigDef, ConfigType, Key, keys_in

EARLIEST = -2
LATEST = -1

OffsetSpec: TypeAlias = int | dict[TopicPartition, int]
"""EARLIEST, LATEST, or an offset (or -2, -1) for each partition."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MOST: Final = 2**63 - 1
_MOST_PARTITIONS: Final = 2**31 - 1


class Mode(Flag):
    """Kinds of query."""

    BATCH = auto()
    """Batch query that reads topics."""
    STREAM = auto()
    """Stream that reads topics."""
    LOGS = auto()
    """Batch query that reads log directories."""
    WRITE_BATCH = auto()
    WRITE_STREAM = auto()


READ: Final = Mode.BATCH | Mode.STREAM
WRITE: Final = Mode.WRITE_BATCH | Mode.WRITE_STREAM

Parse: TypeAlias = Callable[[str, str], T_co]
"""Function of the option's name and text that returns the value; raises ConfigError, one line that names the option."""


class Option(Key[T_co]):
    """Option of a query. `modes` are the kinds of query that have it, `why` says why others of the same direction do not."""

    __slots__ = ("_parse", "modes", "why")

    def __init__(self, name: str, type: ConfigType, default: str | None, modes: Mode, doc: str, parse: Parse[T_co], why: str = "") -> None:
        super().__init__(name, type, default, MEDIUM, doc)
        self.modes = modes
        self.why = why
        self._parse = parse

    def parse(self, text: str | None, *, setting: str | None = None) -> T_co:
        """Return the value of `text`; None when there is neither text nor default. Raises ConfigError, one line that names the option."""
        return cast("T_co", None) if text is None else self._parse(setting or self.name, text)


class Options:
    """Options of a query. Each is parsed when it is read, so that the first error is that of the first option read."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, str]) -> None:
        """Take texts by name in lower case."""
        self.given = given

    def __contains__(self, option: Option[object]) -> bool:
        return option.name.lower() in self.given

    def __getitem__(self, option: Option[T]) -> T:
        return option.parse(self.given.get(option.name.lower(), option.default))


# -- values -------------------------------------------------------------------------------------------------------------------------


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"Option {name} must be true or false, not {text}")
    return text.lower() == "true"


def _count(*, least: int = 1, most: int = _MOST) -> Parse[int]:
    def parse(name: str, text: str) -> int:
        if not _is_number(text, least=least, most=most):
            limit = f" and at most {most}" if most < _MOST else ""
            raise ConfigError(f"Option {name} must be a number of at least {least}{limit}, not {text}")
        return int(text)

    return parse


def _is_number(text: str, *, least: int, most: int) -> bool:
    return re.fullmatch(r"\+?[0-9]+", text) is not None and least <= int(text) <= most


_UNITS_MS: Final = {"us": 0.001, "ms": 1, "": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(name: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]+)([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ConfigError(f"Option {name} must be a duration such as 15m, 30s or 500ms, not {text}")
    return int(int(found[1]) * _UNITS_MS[found[2]])


def _text(name: str, text: str) -> str:
    return text


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not topics:
        raise ConfigError(f"Option {name} does not name any topic")
    return topics


_SET_IN_SET: Final = re.compile(
    r"""(?xs)
    ( [^\\[] | \\. | \[ \^? \]? ( [^\\\[\]] | \\. )* \] )*  # whole sets, and characters outside of sets
    \[ \^? \]? ( [^\\\[\]] | \\. )* \[                  # a set that is not over yet
    """
)
"""Pattern of a nested set: Java reads `[a[b]]` as a set in a set, Python as a set with a bracket, followed by a bracket."""


def _pattern(name: str, text: str) -> str:
    pattern = text.strip()
    if not pattern:
        raise ConfigError(f"Option {name} must not be empty")
    try:
        with warnings.catch_warnings():
            # Python warns of sets such as [a-z&&[^b]]: Python takes them literally, Java does not.
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except (re.error, FutureWarning) as error:
        raise ConfigError(f"Option {name} is not a regular expression of Python: {error}") from None
    if _SET_IN_SET.match(pattern):
        raise ConfigError(
            f"Option {name} is not a regular expression of Python: it has a set within a set; a literal [ must be written \\["
        )
    return pattern


def _assignment(name: str, text: str) -> tuple[TopicPartition, ...]:
    wrong = ConfigError(f'Option {name} must look like {{"topicA":[0,1],"topicB":[2,4]}}')
    chosen: list[TopicPartition] = []
    for topic, partitions in _json(text, wrong).items():
        if not isinstance(partitions, list):
            raise wrong
        for partition in cast(list[object], partitions):
            if type(partition) is not int or partition < 0:
                raise wrong
            chosen.append(TopicPartition(topic, partition))
    if not chosen:
        raise ConfigError(f"Option {name} does not name any partition")
    return tuple(sorted(set(chosen)))


def _time_ms(name: str, text: str) -> int:
    if not _is_number(text.strip(), least=0, most=_MOST):
        raise ConfigError(f"Option {name} must be milliseconds since 1970, not {text}")
    return int(text)


def _times_ms(name: str, text: str) -> dict[TopicPartition, int]:
    wrong = ConfigError(f'Option {name} must look like {{"topicA":{{"0":1700000000000}}}}, in milliseconds since 1970')
    return _by_partition(text, wrong, least=0)


def _latest_when_none(name: str, text: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise ConfigError(f"Option {name} must be error or latest, not {text.lower()}")
    return text.lower() == "latest"


def _offsets(name: str, text: str) -> OffsetSpec:
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


def _read_committed(name: str, text: str) -> bool:
    isolation = text.strip().lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ConfigError(f"Option {name} must be read_committed or read_uncommitted, not {isolation}")
    return isolation == "read_committed"


# -- options ------------------------------------------------------------------------------------------------------------------------

_NO_END: Final = "a stream has no end"
_ENDS: Final = "a batch reads from its starting to its ending offsets"

ASSIGN: Final = Option[tuple[TopicPartition, ...] | None](
    "assign", STRING, None, READ | Mode.LOGS, 'Partitions to read, as {"topicA":[0,1]}.', _assignment
)
SUBSCRIBE: Final = Option[tuple[str, ...] | None](
    "subscribe", LIST, None, READ | Mode.LOGS, "Topics to read, separated by commas.", _topics
)
SUBSCRIBE_PATTERN: Final = Option[str | None](
    "subscribePattern", STRING, None, READ | Mode.LOGS, "Regular expression of the names of the topics to read.", _pattern
)
STARTING_TIMESTAMP: Final = Option[int | None](
    "startingTimestamp", LONG, None, READ, "Unix time in ms of the first records, in all partitions.", _time_ms
)
STARTING_OFFSETS_BY_TIMESTAMP: Final = Option[dict[TopicPartition, int] | None](
    "startingOffsetsByTimestamp", STRING, None, READ, "Unix time in ms of the first records, by partition, as JSON.", _times_ms
)
STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY: Final = Option[bool](
    "startingOffsetsByTimestampStrategy",
    STRING,
    "error",
    READ,
    "error or latest: what happens to a partition that has no record after the time.",
    _latest_when_none,
)
STARTING_OFFSETS: Final = Option[OffsetSpec | None](
    "startingOffsets", STRING, None, READ | Mode.LOGS, "earliest, latest, or an offset for each partition, as JSON.", _offsets
)
ENDING_TIMESTAMP: Final = Option[int | None](
    "endingTimestamp", LONG, None, Mode.BATCH, "Unix time in ms of the first records that are not read.", _time_ms, _NO_END
)
ENDING_OFFSETS_BY_TIMESTAMP: Final = Option[dict[TopicPartition, int] | None](
    "endingOffsetsByTimestamp",
    STRING,
    None,
    Mode.BATCH,
    "Unix time in ms of the first records that are not read, by partition, as JSON.",
    _times_ms,
    _NO_END,
)
ENDING_OFFSETS: Final = Option[OffsetSpec | None](
    "endingOffsets", STRING, None, Mode.BATCH | Mode.LOGS, "latest, or an offset for each partition, as JSON.", _offsets, _NO_END
)
PUSH_FILTERS: Final = Option[bool](
    "pushFilters",
    BOOLEAN,
    "false",
    Mode.BATCH,
    "Whether conditions of the query on partition, offset and timestamp restrict the read.",
    _boolean,
    "Spark does not push filters down to streams",
)
MAX_OFFSETS_PER_TRIGGER: Final = Option[int | None](
    "maxOffsetsPerTrigger", LONG, None, Mode.STREAM, "Most offsets of a micro-batch.", _count(), _ENDS
)
MIN_OFFSETS_PER_TRIGGER: Final = Option[int | None](
    "minOffsetsPerTrigger", LONG, None, Mode.STREAM, "Fewest offsets of a micro-batch, for maxTriggerDelay at most.", _count(), _ENDS
)
MAX_TRIGGER_DELAY: Final = Option[int](
    "maxTriggerDelay",
    STRING,
    "15m",
    Mode.STREAM,
    "Longest wait for minOffsetsPerTrigger.",
    _duration_ms,
    "a batch reads at once",
)
COMMIT_OFFSETS: Final = Option[bool](
    "commitOffsets",
    BOOLEAN,
    "false",
    Mode.STREAM,
    "Whether the ends of finished micro-batches are committed to the group kafka.group.id.",
    _boolean,
    "a batch does not have an offset log",
)
FAIL_ON_DATA_LOSS: Final = Option[bool](
    "failOnDataLoss", BOOLEAN, "true", READ | Mode.LOGS, "Whether missing records fail the query.", _boolean
)
MIN_PARTITIONS: Final = Option[int | None](
    "minPartitions", INT, None, READ | Mode.LOGS, "Fewest partitions of Spark.", _count(most=_MOST_PARTITIONS)
)
MAX_RECORDS_PER_PARTITION: Final = Option[int | None](
    "maxRecordsPerPartition", LONG, None, READ | Mode.LOGS, "Most records of a partition of Spark.", _count()
)
POLL_TIMEOUT_MS: Final = Option[int](
    "kafkaConsumer.pollTimeoutMs", LONG, "120000", READ, "Time in ms that a read may wait for records that must exist.", _count()
)
FETCH_OFFSET_NUM_RETRIES: Final = Option[int]("fetchOffset.numRetries", INT, "3", READ, "How often offsets are asked for again.", _count())
FETCH_OFFSET_RETRY_INTERVAL_MS: Final = Option[int](
    "fetchOffset.retryIntervalMs", LONG, "1000", READ, "Pause in ms before offsets are asked for again.", _count(least=0)
)
GROUP_ID_PREFIX: Final = Option[str | None](
    "groupIdPrefix", STRING, None, READ, "Beginning of the group's name, without kafka.group.id.", _text
)
TOPIC: Final = Option[str | None]("topic", STRING, None, WRITE, "Topic of all rows; overrides the column.", _text)
INCLUDE_HEADERS: Final = Option[bool](
    "includeHeaders", BOOLEAN, "false", READ | WRITE | Mode.LOGS, "Whether rows have a column of headers.", _boolean
)
ISOLATION_LEVEL: Final = Option[bool](
    "isolationLevel", STRING, "read_committed", Mode.LOGS, "read_committed or read_uncommitted.", _read_committed
)
BEYOND_HIGH_WATERMARK: Final = Option[bool](
    "beyondHighWatermark", BOOLEAN, "false", Mode.LOGS, "Whether records above the high watermark are read.", _boolean
)
EXACTLY_ONCE: Final = Option[bool]("exactlyOnce", BOOLEAN, "false", WRITE, "Whether rows are written in transactions.", _boolean)
TXN_APP_ID: Final = Option[str | None]("txnAppId", STRING, None, WRITE, "Name of the sink; that of the query without it.", _text)
TXN_VERSION: Final = Option[int | None](
    "txnVersion",
    LONG,
    None,
    Mode.WRITE_BATCH,
    "Number of the batch, larger for each.",
    _count(least=0),
    "the batches of a stream are numbered",
)

OPTIONS: Final = ConfigDef(keys_in(globals()))


def options_of(modes: Mode) -> tuple[Option[Any], ...]:
    """Return the options that one of the kinds of query has."""
    return tuple(option for option in OPTIONS if isinstance(option, Option) and option.modes & modes)
