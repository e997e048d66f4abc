"""Requests that change configuration or delete records, and what the brokers say of themselves afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.batches import batch
from interop.differential.case import Case
from interop.differential.peer import Peer
from interop.waiting import until
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.delete_records import DeleteRecordsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.produce import ProduceRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

_MARKER = "marker"
_marks = itertools.count(1_000_000)

UNUSABLE_NAMES = ("", ".", "..", "with space", "sl/ash", "x" * 250)


def settled(peer: Peer) -> None:
    """Waits until the broker has applied all changes so far: a mark set last, on a topic of its own, follows them in the metadata log."""
    if _MARKER not in peer.topic_ids:
        peer.create_topic(_MARKER)
    mark = str(next(_marks))
    peer.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, incremental(resource(TOPIC, _MARKER, ("segment.ms", SET, mark))))
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name=_MARKER, configuration_keys=["segment.ms"])
    request = DescribeConfigsRequest(resources=[wanted])

    def followed() -> bool:
        return peer.call(ApiKey.DESCRIBE_CONFIGS, 4, request).results[0].configs[0].value == mark

    until(followed, f"{peer.name} to follow its metadata", 20)


def resource(kind: int, name: str, *operations: tuple[str, int, str | None]) -> Any:
    """What is to be done to one resource: (key, operation, value)."""
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )


def incremental(*resources: Any, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)


def described(label: str, kind: int, name: str, *keys: str) -> Case:
    """What DescribeConfigs says after the changes have arrived."""
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    return Case(ApiKey.DESCRIBE_CONFIGS, 4, f"after {label}", lambda _: request, before=settled)


FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


def incremental_alter_configs(version: int) -> Iterator[Case]:
    topic = f"altered-{version}"

    def case(name: str, *resources: Any, before: Callable[[Peer], None] | None = None, validate_only: bool = False) -> Case:
        request = incremental(*resources, validate_only=validate_only)
        return Case(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, name, lambda _: request, before=before)

    def on_topic(name: str, *operations: tuple[str, int, str | None], **options: Any) -> Case:
        return case(name, resource(TOPIC, topic, *operations), **options)

    def created(peer: Peer) -> None:
        peer.create_topic(topic, 1, {"retention.ms": "86400000"})

    yield on_topic("set", ("retention.ms", SET, "100000"), before=created)
    yield described(f"set v{version}", TOPIC, topic)
    yield on_topic("set again", ("retention.ms", SET, "100000"))
    yield on_topic("only validated", ("retention.ms", SET, "5"), validate_only=True)
    yield on_topic("only validated, bad", ("retention.ms", SET, "soon"), validate_only=True)
    yield on_topic("append", ("cleanup.policy", APPEND, "compact"))
    yield described(f"append v{version}", TOPIC, topic, "cleanup.policy", "retention.ms")
    yield on_topic("append what is there", ("cleanup.policy", APPEND, "compact"))
    yield on_topic("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    yield described(f"subtract v{version}", TOPIC, topic, "cleanup.policy")
    yield on_topic("subtract the last", ("cleanup.policy", SUBTRACT, "compact"))
    yield described(f"subtracting the last v{version}", TOPIC, topic, "cleanup.policy")
    yield on_topic("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
    yield on_topic("append two", ("cleanup.policy", APPEND, "delete,compact"))
    yield on_topic("append nonsense", ("cleanup.policy", APPEND, "burn"))
    yield on_topic("append to no list", ("retention.ms", APPEND, "5"))
    yield on_topic("subtract from no list", ("retention.ms", SUBTRACT, "5"))
    yield on_topic("append to no key", ("no.such.key", APPEND, "5"))
    yield on_topic("delete", ("retention.ms", DELETE, None))
    yield on_topic("delete with a value", ("retention.ms", DELETE, "7"))
    yield on_topic("delete what is not set", ("segment.ms", DELETE, None))
    yield on_topic("delete no key", ("no.such.key", DELETE, None))
    yield described(f"delete v{version}", TOPIC, topic)
    yield on_topic("several", ("retention.ms", SET, "9"), ("cleanup.policy", DELETE, None), ("segment.bytes", SET, "1048576"))
    yield on_topic("one of several is bad", ("retention.ms", SET, "11"), ("segment.bytes", SET, "12"))
    yield described(f"several v{version}", TOPIC, topic)
    for value in (None, "", " 7 ", "-2", "9223372036854775808"):
        yield on_topic(f"retention.ms {value!r}", ("retention.ms", SET, value))
    yield on_topic("append null", ("cleanup.policy", APPEND, None))
    yield on_topic("key twice", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    yield on_topic("key twice in two ways", ("retention.ms", SET, "5"), ("retention.ms", DELETE, None))
    yield on_topic("unknown key", ("no.such.key", SET, "1"))
    yield on_topic("broker key", ("log.retention.ms", SET, "1"))
    yield on_topic("lags contradict", ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5"))
    yield on_topic("local retention", ("local.retention.ms", SET, "-1"))
    yield on_topic("throttled", ("leader.replication.throttled.replicas", SET, "nonsense"))
    yield on_topic("nothing")
    yield case("no resources")
    yield case("unknown topic", resource(TOPIC, "unknown", ("retention.ms", SET, "5")))
    yield case("unknown topic, bad value", resource(TOPIC, "unknown", ("retention.ms", SET, "soon")))
    yield case("unknown topic, nothing", resource(TOPIC, "unknown"))
    for number, name in enumerate(UNUSABLE_NAMES):
        yield case(f"unusable name {number}", resource(TOPIC, name, ("retention.ms", SET, "5")))
    once = resource(TOPIC, topic, ("retention.ms", SET, "5"))
    yield case("resource twice", once, resource(TOPIC, topic, ("segment.ms", SET, "5")))
    yield case("resource twice and another", once, resource(TOPIC, "unknown", ("segment.ms", SET, "5")), once)
    yield case("good and bad", resource(TOPIC, topic, ("retention.ms", SET, "13")), resource(TOPIC, "unknown", ("retention.ms", SET, "5")))
    yield described(f"good and bad v{version}", TOPIC, topic, "retention.ms")
    for kind in (0, 1, 3, 64, -1, 127):
        yield case(f"resource type {kind}", resource(kind, "1", ("retention.ms", SET, "5")))
    yield case("group", resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")), validate_only=True)
    yield case("no group", resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")))
    yield case("client metrics", resource(CLIENT_METRICS, "m", ("interval.ms", SET, "5000")), validate_only=True)
    yield from subscriptions(case)
    yield from broker_changes(version, case)
    yield from logger_changes(version, case)


def subscriptions(case: Callable[..., Case]) -> Iterator[Case]:
    """Of client metrics: what a subscription may be."""
    for number, (key, value) in enumerate(
        (
            ("interval.ms", "99"),
            ("interval.ms", "100"),
            ("interval.ms", "3600000"),
            ("interval.ms", "3600001"),
            ("interval.ms", "soon"),
            ("interval.ms", ""),
            ("match", "client_id=a.*,client_source_port=9"),
            ("match", "client_id"),
            ("match", "colour=red"),
            ("match", "client_id=("),
            ("match", "client_id=a=b"),
            ("match", ""),
            ("metrics", "*"),
            ("metrics", "a,b"),
            ("metrics", ""),
            ("retention.ms", "5"),
        )
    ):
        yield case(f"subscription {number}", resource(CLIENT_METRICS, "m", (key, SET, value)), validate_only=True)
    yield case("subscription without a name", resource(CLIENT_METRICS, "", ("interval.ms", SET, "5000")))
    yield case("a key of no subscription is taken away", resource(CLIENT_METRICS, "m", ("interval.ms", DELETE, None)))
    yield case("metrics are added", resource(CLIENT_METRICS, "m", ("metrics", APPEND, "a")), validate_only=True)
    yield case("an interval is added", resource(CLIENT_METRICS, "m", ("interval.ms", APPEND, "5000")), validate_only=True)


def broker_changes(version: int, case: Callable[..., Case]) -> Iterator[Case]:
    """Keys of one broker and of all; what was set is taken away again."""
    described_keys = ("log.retention.ms", "log.retention.hours", "message.max.bytes", "log.cleanup.policy", "log.segment.bytes")

    def on(name: str, broker: str, *operations: tuple[str, int, str | None], **options: Any) -> Case:
        return case(f"broker '{broker}' {name}", resource(BROKER, broker, *operations), **options)

    for broker, value in (("", "100000000"), ("1", "200000000")):
        yield on("set", broker, ("log.retention.ms", SET, value), ("log.segment.bytes", SET, value))
        yield described(f"set '{broker}' v{version}", BROKER, "1", *described_keys)
        yield described(f"set '{broker}' v{version}, all brokers", BROKER, "")
        yield described(f"set '{broker}' v{version}, a topic", TOPIC, "plain", "retention.ms", "segment.bytes")
        yield on("append", broker, ("log.cleanup.policy", APPEND, "compact"))
        yield on("subtract", broker, ("log.cleanup.policy", SUBTRACT, "compact"))
        yield described(f"lists '{broker}' v{version}", BROKER, "1", *described_keys)
        yield on("only validated", broker, ("log.retention.ms", SET, "7"), validate_only=True)
        yield on("append to no list", broker, ("log.retention.ms", APPEND, "7"))
        yield on("append to no key", broker, ("no.such.key", APPEND, "7"))
        yield on("delete what is not set", broker, ("message.max.bytes", DELETE, None))
        yield on("bad value", broker, ("log.retention.ms", SET, "soon"))
        yield on("zero retention", broker, ("log.retention.ms", SET, "0"))
        yield on("negative size", broker, ("message.max.bytes", SET, "-1"))
        yield on("unknown key", broker, ("no.such.key", SET, "1"), validate_only=True)
        yield on("unknown key deleted", broker, ("no.such.key", DELETE, None))
        yield on("topic key", broker, ("retention.ms", SET, "100000"), validate_only=True)
        for key, text in {"log.retention.hours": "5", "node.id": "7", "auto.create.topics.enable": "false", "num.partitions": "3"}.items():
            yield on(f"read-only {key}", broker, (key, SET, text))
        yield on("read-only key deleted", broker, ("num.partitions", DELETE, None))
        yield on("a good and a read-only key", broker, ("message.max.bytes", SET, "5000000"), ("num.partitions", SET, "3"))
        yield on("null", broker, ("log.retention.ms", SET, None))
        yield on("key twice", broker, ("log.retention.ms", SET, "6"), ("log.retention.ms", SET, "7"))
        yield on("operation 7", broker, ("log.retention.ms", 7, "7"))
        # With eligible leader replicas all brokers have one min.insync.replicas, and the cluster always has it.
        yield on("min isr", broker, ("min.insync.replicas", SET, "2"))
        yield on("min isr, good and bad", broker, ("log.retention.ms", SET, value), ("min.insync.replicas", DELETE, None))
        yield on("min isr only validated", broker, ("min.insync.replicas", SET, "3"), validate_only=True)
        yield described(f"min isr '{broker}' v{version}", BROKER, "1", "min.insync.replicas", "log.retention.ms")
        yield on("min isr back", broker, ("min.insync.replicas", SET, "1"))
        yield on("ssl without a listener", broker, ("ssl.protocol", SET, "TLSv1.3"), validate_only=True)
        yield on("listeners", broker, ("listeners", SET, "PLAINTEXT://127.0.0.1:1"))
        yield on("connections per ip zero", broker, ("max.connections.per.ip", SET, "0"))
        yield on("connections", broker, ("max.connections", SET, "1000"), ("max.connections.per.ip", SET, "999"))
        yield on("connections back", broker, ("max.connections", DELETE, None), ("max.connections.per.ip", DELETE, None))
        yield on("too many threads", broker, ("background.threads", SET, "1000"))
        yield on("no threads", broker, ("background.threads", SET, "0"))
        yield on("more threads", broker, ("background.threads", SET, "12"))
        yield on("threads back", broker, ("background.threads", DELETE, None))
        yield on("io threads", broker, ("num.io.threads", SET, "9"), validate_only=True)
        for key, text in {
            "ssl.client.auth": "requested",
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.keystore.location": "/nowhere",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
            "listener.name.plaintext.max.connections": "many",
        }.items():
            yield on(f"of listeners: {key}", broker, (key, SET, text), validate_only=True)
        limit, provider = "listener.name.plaintext.max.connections", "config.providers.file.class"
        yield on("limit of a listener", broker, (limit, SET, "500"))
        yield on("no connections to a listener", broker, (limit, SET, "0"))
        yield on("limit of a listener back", broker, (limit, DELETE, None))
        yield on("a provider", broker, ("config.providers", SET, "file"), (provider, SET, FILE_PROVIDER))
        yield described(f"a provider '{broker}' v{version}", BROKER, "1", "config.providers", provider)
        yield on("a reference for a number", broker, ("log.retention.ms", SET, "${env:HOME}"))
        yield on("no provider", broker, ("config.providers", DELETE, None), (provider, DELETE, None))
    yield described(f"everything v{version}", BROKER, "1")
    back: tuple[tuple[str, int, str | None], ...] = (
        ("log.retention.ms", DELETE, None),
        ("log.segment.bytes", DELETE, None),
        ("log.cleanup.policy", DELETE, None),
    )
    yield case("both at once", resource(BROKER, "", *back), resource(BROKER, "1", *back), resource(TOPIC, "plain"))
    yield described(f"taking it back v{version}", BROKER, "1")
    yield described(f"taking it back v{version}, all brokers", BROKER, "")
    for name in ("7", "-1", "one", "01", "+1", "99999999999"):
        yield on("of another name", name, ("log.retention.ms", SET, "86400000"))
        yield on("of another name back", name, ("log.retention.ms", DELETE, None))


def logger_changes(version: int, case: Callable[..., Case]) -> Iterator[Case]:
    """Log levels; the only logger that both brokers have is the root."""

    def on(name: str, *operations: tuple[str, int, str | None], broker: str = "1", **options: Any) -> Case:
        return case(f"logger {name}", resource(BROKER_LOGGER, broker, *operations), **options)

    yield on("set", ("root", SET, "WARN"))
    yield described(f"setting a logger v{version}", BROKER_LOGGER, "1", "root")
    yield on("only validated", ("root", SET, "ERROR"), validate_only=True)
    yield on("set back", ("root", SET, "INFO"))
    yield described(f"setting a logger back v{version}", BROKER_LOGGER, "1", "root")
    yield on("deleted", ("root", DELETE, None))
    yield on("appended", ("root", APPEND, "INFO"))
    yield on("subtracted", ("root", SUBTRACT, "INFO"))
    for level in ("info", "LOUD", "", "OFF", "ALL", None):
        yield on(f"set to {level!r}", ("root", SET, level))
    yield on("unknown", ("no.such.logger", SET, "INFO"))
    yield on("unknown deleted", ("no.such.logger", DELETE, None))
    yield on("operation 7", ("root", 7, "INFO"))
    yield on("nothing")
    for broker in ("7", "", "one"):
        yield on(f"of broker '{broker}'", ("root", SET, "INFO"), broker=broker)


def alter_configs(version: int) -> Iterator[Case]:
    topic = f"replaced-{version}"

    def whole(kind: int, name: str, configs: list[tuple[str, str | None]]) -> Any:
        return AlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs],
        )

    def case(name: str, *resources: Any, validate_only: bool = False, **options: Any) -> Case:
        request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return Case(ApiKey.ALTER_CONFIGS, version, name, lambda _: request, **options)

    def created(peer: Peer) -> None:
        peer.create_topic(topic, 1, {"retention.ms": "86400000", "segment.ms": "1000000"})

    yield case("replace", whole(TOPIC, topic, [("retention.ms", "100000")]), before=created)
    yield described(f"replace v{version}", TOPIC, topic)
    yield case("only validated", whole(TOPIC, topic, [("segment.ms", "5")]), validate_only=True)
    yield case("bad value", whole(TOPIC, topic, [("retention.ms", "soon")]))
    yield case("unknown key", whole(TOPIC, topic, [("no.such.key", "1")]))
    yield case("null", whole(TOPIC, topic, [("retention.ms", None)]))
    yield case("key twice", whole(TOPIC, topic, [("retention.ms", "1"), ("retention.ms", "2")]))
    yield case("nothing", whole(TOPIC, topic, []))
    yield described(f"nothing v{version}", TOPIC, topic)
    yield case("no resources")
    yield case("unknown topic", whole(TOPIC, "unknown", [("retention.ms", "5")]))
    yield case("resource twice", whole(TOPIC, topic, []), whole(TOPIC, topic, []), patience=1.0)
    for number, name in enumerate(UNUSABLE_NAMES):
        yield case(f"unusable name {number}", whole(TOPIC, name, [("retention.ms", "5")]))
    for kind in (0, 1, BROKER_LOGGER, 64, -1):
        yield case(f"resource type {kind}", whole(kind, "1", [("retention.ms", "5")]))
    # min.insync.replicas must stay with all brokers where eligible leader replicas are on.
    kept: tuple[tuple[str, str | None], ...] = (("min.insync.replicas", "1"),)
    for broker, also in (("1", ()), ("", kept)):
        both = [("log.retention.ms", "100000000"), ("message.max.bytes", "2000000"), *also]
        yield case(f"broker '{broker}'", whole(BROKER, broker, both))
        yield described(f"broker '{broker}' v{version}", BROKER, "1", "log.retention.ms", "message.max.bytes", "min.insync.replicas")
        yield case(f"broker '{broker}' replaced", whole(BROKER, broker, [("message.max.bytes", "3000000"), *also]))
        yield described(f"replacing '{broker}' v{version}", BROKER, "1", "log.retention.ms", "message.max.bytes")
        yield case(f"broker '{broker}' read-only", whole(BROKER, broker, [("num.partitions", "3")]))
        yield case(f"broker '{broker}' unknown key", whole(BROKER, broker, [("no.such.key", "3"), *also]), validate_only=True)
        yield case(f"broker '{broker}' bad value", whole(BROKER, broker, [("message.max.bytes", "many")]))
        yield case(f"broker '{broker}' null", whole(BROKER, broker, [("message.max.bytes", None)]))
    yield case("brokers back", whole(BROKER, "1", []), whole(BROKER, "", [*kept]))
    yield described(f"brokers back v{version}", BROKER, "1")
    yield case("other broker", whole(BROKER, "7", []))


def delete_records(version: int) -> Iterator[Case]:
    topic_of, partition_of = DeleteRecordsRequest.DeleteRecordsTopic, DeleteRecordsRequest.DeleteRecordsPartition
    topic, compact, both = (f"{kind}-{version}" for kind in ("shortened", "shortened-compact", "shortened-both"))

    def case(
        name: str, wanted: dict[str, list[tuple[int, int]]], before: Callable[[Peer], None] | None = None, timeout_ms: int = 10_000
    ) -> Case:
        request = DeleteRecordsRequest(
            topics=[
                topic_of(name=each, partitions=[partition_of(partition_index=index, offset=offset) for index, offset in partitions])
                for each, partitions in wanted.items()
            ],
            timeout_ms=timeout_ms,
        )
        return Case(ApiKey.DELETE_RECORDS, version, name, lambda _: request, before=before)

    def fill(peer: Peer) -> None:
        peer.create_topic(topic, 3)
        peer.create_topic(compact, 1, {"cleanup.policy": "compact"})
        # The records are old, the cases for brokers set log.retention.ms for a while, and the cleaner applies it every 15 s.
        peer.create_topic(both, 1, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})
        for name, partition in ((topic, 0), (topic, 1), (compact, 0), (both, 0)):
            for _ in range(3):
                data = ProduceRequest.PartitionProduceData(index=partition, records=batch(4))
                topic_data = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
                peer.call(ApiKey.PRODUCE, 12, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic_data]))

    def starts(label: str) -> Case:
        wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-2) for index in range(3)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)])
        return Case(ApiKey.LIST_OFFSETS, 7, f"log starts after DeleteRecords v{version} {label}", lambda _: request)

    yield case("inside of a batch", {topic: [(0, 5)]}, before=fill)
    yield starts("inside of a batch")
    for offset in (5, 3, 0, 12, 13, -2, 2**62):
        yield case(f"to {offset}", {topic: [(0, offset)]})
    yield starts("to the end")
    yield case("to the high watermark", {topic: [(1, -1)]})
    yield case("to the high watermark again", {topic: [(1, -1)]})
    yield case("empty partition", {topic: [(2, 0)]})
    yield case("empty partition to its end", {topic: [(2, -1)]})
    yield case("empty partition beyond its end", {topic: [(2, 1)]})
    yield case("compacted topic", {compact: [(0, 1)]})
    yield case("compacted topic, bad offset", {compact: [(0, 100)]})
    yield case("compacted and deleted topic", {both: [(0, 1)]})
    yield case("unknown partition", {topic: [(7, 0), (-1, 0)]})
    yield case("unknown topic", {"unknown": [(0, 0)]})
    yield case("unusable name", {"": [(0, 0)], "with space": [(0, 1)]})
    yield case("metadata topic", {"__cluster_metadata": [(0, 0)]})
    yield case("good and bad", {topic: [(0, 12), (1, 100), (5, 1)], "unknown": [(0, 1)], both: [(0, 2)]})
    yield case("the same partition twice", {topic: [(2, 1), (2, 0)]})
    yield case("no partitions", {topic: []})
    yield case("nothing", {})
    yield case("no time", {both: [(0, 3)]}, timeout_ms=0)
    yield case("negative time", {both: [(0, 4)]}, timeout_ms=-1)
    yield starts("and all that followed")


CONFIGURATION_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
}
