"""Differences between Odradek and JVM Kafka 4.3.1 that have been looked at and accepted, each with its reason.

An exception covers as little as it can: the case, the place in the answer, and both values, or a bound where one number may differ from
the other. What is not listed here fails the comparison, and so does, in a run of everything, what is listed and does not occur.
`tests/interop/test_exceptions.py` changes recorded answers a little and asks whether that would be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from interop.differential.compare import MISSING, Excepted
from interop.differential.peer import CLOSED, SILENT
from interop.differential.topic_rules import COMPRESSIONS, POLICIES, SIZES, STAMPS
from odradek.config.deviations import OWN_DEFAULTS
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.handlers.table import APIS
from odradek.metadata.features import known_features, supported_features
from odradek.protocol.api_keys import API_INFO, ApiKey

UNKNOWN_SERVER_ERROR = -1
INVALID_TOPIC = 17
UNSUPPORTED_VERSION = 35
INVALID_TIMESTAMP = 32
INVALID_CONFIG = 40
INVALID_REQUEST = 42
INVALID_TRANSACTION_TIMEOUT = 50
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87
TRANSACTION_ABORTABLE = 120

_FOR_REPORTERS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""JVM Kafka advertises them only where a metrics reporter takes what clients push."""
_REMOVED = {ApiKey.CONTROLLED_SHUTDOWN}
"""Named in Kafka 4.3, and served by none of its listeners."""


def _to_come(scope: str) -> tuple[ApiKey, ...]:
    served = {api.api_key for api in APIS if api.is_served_on(scope)}
    return tuple(sorted(key for key, api in API_INFO.items() if scope in api.listeners and key not in served | _FOR_REPORTERS | _REMOVED))


API_KEYS_TO_COME, API_KEYS_TO_COME_ON_CONTROLLERS = _to_come(BROKER), _to_come(CONTROLLER)
"""What JVM Kafka's brokers and controllers advertise and Odradek does not serve there yet; the connection is closed."""

FEATURES_TO_COME = tuple(sorted(known_features().keys() - supported_features().keys()))
"""What JVM Kafka serves at level 1 and Odradek not at all."""


def an_answer(answer: Any) -> bool:
    """Anything but a closed connection or silence."""
    return isinstance(answer, dict | bytes)


def null_records_refused(answer: Any) -> bool:
    """A produce answer that refuses its only partition's records, whole."""
    refused = {
        "index": 0,
        "error_code": INVALID_RECORD,
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
        "record_errors": [],
        "error_message": None,
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
    }
    topics = answer["responses"] if isinstance(answer, dict) else {}
    names = [{"name": topic, "topic_id": "zero"} for topic in topics] if "" not in topics else []
    named = [{"name": "", "topic_id": topic} for topic in topics]
    return any(
        answer == {"responses": {topic: {**name, "partition_responses": {"0": refused}}}, "throttle_time_ms": 0, "node_endpoints": []}
        for topic, name in zip([*topics] * 2, names + named, strict=False)
    )


def both_refused(answer: Any) -> bool:
    """An AlterConfigs answer that refuses the topic that was named twice, both times."""
    name = answer["responses"][0]["resource_name"] if isinstance(answer, dict) and answer["responses"] else ""
    refused = {"error_code": INVALID_REQUEST, "error_message": "a text", "resource_type": 2, "resource_name": name}
    return re.fullmatch(r"replaced-\d", name) is not None and bool(answer == {"throttle_time_ms": 0, "responses": [refused] * 2})


def invalid_topic(answer: Any) -> bool:
    """A Metadata answer about a topic whose name is made of what could not be decoded."""
    topic = {"error_code": INVALID_TOPIC, "name": "plai\ufffd", "topic_id": "zero", "is_internal": False, "partitions": []}
    nothing_asked = -(2**31)
    topics = {"plai\ufffd": {**topic, "topic_authorized_operations": nothing_asked}}
    return isinstance(answer, dict) and bool(answer["topics"] == topics)


def advertised(entry: Any) -> bool:
    """An API of ours to come, with the versions that Kafka 4.3 has of it."""
    if not isinstance(entry, dict) or entry.get("api_key") not in {*API_KEYS_TO_COME, *API_KEYS_TO_COME_ON_CONTROLLERS}:
        return False
    versions = API_INFO[ApiKey(entry["api_key"])]
    return entry == {"api_key": entry["api_key"], "min_version": versions.min_version, "max_version": versions.max_version}


def tripped_over_fetch(answer: Any) -> bool:
    """A Fetch answer of JVM Kafka's that says UNKNOWN_SERVER_ERROR of the metadata log, and nothing else."""
    nothing = {"epoch": -1, "end_offset": -1}
    partition = {
        "partition_index": 0,
        "error_code": UNKNOWN_SERVER_ERROR,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": 0,
        "diverging_epoch": nothing,
        "current_leader": {"leader_id": 1, "leader_epoch": 1},
        "snapshot_id": nothing,
        "aborted_transactions": [],
        "preferred_read_replica": -1,
        "records": {"batches": [], "rest": 0},
    }
    return bool(answer == [{"topic": "", "topic_id": "an unknown id", "partitions": [partition]}])


SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, UNKNOWN_TOPIC = 98, 99, 3
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
DUPLICATE_BROKER = 101
SNAPSHOT_ERRORS = {
    r"a snapshot .*|snapshot .*|position .*|replica .*|at most .*|no cluster": SNAPSHOT_NOT_FOUND,
    r"epoch -\d+": FENCED_LEADER_EPOCH,
    r"epoch \+\d+": UNKNOWN_LEADER_EPOCH,
    r"the end|beyond the end|before the beginning": POSITION_OUT_OF_RANGE,
    r"(other|negative) partition|other topic|topic without a name": UNKNOWN_TOPIC,
    r"two partitions|partition twice|two topics|topic twice": INVALID_REQUEST,
}
"""Cases -> the error that we answer. JVM Kafka answers UNKNOWN_SERVER_ERROR for each error of a partition."""


def refused_snapshot(error: int) -> list[dict[str, Any]]:
    """The topics of a FetchSnapshot answer with this error for the partition that was asked for, and no bytes."""
    leader = {"leader_id": 0, "leader_epoch": 0} if error == UNKNOWN_TOPIC else {"leader_id": 1, "leader_epoch": 1}
    asked = "as asked" if error != UNKNOWN_TOPIC else 0
    partition = {
        "index": "as asked",
        "error_code": error,
        "snapshot_id": {"end_offset": asked, "epoch": asked},
        "current_leader": leader,
        "size": 0,
        "position": 0,
        "unaligned_records": b"",
    }
    return [{"name": "as asked", "partitions": [partition]}]


def int_above_zero(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def some_bytes(value: Any) -> bool:
    return isinstance(value, bytes) and bool(value)


def alike(least_percent: int, most_percent: int, slack_bytes: int = 0) -> Callable[[bytes | int, bytes | int], bool]:
    """Two sizes of which ours is between two shares of the other, give or take some bytes."""

    def compared(ours: bytes | int, theirs: bytes | int) -> bool:
        mine, other = (each if isinstance(each, int) else len(each) for each in (ours, theirs))
        return other * least_percent // 100 - slack_bytes <= mine <= other * most_percent // 100 + slack_bytes

    return compared


BUILDS_PERCENT = {
    "gzip": (88, 112),
    "snappy": (95, 105),
    "lz4": (90, 110),
    "lz4 1": (70, 101),
    "zstd": (95, 105),
}
"""What ours may be of JVM Kafka's size for the same records. Two builds of deflate differ most at level 1. LZ4 without a level is another
version of the fast compressor, and newer versions have a weaker one for level 1. The other levels of LZ4 are equal."""
BATCH_SLACK_BYTES, LOG_SLACK_BYTES = 16, 64
"""And so many bytes more where the records of a batch, or the batches of a log, are few and small."""
SPACE_PERCENT = 5

_GROUPS = {"compression": COMPRESSIONS, "stamps": STAMPS, "sizes": SIZES, "policy": POLICIES}


def _recompressed(build: str) -> tuple[str, str]:
    """Patterns for the topics whose records the broker compresses anew in this way, and for the cases that read them."""
    codec, _, level = build.partition(" ")
    those = [
        (group, number, name)
        for group, table in _GROUPS.items()
        for number, (name, config) in enumerate(table.items())
        if config.get("compression.type") == codec and (codec != "lz4" or config.get("compression.lz4.level", "") == level)
    ]
    topics, cases = "|".join(rf"{g}-{n}-\d+" for g, n, _ in those), "|".join(f"{g} {re.escape(name)}" for g, _, name in those)
    return (f"zstd|{topics}", rf"a topic of zstd|({cases}): what is stored") if codec == "zstd" else (topics, f"({cases}): what is stored")


_COMES_BACK = (
    "Odradek registers a restarted broker with the same directories and addresses at once, because two running processes cannot "
    "share them. JVM Kafka waits until the old session has ended"
)
_UNCOMMITTED = (
    "Odradek shows committed records to a reader of the metadata log that is not a replica; JVM Kafka also shows records that may "
    "still be truncated"
)
_NULL_RECORDS = (
    "JVM Kafka cannot write its response to a FetchSnapshot request that it refuses (the records are null), and responds with "
    "UNKNOWN_SERVER_ERROR"
)
_CRASH = "JVM Kafka fails with an unexpected exception (UNKNOWN_SERVER_ERROR); Odradek responds with a specific error code"
_CODEC = (
    "JVM Kafka fails with an unexpected exception (UNKNOWN_SERVER_ERROR); Odradek responds with 76 to an unknown codec and with 87 to "
    "wrong framing"
)
_STRICT_TAGS = (
    "Odradek requires ascending tags and a valid number of them; JVM Kafka reads a negative number as zero and keeps the last of two "
    "equal tags"
)
_COMPARED_AGAIN = "exact (JVM Kafka's response is compared with Odradek's response to the request without those tags)"
_NEGATIVE_LENGTH = "JVM Kafka treats any negative length as null; Odradek only -1"
_BUILDS = (
    "the broker recompresses the batch, and two builds of a codec write different bytes for the same records (the records are compared)"
)
_TWICE = (
    "JVM Kafka uses the partitions of the last entry for every entry with the same id and ignores the other entries; Odradek answers "
    "each entry"
)
_TWO_PHASE = "transaction.two.phase.commit.enable=true unstable.api.versions.enable=true"
_PREPARED = "JVM Kafka 4.3 cannot keep a prepared transaction yet (KIP-939); Odradek can"

_PRODUCED = r"responses\[[^]]+\]\.partition_responses\[0\]\.error_code"
_NAN_QUOTA = r"(controller )?ALTER_CLIENT_QUOTAS v\d+ \w+=nan"
_NO_NUMBER = "JVM Kafka accepts a quota that is not a number; Odradek refuses it"
_PAYLOAD = r"responses\[0\]\.partitions\[0\]\.records\.batches\[\d+\]\.payload"
_TXN_PARTITIONS = r"results_by_transaction\[[^] ]+\]\.topic_results\[transactional\]\.results_by_partition"
_DEFAULT_OF_A_GIVEN_KEY = r"synonyms\[1\]\.value"
_HEADER_OF_VERSIONS = b"\x00\x00\x00\x05\x00\x00"
"""The first bytes of an ApiVersions answer: correlation id 5, no error."""

_LEADER_ENDPOINTS = [{"node_id": 1, "host": "127.0.0.1", "port": "(controller port)"}]

EXCEPTIONS: tuple[Excepted, ...] = (
    # What is not there yet, and says so in ApiVersions.
    Excepted(
        r"(controller )?API_VERSIONS .*",
        r"api_keys\[\d+\]",
        MISSING,
        advertised,
        "Odradek does not advertise an API that it does not support yet",
    ),
    *(
        Excepted(
            r"(controller )?API_VERSIONS v[34] .*",
            rf"finalized_features\[{re.escape(name)}\]",
            MISSING,
            {"name": name, "max_version_level": 1, "min_version_level": 1},
            "Odradek does not finalize a feature that it does not support yet",
        )
        for name in FEATURES_TO_COME
    ),
    *(
        Excepted(
            r"(controller )?API_VERSIONS v4 .*",
            rf"supported_features\[{re.escape(name)}\]",
            MISSING,
            {"name": name, "min_version": 0, "max_version": 1},
            "Odradek does not list a feature that it does not support yet as supported",
        )
        for name in FEATURES_TO_COME
    ),
    # Our own defaults: the table with their reasons is odradek.config.deviations. Listeners are given, and only their default differs.
    *(
        Excepted(
            r"(controller )?DESCRIBE_CONFIGS v\d+ .*",
            rf"results\[0\]\.configs\[{re.escape(key)}\]\."
            + (_DEFAULT_OF_A_GIVEN_KEY if key == "listeners" else r"(synonyms\[0\]\.)?value"),
            own.default,
            own.kafka,
            f"Odradek's default for {key} is different: {own.reason}",
        )
        for key, own in OWN_DEFAULTS.items()
    ),
    # Quotas that nobody could keep.
    Excepted(_NAN_QUOTA, r"entries\[0\]\.error_code", INVALID_REQUEST, 0, _NO_NUMBER),
    Excepted(_NAN_QUOTA, r"entries\[0\]\.error_message", "a text", None, _NO_NUMBER),
    # Settings that would do nothing.
    *(
        Excepted(
            r"(INCREMENTAL_)?ALTER_CONFIGS v\d+ (broker '(\+1|01)' of another name( back)?)",
            rf"responses\[0\]\.{field}",
            ours,
            theirs,
            "Kafka stores them, though no broker is named 01 or +1; Odradek refuses them",
        )
        for field, ours, theirs in (("error_code", INVALID_REQUEST, 0), ("error_message", "a text", None))
    ),
    # Where JVM Kafka fails without meaning to.
    Excepted(
        r"ALTER_CONFIGS v\d+ resource twice",
        r"",
        both_refused,
        SILENT,
        "JVM Kafka never responds when the same resource is named twice; Odradek refuses both",
    ),
    Excepted(
        r"PRODUCE v\d+ null records", r"", null_records_refused, SILENT, "JVM Kafka never responds to null records; Odradek refuses them"
    ),
    Excepted(r"PRODUCE v\d+ unknown compression", _PRODUCED, UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN_SERVER_ERROR, _CODEC),
    Excepted(
        r"PRODUCE v[56] unknown compression",
        r"responses\[[^]]+\]\.partition_responses\[0\]\.log_start_offset",
        0,
        -1,
        "before version 7 JVM Kafka fails at the unknown codec while it checks the request, and refuses the whole request",
    ),
    Excepted(r"PRODUCE v\d+ compression bits lie", _PRODUCED, INVALID_RECORD, UNKNOWN_SERVER_ERROR, _CODEC),
    Excepted(
        r"PRODUCE v\d+ stamps append time, (zstd|uncompressed): negative, \w+", _PRODUCED, INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR, _CRASH
    ),
    Excepted(
        r"FETCH v\d+ isolation level 5(, several)?",
        r"error_code|responses\[\d\]\.partitions\[\d\]\.error_code",
        INVALID_REQUEST,
        UNKNOWN_SERVER_ERROR,
        _CRASH,
    ),
    Excepted(
        r"LIST_OFFSETS v\d+ isolation level 5",
        r"topics\[filled\]\.partitions\[0\]\.error_code",
        INVALID_REQUEST,
        UNKNOWN_SERVER_ERROR,
        _CRASH,
    ),
    Excepted(r"METADATA v1[23] neither id nor name", r"error_code|topics\[\]\.error_code", INVALID_REQUEST, UNKNOWN_SERVER_ERROR, _CRASH),
    Excepted(
        r"ADD_PARTITIONS_TO_TXN v[45] no transactions",
        r"",
        {"throttle_time_ms": 0, "error_code": 0, "results_by_transaction": {}, "results_by_topic_v3_and_below": {}},
        SILENT,
        "JVM Kafka sends its response with the result of the last transaction, and so never responds to an empty request; Odradek "
        "responds with an empty result",
    ),
    Excepted(
        r"ADD_PARTITIONS_TO_TXN v[45] the same id twice",
        rf"{_TXN_PARTITIONS}\[0\]",
        {"partition_index": 0, "partition_error_code": 0},
        MISSING,
        _TWICE,
    ),
    Excepted(
        r"ADD_PARTITIONS_TO_TXN v[45] the same id twice",
        rf"{_TXN_PARTITIONS}\[1\]",
        MISSING,
        {"partition_index": 1, "partition_error_code": TRANSACTION_ABORTABLE},
        _TWICE,
    ),
    Excepted(
        r"WRITE_TXN_MARKERS v\d a negative (epoch|version)",
        r"markers\[\d+\]\.topics\[markers-\d\]\.partitions\[0\]\.error_code",
        INVALID_REQUEST,
        UNKNOWN_SERVER_ERROR,
        _CRASH,
    ),
    Excepted(
        r"INCREMENTAL_ALTER_CONFIGS v\d+ logger operation 7", r"responses\[0\]\.error_code", INVALID_REQUEST, UNKNOWN_SERVER_ERROR, _CRASH
    ),
    Excepted(r"INCREMENTAL_ALTER_CONFIGS v\d+ logger operation 7", r"responses\[0\]\.error_message", "a text", None, _CRASH),
    *(
        Excepted(rf"INIT_PRODUCER_ID v6 ({case})", path, ours, theirs, _PREPARED, elsewhere=_TWO_PHASE)
        for case, path, ours, theirs in (
            ("keeps what is prepared", "error_code", 0, UNSUPPORTED_VERSION),
            ("keeps what is prepared", "producer_id", "producer of init_producer_id-6-keeps-what-is-prepared", -1),
            ("keeps what is prepared", "producer_epoch", 0, -1),
            ("keeps and timeout .*", "error_code", INVALID_TRANSACTION_TIMEOUT, UNSUPPORTED_VERSION),
        )
    ),
    # Where we are stricter than JVM Kafka with bytes that no client sends.
    Excepted(
        r"(controller )?[A-Z_]+ v\d+ tagged (field twice|fields without end)", r"", CLOSED, an_answer, _STRICT_TAGS, bound=_COMPARED_AGAIN
    ),
    Excepted(r"frame with header tags without end", r"", CLOSED, _HEADER_OF_VERSIONS, _STRICT_TAGS),
    Excepted(
        r"METADATA v[0-3] a name that is not UTF-8",
        r"",
        CLOSED,
        invalid_topic,
        "JVM Kafka replaces bytes that are not UTF-8 with U+FFFD; Odradek closes the connection",
    ),
    Excepted(
        r"(controller )?ELECT_LEADERS v1 huge first length",
        r"",
        CLOSED,
        {"throttle_time_ms": 0, "error_code": INVALID_REQUEST, "replica_election_results": {}},
        _NEGATIVE_LENGTH,
    ),
    Excepted(r"frame with client id length -2", r"", CLOSED, _HEADER_OF_VERSIONS, _NEGATIVE_LENGTH),
    # On the controller listener.
    *(
        Excepted(r"controller BROKER_REGISTRATION v\d+ in a new life with all that the old one had", path, ours, theirs, _COMES_BACK)
        for path, ours, theirs in (("error_code", 0, DUPLICATE_BROKER), ("broker_epoch", "the epoch of a new life", -1))
    ),
    *(
        Excepted(r"voter FETCH v18 nothing is committed yet", rf"responses\[0\]\.partitions\[0\]\.{field}", ours, theirs, _UNCOMMITTED)
        for field, ours, theirs in (("records", {"batches": [], "rest": 0}, None), ("aborted_transactions", [], "batches, []"))
    ),
    Excepted(
        r"controller INCREMENTAL_ALTER_CONFIGS v\d a logger(, tried)?",
        r"responses\[0\]\.error_code",
        INVALID_REQUEST,
        INVALID_CONFIG,
        "loggers do not belong to the controller: INVALID_REQUEST. JVM Kafka responds with INVALID_REQUEST to AlterConfigs, but "
        "here with INVALID_CONFIG",
    ),
    Excepted(
        r"controller FETCH v\d+ from the end, as the leader itself",
        r"responses\[0\]\.partitions\[0\]\.error_code",
        INVALID_REQUEST,
        UNKNOWN_SERVER_ERROR,
        _CRASH,
    ),
    *(
        Excepted(r"controller FETCH v\d+ at most -1 bytes", path, ours, theirs, _CRASH)
        for path, ours, theirs in (
            ("error_code", INVALID_REQUEST, 0),
            ("responses", [], tripped_over_fetch),
            ("node_endpoints", [], [{**_LEADER_ENDPOINTS[0], "rack": None}]),
        )
    ),
    *(
        Excepted(rf"controller FETCH_SNAPSHOT v\d ({case})", path, ours, theirs, _NULL_RECORDS)
        for case, error in SNAPSHOT_ERRORS.items()
        for path, ours, theirs in (
            ("error_code", INVALID_REQUEST if error == INVALID_REQUEST else 0, UNKNOWN_SERVER_ERROR),
            ("topics", refused_snapshot(error), []),
            ("node_endpoints", _LEADER_ENDPOINTS, []),
        )[: {INVALID_REQUEST: 1, UNKNOWN_TOPIC: 2}.get(error, 3)]
    ),
    # What cannot be equal.
    Excepted(
        r"DESCRIBE_LOG_DIRS v\d+ .*",
        r"results\[[^]]+\]\.usable_bytes",
        int_above_zero,
        int_above_zero,
        "both use one disk, whose free space changes all the time",
        together=alike(100 - SPACE_PERCENT, 100 + SPACE_PERCENT),
        bound=f"{SPACE_PERCENT} % difference at most",
    ),
    *(
        Excepted(
            r"DESCRIBE_LOG_DIRS v\d+ all( ones)?",
            rf"results\[\(either\)\]\.topics\[({_recompressed(build)[0]})\]\.partitions\[0\]\.partition_size",
            int_above_zero,
            int_above_zero,
            _BUILDS,
            together=alike(least, most, LOG_SLACK_BYTES),
            bound=f"Odradek's size of {build} is {least} to {most} % of JVM Kafka's, with some bytes of tolerance",
        )
        for build, (least, most) in BUILDS_PERCENT.items()
    ),
    *(
        Excepted(
            rf"FETCH v\d+ ({_recompressed(build)[1]})",
            _PAYLOAD,
            some_bytes,
            some_bytes,
            _BUILDS,
            together=alike(least, most, BATCH_SLACK_BYTES),
            bound=f"Odradek's size of {build} is {least} to {most} % of JVM Kafka's, with some bytes of tolerance",
        )
        for build, (least, most) in BUILDS_PERCENT.items()
    ),
)
