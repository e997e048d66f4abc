"""Differences between Odradek and JVM Kafka 4.3.1 that have been looked at and accepted, each with its reason.

A pattern covers as little as it can: the case, the place in the answer, and both values. What is not listed here fails the comparison.
"""

from __future__ import annotations

import re
from typing import Any

from interop.differential.compare import MISSING, Excepted
from interop.differential.peer import CLOSED, SILENT
from odradek.config.deviations import OWN_DEFAULTS

UNKNOWN_SERVER_ERROR = -1
INVALID_CONFIG = 40
INVALID_REQUEST = 42
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87

API_KEYS_TO_COME = (
    *(45, 46, 49, 51),
    *(76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92),
)
"""What JVM Kafka advertises and Odradek does not serve yet: security, quotas, share groups, streams groups, ..."""

FEATURES_TO_COME = ("eligible.leader.replicas.version", "share.version", "streams.version")


def anything(_: Any) -> bool:
    return True


def a_refusal(answer: Any) -> bool:
    """A produce response that refuses its only partition's records as INVALID_RECORD."""
    if not isinstance(answer, dict):
        return False
    (topic,) = answer["responses"].values()
    (partition,) = topic["partition_responses"].values()
    return bool(partition["error_code"] == INVALID_RECORD and partition["base_offset"] == -1)


def an_answer(answer: Any) -> bool:
    """Anything but a closed connection or silence."""
    return isinstance(answer, dict | bytes)


def one_of(*values: Any) -> Any:
    return lambda value: value in values


def default_of_elr(entry: Any) -> bool:
    """The entry for min.insync.replicas that JVM Kafka wrote when it formatted."""
    return isinstance(entry, dict) and (entry["name"], entry["value"], entry["config_source"]) == ("min.insync.replicas", "1", 3)


def synonyms(*sources: int) -> Any:
    """The synonyms of min.insync.replicas, all with the default value, from these sources."""
    return lambda found: [(s["name"], s["value"], s["source"]) for s in found] == [("min.insync.replicas", "1", s) for s in sources]


_ELR = (
    "JVM Kafka formats with eligible.leader.replicas.version=1, and then its controller writes min.insync.replicas=1 as a dynamic default "
    "of all brokers; Odradek does not serve that feature yet and so does not finalize it"
)
_UNSERVED = "a setting that needs what is not served yet (odradek.config.unserved) is refused, never accepted and ignored"
_CRASH = (
    "JVM Kafka trips over it (an exception that it did not foresee becomes UNKNOWN_SERVER_ERROR); we name what is wrong with the request"
)
_CODEC = "JVM Kafka trips over it (UNKNOWN_SERVER_ERROR); RELIABILITY asks for 76 for an unknown codec and 87 for framing that lies"
_STRICT_TAGS = "tags must ascend and their number must fit; JVM Kafka reads a negative number as none and keeps the last of two equal tags"

_PRODUCED = r"responses\[[^]]+\]\.partition_responses\[0\]\.error_code"
_KEYS = "|".join(map(str, API_KEYS_TO_COME))
_FEATURES = "|".join(name.replace(".", r"\.") for name in FEATURES_TO_COME)
_UNSERVED_CONFIG = r"CREATE_TOPICS v\d+ config 'follower\.replication\.throttled\.replicas' = '0:1'"
_ODD_TOPIC = r"topics\[create-more-\d-odd\]"
_MIN_ISR = r"configs\[min\.insync\.replicas\]"

EXCEPTIONS: tuple[Excepted, ...] = (
    # What is not there yet, and says so in ApiVersions.
    Excepted(r"API_VERSIONS .*", rf"api_keys\[({_KEYS})\]", MISSING, anything, "an API that is not served yet is not advertised"),
    Excepted(
        r"API_VERSIONS .*", rf"finalized_features\[({_FEATURES})\]", MISSING, anything, "a feature that is not served yet is not finalized"
    ),
    # The feature eligible.leader.replicas.version.
    Excepted(r"CREATE_TOPICS v\d+ .*", rf"topics\[[^]]+\]\.{_MIN_ISR}\.config_source", 5, 3, _ELR),
    Excepted(r"DESCRIBE_CONFIGS v\d+ .*", rf"results\[\d\]\.{_MIN_ISR}\.config_source", 5, 3, _ELR),
    Excepted(r"DESCRIBE_CONFIGS v\d+ .*", rf"results\[\d\]\.{_MIN_ISR}\.synonyms", synonyms(5), synonyms(3, 5), _ELR),
    Excepted(
        r"DESCRIBE_CONFIGS v\d+ (default broker|topics and brokers|after .*, all brokers)",
        rf"results\[[02]\]\.{_MIN_ISR}",
        MISSING,
        default_of_elr,
        _ELR,
    ),
    # Our own defaults: the table with their reasons is odradek.config.deviations.
    *(
        Excepted(
            r"DESCRIBE_CONFIGS v\d+ .*",
            rf"results\[0\]\.configs\[{re.escape(key)}\](\.synonyms\[[01]\])?\.value",
            own.default,
            own.kafka,
            f"our own default for {key}: {own.reason}",
        )
        for key, own in OWN_DEFAULTS.items()
    ),
    # Settings that would do nothing.
    Excepted(_UNSERVED_CONFIG, rf"{_ODD_TOPIC}\.error_code", INVALID_CONFIG, 0, _UNSERVED),
    Excepted(_UNSERVED_CONFIG, rf"{_ODD_TOPIC}\.error_message", "a text", None, _UNSERVED),
    Excepted(_UNSERVED_CONFIG, rf"{_ODD_TOPIC}\.topic_id", "zero", anything, _UNSERVED),
    Excepted(_UNSERVED_CONFIG, rf"{_ODD_TOPIC}\.(num_partitions|replication_factor)", -1, 1, _UNSERVED),
    Excepted(_UNSERVED_CONFIG, rf"{_ODD_TOPIC}\.configs\[[^]]+\]", MISSING, anything, _UNSERVED),
    *(
        Excepted(rf"(INCREMENTAL_)?ALTER_CONFIGS v\d+ ({case})", rf"responses\[0\]\.{field}", ours, theirs, why)
        for case, why in {
            "client metrics": "subscriptions of client metrics are not served yet and refused",
            r"broker '1?' (unknown key|topic key)": "Kafka keeps keys that it does not know for plugins; there are no plugins here",
            r"broker '1' ssl without a listener|broker '1?' io threads": _UNSERVED,
            r"broker '(\+1|01)' of another name( back)?": "kept by Kafka under a spelling that no broker reads; we refuse to ignore it",
        }.items()
        for field, ours, theirs in (("error_code", INVALID_REQUEST, one_of(0, INVALID_CONFIG)), ("error_message", "a text", None))
    ),
    # Where JVM Kafka fails without meaning to.
    Excepted(
        r"ALTER_CONFIGS v\d+ resource twice",
        r"",
        lambda answer: [entry["error_code"] for entry in answer["responses"]] == [INVALID_REQUEST] * 2,
        SILENT,
        "JVM Kafka never answers a resource that stands twice in exactly the same form; we refuse both",
    ),
    Excepted(r"PRODUCE v\d+ null records", r"", a_refusal, SILENT, "JVM Kafka never answers null records; we refuse them"),
    Excepted(r"PRODUCE v\d+ unknown compression", _PRODUCED, UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN_SERVER_ERROR, _CODEC),
    Excepted(
        r"PRODUCE v[56] unknown compression",
        r"responses\[[^]]+\]\.partition_responses\[0\]\.log_start_offset",
        0,
        -1,
        "as above: before version 7 JVM Kafka trips over the codec while it looks at the request, and refuses all of it",
    ),
    Excepted(r"PRODUCE v\d+ compression bits lie", _PRODUCED, INVALID_RECORD, UNKNOWN_SERVER_ERROR, _CODEC),
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
        an_answer,
        SILENT,
        "JVM Kafka answers with the last transaction's result and so never when there is none; we answer with none",
    ),
    Excepted(
        r"ADD_PARTITIONS_TO_TXN v[45] the same id twice",
        r"results_by_transaction\[[^]]+\]\.topic_results\[transactional\]\.results_by_partition\[[01]\]",
        anything,
        anything,
        "JVM Kafka takes the last entry's partitions for every entry with the id, and never looks at the others; we answer each",
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
        Excepted(rf"INIT_PRODUCER_ID v6 ({case})", path, ours, theirs, "JVM Kafka 4.3 keeps no prepared transaction yet (KIP-939); we do")
        for case, path, ours, theirs in (
            ("keeps what is prepared", "error_code", 0, 35),
            ("keeps what is prepared", "producer_id|producer_epoch", anything, anything),
            ("keeps and timeout .*", "error_code", 50, 35),
        )
    ),
    # Where we are stricter than JVM Kafka with bytes that no client sends (RELIABILITY, hostile input).
    Excepted(r"[A-Z_]+ v\d+ tagged (field twice|fields without end)", r"", CLOSED, an_answer, _STRICT_TAGS),
    Excepted(r"frame with header tags without end", r"", CLOSED, an_answer, _STRICT_TAGS),
    Excepted(r"METADATA v[0-3] a name that is not UTF-8", r"", CLOSED, an_answer, "JVM Kafka puts U+FFFD for bytes that are not UTF-8"),
    Excepted(
        r"ELECT_LEADERS v1 huge first length", r"", CLOSED, an_answer, "JVM Kafka takes any negative length for null; only -1 means that"
    ),
    Excepted(r"frame with client id length -2", r"", CLOSED, an_answer, "JVM Kafka takes any negative length for null; only -1 means that"),
    Excepted(r"PRODUCE v\d+ stamps append time, (zstd|uncompressed): negative, \w+", _PRODUCED, 32, -1, _CRASH),
    # What cannot be equal.
    Excepted(
        r"DESCRIBE_LOG_DIRS v1 all ones",
        r"results\[.*\]\.topics\[.*\].*",
        anything,
        anything,
        "the bytes of the case `all`, which compares what is listed wherever it lies: a hash map decides which of two directories that is",
    ),
    *(
        Excepted(
            r"DESCRIBE_LOG_DIRS v\d+ all",
            rf"results\[\(either\)\]\.topics\[({topic})\]\.partitions\[\d+\]\.partition_size",
            anything,
            anything,
            why,
        )
        for topic, why in {
            r"zstd|(compression|policy|sizes|stamps)-\d+-\d+": "recompressed by the broker: two builds of a codec write different bytes",
            r"produce-(9|1\d)|__consumer_offsets": "has more where JVM Kafka takes a request with tagged fields that we refuse (see there)",
            r"shortened-both-\d": "the cleaner takes the segments whose records were deleted when it comes by: every 15 s on either side",
        }.items()
    ),
    Excepted(
        r"FETCH v\d+ (compression|stamps|sizes|policy) [^:]*(gzip|snappy|lz4|zstd)[^:]*: what is stored",
        r"responses\[0\]\.partitions\[0\]\.records\.(bytes|batches\[\d+\]\.(crc|payload))",
        anything,
        anything,
        "recompressed by the broker: two builds of a codec write different bytes for the same records (which are compared)",
    ),
    Excepted(
        r"FETCH v\d+ a topic of zstd",
        r"responses\[0\]\.partitions\[0\]\.records\.(bytes|batches\[0\]\.(crc|payload))",
        anything,
        anything,
        "recompressed by the broker: two builds of zstd write different bytes for the same records (which are compared)",
    ),
)
