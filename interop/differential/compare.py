"""Turns answers into plain values, in which everything that differs by nature has a name that both sides share, and finds differences."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import crc32c

from interop.differential.peer import Peer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.schema import Struct
from odradek.records.batch import decode_batch, iter_headers

PRESENT_ONLY = {"error_message", "batch_index_error_message", "documentation"}
"""Fields with sentences for people: both sides must be null, both empty or both neither; the words may differ."""

BY_NATURE: dict[ApiKey, set[str]] = {
    # The metadata logs of two brokers grow differently.
    ApiKey.API_VERSIONS: {"finalized_features_epoch"},
    ApiKey.DESCRIBE_QUORUM: {"high_watermark", "log_end_offset", "leader_epoch"},
}
"""Numbers of an API that two brokers can't share; only their sign is compared."""

UNORDERED: dict[tuple[ApiKey, str], tuple[str, ...]] = {
    (ApiKey.METADATA, "topics"): ("name", "topic_id"),
    (ApiKey.PRODUCE, "responses"): ("name", "topic_id"),
    (ApiKey.PRODUCE, "partition_responses"): ("index",),
    (ApiKey.LIST_OFFSETS, "topics"): ("name",),
    (ApiKey.LIST_OFFSETS, "partitions"): ("partition_index",),
    (ApiKey.DELETE_RECORDS, "topics"): ("name",),
    (ApiKey.ELECT_LEADERS, "replica_election_results"): ("topic",),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "values"): ("key",),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "results"): ("user",),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "results"): ("user",),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "credential_infos"): ("mechanism",),
    (ApiKey.DELETE_RECORDS, "partitions"): ("partition_index",),
    (ApiKey.CREATE_TOPICS, "topics"): ("name",),
    (ApiKey.CREATE_TOPICS, "configs"): ("name",),
    (ApiKey.DELETE_TOPICS, "responses"): ("name", "topic_id"),
    (ApiKey.CREATE_PARTITIONS, "results"): ("name",),
    (ApiKey.DESCRIBE_CONFIGS, "configs"): ("name",),
    (ApiKey.DESCRIBE_CLUSTER, "brokers"): ("broker_id",),
    (ApiKey.LIST_CONFIG_RESOURCES, "config_resources"): ("resource_name",),
    (ApiKey.OFFSET_COMMIT, "topics"): ("name", "topic_id"),
    (ApiKey.OFFSET_FETCH, "topics"): ("name", "topic_id"),
    (ApiKey.OFFSET_FETCH, "partitions"): ("partition_index",),
    (ApiKey.OFFSET_DELETE, "topics"): ("name",),
    (ApiKey.OFFSET_DELETE, "partitions"): ("partition_index",),
    (ApiKey.LIST_GROUPS, "groups"): ("group_id",),
    (ApiKey.DELETE_GROUPS, "results"): ("group_id",),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "topic_partitions"): ("topic_id",),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "members"): ("member_id",),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "topic_partitions"): ("topic_name",),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_topic_v3_and_below"): ("name",),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_transaction"): ("transactional_id",),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "topic_results"): ("name",),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_partition"): ("partition_index",),
    (ApiKey.WRITE_TXN_MARKERS, "markers"): ("producer_id",),
    (ApiKey.WRITE_TXN_MARKERS, "topics"): ("name",),
    (ApiKey.WRITE_TXN_MARKERS, "partitions"): ("partition_index",),
    (ApiKey.TXN_OFFSET_COMMIT, "topics"): ("name",),
    (ApiKey.DESCRIBE_PRODUCERS, "active_producers"): ("producer_id",),
    (ApiKey.DESCRIBE_TRANSACTIONS, "topics"): ("topic",),
    (ApiKey.LIST_TRANSACTIONS, "transaction_states"): ("transactional_id",),
    (ApiKey.API_VERSIONS, "api_keys"): ("api_key",),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "results"): ("topic_name",),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "partitions"): ("partition_index",),
    (ApiKey.DESCRIBE_LOG_DIRS, "results"): ("log_dir",),
    (ApiKey.DESCRIBE_LOG_DIRS, "topics"): ("name",),
    (ApiKey.DESCRIBE_LOG_DIRS, "partitions"): ("partition_index",),
    (ApiKey.API_VERSIONS, "supported_features"): ("name",),
    (ApiKey.API_VERSIONS, "finalized_features"): ("name",),
}
"""Lists whose order Kafka leaves to a hash map or a set, and the fields that identify an entry. All others are compared in order."""

MOMENTS = {
    "log_append_time_ms",
    "transaction_start_time_ms",
    "last_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
}
"""Times: those of the last ten minutes are "now" on either side, all others are compared exactly."""

MOMENT_MS, CLOCK_MS = 600_000, 1_000

FIRST_CHOSEN_PRODUCER = 4_000_000
"""Producer ids from here on were made up by the cases and are the same on both sides."""


class Difference(NamedTuple):
    """Where two answers part: a path such as `topics[plain].error_code`, and the two values."""

    path: str
    ours: Any
    theirs: Any


MISSING = "(not there)"


class Named(dict[str, Any]):
    """The entries of a list whose order means nothing, by name."""


class Plain:
    """Makes answers to one API plain; ids, ports and folders of `peer` become names that both sides share."""

    def __init__(self, peer: Peer, api_key: ApiKey | None) -> None:
        self.peer = peer
        self.api_key = api_key
        self.by_nature: set[str] = set() if api_key is None else BY_NATURE.get(api_key, set())

    def value(self, value: Any, field: str = "") -> Any:
        if isinstance(value, UUID):
            return self.peer.names.get(value, "an unknown id")
        if field in PRESENT_ONLY:
            return "a text" if value else value
        if field in self.by_nature:
            return "negative" if value < 0 else "some"
        if field == "port":
            return self.peer.spellings.get(str(value), value)
        if field in MOMENTS:
            return moment(value)
        if field == "session_id":
            return "some" if value else 0
        if field == "producer_id":
            return self.producer(value)
        if field == "broker_epoch":
            return self.peer.names.get(("broker epoch", value), value)
        if field == "records" and value is not None:
            return self.records(value)
        if isinstance(value, memoryview):
            return bytes(value)
        if isinstance(value, str):
            return self.peer.spelled(value)
        if isinstance(value, list):
            return self.entries(value, field)
        if isinstance(value, Struct):
            return {member.name: self.value(getattr(value, member.name), member.name) for member in type(value).FIELDS}
        return value

    def producer(self, producer_id: int) -> Any:
        return self.peer.names.get(("producer", producer_id), "some") if 0 <= producer_id < FIRST_CHOSEN_PRODUCER else producer_id

    def records(self, data: Any) -> Any:
        """Record batches by their header fields, the payload by its bytes and by its records.

        Times that the broker took from its clock are "now". The checksum is only "right" or "wrong": all that it covers is compared.
        """
        buffer = memoryview(bytes(data))
        batches = []
        end = 0
        for position, header in iter_headers(buffer):
            end = position + header.size
            own_clock = bool(header.attributes & 8) or header.is_control
            time_of = moment if own_clock else int
            legacy = header.magic < 2
            fields = {
                "base_offset": header.base_offset,
                "epoch": header.partition_leader_epoch,
                "magic": header.magic,
                "attributes": header.attributes,
                "crc": header.crc if legacy else "right" if header.crc == crc32c.crc32c(buffer[position + 21 : end]) else "wrong",
                "base_timestamp": time_of(header.base_timestamp),
                "max_timestamp": time_of(header.max_timestamp),
                "last_offset_delta": header.last_offset_delta,
                "producer_id": self.producer(header.producer_id),
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "payload": bytes(buffer[position + 57 : end]),
            }
            content = [record._asdict() for record in decode_batch(buffer, position, header)]
            for record in content:
                record["timestamp"] = time_of(record["timestamp"])
                record["headers"] = [list(each) for each in record["headers"]]
            batches.append({**fields, "content": content})
        return {"batches": batches, "rest": len(buffer) - end}

    def entries(self, items: list[Any], field: str) -> Any:
        """A list, or a dict of its entries by name where the order means nothing."""
        plain = [self.value(item) for item in items]
        keys = UNORDERED.get((self.api_key, field)) if self.api_key is not None else None
        if keys is None:
            return plain
        named = Named()
        for item in plain:
            label = next((str(item[key]) for key in keys if item.get(key) not in (None, "", "zero")), "")
            while label in named:
                label += " again"
            named[label] = item
        return named


def moment(value: int) -> Any:
    """ "now" for a time that the broker may have taken from its clock."""
    return "now" if 0 <= time.time() * 1000 - value + CLOCK_MS < MOMENT_MS else value


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            inner = f"{path}[{key}]" if isinstance(ours, Named) else f"{path}.{key}" if path else key
            yield from differences(ours.get(key, MISSING), theirs.get(key, MISSING), inner)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{index}]")
    elif ours != theirs or type(ours) is not type(theirs):
        yield Difference(path, ours, theirs)


class Excepted(NamedTuple):
    """A difference that has been looked at and accepted: patterns for the case and the path (matched whole), the values, and why.

    `ours` and `theirs` are values that must be equal to those found, or functions that accept or refuse them. `together` judges both where
    one is bounded by the other, and `bound` says how in words. `elsewhere` names the setting without which the difference does not occur.
    """

    case: str
    path: str
    ours: Any
    theirs: Any
    why: str
    together: Callable[[Any, Any], bool] | None = None
    bound: str = ""
    elsewhere: str = ""

    def covers(self, case: str, difference: Difference) -> bool:
        return (
            re.fullmatch(self.case, case) is not None
            and re.fullmatch(self.path, difference.path) is not None
            and _fits(self.ours, difference.ours)
            and _fits(self.theirs, difference.theirs)
            and (self.together is None or self.together(difference.ours, difference.theirs))
        )


def which(exceptions: Sequence[Excepted], case: str, difference: Difference) -> int | None:
    """The index of the first exception that covers the difference."""
    return next((index for index, entry in enumerate(exceptions) if entry.covers(case, difference)), None)


def _fits(wanted: Any, value: Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    return (type(wanted) is type(value) or isinstance(wanted, dict)) and bool(wanted == value)
