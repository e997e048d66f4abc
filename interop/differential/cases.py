"""The requests that are compared, API by API. Each function yields the cases of one API in one version."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from interop.differential.administration import ADMINISTRATION_CASES
from interop.differential.batches import NOW, batch, patched, variants
from interop.differential.case import Case
from interop.differential.configuration import CONFIGURATION_CASES, settled
from interop.differential.consumer_groups import CONSUMER_GROUP_CASES
from interop.differential.directories import DIRECTORY_CASES
from interop.differential.features import FEATURE_CASES
from interop.differential.groups import GROUP_CASES, wait_for_groups
from interop.differential.peer import PATIENCE_SECONDS, Peer
from interop.differential.transaction_logs import TRANSACTION_CASES
from interop.differential.transactions import fill_transactions, initialize
from interop.waiting import until
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

NOBODY = UUID("12345678-1234-4234-8234-123456789abc")
SHORT_PATIENCE_SECONDS = 2.0
"""For the one request that JVM Kafka never answers."""

UNUSABLE_NAMES = ("", ".", "..", "with space", "sl/ash", "x" * 250, "nul\0l", "sn\N{LATIN SMALL LETTER O WITH DIAERESIS}w")


def topic_id(peer: Peer, topic: str) -> UUID:
    return peer.topic_ids.get(topic, NOBODY)


def api_versions(version: int) -> Iterator[Case]:
    for name, software in {"plain": ("odd", "1.0"), "bad software name": ("-odd", "1"), "empty software": ("", "")}.items():
        request = ApiVersionsRequest(client_software_name=software[0], client_software_version=software[1])
        if version >= 3 or name == "plain":
            yield Case(ApiKey.API_VERSIONS, version, name, lambda _, r=request: r)


def metadata(version: int) -> Iterator[Case]:
    topic = MetadataRequest.MetadataRequestTopic

    def case(name: str, build: Callable[[Peer], Any], **options: Any) -> Case:
        return Case(ApiKey.METADATA, version, name, lambda peer: MetadataRequest(topics=build(peer), **options))

    no_create: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
    yield case("one topic", lambda _: [topic(name="plain")], **no_create)
    yield case("the same topic twice", lambda _: [topic(name="plain"), topic(name="plain")], **no_create)
    if version >= 4:
        yield case("unknown topic", lambda _: [topic(name="unknown")], **no_create)
        yield case("known and unknown", lambda _: [topic(name="plain"), topic(name="unknown"), topic(name="three")], **no_create)
        for number, name in enumerate(UNUSABLE_NAMES):
            yield case(f"unusable name {number}", lambda _, n=name: [topic(name=n)], **no_create)
            yield case(f"unusable name {number} to be created", lambda _, n=name: [topic(name=n)])
    if version < 4:
        yield Case(ApiKey.METADATA, version, "a name that is not UTF-8", lambda _: struct.pack(">ih", 1, 5) + b"plai\xff")
    if version >= 1:
        yield case("no topics", lambda _: [], **no_create)
    created = f"auto-created-{version}"
    yield Case(
        ApiKey.METADATA,
        version,
        "auto-create",
        lambda _: MetadataRequest(topics=[topic(name=created)]),
        after=lambda peer, _: peer.learn(created),
    )
    yield case("after auto-create", lambda _: [topic(name=created)], **no_create)
    if version >= 10:
        yield case("by id", lambda peer: [topic(name=None, topic_id=topic_id(peer, "plain"))], **no_create)
        yield case("by unknown id", lambda _: [topic(name=None, topic_id=NOBODY)], **no_create)
        yield case("by id and name", lambda peer: [topic(name="plain", topic_id=topic_id(peer, "plain"))], **no_create)
        yield case("neither id nor name", lambda _: [topic(name=None)], **no_create)
    if version >= 8:
        yield case(
            "authorized operations of topics", lambda _: [topic(name="plain")], include_topic_authorized_operations=True, **no_create
        )
    if 8 <= version <= 10:
        yield case(
            "authorized operations of the cluster", lambda _: [topic(name="plain")], include_cluster_authorized_operations=True, **no_create
        )


def create_topics(version: int) -> Iterator[Case]:
    creatable = CreateTopicsRequest.CreatableTopic
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    config = CreateTopicsRequest.CreatableTopicConfig

    def case(name: str, *topics: Any, after: Callable[[Peer, Any], None] | None = None, **options: Any) -> Case:
        return Case(
            ApiKey.CREATE_TOPICS,
            version,
            name,
            lambda _: CreateTopicsRequest(topics=list(topics), timeout_ms=20_000, **options),
            after=after,
        )

    def learn(*names: str) -> Callable[[Peer, Any], None]:
        return lambda peer, _: [peer.learn(name) for name in names] and None

    def named(suffix: str, partitions: int = 1, replicas: int = 1, **options: Any) -> Any:
        return creatable(name=f"create-{version}-{suffix}", num_partitions=partitions, replication_factor=replicas, **options)

    def assigned(suffix: str, *brokers: list[int], partitions: int = -1, replicas: int = -1, first: int = 0) -> Any:
        assignments = [assignment(partition_index=first + index, broker_ids=ids) for index, ids in enumerate(brokers)]
        return named(suffix, partitions, replicas, assignments=assignments)

    yield case("one", named("one"), after=learn(f"create-{version}-one"))
    yield case("one again", named("one"))
    yield case("one again, only validated", named("one"), validate_only=True)
    yield case("only validated", named("validated"), validate_only=True)
    yield case("three partitions", named("three", 3), after=learn(f"create-{version}-three"))
    yield case("two in one request, one of them twice", named("a"), named("b"), named("a"))
    yield case("no topics")
    if version >= 4:
        yield case("defaults", named("defaults", -1, -1), after=learn(f"create-{version}-defaults"))
    for partitions in (0, -2, -100):
        yield case(f"{partitions} partitions", named("bad-count", partitions))
    for replicas in (0, 2, -2, 3):
        yield case(f"{replicas} replicas", named("bad-replicas", 1, replicas))
    for number, name in enumerate((*UNUSABLE_NAMES, "__cluster_metadata")):
        yield case(f"unusable name {number}", creatable(name=name, num_partitions=1, replication_factor=1))
    yield case("collision", named("one".replace("-", ".")), creatable(name=f"create.{version}_x", num_partitions=1, replication_factor=1))
    yield case("collides with the former", creatable(name=f"create_{version}_x", num_partitions=1, replication_factor=1))
    yield case("assigned", assigned("assigned", [1], [1]), after=learn(f"create-{version}-assigned"))
    yield case("assigned to nobody", assigned("nobody", []))
    yield case("assigned to an unknown broker", assigned("unknown-broker", [99]))
    yield case("assigned twice", assigned("twice", [1, 1]))
    yield case("assigned with different counts", assigned("counts", [1], [1, 99]))
    yield case("assigned from partition 1", assigned("gap", [1], first=1))
    yield case("assigned and counted", assigned("both", [1], partitions=1, replicas=1))
    yield case("assigned and counted apart", assigned("apart", [1], partitions=2))
    good = {"retention.ms": "1000", "cleanup.policy": "compact", "max.message.bytes": "1000", "segment.bytes": "2097152"}
    yield case(
        "configs", named("configs", configs=[config(name=k, value=v) for k, v in good.items()]), after=learn(f"create-{version}-configs")
    )
    bad = {
        "no.such.key": "1",
        "retention.ms": "soon",
        "cleanup.policy": "burn",
        "segment.bytes": "1",
        "compression.type": "rar",
        "min.insync.replicas": "0",
        "max.message.bytes": "-1",
    }
    for key, value in bad.items():
        yield case(f"bad config {key}", named("bad-config", configs=[config(name=key, value=value)]))
    yield case("config null", named("null-config", configs=[config(name="retention.ms", value=None)]))
    yield case(
        "config twice", named("twice-config", configs=[config(name="retention.ms", value="5"), config(name="retention.ms", value="6")])
    )


def delete_topics(version: int) -> Iterator[Case]:
    state = DeleteTopicsRequest.DeleteTopicState

    def case(name: str, build: Callable[[Peer], list[Any]], before: Callable[[Peer], None] | None = None) -> Case:
        def request(peer: Peer) -> Any:
            wanted = build(peer)
            if version >= 6:
                return DeleteTopicsRequest(topics=wanted, timeout_ms=20_000)
            return DeleteTopicsRequest(topic_names=[entry.name for entry in wanted], timeout_ms=20_000)

        return Case(ApiKey.DELETE_TOPICS, version, name, request, before=before)

    doomed = f"doomed-{version}"
    yield case("existing", lambda _: [state(name=doomed)], lambda peer: peer.create_topic(doomed))
    yield case("gone", lambda _: [state(name=doomed)])
    yield case("unknown", lambda _: [state(name="unknown")])
    yield case("none", lambda _: [])
    yield case("twice", lambda _: [state(name="unknown"), state(name="unknown")])
    yield case("existing twice", lambda _: [state(name=doomed), state(name=doomed)], lambda peer: peer.create_topic(doomed))
    yield case("metadata topic", lambda _: [state(name="__cluster_metadata")])
    if version >= 6:
        by_id = f"doomed-by-id-{version}"
        yield case("id and name", lambda peer: [state(name=by_id, topic_id=topic_id(peer, by_id))], lambda peer: peer.create_topic(by_id))
        yield case("by id", lambda peer: [state(name=None, topic_id=topic_id(peer, by_id))])
        yield case("by id again", lambda peer: [state(name=None, topic_id=topic_id(peer, by_id))])
        yield case("unknown id", lambda _: [state(name=None, topic_id=NOBODY)])
        yield case("neither", lambda _: [state(name=None)])


def create_partitions(version: int) -> Iterator[Case]:
    wanted = CreatePartitionsRequest.CreatePartitionsTopic
    assignment = CreatePartitionsRequest.CreatePartitionsAssignment
    topic = f"grows-{version}"

    def case(name: str, *topics: Any, validate_only: bool = False, before: Callable[[Peer], None] | None = None) -> Case:
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=20_000, validate_only=validate_only)
        return Case(ApiKey.CREATE_PARTITIONS, version, name, lambda _: request, before=before)

    def to(count: int, name: str = topic, brokers: list[list[int]] | None = None) -> Any:
        return wanted(name=name, count=count, assignments=None if brokers is None else [assignment(broker_ids=ids) for ids in brokers])

    yield case("validate", to(2), validate_only=True, before=lambda peer: peer.create_topic(topic))
    yield case("two", to(2))
    yield case("two again", to(2))
    for count in (1, 0, -1):
        yield case(f"{count}", to(count))
    yield case("assigned", to(3, brokers=[[1]]))
    yield case("too few assignments", to(5, brokers=[[1]]))
    yield case("too many assignments", to(4, brokers=[[1], [1]]))
    yield case("unknown broker", to(4, brokers=[[99]]))
    yield case("empty assignment", to(4, brokers=[[]]))
    yield case("repeated broker", to(4, brokers=[[1, 1]]))
    yield case("unknown topic", to(2, "unknown"))
    yield case("bad name", to(2, "with space"))
    yield case("twice", to(6), to(7))
    yield case("none")


def describe_cluster(version: int) -> Iterator[Case]:
    yield Case(ApiKey.DESCRIBE_CLUSTER, version, "plain", lambda _: DescribeClusterRequest())
    operations = DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield Case(ApiKey.DESCRIBE_CLUSTER, version, "authorized operations", lambda _: operations)
    if version >= 1:
        for kind in (2, 0, 7):
            yield Case(ApiKey.DESCRIBE_CLUSTER, version, f"endpoint type {kind}", lambda _, k=kind: DescribeClusterRequest(endpoint_type=k))
    if version >= 2:
        yield Case(ApiKey.DESCRIBE_CLUSTER, version, "fenced", lambda _: DescribeClusterRequest(include_fenced_brokers=True))


def describe_configs(version: int) -> Iterator[Case]:
    resource = DescribeConfigsRequest.DescribeConfigsResource

    def case(name: str, *resources: Any, **options: Any) -> Case:
        request = DescribeConfigsRequest(resources=list(resources), **options)
        return Case(ApiKey.DESCRIBE_CONFIGS, version, name, lambda _: request)

    synonyms = {"include_synonyms": True}
    yield case("topic", resource(resource_type=2, resource_name="plain", configuration_keys=None), **synonyms)
    yield case("topic with configs", resource(resource_type=2, resource_name="configured", configuration_keys=None), **synonyms)
    yield case("without synonyms", resource(resource_type=2, resource_name="configured", configuration_keys=None))
    keys = ["retention.ms", "no.such.key", "cleanup.policy"]
    yield case("some keys", resource(resource_type=2, resource_name="configured", configuration_keys=keys), **synonyms)
    yield case("no keys", resource(resource_type=2, resource_name="configured", configuration_keys=[]), **synonyms)
    yield case("unknown topic", resource(resource_type=2, resource_name="unknown", configuration_keys=None))
    for number, name in enumerate(UNUSABLE_NAMES):
        yield case(f"unusable name {number}", resource(resource_type=2, resource_name=name, configuration_keys=None))
    yield case("broker", resource(resource_type=4, resource_name="1", configuration_keys=None), **synonyms)
    yield case("default broker", resource(resource_type=4, resource_name="", configuration_keys=None), **synonyms)
    yield case("other broker", resource(resource_type=4, resource_name="7", configuration_keys=None))
    yield case("broker without a number", resource(resource_type=4, resource_name="one", configuration_keys=None))
    for kind in (0, 1, 3, 99):
        yield case(f"resource type {kind}", resource(resource_type=kind, resource_name="1", configuration_keys=None))
    both = (resource(resource_type=2, resource_name=name, configuration_keys=["retention.ms"]) for name in ("plain", "unknown"))
    yield case("two topics", *both)
    yield case("nothing")
    if version >= 3:
        yield case(
            "documentation",
            resource(resource_type=2, resource_name="plain", configuration_keys=["retention.ms"]),
            include_documentation=True,
        )


def produce_request(
    peer: Peer, version: int, topic: str, records: bytes | None, *, acks: int = -1, partition: int = 0, transactional_id: str | None = None
) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    named = {"topic_id": topic_id(peer, topic)} if version >= 13 else {"name": topic}
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[ProduceRequest.TopicProduceData(partition_data=[data], **named)],
    )


def produce(version: int) -> Iterator[Case]:
    topic = f"produce-{version}"

    def case(name: str, records: bytes | None, to: str = topic, **options: Any) -> Case:
        silent = options.pop("expect_silence", False)
        before = options.pop("before", None)
        after = options.pop("after", None)
        patience = options.pop("patience", PATIENCE_SECONDS)
        return Case(
            ApiKey.PRODUCE,
            version,
            name,
            lambda peer: produce_request(peer, version, to, records, **options),
            before=before,
            after=after,
            expect_silence=silent,
            patience=patience,
        )

    def prepare(peer: Peer) -> None:
        peer.create_topic(topic)
        peer.create_topic(f"compact-{version}", 1, {"cleanup.policy": "compact"})
        peer.create_topic(f"append-time-{version}", 1, {"message.timestamp.type": "LogAppendTime"})
        peer.create_topic(f"gzip-{version}", 1, {"compression.type": "gzip"})
        peer.create_topic(f"window-{version}", 1, {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"})

    yield case("first", batch(), before=prepare)
    for name, data in variants().items():
        yield case(name, data, patience=SHORT_PATIENCE_SECONDS if data is None else PATIENCE_SECONDS)
    for acks in (0, 1, 2, -2):
        yield case(f"acks {acks}", batch(), acks=acks, expect_silence=acks == 0)
    yield case("acks 0 and wrong crc", variants()["wrong crc"], acks=0, expect_silence=True)
    yield case("unknown topic", batch(), to="unknown")
    yield case("unknown partition", batch(), partition=5)
    yield case("negative partition", batch(), partition=-1)
    yield case("compacted topic, null key", batch(2, key=None), to=f"compact-{version}")
    yield case("compacted topic, keys", batch(2), to=f"compact-{version}")
    yield case("log append time", batch(2), to=f"append-time-{version}")
    yield case("log append time, gzip", batch(2, compression=1), to=f"append-time-{version}")
    yield case("recompressed", batch(2), to=f"gzip-{version}")
    yield case("recompressed from zstd", batch(2, compression=4), to=f"gzip-{version}")
    yield case("timestamp too old", batch(2, timestamp=1_000), to=f"window-{version}")
    yield case("timestamp too new", batch(2, timestamp=NOW * 2), to=f"window-{version}")
    yield from idempotent(version, case)
    yield Case(ApiKey.PRODUCE, version, "no topics", lambda _: ProduceRequest(acks=-1, timeout_ms=1000))
    yield case("transactional id, plain batch", batch(), transactional_id="someone")
    everything = partial(fetch_request, version=12, topics={topic: {0: 0}})
    yield Case(ApiKey.FETCH, 12, f"what Produce v{version} left", lambda peer, build=everything: build(peer))
    for other in ("append-time", "gzip", "compact"):
        left = partial(fetch_request, version=12, topics={f"{other}-{version}": {0: 0}})
        yield Case(ApiKey.FETCH, 12, f"what Produce v{version} left in {other}", lambda peer, build=left: build(peer))


def idempotent(version: int, case: Callable[..., Case]) -> Iterator[Case]:
    """Sequences of producer ids that no broker has handed out: both take them on trust."""
    producer_id = 4_000_000 + version * 1000

    def numbered(sequence: int, epoch: int = 0, count: int = 2, identity: int = producer_id) -> bytes:
        return batch(count, producer_id=identity, producer_epoch=epoch, base_sequence=sequence)

    yield case("sequence 0", numbered(0))
    yield case("sequence 0 again", numbered(0))
    yield case("sequence 2", numbered(2))
    yield case("sequence 4 of epoch 1", numbered(4, 1))
    yield case("gap", numbered(9))
    yield case("sequence 4", numbered(4))
    yield case("sequence 2 again", numbered(2))
    yield case("epoch 1 from 0", numbered(0, 1))
    yield case("old epoch", numbered(6, 0))
    yield case("new producer in mid-sequence", numbered(5, 0, identity=producer_id + 1))
    yield case("negative epoch", patched(numbered(0, 0, identity=producer_id + 2), 51, ">h", -1))
    yield case("negative sequence", patched(numbered(0, 0, identity=producer_id + 3), 53, ">i", -1))
    yield case("last sequence wraps", numbered(2_147_483_647, 0, identity=producer_id + 4))


def init_producer_id(version: int) -> Iterator[Case]:
    def case(name: str, transactional_id: str | None, **options: Any) -> Case:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **options)
        return Case(ApiKey.INIT_PRODUCER_ID, version, name, lambda _: request)

    yield case("idempotent", None)
    yield case("empty transactional id", "")
    if version >= 3:
        yield case("with producer id", None, producer_id=7, producer_epoch=1)
        yield case("with producer id, no epoch", None, producer_id=7, producer_epoch=-1)
        yield case("with epoch, no producer id", None, producer_id=-1, producer_epoch=3)
    yield from initialize(version)


def fetch_request(peer: Peer, version: int, topics: dict[str, dict[int, int]], **options: Any) -> FetchRequest:
    """`topics` maps a topic to its partitions' fetch offsets; per-partition options begin with `p_`."""
    partition_options = {key[2:]: options.pop(key) for key in list(options) if key.startswith("p_")}
    partition_options.setdefault("partition_max_bytes", 1_048_576)
    wanted = []
    for topic, offsets in topics.items():
        partitions = [
            FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, **partition_options)
            for partition, offset in offsets.items()
        ]
        named = {"topic_id": topic_id(peer, topic)} if version >= 13 else {"topic": topic}
        wanted.append(FetchRequest.FetchTopic(partitions=partitions, **named))
    options.setdefault("max_wait_ms", 0)
    options.setdefault("min_bytes", 0)
    return FetchRequest(topics=wanted, **options)


def fetch(version: int) -> Iterator[Case]:
    def case(name: str, topics: dict[str, dict[int, int]], after: Callable[[Peer, Any], None] | None = None, **options: Any) -> Case:
        return Case(ApiKey.FETCH, version, name, lambda peer: fetch_request(peer, version, topics, **options), after=after)

    filled = {"filled": {0: 0}}
    yield case("from the beginning", filled)
    for offset in (1, 4, 11, 12, 1000, -1, -2, 2**62):
        yield case(f"from {offset}", {"filled": {0: offset}})
    yield case("three partitions", {"three": {0: 0, 1: 0, 2: 0}})
    yield case("unknown topic", {"unknown": {0: 0}})
    yield case("unknown partition", {"filled": {7: 0, -1: 0}})
    yield case("known and unknown", {"filled": {0: 0}, "unknown": {0: 0}})
    yield case("nothing", {})
    yield case("read committed", filled, isolation_level=1)
    yield case("isolation level 5", filled, isolation_level=5)
    yield case("partition limit 1 byte", filled, p_partition_max_bytes=1)
    yield case("partition limit 0", filled, p_partition_max_bytes=0)
    yield case("partition limit negative", filled, p_partition_max_bytes=-1)
    yield case("response limit 1 byte", {"filled": {0: 0}, "three": {0: 0}}, max_bytes=1)
    yield case("response limit 0", filled, max_bytes=0)
    yield case("wait for what is there", filled, max_wait_ms=500, min_bytes=1)
    yield case("wait for what is not there", {"filled": {0: 12}}, max_wait_ms=50, min_bytes=1)
    yield case("negative wait", filled, max_wait_ms=-1, min_bytes=-1)
    if version >= 9:
        for epoch in (0, 1, 5, -1):
            yield case(f"current leader epoch {epoch}", filled, p_current_leader_epoch=epoch)
    if version >= 12:
        for epoch, offset in ((0, 12), (3, 12), (0, 3)):
            yield case(f"last fetched epoch {epoch} at {offset}", {"filled": {0: offset}}, p_last_fetched_epoch=epoch)
    if version >= 7:
        yield from fetch_sessions(version, case)


def fetch_sessions(version: int, case: Callable[..., Case]) -> Iterator[Case]:
    def remember(peer: Peer, answer: Any) -> None:
        peer.session_id = answer.session_id

    def incremental(
        name: str, topics: dict[str, dict[int, int]], epoch: int, forget: str | None = None, session: int | None = None
    ) -> Case:
        def build(peer: Peer) -> FetchRequest:
            session_id = peer.session_id if session is None else session
            request = fetch_request(peer, version, topics, session_id=session_id, session_epoch=epoch)
            if forget is not None:
                named = {"topic_id": topic_id(peer, forget)} if version >= 13 else {"topic": forget}
                request.forgotten_topics_data = [FetchRequest.ForgottenTopic(partitions=[0], **named)]
            return request

        return Case(ApiKey.FETCH, version, name, build)

    yield case("new session", {"filled": {0: 12}, "three": {0: 0}}, after=remember, session_epoch=0)
    yield incremental("session, nothing new", {}, 1)
    yield incremental("session, other offset", {"filled": {0: 4}}, 2)
    yield incremental("session, unknown added", {"unknown": {0: 0}}, 3)
    yield incremental("session, partition forgotten", {}, 4, "three")
    yield incremental("session, wrong epoch", {}, 9)
    yield incremental("session, unknown id", {}, 1, session=123_456_789)
    yield incremental("session, closed", {"filled": {0: 0}}, -1)
    yield incremental("session, after its end", {}, 5)


def list_offsets(version: int) -> Iterator[Case]:
    topic_of, partition_of = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsPartition

    def case(name: str, topic: str, *wanted: tuple[int, int], epoch: int = -1, **options: Any) -> Case:
        partitions = [partition_of(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch) for index, timestamp in wanted]
        request = ListOffsetsRequest(**{"replica_id": -1, **options}, topics=[topic_of(name=topic, partitions=partitions)])
        return Case(ApiKey.LIST_OFFSETS, version, name, lambda _: request)

    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 1, NOW - 1, NOW, NOW + 1, NOW + 3, NOW + 10_000, 2**62):
        yield case(f"timestamp {timestamp}", "filled", (0, timestamp))
    yield case("empty partition", "three", (2, -1), (2, -3))
    yield case("three partitions", "three", (0, -1), (1, -2), (2, NOW))
    yield case("unknown topic", "unknown", (0, -1))
    yield case("unknown partition", "filled", (9, -1), (-1, -1))
    yield case("partition twice", "filled", (0, -1), (0, -2))
    yield case("replica 5", "filled", (0, -1), replica_id=5)
    yield case("debugging consumer", "filled", (0, -1), replica_id=-2)
    if version >= 2:
        yield case("read committed", "filled", (0, -1), isolation_level=1)
        yield case("read committed by time", "filled", (0, NOW), isolation_level=1)
    if version >= 4:
        for epoch in (0, 1, 7):
            yield case(f"leader epoch {epoch}", "filled", (0, -1), epoch=epoch)


def offset_for_leader_epoch(version: int) -> Iterator[Case]:
    topic_of, partition_of = (
        OffsetForLeaderEpochRequest.OffsetForLeaderTopic,
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
    )

    def case(name: str, topic: str, partition: int, epoch: int, current: int = -1, **options: Any) -> Case:
        wanted = partition_of(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[topic_of(topic=topic, partitions=[wanted])], **options)
        return Case(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, name, lambda _: request)

    for epoch in (0, 1, 5, -1, -2):
        yield case(f"epoch {epoch}", "filled", 0, epoch)
    yield case("empty partition", "three", 2, 0)
    yield case("unknown topic", "unknown", 0, 0)
    yield case("unknown partition", "filled", 9, 0)
    for current in (0, 1, 9):
        yield case(f"current epoch {current}", "filled", 0, 0, current)
    if version >= 3:
        yield case("as a consumer", "filled", 0, 0, replica_id=-1)


def describe_topic_partitions(version: int) -> Iterator[Case]:
    topic_of = DescribeTopicPartitionsRequest.TopicRequest
    cursor_of = DescribeTopicPartitionsRequest.Cursor

    def case(name: str, topics: tuple[str, ...], cursor: tuple[str, int] | None = None, limit: int = 2000) -> Case:
        request = DescribeTopicPartitionsRequest(
            topics=[topic_of(name=topic) for topic in topics],
            response_partition_limit=limit,
            cursor=None if cursor is None else cursor_of(topic_name=cursor[0], partition_index=cursor[1]),
        )
        return Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, version, name, lambda _: request)

    yield case("one", ("plain",))
    yield case("two", ("three", "plain"))
    yield case("twice", ("plain", "plain"))
    yield case("unknown", ("plain", "unknown"))
    yield case("unusable", ("with space",))
    yield case("limit 2", ("filled", "plain", "three"), limit=2)
    yield case("cursor", ("filled", "plain", "three"), ("three", 1))
    yield case("cursor past the end", ("three",), ("three", 9))
    yield case("cursor at unknown", ("three", "plain"), ("q", 0))
    yield case("cursor negative", ("three",), ("three", -1))
    for limit in (0, -1):
        yield case(f"limit {limit}", ("plain",), limit=limit)


def list_config_resources(version: int) -> Iterator[Case]:
    def case(name: str, *types: int) -> Case:
        request = ListConfigResourcesRequest(resource_types=list(types))
        return Case(ApiKey.LIST_CONFIG_RESOURCES, version, name, lambda _: request)

    yield case("all types")
    if version >= 1:
        for kind in (2, 4, 8, 16, 32):
            yield case(f"type {kind}", kind)
        yield case("two types", 4, 2)
        yield case("a type twice", 4, 4)
        for kind in (0, 1, 3, 64, 127, -1, -128):
            yield case(f"unknown type {kind}", kind)
        yield case("a known and an unknown type", 2, 99)


def find_coordinator(version: int) -> Iterator[Case]:
    def case(name: str, kind: int, *keys: str) -> Case:
        options: dict[str, Any] = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
        if version >= 1:
            options["key_type"] = kind
        return Case(ApiKey.FIND_COORDINATOR, version, name, lambda _: FindCoordinatorRequest(**options))

    if version >= 1:
        yield case("unknown key type", 9, "group")
        yield case("transactional id", 1, "x")
        yield case("empty transactional id", 1, "")
    yield case("empty group", 0, "")
    yield case("group", 0, "group")
    if version >= 4:
        yield case("groups", 0, "group", "other", "group")
        yield case("no keys", 0)


def describe_quorum(version: int) -> Iterator[Case]:
    topic_of, partition_of = DescribeQuorumRequest.TopicData, DescribeQuorumRequest.PartitionData

    def case(name: str, *topics: tuple[str, tuple[int, ...]]) -> Case:
        wanted = [topic_of(topic_name=topic, partitions=[partition_of(partition_index=p) for p in numbers]) for topic, numbers in topics]
        return Case(ApiKey.DESCRIBE_QUORUM, version, name, lambda _: DescribeQuorumRequest(topics=wanted))

    metadata_log = ("__cluster_metadata", (0,))
    yield case("plain", metadata_log)
    yield case("other topic", ("plain", (0,)))
    yield case("unknown topic", ("unknown", (0,)))
    yield case("other partition", ("__cluster_metadata", (1,)))
    yield case("negative partition", ("__cluster_metadata", (-1,)))
    yield case("two partitions", ("__cluster_metadata", (0, 1)))
    yield case("no partitions", ("__cluster_metadata", ()))
    yield case("two topics", metadata_log, ("plain", (0,)))
    yield case("twice", metadata_log, metadata_log)
    yield case("no topics")


def fill(peer: Peer) -> None:
    """The topics that the reading cases use."""
    peer.create_topic("plain")
    peer.create_topic("three", 3)
    peer.create_topic("filled")
    peer.create_topic("configured", 1, {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "max.message.bytes": "123456"})
    for number in range(4):
        answer = peer.call(ApiKey.PRODUCE, 12, produce_request(peer, 12, "filled", batch(3, timestamp=NOW + number * 3)))
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
    peer.call(ApiKey.PRODUCE, 12, produce_request(peer, 12, "three", batch(2), partition=0))
    wait_for_producer_ids(peer)
    wait_for_groups(peer)
    fill_transactions(peer)


def wait_for_producer_ids(peer: Peer) -> None:
    """A broker that still waits for its first block of producer ids answers COORDINATOR_LOAD_IN_PROGRESS."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    until(lambda: not peer.call(ApiKey.INIT_PRODUCER_ID, 4, request).error_code, f"producer ids of {peer.name}", 20)


def sasl(version: int) -> Iterator[Case]:
    yield Case(ApiKey.SASL_HANDSHAKE, min(version, 1), "plain", lambda _: SaslHandshakeRequest(mechanism="PLAIN"))
    yield Case(ApiKey.SASL_AUTHENTICATE, version, "a token", lambda _: SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))


def describe_acls(version: int) -> Iterator[Case]:
    def case(name: str, **fields: Any) -> Case:
        values = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3} | fields
        return Case(ApiKey.DESCRIBE_ACLS, version, name, lambda _: DescribeAclsRequest(**values))

    yield case("of a topic", resource_name_filter="plain")
    yield case("of anything", resource_type_filter=1, resource_name_filter=None, principal_filter=None, host_filter=None, operation=1)
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for code in (0, 99, -1):
            yield case(f"{field} {code}", **{field: code})


def create_acls(version: int) -> Iterator[Case]:
    def case(name: str, *changes: dict[str, Any]) -> Case:
        values = {"resource_type": 2, "resource_name": "plain", "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
        creations = [CreateAclsRequest.AclCreation(**(values | change)) for change in changes]
        return Case(ApiKey.CREATE_ACLS, version, name, lambda _: CreateAclsRequest(creations=creations))

    yield case("none")
    yield case("two", {}, {"resource_name": "three"})
    yield case("the same twice", {}, {})
    yield case("odd ones", {"resource_name": ""}, {"principal": "nobody"}, {"host": "nowhere at all"})
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        for code in (0, 99):
            yield case(f"{field} {code}", {}, {field: code})


def delete_acls(version: int) -> Iterator[Case]:
    def case(name: str, *changes: dict[str, Any]) -> Case:
        values = {"resource_type_filter": 2, "resource_name_filter": "plain", "operation": 3, "permission_type": 3}
        filters = [DeleteAclsRequest.DeleteAclsFilter(**(values | change)) for change in changes]
        return Case(ApiKey.DELETE_ACLS, version, name, lambda _: DeleteAclsRequest(filters=filters))

    yield case("none")
    yield case("two", {}, {"resource_name_filter": None})
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        yield case(f"{field} 0", {}, {field: 0})


def create_delegation_token(version: int) -> Iterator[Case]:
    owners = [{}, {"owner_principal_type": "User", "owner_principal_name": "alice"}, {"owner_principal_type": "Group"}]
    owners.append({"owner_principal_type": None, "owner_principal_name": None})
    for owner in owners if version >= 3 else owners[:1]:
        renewers = [CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name="bob")]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=1000, **owner)
        yield Case(ApiKey.CREATE_DELEGATION_TOKEN, version, f"for {owner}", lambda _, r=request: r)


def delegation_token(version: int) -> Iterator[Case]:
    yield Case(ApiKey.RENEW_DELEGATION_TOKEN, version, "no such token", lambda _: RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=9))
    expire = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
    yield Case(ApiKey.EXPIRE_DELEGATION_TOKEN, version, "no such token", lambda _: expire)


def describe_delegation_token(version: int) -> Iterator[Case]:
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
    for name, owners in {"all": None, "none": [], "of alice": [owner]}.items():
        request = DescribeDelegationTokenRequest(owners=owners)
        yield Case(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, name, lambda _, r=request: r)


def describe_client_quotas(version: int) -> Iterator[Case]:
    filters: list[tuple[tuple[str, int, str | None], ...]] = [(), (("", 0, "a"),), (("group", 0, "a"),)]
    filters += [((kind, match_type, name),) for kind in ("user", "ip") for match_type in (0, 1, 2, 3, -1) for name in ("a", None)]
    filters += [(("user", 2, None), ("user", 0, "a")), (("user", 2, None), ("client-id", 1, None)), (("ip", 2, None), ("user", 2, None))]
    for strict in (False, True):
        for components in filters:
            parts = [DescribeClientQuotasRequest.ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in components]
            request = DescribeClientQuotasRequest(components=parts, strict=strict)
            yield Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, f"{components}{' strict' if strict else ''}", lambda _, r=request: r)


def by_entity(answer: Any) -> Any:
    """Kafka lists entities in the order of a hash map."""
    for entry in answer.entries or ():
        entry.entity.sort(key=lambda part: part.entity_type)
    if answer.entries:
        answer.entries.sort(key=lambda entry: [(part.entity_type, part.entity_name or "") for part in entry.entity])
    return answer


def alter_client_quotas(version: int) -> Iterator[Case]:
    kind = AlterClientQuotasRequest
    rate, share, mutations, connections = "producer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"

    def entry(entity: Mapping[str, str | None], ops: Mapping[str, float | None]) -> AlterClientQuotasRequest.EntryData:
        return kind.EntryData(
            entity=[kind.EntityData(entity_type=each, entity_name=name) for each, name in entity.items()],
            ops=[kind.OpData(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in ops.items()],
        )

    def ask(name: str, *entries: AlterClientQuotasRequest.EntryData, validate_only: bool = False) -> Case:
        request = kind(entries=list(entries), validate_only=validate_only)
        return Case(ApiKey.ALTER_CLIENT_QUOTAS, version, name, lambda _: request, view=by_entity)

    def shown(label: str) -> Case:
        request = DescribeClientQuotasRequest(components=[], strict=False)
        return Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, f"after {label}", lambda _: request, before=settled, view=by_entity)

    yield ask("nothing")
    yield ask("only validated", entry({"user": "q"}, {rate: 5.0}), validate_only=True)
    yield ask("a user", entry({"user": "q"}, {rate: 1e12, share: 99.5, mutations: 0.5, "consumer_byte_rate": 2.0**62}))
    yield ask("a client", entry({"client-id": "no such client"}, {rate: 1e12}))
    yield ask(
        "a user's client", entry({"user": "q", "client-id": None}, {rate: 1e12}), entry({"user": "q", "client-id": "no"}, {share: 9e9})
    )
    yield ask("an address", entry({"ip": "10.1.2.3"}, {connections: 2.0**31 - 1}), entry({"ip": "fe80::1"}, {connections: 1e6}))
    yield ask("all addresses", entry({"ip": None}, {connections: 1e9}))
    yield shown("all sorts of quotas")
    yield ask("as it was", entry({"user": "q"}, {rate: 1e12}))
    yield ask(
        "removed and changed",
        entry({"user": "q"}, {rate: None, share: 98.0, "no such key": None}),
        entry({"ip": "fe80::1"}, {connections: None}),
    )
    for value in (0.0, -1.0, 0.5, 5.0000001, 5.1, 2.0**63, 2.0**64, 1e300, math.inf, -math.inf, math.nan):
        for key in (rate, share, mutations):
            yield ask(f"{key}={value}", entry({"user": f"q{version}"}, {key: value}), validate_only=True)
        yield ask(f"{connections}={value}", entry({"ip": "10.1.2.3"}, {connections: value}), validate_only=True)
    for key in ("", "no such key", connections, "leader.replication.throttled.rate"):
        yield ask(f"key {key!r}", entry({"user": "q"}, {key: 5.0}))
    for name in ("", "not an address", "10.1.2.3.4", "::1::"):
        yield ask(f"address {name!r}", entry({"ip": name}, {connections: 5.0}))
    for entity in ({}, {"user": ""}, {"client-id": ""}, {"": "a"}, {"group": "g"}, {"user": "a", "group": "g"}):
        yield ask(f"entity {entity}", entry(entity, {rate: 5.0}))
    for other in ("user", "client-id"):
        yield ask(f"address and {other}", entry({"ip": "10.1.2.3", other: "a"}, {connections: 5.0}))
    yield ask("no operations", entry({"user": "q"}, {}))
    twice = entry({"user": "q"}, {rate: 7.0})
    twice.ops += entry({}, {rate: 8.0}).ops
    yield ask("a key twice", twice)
    yield ask(
        "an entity twice",
        entry({"user": "twice"}, {rate: 1e12}),
        entry({"user": "twice"}, {share: 99.0}),
        entry({"user": "q"}, {rate: 1e13}),
    )
    parts = entry({"user": "first"}, {rate: 1e12})
    parts.entity += entry({"user": "second"}, {}).entity
    yield ask("a type twice", parts)
    yield ask("good and bad", entry({"user": "r"}, {rate: 1e12, share: -1.0}), entry({"user": None}, {rate: 1e12}))
    yield shown("good and bad")
    gone = [{"user": "q"}, {"client-id": "no such client"}, {"user": "q", "client-id": None}, {"user": "q", "client-id": "no"}]
    gone += [{"ip": "10.1.2.3"}, {"ip": None}, {"user": "twice"}, {"user": "second"}, {"user": None}]
    keys = (rate, share, mutations, "consumer_byte_rate", connections)
    yield ask("all removed", *[entry(entity, dict.fromkeys(keys)) for entity in gone])
    yield shown("all were removed")


def alter_user_scram_credentials(version: int) -> Iterator[Case]:
    kind = AlterUserScramCredentialsRequest

    def setting(name: str, mechanism: int, iterations: int) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
        return kind.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=b"a salt", salted_password=b"p" * 32
        )

    def deletion(name: str, mechanism: int) -> AlterUserScramCredentialsRequest.ScramCredentialDeletion:
        return kind.ScramCredentialDeletion(name=name, mechanism=mechanism)

    requests = {
        "nothing": kind(),
        "one": kind(upsertions=[setting("scram-user", 1, 4096)]),
        "another mechanism, and limits": kind(
            upsertions=[setting("scram-user", 2, 16384), setting("few", 1, 4095), setting("many", 2, 16385), setting("odd", 3, 4096)]
        ),
        "no name": kind(upsertions=[setting("", 1, 4096)]),
        "twice": kind(upsertions=[setting("twice", 1, 4096), setting("twice", 2, 4096)]),
        "set and deleted": kind(deletions=[deletion("scram-user", 1)], upsertions=[setting("scram-user", 2, 4096)]),
        "deleted": kind(deletions=[deletion("scram-user", 1), deletion("nobody", 1), deletion("", 1), deletion("odd", 0)]),
        "deleted twice": kind(deletions=[deletion("scram-user", 2), deletion("scram-user", 2)]),
    }
    for name, request in requests.items():
        yield Case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, version, name, lambda _, r=request: r)
        described = DescribeUserScramCredentialsRequest(users=None)
        yield Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, f"after {name}", lambda _, r=described: r, before=settled)


def describe_user_scram_credentials(version: int) -> Iterator[Case]:
    for names in (None, [], ["alice"], ["alice", "alice"], [""]):
        users = None if names is None else [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
        request = DescribeUserScramCredentialsRequest(users=users)
        yield Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, version, f"{names}", lambda _, r=request: r)


CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.METADATA: metadata,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.PRODUCE: produce,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    **ADMINISTRATION_CASES,
    **CONFIGURATION_CASES,
    **DIRECTORY_CASES,
    **GROUP_CASES,
    **TRANSACTION_CASES,
    **CONSUMER_GROUP_CASES,
    **FEATURE_CASES,
    ApiKey.SASL_HANDSHAKE: sasl,
    ApiKey.SASL_AUTHENTICATE: sasl,
    ApiKey.DESCRIBE_ACLS: describe_acls,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_delegation_token,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
}


class Broken(NamedTuple):
    """A body that no client sends; `meant` is what JVM Kafka takes it for where it is more lenient than we are."""

    name: str
    body: bytes
    meant: bytes | None = None


def broken_bodies(body: bytes, flexible: bool) -> Iterator[Broken]:
    """Bodies made from one that a client might send; those of flexible versions end with their tagged fields."""
    yield Broken("empty body", b"")
    for part in (1, 2, 3):
        yield Broken(f"cut at {part} of 4", body[: len(body) * part // 4])
    yield Broken("last byte missing", body[:-1])
    yield Broken("trailing bytes", body + b"\x00\x01\x02")
    if flexible:
        yield Broken("unknown tagged field", body[:-1] + b"\x01\x64\x02ab")
        yield Broken("tagged field twice", body[:-1] + b"\x02\x64\x00\x64\x00", body[:-1] + b"\x01\x64\x00")
        yield Broken("tagged fields without end", body[:-1] + b"\xff\xff\xff\xff\x0f", body)
    yield Broken("all ones", b"\xff" * max(4, len(body)))
    yield Broken("huge first length", struct.pack(">i", 0x7FFFFFFF) + body[4:])


def odd_frames() -> Iterator[tuple[str, bytes]]:
    """Bytes as they go over the wire, size included, with headers that no client sends."""

    def frame(content: bytes) -> bytes:
        return struct.pack(">i", len(content)) + content

    def header(api_key: int, version: int, client_id: bytes, rest: bytes = b"") -> bytes:
        return frame(struct.pack(">hhi", api_key, version, 5) + client_id + rest)

    versions_body = b"\x04odd\x041.0\x00"
    yield "size zero", frame(b"")
    yield "size negative", struct.pack(">i", -1) + bytes(20)
    yield "size too large", struct.pack(">i", 104_857_601) + bytes(20)
    for length in (1, 2, 4, 7, 8, 9):
        yield f"{length} bytes", frame(bytes(length))
    yield "client id null", header(18, 0, b"\xff\xff")
    yield "client id empty", header(18, 0, b"\x00\x00")
    yield "client id length -2", header(18, 0, b"\xff\xfe")
    yield "client id longer than the frame", header(18, 0, b"\x7f\xff", b"abc")
    yield "client id cut", header(18, 0, b"\x00\x05abc")
    yield "client id missing", header(18, 0, b"")
    yield "header tag", header(18, 3, b"\x00\x01c", b"\x01\x07\x02ab" + versions_body)
    yield "header tags without end", header(18, 3, b"\x00\x01c", b"\xff\xff\xff\xff\x0f" + versions_body)
    yield "header tag longer than the frame", header(18, 3, b"\x00\x01c", b"\x01\x07\x7fab")
    yield "header tag count overflows", header(18, 3, b"\x00\x01c", b"\xff\xff\xff\xff\xff\x7f" + versions_body)
    yield "header of the other kind", header(18, 3, b"\x02c\x00", versions_body)
    yield "HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield "TLS", bytes.fromhex("1603010200010001fc0303") + bytes(64)
