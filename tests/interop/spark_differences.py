"""Where our source and sink differ from Spark's Kafka connector on purpose. `docs/spark.md` has every reason, word for word.

A difference names its cases by patterns and is no wider than it says: whatever else the two answer has to be the same, and a case in which
they no longer differ fails.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["rows", "nothing", "refused", "data loss", "unknown topic", "timeout", "not let in", "too large"]


class Difference(NamedTuple):
    """What each answers. Both `rows`: `about` says whether it is the rows or the tasks that differ."""

    reason: str
    cases: tuple[str, ...]
    """Regular expressions for whole names of cases."""
    theirs: Kind
    ours: Kind
    about: Literal["kind", "rows", "tasks"] = "kind"

    def covers(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.cases)


_OWN = "An internal topic of Kafka can be read by its name; the connector reads no rows of it."
_ASSIGN = "A partition of `assign` that does not exist is an error, and so is an empty `assign`; the connector ignores missing partitions."
_JSON = "Invalid JSON is an error; the connector truncates fractions, reads `null` as 0, and ignores text behind the end."
_PATTERN = (
    "`subscribePattern` is a regular expression of Python. Syntax that only Java has is refused: `\\p{Alpha}`, `\\Q...\\E`, `\\z`, "
    "`(?<name>...)`, sets in sets."
)
_TIMES = "Times begin in 1970; the connector hands negative ones to the broker, where -1 stands for the end and -2 for the beginning."
_MEANING = (
    "An option or a `kafka.` key that is unknown, or has no meaning for the kind of query, is refused; the connector passes over it, "
    "or warns."
)
_NUMBERS = (
    "`fetchOffset.numRetries`, `maxOffsetsPerTrigger` and `minOffsetsPerTrigger` below 1, `fetchOffset.retryIntervalMs` and "
    "`maxTriggerDelay` below 0, `kafkaConsumer.pollTimeoutMs` of 0 and an empty `kafka.group.id` are refused at once."
)
_TASKS = (
    "`maxRecordsPerPartition` divides every range, and `minPartitions` counts partitions that have records. In batches the connector "
    "divides no range that begins at `earliest` or ends at `latest` for the first, and counts all partitions for the second."
)
_LEAST = (
    "`minOffsetsPerTrigger` has no effect with `availableNow`, which has to read all; the connector leaves fewer offsets than that for the "
    "next run."
)
_GONE = (
    "A stream whose topics are all gone ends with data loss unless `failOnDataLoss` is `false`; the connector waits for them to come back."
)
_ANOTHER = (
    "A topic that was deleted and created again is another topic for a stream, which reads it from its beginning with `failOnDataLoss` "
    "`false`; the connector compares offsets alone."
)
_SINK_MODE = "`mode('append')` has to be written out: Spark refuses its default, `errorifexists`, for sources in Python."
_SINK_HEADERS = "The fields of `headers` may be in either order when they are written."
_SINK_PARTITION = (
    "A row for a partition that the topic does not have is refused at once; the connector waits for the partition until `max.block.ms` "
    "is over."
)
_SINK_PARTITIONER = "`kafka.partitioner.class` is refused, as it names classes of Java."

DIFFERENCES: tuple[Difference, ...] = (
    Difference(_OWN, ("selection: subscribe=__consumer_offsets",), "nothing", "rows"),
    Difference(_OWN, ("selection: subscribe=plain,__consumer_offsets",), "rows", "rows", "rows"),
    Difference(_ASSIGN, (r'selection: assign=\{"plain":\[(7|99999999999)\]\}',), "nothing", "unknown topic"),
    Difference(_ASSIGN, (r'selection: assign=\{"plain":\[0,7\]\}', r'starting: assign=.*0,7.*\{"0":3\}\}'), "rows", "unknown topic"),
    Difference(_ASSIGN, (r'starting: assign=\{"plain":\[0,7\]\}, .*"7":0.*',), "refused", "unknown topic"),
    Difference(_ASSIGN, (r'selection: assign=\{("plain":(\[\]|null|\[-1\]))?\}',), "nothing", "refused"),
    Difference(
        _JSON, (r'selection: assign=\{"plain":\[0.5\]\}', ".* and more", r'(starting|ending): .*"0":(3\.7|null).*'), "rows", "refused"
    ),
    Difference(
        _PATTERN,
        (r"selection: subscribePattern=(.*\\[pQz].*|\^names-(\[a-z&&\[\^b\]\]|\(\?<letter>a\)|\[\[:alpha:\]\]|\[a-c\[z\]\]))",),
        "rows",
        "refused",
    ),
    Difference(_PATTERN, (r"selection: subscribePattern=\^names-\(\?P<letter>a\)",), "refused", "rows"),
    Difference(
        _TIMES,
        (
            r"times: .*startingTimestamp=-1",
            r'times: .*startingOffsetsByTimestamp=\{"plain":\{"0":-1,.*',
            r"times: .*endingTimestamp=-2",
            r'times: .*endingOffsetsByTimestamp=\{"plain":\{"0":-2,.*',
        ),
        "nothing",
        "refused",
    ),
    Difference(
        _TIMES,
        (
            r"times: .*startingTimestamp=-2",
            r'times: .*startingOffsetsByTimestamp=\{"plain":\{"0":-2,.*',
            r'times: .*startingOffsetsByTimestamp=\{"plain":\{"0":-3,.*=latest',
            r"times: .*endingTimestamp=-[15]",
            r'times: .*endingOffsetsByTimestamp=\{"plain":\{"0":-[13],.*',
        ),
        "rows",
        "refused",
    ),
    Difference(
        _MEANING,
        (
            r"elsewhere: subscribe=names-a, (maxOffsetsPerTrigger=5|minOffsetsPerTrigger=5|maxTriggerDelay=1m|startingOfsets=.*|topic=.*)",
            r"client: .*kafka\.(key\.serializer|no\.such\.key)=.*",
            r"option: (kafka\.no\.such\.key|tpic|startingOffsets|subscribe)=.*",
        ),
        "rows",
        "refused",
    ),
    Difference(
        _NUMBERS,
        (r"(reading|client): .*(fetchOffset\.numRetries=(0|-1)|fetchOffset\.retryIntervalMs=-1|kafka\.group\.id=)",),
        "rows",
        "refused",
    ),
    Difference(_NUMBERS, (r"reading: .*kafkaConsumer\.pollTimeoutMs=0",), "timeout", "refused"),
    Difference(
        _TASKS,
        (
            "tasks: subscribe=skewed, minPartitions=4",
            "tasks: subscribe=skewed, maxRecordsPerPartition=(51|33)",
            "tasks: subscribe=skewed, minPartitions=2, maxRecordsPerPartition=(20|45)",
            "reading: .*maxRecordsPerPartition=2.*",
        ),
        "rows",
        "rows",
        "tasks",
    ),
    Difference(_MEANING, (r"stream: subscribe=plain, endingTimestamp=.*",), "nothing", "refused"),
    Difference(_NUMBERS, (r"stream: maxOffsetsPerTrigger=0,.*",), "nothing", "refused"),
    Difference(_NUMBERS, (r"stream: maxOffsetsPerTrigger=-1,.*",), "data loss", "refused"),
    Difference(_NUMBERS, (r"stream: (minOffsetsPerTrigger=(0|-1)|maxTriggerDelay=-1s),.*",), "rows", "refused"),
    Difference(
        _LEAST,
        ("stream: subscribe=skewed, minOffsetsPerTrigger=50, maxOffsetsPerTrigger=60, startingOffsets=earliest",),
        "rows",
        "rows",
        "rows",
    ),
    Difference(_GONE, ("stream: deleted, failOnDataLoss=true",), "nothing", "data loss"),
    Difference(_ANOTHER, ("stream: created anew, failOnDataLoss=false",), "nothing", "rows"),
    Difference(_SINK_MODE, ("mode: (errorifexists|None)",), "rows", "refused"),
    Difference(_SINK_HEADERS, ("columns: headers the other way round",), "refused", "rows"),
    Difference(_SINK_PARTITION, ("columns: a partition that is not there",), "timeout", "refused"),
    Difference(_SINK_PARTITIONER, (r"option: kafka\.partitioner\.class=org.*",), "rows", "refused"),
)


class Other(NamedTuple):
    """A difference of another sort than of a case."""

    reason: str
    shown_by: str
    """Where it is tested, or why it cannot be otherwise."""


OTHERS: tuple[Other, ...] = (
    Other(
        "Spark asks no source in Python for the `metrics` of its progress; `offsets_behind_latest` computes the connector's.",
        "test_spark_connector_streams.py::test_the_progress_of_a_query",
    ),
    Other(
        "Spark has no `outputMode('update')` for sinks in Python; `foreachBatch` writes the rows of an aggregate that changed.",
        "test_spark_connector_streams.py::test_streams_are_written_as_the_connector_writes_them",
    ),
    Other("The `continuous` trigger does not exist for sources in Python.", "pyspark.sql.datasource has no class for it"),
)


def difference_of(name: str) -> Difference | None:
    """The one that the case is named by; AssertionError when there are two."""
    found = [each for each in DIFFERENCES if each.covers(name)]
    assert len(found) < 2, f"{name} is named twice"
    return found[0] if found else None
