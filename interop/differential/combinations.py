"""Requests that name several topics and partitions at once, and records that lie in compressed batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from interop.differential import topic_rules
from interop.differential.batches import NOW, batch, variants
from interop.differential.case import Case
from interop.differential.cases import NOBODY, fetch_request, produce_request, topic_id
from interop.differential.peer import Peer
from interop.differential.transaction_logs import produce_transactionally
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.records.compression import Compression

STEP = 100
"""Milliseconds between the batches of `packed`; the records of one are 1 ms apart."""

RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP = 8, 16, 32


def fill_more(peer: Peer) -> None:
    """`packed` holds a batch of each compression, `zstd` recompresses, `wide` has four partitions of one to four batches."""
    peer.create_topic("packed")
    peer.create_topic("zstd", 1, {"compression.type": "zstd"})
    peer.create_topic("wide", 4)
    for number, codec in enumerate(Compression):
        data = batch(5, timestamp=NOW + number * STEP, compression=codec)
        _produced(peer, produce_request(peer, 12, "packed", data))
    # The largest timestamp lies in the middle of the log.
    _produced(peer, produce_request(peer, 12, "packed", batch(2, timestamp=NOW + STEP, compression=Compression.GZIP)))
    _produced(peer, produce_request(peer, 12, "zstd", batch(3)))
    for partition in range(4):
        for _ in range(partition + 1):
            _produced(peer, produce_request(peer, 12, "wide", batch(3), partition=partition))


def _produced(peer: Peer, request: ProduceRequest) -> None:
    answer = peer.call(ApiKey.PRODUCE, 12, request)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def produce(version: int) -> Iterator[Case]:
    one, two = f"several-a-{version}", f"several-b-{version}"

    def prepare(peer: Peer) -> None:
        peer.create_topic(one, 3)
        peer.create_topic(two, 2, {"message.timestamp.type": "LogAppendTime"})

    def case(name: str, *wanted: tuple[str, dict[int, bytes | None]], before: Callable[[Peer], None] | None = None, acks: int = -1) -> Case:
        def build(peer: Peer) -> ProduceRequest:
            request = ProduceRequest(acks=acks, timeout_ms=5_000)
            for topic, partitions in wanted:
                named = {"topic_id": topic_id(peer, topic)} if version >= 13 else {"name": topic}
                data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index, records in partitions.items()]
                request.topic_data.append(ProduceRequest.TopicProduceData(partition_data=data, **named))
            return request

        return Case(ApiKey.PRODUCE, version, name, build, before=before)

    good, bad = batch(2), variants()["wrong crc"]
    twice = batch(2, producer_id=5_000_000 + version, producer_epoch=0, base_sequence=0)
    yield case("two topics, five partitions", (one, {0: good, 1: good, 2: good}), (two, {0: good, 1: good}), before=prepare)
    yield case("one partition of three bad", (one, {2: good, 1: bad, 0: good}))
    yield case("one partition of three unknown", (one, {2: good, 9: good, 0: good}))
    yield case("one topic of three unknown", (two, {0: good}), ("unknown", {0: good}), (one, {1: good}))
    yield case("the same topic twice", (one, {0: good}), (one, {1: good}))
    yield case("the same partition twice", (one, {0: good}), (one, {0: batch(1)}))
    yield case("no partitions", (one, {}))
    yield case("acks 1, all bad", (one, {0: bad, 1: bad}), acks=1)
    yield case("first of a sequence, log append time", (two, {0: twice}))
    yield case("again, log append time", (two, {0: twice}))
    yield case("one duplicate, one new", (one, {0: twice}), (two, {0: twice}))
    everything = {one: {0: 0, 1: 0, 2: 0}, two: {0: 0, 1: 0}}
    yield Case(ApiKey.FETCH, 12, f"what several Produces v{version} left", lambda peer: fetch_request(peer, 12, everything))
    yield from produce_transactionally(version)
    yield from topic_rules.produce(version)


def fetch(version: int) -> Iterator[Case]:
    def case(name: str, topics: dict[str, dict[int, int]], after: Callable[[Peer, Any], None] | None = None, **options: Any) -> Case:
        return Case(ApiKey.FETCH, version, name, lambda peer: fetch_request(peer, version, topics, **options), after=after)

    one = len(batch(3))
    wide = {"wide": {3: 0, 0: 0, 2: 0, 1: 0}}
    several = {"three": {1: 0, 0: 0}, "filled": {0: 3}, **wide, "packed": {0: 0}}
    yield case("several topics", several)
    for limit in (one - 1, one, one + 1, 2 * one, 3 * one, 5 * one, 5 * one + 7):
        yield case(f"several topics in {limit} bytes", several, max_bytes=limit)
        yield case(f"four partitions in {limit} bytes", wide, max_bytes=limit)
        yield case(f"four partitions, {limit} bytes each", wide, p_partition_max_bytes=limit)
        yield case(f"from the middle in {limit} bytes", {"filled": {0: 4}, "wide": {3: 2}}, p_partition_max_bytes=limit)
    yield case("compressed", {"packed": {0: 0}})
    for offset in (1, 5, 7, 14, 24, 25, 26):
        yield case(f"compressed from {offset}", {"packed": {0: offset}})
    yield case("a topic of zstd", {"zstd": {0: 0}, "filled": {0: 0}})
    yield case("partition twice", {"filled": {0: 0, 1: 0}})
    yield case("out of range among others", {"wide": {0: 0, 1: 99, 2: 0}})
    yield case("out of range, long wait", {"filled": {0: 99}}, max_wait_ms=5_000, min_bytes=1)
    yield case("unknown, long wait", {"unknown": {0: 0}}, max_wait_ms=5_000, min_bytes=1)
    yield case("more than there is", wide, max_wait_ms=100, min_bytes=1_000_000)
    yield case("exactly what there is", wide, max_wait_ms=5_000, min_bytes=10 * one)
    yield case("isolation level 5, several", several, isolation_level=5)
    for replica in (-2, 5):
        as_replica = {"replica_id": replica} if version < 15 else {"replica_state": FetchRequest.ReplicaState(replica_id=replica)}
        yield case(f"replica {replica}", {"filled": {0: 0}}, **as_replica)
    if version >= 11:
        yield case("from a rack", {"filled": {0: 0}}, rack_id="here")
    if version >= 9:
        yield case("epochs, right and wrong", wide, p_current_leader_epoch=4)
    if version >= 7:
        yield from fetch_session(version, wide, one)


def fetch_session(version: int, wide: dict[str, dict[int, int]], one: int) -> Iterator[Case]:
    """A session whose answers are limited, so that partitions take turns."""

    def remember(peer: Peer, answer: Any) -> None:
        peer.session_id = answer.session_id

    def within(name: str, epoch: int, topics: dict[str, dict[int, int]], **options: Any) -> Case:
        def build(peer: Peer) -> FetchRequest:
            return fetch_request(peer, version, topics, session_id=peer.session_id if epoch else 0, session_epoch=epoch, **options)

        return Case(ApiKey.FETCH, version, f"limited session, {name}", build, after=None if epoch else remember)

    yield within("full", 0, {**wide, "filled": {0: 0}}, max_bytes=one)
    for epoch in range(1, 6):
        yield within(f"turn {epoch}", epoch, {}, max_bytes=one)
    yield within("one moved on", 6, {"wide": {0: 3}}, max_bytes=3 * one)
    yield within("one unknown", 7, {"wide": {8: 0}}, max_bytes=3 * one)
    yield within("all of it", 8, {})
    yield within("a new full one", 0, {"wide": {1: 0}})
    yield within("closed", -1, {})


def list_offsets(version: int) -> Iterator[Case]:
    topic_of, partition_of = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsPartition

    def case(name: str, *topics: tuple[str, dict[int, int]], **options: Any) -> Case:
        wanted = [
            topic_of(name=topic, partitions=[partition_of(partition_index=index, timestamp=time) for index, time in partitions.items()])
            for topic, partitions in topics
        ]
        request = ListOffsetsRequest(**{"replica_id": -1, **options}, topics=wanted)
        return Case(ApiKey.LIST_OFFSETS, version, name, lambda _: request)

    for number, codec in enumerate(Compression):
        for extra in (0, 1, 3, 4, 5):
            yield case(f"in a batch of {codec.name.lower()} at +{extra}", ("packed", {0: NOW + number * STEP + extra}))
    yield case("special positions, compressed", ("packed", {0: -3}))
    yield case("earliest, compressed", ("packed", {0: -2}))
    yield case("end, compressed", ("packed", {0: -1}))
    yield case("several", ("wide", {3: -1, 0: -2, 1: NOW + 1, 2: -3}), ("plain", {0: -1}), ("filled", {0: NOW + 2}))
    yield case("several, some unknown", ("wide", {3: -1, 9: -2}), ("unknown", {0: -1}), ("filled", {0: -1}))
    yield case("the same topic twice", ("wide", {0: -1}), ("wide", {1: -1}))
    yield case("the same partition twice", ("wide", {0: -1}), ("wide", {0: -2}))
    yield case("no partitions", ("wide", {}))
    yield case("nothing")
    if version >= 2:
        yield case("isolation level 5", ("filled", {0: -1}), isolation_level=5)
    if version >= 10:
        yield case("with a timeout", ("filled", {0: -1}), timeout_ms=1000)


def offset_for_leader_epoch(version: int) -> Iterator[Case]:
    topic_of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition_of = OffsetForLeaderEpochRequest.OffsetForLeaderPartition

    def case(name: str, *topics: tuple[str, tuple[int, ...]]) -> Case:
        wanted = [topic_of(topic=topic, partitions=[partition_of(partition=p, leader_epoch=0) for p in parts]) for topic, parts in topics]
        return Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, name, lambda _: OffsetForLeaderEpochRequest(topics=wanted))

    yield case("several", ("wide", (3, 0)), ("filled", (0,)), ("plain", (0,)))
    yield case("several, some unknown", ("wide", (3, 9)), ("unknown", (0,)), ("filled", (0,)))
    yield case("twice", ("wide", (0, 0)), ("wide", (0,)))
    yield case("nothing")


def metadata(version: int) -> Iterator[Case]:
    def names(*topics: str) -> list[Any]:
        return [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]

    quiet: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
    everything = [] if version == 0 else None
    yield Case(ApiKey.METADATA, version, "all topics", lambda _: MetadataRequest(topics=everything, **quiet))
    if version >= 4:
        several = names("wide", "three", "unknown", "plain", "", "wide")
        yield Case(ApiKey.METADATA, version, "several", lambda _: MetadataRequest(topics=several, **quiet))
    if version >= 12:
        topic = MetadataRequest.MetadataRequestTopic

        def mixed(peer: Peer) -> MetadataRequest:
            wanted = [topic(name=None, topic_id=topic_id(peer, "wide")), topic(name=None, topic_id=NOBODY)]
            return MetadataRequest(topics=wanted, **quiet)

        yield Case(ApiKey.METADATA, version, "ids, known and unknown", mixed)


def describe_configs(version: int) -> Iterator[Case]:
    resource = DescribeConfigsRequest.DescribeConfigsResource

    def case(name: str, *wanted: tuple[int, str, list[str] | None], **options: Any) -> Case:
        resources = [resource(resource_type=kind, resource_name=text, configuration_keys=keys) for kind, text, keys in wanted]
        request = DescribeConfigsRequest(resources=resources, **options)
        return Case(ApiKey.DESCRIBE_CONFIGS, version, name, lambda _: request)

    yield case("broker without synonyms", (4, "1", None))
    yield case(
        "some keys of a broker", (4, "1", ["log.dirs", "no.such.key", "listeners", "log.retention.ms", "log.dir"]), include_synonyms=True
    )
    yield case("the same key twice", (2, "plain", ["retention.ms", "retention.ms"]), include_synonyms=True)
    yield case("the same topic twice", (2, "plain", ["retention.ms"]), (2, "plain", ["segment.ms"]))
    yield case("topics and brokers", (4, "1", ["log.dirs"]), (2, "configured", ["retention.ms"]), (4, "", []), (2, "unknown", None))
    yield case("a known and an unknown type", (2, "plain", None), (99, "x", None))
    yield case("broker loggers", (RESOURCE_BROKER_LOGGER, "1", ["no.such.logger"]))
    yield case("loggers of another broker", (RESOURCE_BROKER_LOGGER, "7", None))
    yield case("client metrics", (RESOURCE_CLIENT_METRICS, "nobody", None), include_synonyms=True)
    yield case("client metrics without a name", (RESOURCE_CLIENT_METRICS, "", None))
    yield case("group", (RESOURCE_GROUP, "nobody", None), include_synonyms=True)
    yield case("group without a name", (RESOURCE_GROUP, "", None))
    yield case("broker with a long number", (4, "99999999999", None))
    yield case("broker with spaces", (4, " 1 ", None))
    yield case("negative broker", (4, "-1", None))
    yield case("broker with a plus", (4, "+1", ["log.dirs"]))
    if version >= 3:
        yield case("documentation of a broker", (4, "1", None), include_documentation=True)


def create_topics(version: int) -> Iterator[Case]:
    creatable, config = CreateTopicsRequest.CreatableTopic, CreateTopicsRequest.CreatableTopicConfig
    name = f"create-more-{version}"

    def case(label: str, *topics: Any, **options: Any) -> Case:
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=20_000, **options)
        return Case(ApiKey.CREATE_TOPICS, version, label, lambda _: request)

    def topic(suffix: str, partitions: int = 1, **configs: str) -> Any:
        settings = [config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        return creatable(name=f"{name}-{suffix}", num_partitions=partitions, replication_factor=1, configs=settings)

    def odd(key: str, value: str) -> Case:
        entry = creatable(name=f"{name}-odd", num_partitions=1, replication_factor=1, configs=[config(name=key, value=value)])
        return case(f"config {key!r} = {value!r}", entry, validate_only=True)

    yield case("too many partitions", topic("many", 10_001))
    yield case("good and bad", topic("good"), topic("zero", 0), topic("bad", retention_ms="soon"), validate_only=True)
    every = {
        "retention_bytes": "12345",
        "segment_ms": "60000",
        "min_cleanable_dirty_ratio": "0.25",
        "message_timestamp_type": "LogAppendTime",
        "compression_type": "zstd",
        "file_delete_delay_ms": "1",
        "unclean_leader_election_enable": "true",
        "flush_messages": "1",
        "index_interval_bytes": "0",
        "min_insync_replicas": "2",
    }
    yield case("many configs", topic("configured", **every), validate_only=True)
    for key, value in {
        "retention.ms": "-2",
        "retention.bytes": " 5 ",
        "preallocate": "yes",
        "min.cleanable.dirty.ratio": "1.5",
        "cleanup.policy": "",
        "cleanup.policy ": "delete",
        "delete.retention.ms": "9223372036854775808",
        "message.timestamp.type": "createtime",
        "max.compaction.lag.ms": "0",
        "min.compaction.lag.ms": "9223372036854775807",
        "local.retention.ms": "5",
        "remote.storage.enable": "true",
        "leader.replication.throttled.replicas": "x",
        "follower.replication.throttled.replicas": "0:1",
        "segment.jitter.ms": "-1",
        "": "x",
    }.items():
        yield odd(key, value)
    yield odd("preallocate", "true")


def delete_topics(version: int) -> Iterator[Case]:
    names = [f"mortal-{version}-{letter}" for letter in "abc"]

    def build(_: Peer) -> DeleteTopicsRequest:
        wanted = [*names, "unknown"]
        if version >= 6:
            return DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in wanted], timeout_ms=20_000)
        return DeleteTopicsRequest(topic_names=wanted, timeout_ms=20_000)

    def prepare(peer: Peer) -> None:
        for name in names:
            peer.create_topic(name)

    yield Case(ApiKey.DELETE_TOPICS, version, "three and an unknown one", build, before=prepare)
    gone = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=names[0])], allow_auto_topic_creation=False)
    yield Case(ApiKey.METADATA, 12, f"after DeleteTopics v{version}", lambda _: gone, before=lambda peer: peer.wait_gone(names))


def create_partitions(version: int) -> Iterator[Case]:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic
    names = [f"wider-{version}-{letter}" for letter in "ab"]

    def prepare(peer: Peer) -> None:
        for name in names:
            peer.create_topic(name)

    topics = [wanted(name=names[0], count=3, assignments=None), wanted(name="unknown", count=2, assignments=None)]
    topics.append(wanted(name=names[1], count=2, assignments=None))
    several = CreatePartitionsRequest(topics=topics, timeout_ms=20_000)
    yield Case(ApiKey.CREATE_PARTITIONS, version, "several", lambda _: several, before=prepare)
    # Not here: more than 10,000 partitions at once. JVM Kafka answers UNKNOWN_SERVER_ERROR and its broker learns of no topic any more.


def init_producer_id(version: int) -> Iterator[Case]:
    request = InitProducerIdRequest(transactional_id="someone", transaction_timeout_ms=60_000)
    yield Case(ApiKey.INIT_PRODUCER_ID, version, "transactional id", lambda _: request)
    for timeout in (0, -1):
        odd = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout)
        yield Case(ApiKey.INIT_PRODUCER_ID, version, f"timeout {timeout}", lambda _, r=odd: r)


COMBINATIONS: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
}
"""In addition to `CASES`; they run after those of the same API and version."""
