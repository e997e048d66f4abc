"""Every option of Spark's Kafka connector, in batch queries: what it is given, and where we differ from it on purpose.

`@N` in a value is the time of the record N of the topics, in milliseconds.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

PLAIN = {"plain": 3, "stamped": 1, "cut": 2, "transactions": 1, "skewed": 4, "names-a": 1, "names-b": 1, "other-names-a": 1, "names.c": 1}
"""Topics and their partitions."""
RECORDS = {
    ("plain", 0): 12,
    ("plain", 1): 5,
    ("stamped", 0): 4,
    ("cut", 0): 20,
    ("cut", 1): 6,
    ("skewed", 0): 100,
    ("skewed", 1): 30,
    ("skewed", 2): 3,
    ("names-a", 0): 1,
    ("names-b", 0): 1,
    ("other-names-a", 0): 1,
    ("names.c", 0): 1,
}
CUT = 8
"""The first 8 records of partition 0 of `cut` are deleted."""


class Case(NamedTuple):
    """One query."""

    name: str
    options: dict[str, str]
    both_brokers: bool = True
    """Whether the answer depends on a broker."""


def _named(prefix: str, cases: Iterable[dict[str, str]], *, both_brokers: bool = True) -> list[Case]:
    output: list[Case] = []
    for options in cases:
        said = ", ".join(f"{name}={value}" for name, value in options.items())
        output.append(Case(f"{prefix}: {said}", options, both_brokers))
    return output


def _each(option: str, *values: str, **always: str) -> list[dict[str, str]]:
    return [{option: value, **{name.replace("__", "."): text for name, text in always.items()}} for value in values]


def _j(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


_SELECTION = [
    *_each("subscribe", "plain", "plain,skewed", " plain , skewed ", "plain,plain", ",plain,,", "missing", "plain,missing"),
    *_each("subscribe", "", " , ", "not a topic", "__consumer_offsets", "plain,__consumer_offsets"),
    *_each("SUBSCRIBE", "plain"),
    *_each("assign", '{"plain":[0,2]}', '{"plain":[0],"skewed":[1,2]}', '{"plain":[7]}', '{"plain":[0,7]}', '{"missing":[0]}'),
    *_each("assign", '{"plain":[]}', "{}", "[]", "plain", "", '{"plain":[-1]}', '{"plain":["0"]}', '{"plain":[0.5]}', '{"plain":0}'),
    *_each("assign", '{"plain":[0,0]}', ' {"plain":[0]} ', '{"plain":[0]} and more', '{"plain":[0],"plain":[1]}', '{"plain":null}'),
    *_each("assign", '{"__consumer_offsets":[0]}', '{"plain":[true]}', '{"plain":[99999999999]}'),
    *_each("subscribePattern", "names-.", "names", "^names-a$", "names-[ab]", "(?i)NAMES-A", "no-such-topic", "[", "", " ", " names-a "),
    *_each("subscribePattern", "names.c", "names-a|plain", "__consumer.*", r"^na\w+-(a|b)$", "(names)-a", r"^names\.", "[^-]-b"),
    *_each("subscribePattern", r"names-\p{Alpha}", r"\Qnames.c\E", "^names-[a-z&&[^b]]", "^names-(?<letter>a)", "^names-(?P<letter>a)"),
    *_each("subscribePattern", "^names-a++", "^(?>names)-a", r"\Anames-a\z", "^names-[[:alpha:]]", "^names-[a-c[z]]", "^names-[^~~a]"),
    {},
    {"subscribe": "plain", "assign": '{"plain":[0]}'},
    {"subscribe": "plain", "subscribePattern": "plain"},
]

_WHOLE = ("earliest", "EARLIEST", " earliest ", "latest", "Latest", "", "7", "{}", "[]", "x", '{"plain":7}', '{"plain":[0]}', "null")
_OF_PLAIN = (
    {"0": 3, "1": 5, "2": 0},
    {"0": -2, "1": -2, "2": -2},
    {"0": 12, "1": -2, "2": 0},
    {"0": 3, "1": -1, "2": 0},
    {"0": 3, "1": -3, "2": 0},
    {"0": 3, "1": 1},
    {"0": 3, "1": 1, "2": 0, "3": 0},
    {"0": 13, "1": 1, "2": 0},
    {"00": 3, "1": 1, "2": 0},
    {"0": "3", "1": 1, "2": 0},
    {"0": 3.7, "1": 1, "2": 0},
    {"0": None, "1": 1, "2": 0},
    {"0": 9223372036854775808, "1": 1, "2": 0},
    {"x": 3, "1": 1, "2": 0},
)
_QUICK = {"kafkaConsumer.pollTimeoutMs": "1500"}
_STARTING = [
    *({"subscribe": "plain", "startingOffsets": value, **_QUICK} for value in _WHOLE),
    *({"subscribe": "plain", "startingOffsets": _j({"plain": value}), **_QUICK} for value in _OF_PLAIN),
    {"subscribe": "plain", "startingOffsets": _j({"skewed": {"0": 1}})},
    {"assign": '{"plain":[0,7]}', "startingOffsets": _j({"plain": {"0": 3}})},
    {"assign": '{"plain":[0,7]}', "startingOffsets": _j({"plain": {"0": 3, "7": 0}})},
    {"assign": '{"plain":[0]}', "startingOffsets": _j({"plain": {"0": 3, "1": 0}})},
    {"subscribePattern": "^names-", "startingOffsets": _j({"names-a": {"0": 1}, "names-b": {"0": 0}})},
    {"subscribe": "plain", "startingOffsets": ' {"plain": {"0":3,"1":1,"2":0}} '},
    {"subscribe": "plain", "startingOffsets": '{"plain": {"0":3,"1":1,"2":0}} and more'},
]
_ENDING = [
    *({"subscribe": "plain", "endingOffsets": value, **_QUICK} for value in _WHOLE),
    *({"subscribe": "plain", "endingOffsets": _j({"plain": value}), **_QUICK} for value in _OF_PLAIN),
    {
        "subscribe": "plain",
        "startingOffsets": _j({"plain": {"0": 5, "1": 1, "2": 0}}),
        "endingOffsets": _j({"plain": {"0": 4, "1": 2, "2": 0}}),
    },
    {
        "subscribe": "plain",
        "startingOffsets": _j({"plain": {"0": 5, "1": 1, "2": 0}}),
        "endingOffsets": _j({"plain": {"0": 5, "1": 2, "2": -1}}),
    },
    {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": -2, "1": 1, "2": 0}}), "endingOffsets": _j({"plain": {"0": 4, "1": 2}})},
    {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 13, "1": 1, "2": 0}}), "endingOffsets": "latest", **_QUICK},
]

_TIMES = (
    {"0": "@3", "1": "@1", "2": "@0"},
    {"0": "@3", "1": "@99", "2": "@99"},
    {"0": "@0", "1": "@0"},
    {"0": "@0", "1": "@0", "2": "@0", "3": "@0"},
    {"0": -1, "1": -1, "2": -1},
    {"0": -2, "1": -2, "2": -2},
    {"0": -3, "1": 0, "2": 0},
    {"0": "x", "1": 0, "2": 0},
)
_TIMED = [
    *(
        {"assign": '{"plain":[0,1]}', "startingTimestamp": value}
        for value in ("@0", "@3", "0", "@99", "-1", "-2", "-5", "x", "", " @3 ", "1.5")
    ),
    {"subscribe": "plain", "startingTimestamp": "@3"},
    {"subscribe": "plain", "startingTimestamp": "+1"},
    *({"subscribe": "plain", "startingOffsetsByTimestamp": _j({"plain": value})} for value in _TIMES),
    *(
        {"subscribe": "plain", "startingOffsetsByTimestamp": _j({"plain": value}), "startingOffsetsByTimestampStrategy": "latest"}
        for value in _TIMES
    ),
    *(
        {"subscribe": "plain", "startingTimestamp": "@7", "startingOffsetsByTimestampStrategy": value}
        for value in ("latest", "LATEST", "Error", " latest ", "earliest", "")
    ),
    {"subscribe": "plain", "startingOffsetsByTimestampStrategy": "bogus"},
    *({"subscribe": "plain", "endingTimestamp": value} for value in ("@0", "@3", "0", "@99", "-1", "-2", "-5", "x", " @3 ")),
    *({"subscribe": "plain", "endingOffsetsByTimestamp": _j({"plain": value})} for value in _TIMES),
    {"assign": '{"plain":[0]}', "startingTimestamp": "@3", "endingTimestamp": "@7"},
    {"assign": '{"plain":[0]}', "startingTimestamp": "@7", "endingTimestamp": "@3"},
    {
        "assign": '{"plain":[0]}',
        "startingOffsetsByTimestamp": _j({"plain": {"0": "@7"}}),
        "endingOffsetsByTimestamp": _j({"plain": {"0": "@3"}}),
    },
    {
        "assign": '{"plain":[0]}',
        "startingOffsetsByTimestamp": _j({"plain": {"0": "@3"}}),
        "endingOffsetsByTimestamp": _j({"plain": {"0": "@7"}}),
    },
    {"assign": '{"plain":[0]}', "startingOffsetsByTimestamp": _j({"plain": {"0": "@7"}}), "endingOffsets": _j({"plain": {"0": 3}})},
    # Which goes before which, and whether what does not count has to be right.
    {
        "assign": '{"plain":[0]}',
        "startingTimestamp": "@9",
        "startingOffsetsByTimestamp": _j({"plain": {"0": "@6"}}),
        "startingOffsets": _j({"plain": {"0": 3}}),
    },
    {"assign": '{"plain":[0]}', "startingOffsetsByTimestamp": _j({"plain": {"0": "@6"}}), "startingOffsets": _j({"plain": {"0": 3}})},
    {"assign": '{"plain":[0]}', "startingTimestamp": "@9", "startingOffsetsByTimestamp": "x", "startingOffsets": "y"},
    {
        "assign": '{"plain":[0]}',
        "endingTimestamp": "@9",
        "endingOffsetsByTimestamp": _j({"plain": {"0": "@6"}}),
        "endingOffsets": _j({"plain": {"0": 3}}),
    },
    {"assign": '{"plain":[0]}', "endingOffsetsByTimestamp": _j({"plain": {"0": "@6"}}), "endingOffsets": "earliest"},
    {"assign": '{"plain":[0]}', "startingTimestamp": "@9", "startingOffsets": "latest"},
]

_LOSS = [
    *(
        {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": 3, "1": 1}}), "failOnDataLoss": value, **_QUICK}
        for value in ("true", "false")
    ),
    {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": 3, "1": 1}}), **_QUICK},
    {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": 8, "1": 1}})},
    {"subscribe": "cut", "startingOffsets": "earliest"},
    {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": -2, "1": 1}}), "endingOffsets": _j({"cut": {"0": 5, "1": 2}}), **_QUICK},
    *(
        {
            "subscribe": "cut",
            "startingOffsets": _j({"cut": {"0": 1, "1": 1}}),
            "endingOffsets": _j({"cut": {"0": 5, "1": 2}}),
            "failOnDataLoss": value,
            **_QUICK,
        }
        for value in ("true", "false")
    ),
    *(
        {"subscribe": "plain", "endingOffsets": _j({"plain": {"0": 14, "1": 2, "2": 0}}), "failOnDataLoss": value, **_QUICK}
        for value in ("true", "false")
    ),
    *(
        {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 13, "1": 2, "2": 0}}), "failOnDataLoss": value, **_QUICK}
        for value in ("true", "false")
    ),
    *(
        {
            "subscribe": "plain",
            "startingOffsets": _j({"plain": {"0": 20, "1": 2, "2": 0}}),
            "endingOffsets": _j({"plain": {"0": 22, "1": 3, "2": 0}}),
            "failOnDataLoss": value,
            **_QUICK,
        }
        for value in ("true", "false")
    ),
    *({"subscribe": "names-a", "failOnDataLoss": value} for value in ("TRUE", "False", "yes", "1", "", " true ")),
]

_TASKS = [
    *({"subscribe": "skewed", "minPartitions": str(value)} for value in (1, 3, 4, 5, 6, 7, 10, 25)),
    *({"subscribe": "skewed", "maxRecordsPerPartition": str(value)} for value in (1000, 100, 51, 33)),
    *(
        {"subscribe": "skewed", "minPartitions": str(fewest), "maxRecordsPerPartition": str(most)}
        for fewest, most in itertools.product((2, 6, 9, 13), (20, 45, 1000))
    ),
    {"subscribe": "skewed,plain", "minPartitions": "12"},
    {"subscribe": "plain", "minPartitions": "8", "startingOffsets": _j({"plain": {"0": 4, "1": 2, "2": 0}}), "endingOffsets": "latest"},
    {"subscribe": "transactions", "minPartitions": "3", "kafka.isolation.level": "read_committed", **_QUICK},
    *({"subscribe": "names-a", "minPartitions": value} for value in ("0", "-1", "x", "2.5", " 4 ", "", "99999999999", "+2")),
    *({"subscribe": "names-a", "maxRecordsPerPartition": value} for value in ("0", "-1", "x", "2.5", " 4 ", "", "99999999999")),
]

_READING = [
    *({"subscribe": "plain", "includeHeaders": value} for value in ("true", "false", "TRUE", "yes", "", " true ")),
    {"subscribe": "stamped"},
    *(
        {"subscribe": "transactions", "kafka.isolation.level": value}
        for value in ("read_committed", "read_uncommitted", "READ_COMMITTED", "bogus")
    ),
    {"subscribe": "transactions"},
    {"subscribe": "transactions", "kafka.isolation.level": "read_committed", "endingOffsets": _j({"transactions": {"0": 6}})},
    {"subscribe": "transactions", "kafka.isolation.level": "read_committed", "startingOffsets": _j({"transactions": {"0": 5}})},
    {"subscribe": "transactions", "endingOffsets": _j({"transactions": {"0": 8}})},
    {"subscribe": "transactions", "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": "2", **_QUICK},
    *({"subscribe": "names-a", "kafkaConsumer.pollTimeoutMs": value} for value in ("600", "0", "-1", "x", "", " 600 ")),
    *({"subscribe": "names-a", "fetchOffset.numRetries": value} for value in ("1", "0", "-1", "x", "")),
    *({"subscribe": "names-a", "fetchOffset.retryIntervalMs": value} for value in ("1", "0", "-1", "x", "")),
    {"subscribe": "names-a", "groupIdPrefix": "prefix"},
]

_CLIENT = [
    # The connector refuses a group with two brokers in one session, whatever it is for.
    {"subscribe": "names-a", "kafka.group.id": "readers"},
    {"subscribe": "names-a", "kafka.group.id": "readers", "groupIdPrefix": "prefix"},
    {"subscribe": "names-a", "kafka.group.id": ""},
    *(
        {"subscribe": "names-a", f"kafka.{key}": value}
        for key, value in (
            ("auto.offset.reset", "earliest"),
            ("key.deserializer", "x"),
            ("value.deserializer", "x"),
            ("enable.auto.commit", "false"),
            ("enable.auto.commit", "true"),
            ("interceptor.classes", "x"),
            ("interceptor.classes", ""),
            ("max.poll.records", "1"),
            ("max.poll.records", "x"),
            ("max.poll.records", "0"),
            ("max.partition.fetch.bytes", "1"),
            ("fetch.max.bytes", "-1"),
            ("check.crcs", "false"),
            ("check.crcs", "maybe"),
            ("client.id", "mine"),
            ("client.rack", "r1"),
            ("security.protocol", "BOGUS"),
            ("receive.buffer.bytes", "-2"),
            ("request.timeout.ms", "20000"),
            ("Fetch.Min.Bytes", "1"),
            ("bootstrap.servers", ""),
            ("bootstrap.servers", "nonsense"),
            ("bootstrap.servers", "127.0.0.1:x"),
            ("key.serializer", "x"),
            ("no.such.key", "1"),
        )
    ),
    {
        "subscribe": "names-a",
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.default.api.timeout.ms": "400",
        "kafka.request.timeout.ms": "300",
        "fetchOffset.numRetries": "1",
    },
]

_ELSEWHERE = [
    *(
        {"subscribe": "names-a", name: value}
        for name, value in (("maxOffsetsPerTrigger", "5"), ("minOffsetsPerTrigger", "5"), ("maxTriggerDelay", "1m"))
    ),
    {"subscribe": "names-a", "startingOfsets": "latest"},
    {"subscribe": "names-a", "topic": "names-b"},
    {"subscribe": "names-a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
]

READS: list[Case] = [
    *_named("selection", _SELECTION),
    *_named("starting", _STARTING),
    *_named("ending", _ENDING),
    *_named("times", _TIMED),
    *_named("loss", _LOSS),
    *_named("tasks", _TASKS, both_brokers=False),
    *_named("reading", _READING),
    *_named("client", _CLIENT, both_brokers=False),
    *_named("elsewhere", _ELSEWHERE, both_brokers=False),
]


def _streams() -> Iterable[dict[str, str]]:
    earliest = {"startingOffsets": "earliest"}
    for most in (7, 20, 29, 50, 100, 132, 133, 200):
        yield {"subscribe": "skewed", "maxOffsetsPerTrigger": str(most), **earliest}
    yield {"subscribe": "skewed", "maxOffsetsPerTrigger": "9223372036854775807", **earliest}
    yield {"subscribe": "skewed,plain", "maxOffsetsPerTrigger": "31", **earliest}
    yield {"assign": '{"skewed":[1,3]}', "maxOffsetsPerTrigger": "11", **earliest}
    yield {"subscribePattern": "^names", "maxOffsetsPerTrigger": "1", **earliest}
    yield {"subscribe": "plain"}
    yield {"subscribe": "plain", "startingOffsets": "latest"}
    yield {"subscribe": "plain", **earliest}
    yield {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 3, "1": -1, "2": -2}})}
    yield {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 3, "1": -1}})}
    yield {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 13, "1": 0, "2": 0}}), **_QUICK}
    yield {"subscribe": "plain", "startingOffsets": _j({"plain": {"0": 13, "1": 0, "2": 0}}), "failOnDataLoss": "false", **_QUICK}
    yield {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": 3, "1": 1}}), **_QUICK}
    yield {"subscribe": "cut", "startingOffsets": _j({"cut": {"0": 3, "1": 1}}), "failOnDataLoss": "false", **_QUICK}
    yield {
        "subscribe": "cut",
        "startingOffsets": _j({"cut": {"0": 3, "1": 1}}),
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": "4",
        **_QUICK,
    }
    yield {"subscribe": "plain", "startingTimestamp": "@3", "startingOffsetsByTimestampStrategy": "latest"}
    yield {"subscribe": "plain", "startingTimestamp": "@3"}
    yield {"subscribe": "plain", "startingOffsetsByTimestamp": _j({"plain": {"0": "@3", "1": "@99", "2": 0}})}
    yield {"subscribe": "transactions", "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "3", **earliest, **_QUICK}
    yield {"subscribe": "transactions", "maxOffsetsPerTrigger": "3", **earliest}
    yield {"subscribe": "plain", "includeHeaders": "true", "minPartitions": "6", **earliest}
    yield {"subscribe": "plain", "maxRecordsPerPartition": "3", **earliest}
    yield {"subscribe": "skewed", "minOffsetsPerTrigger": "500", **earliest}
    yield {"subscribe": "skewed", "minOffsetsPerTrigger": "50", "maxOffsetsPerTrigger": "60", **earliest}
    yield {"subscribe": "skewed", "minOffsetsPerTrigger": "50", "maxOffsetsPerTrigger": "60", "maxTriggerDelay": "0s", **earliest}
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        yield {"subscribe": "plain", name: {"endingTimestamp": "@3"}.get(name, "latest")}
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        yield from _each(name, "0", "-1", "x", "", "2.5", " 5 ", subscribe="names-a", **earliest)
    yield from _each("maxTriggerDelay", "1m", "90s", "5", "1x", "", "-1s", "1 min", "1us", "1.5m", "2h", subscribe="names-a", **earliest)
    yield {"subscribe": "plain", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}
    yield {"subscribe": "missing"}


STREAMS: list[Case] = _named("stream", _streams())
