"""Our admin client against JVM Kafka and against Odradek: the same calls, the same answers. What Odradek does not support yet is shown
against JVM Kafka alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from uuid import UUID

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer

from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from interop.tools import JvmTools
from interop.waiting import becomes
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.client import Admin, ConfigChange, ConfigResource, NewTopic, Producer
from odradek.client.admin.types.cluster import RaftVoterEndpoint
from odradek.client.admin.types.groups import GroupListing, GroupState, GroupType, MemberToRemove, OffsetAndMetadata
from odradek.client.admin.types.replicas import ElectionType, ReplicaLogDirInfo, TopicPartitionReplica
from odradek.client.admin.types.security import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    PatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.admin.types.topics import NewPartitions, OffsetSpec
from odradek.client.admin.types.transactions import AbortTransactionSpec, TransactionState

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

T0 = 1_700_000_000_000
PATIENCE_S = 60.0
CONFIG = {
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.dirs": "{data},{data}-second",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
GUARDED = {
    "delegation.token.secret.key": "a-secret",
}
"""What JVM Kafka can do and Odradek cannot yet."""


@pytest.fixture(scope="module", params=["odradek", "jvm"])
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp(request.param)
    process = OdradekBroker(folder, CONFIG) if request.param == "odradek" else JvmBroker(folder, CONFIG | GUARDED, heap="512m")
    process.start(180)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def admin(peer: BrokerProcess) -> Iterator[Admin]:
    with Admin(bootstrap_servers=peer.bootstrap, default_api_timeout_ms=30_000, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(admin: Admin, own_name: str) -> str:
    """A topic of two partitions with ten records each, a second apart."""
    admin.create_topics([NewTopic(own_name, 2, 1)])
    with Producer(bootstrap_servers=admin.run(_bootstrap)) as producer:
        for number in range(20):
            producer.send(own_name, b"%d" % number, partition=number % 2, timestamp=T0 + number // 2 * 1_000)
        producer.flush()
    return own_name


async def _bootstrap(admin: object) -> str:
    host, port = admin._config.bootstrap_servers()[0]  # type: ignore[attr-defined]
    return f"{host}:{port}"


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


def only_jvm(peer: BrokerProcess) -> bool:
    return peer.name == "jvm"


# -- topics -------------------------------------------------------------------------------------------------------------------------------


def test_topics_by_name_and_by_id(admin: Admin) -> None:
    created = admin.try_create_topics(
        [NewTopic("byid", 2, 1), NewTopic("bad name", 1, 1), NewTopic("huge", 1, 9), NewTopic("manual", assignments={0: [1]})]
    )
    assert {name: code(each) for name, each in created.items()} == {
        "byid": None,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "huge": ErrorCode.INVALID_REPLICATION_FACTOR,
        "manual": None,
    }
    admin.create_partitions({"byid": 3, "manual": NewPartitions(2, [[1]])})
    refused = admin.try_create_partitions({"byid": 3, "manual": 4, "absent": 5}, validate_only=True)
    assert {name: code(each) for name, each in refused.items()} == {
        "byid": ErrorCode.INVALID_PARTITIONS,
        "manual": None,
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    becomes(lambda: len(admin.describe_topics(["byid"])["byid"].partitions) == 3)
    paged = admin.describe_topics(["byid", "manual"], page_size=2)
    assert {name: list(each.partitions) for name, each in paged.items()} == {"byid": [0, 1, 2], "manual": [0, 1]}
    topic_id = paged["byid"].topic_id
    assert topic_id != ZERO_UUID
    absent = UUID(int=77)
    described = admin.try_describe_topics(["manual", topic_id, "absent", absent])
    assert [code(each) for each in described.values()] == [
        None,
        None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert admin.describe_topics([topic_id])[topic_id].name == "byid"
    deleted = admin.try_delete_topics([topic_id, "manual", "absent", absent])
    assert [code(each) for each in deleted.values()] == [None, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
    becomes(lambda: {"byid", "manual"} & {each.name for each in admin.list_topics()}, set())


def test_offsets_by_every_spec(peer: BrokerProcess, admin: Admin, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.delete_records({second: 4}) == {second: 4}

    def offsets(spec: OffsetSpec | int) -> list[int]:
        return [each.offset for each in admin.list_offsets({first: spec, second: spec}).values()]

    assert offsets(OffsetSpec.EARLIEST) == [0, 4]
    assert offsets(OffsetSpec.LATEST) == [10, 10]
    assert offsets(OffsetSpec.EARLIEST_LOCAL) == [0, 4]
    assert offsets(T0 + 6_500) == [7, 7]
    assert offsets(T0 + 60_000) == [-1, -1]
    found = admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP}, read_committed=True)[first]
    assert (found.offset, found.timestamp) == (9, T0 + 9_000)
    # Without remote storage nothing is in it.
    tiered = admin.try_list_offsets({first: OffsetSpec.LATEST_TIERED})[first]
    pending = admin.try_list_offsets({first: OffsetSpec.EARLIEST_PENDING_UPLOAD})[first]
    assert not isinstance(tiered, KafkaError)
    assert tiered.offset == -1
    assert isinstance(pending, KafkaError) or pending.offset == -1
    assert code(admin.try_delete_records({first: 99})[first]) is ErrorCode.OFFSET_OUT_OF_RANGE


# -- configurations -----------------------------------------------------------------------------------------------------------------------


def test_configurations(admin: Admin, topic: str) -> None:
    own, broker, absent = ConfigResource("topic", topic), ConfigResource("broker", "1"), ConfigResource("topic", "absent")
    changed = admin.try_incremental_alter_configs(
        {
            own: [ConfigChange("retention.ms", "7")],
            absent: [ConfigChange("retention.ms", "7")],
            broker: [ConfigChange("nonsense.port", "1")],
        },
        validate_only=True,
    )
    assert changed[own] is None
    assert code(changed[absent]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    admin.incremental_alter_configs({own: [ConfigChange("retention.ms", "12345")]})
    found = admin.try_describe_configs([own, broker, absent, ConfigResource("broker", "9")], synonyms=True)
    assert [code(each) for each in found.values()] == [None, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.BROKER_NOT_AVAILABLE]
    entries = {entry.name: entry for entry in admin.describe_configs([own], synonyms=True)[own]}
    assert entries["retention.ms"].value == "12345"
    assert next((each.source, each.value) for each in entries["retention.ms"].synonyms) == (1, "12345")
    assert admin.describe_configs([ConfigResource("broker_logger", "1")])[ConfigResource("broker_logger", "1")] is not None
    listed = admin.list_config_resources(["topic", "broker"])
    assert own in listed
    assert broker in listed
    assert admin.list_client_metrics_resources() == []
    with pytest.raises(ValueError, match="one of topic, broker"):
        admin.list_config_resources(["topics"])


def test_client_metrics_and_group_configurations(peer: BrokerProcess, admin: Admin) -> None:
    if not only_jvm(peer):
        return
    metrics, group = ConfigResource("client_metrics", "fleet"), ConfigResource("group", "g")
    admin.incremental_alter_configs(
        {metrics: [ConfigChange("interval.ms", "1000")], group: [ConfigChange("consumer.session.timeout.ms", "45001")]}
    )
    becomes(admin.list_client_metrics_resources, ["fleet"])
    assert set(admin.list_config_resources(["client_metrics", "group"])) == {metrics, group}
    (entry,) = admin.describe_configs([group], names=["consumer.session.timeout.ms"])[group]
    assert entry.value == "45001"


# -- groups -------------------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def member(peer: BrokerProcess, group: str, topic: str, protocol: str, instance: str = "") -> Iterator[OtherConsumer]:
    settings: dict[str, object] = {
        "bootstrap.servers": peer.bootstrap,
        "group.id": group,
        "client.id": "other",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
    }
    if instance:
        settings["group.instance.id"] = instance
    consumer = OtherConsumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    yield consumer
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members(peer: BrokerProcess, admin: Admin, topic: str, protocol: str) -> None:
    group = f"live-{protocol}"
    with member(peer, group, topic, protocol, "i-1") as consumer:
        consumer.commit(offsets=[_at(each, 3) for each in consumer.assignment()], asynchronous=False)
        kind = GroupType.CLASSIC if protocol == "classic" else GroupType.CONSUMER
        (listed,) = [each for each in admin.list_groups() if each.group_id == group]
        assert listed == GroupListing(group, kind, "consumer", GroupState.STABLE)
        assert group in [each.group_id for each in admin.list_groups(states=["stable"], types=[kind], protocol_types=["consumer"])]
        assert group not in [each.group_id for each in admin.list_groups(states=[GroupState.EMPTY])]
        assert group in [each.group_id for each in admin.list_consumer_groups()]
        found = admin.try_describe_consumer_groups([group, "absent"], include_authorized_operations=True)
        assert code(found["absent"]) is ErrorCode.GROUP_ID_NOT_FOUND
        described = found[group]
        assert not isinstance(described, KafkaError)
        assert (described.group_type, described.state, described.is_simple_consumer_group) == (kind, GroupState.STABLE, False)
        assert described.coordinator.port == peer.port
        assert described.authorized_operations
        assert AclOperation.READ in described.authorized_operations
        (one,) = described.members
        assert (one.group_instance_id, one.client_id, sorted(one.assignment)) == (
            "i-1",
            "other",
            [TopicPartition(topic, 0), TopicPartition(topic, 1)],
        )
        if protocol == "consumer":
            assert described.group_epoch == described.target_assignment_epoch == one.member_epoch
            assert one.target_assignment is not None
            assert one.upgraded is True
        classic = admin.try_describe_classic_groups([group])[group]
        if protocol == "classic":
            assert not isinstance(classic, KafkaError)
            assert (classic.protocol, classic.protocol_data, len(classic.members)) == ("consumer", described.partition_assignor, 1)
        else:
            assert code(classic) is ErrorCode.GROUP_ID_NOT_FOUND
        offsets = admin.list_consumer_group_offsets({group: [TopicPartition(topic, 0), TopicPartition(topic, 9)]}, require_stable=True)
        assert {each: at and at.offset for each, at in offsets[group].items()} == {
            TopicPartition(topic, 0): 3,
            TopicPartition(topic, 9): None,
        }
        # What members use cannot be changed or deleted.
        assert code(admin.try_delete_consumer_groups([group])[group]) is ErrorCode.NON_EMPTY_GROUP
        subscribed = admin.try_delete_consumer_group_offsets(group, [TopicPartition(topic, 0)])
        assert code(subscribed[TopicPartition(topic, 0)]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        altered = admin.try_alter_consumer_group_offsets(group, {TopicPartition(topic, 0): 1})
        assert code(altered[TopicPartition(topic, 0)]) is ErrorCode.UNKNOWN_MEMBER_ID
        # They can be removed: one that is named, one that is not there, and all.
        removed = admin.try_remove_members_from_consumer_group(group, [MemberToRemove("i-1"), MemberToRemove("i-2")], reason="test")
        assert {name: code(each) for name, each in removed.items()} == {"i-1": None, "i-2": ErrorCode.UNKNOWN_MEMBER_ID}
    with member(peer, group, topic, protocol) as consumer:
        admin.remove_members_from_consumer_group(group)
        assert admin.describe_consumer_groups([group])[group].members == ()
        del consumer
    admin.delete_consumer_groups([group])
    assert group not in [each.group_id for each in admin.list_groups()]


def _at(partition: object, offset: int) -> object:
    partition.offset = offset  # type: ignore[attr-defined]
    return partition


def test_offsets_of_a_group_without_members(admin: Admin, topic: str) -> None:
    first, second, absent = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("absent", 0)
    altered = admin.try_alter_consumer_group_offsets("simple", {first: OffsetAndMetadata(5, 0, "note"), second: 6, absent: 1})
    assert {each: code(answer) for each, answer in altered.items()} == {
        first: None,
        second: None,
        absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    found = admin.list_consumer_group_offsets(["simple", "nobody"])
    assert found == {"simple": {first: OffsetAndMetadata(5, 0, "note"), second: OffsetAndMetadata(6)}, "nobody": {}}
    (simple,) = [each for each in admin.list_groups() if each.group_id == "simple"]
    assert simple.is_simple_consumer_group
    assert admin.describe_consumer_groups(["simple"])["simple"].is_simple_consumer_group
    admin.delete_consumer_group_offsets("simple", [first])
    assert list(admin.list_consumer_group_offsets(["simple"])["simple"]) == [second]
    deleted = admin.try_delete_consumer_groups(["simple", "nobody"])
    assert {each: code(answer) for each, answer in deleted.items()} == {"simple": None, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["simple"])


def test_share_groups(peer: BrokerProcess, admin: Admin, topic: str, jvm_tools: JvmTools) -> None:
    if not only_jvm(peer):
        assert code(admin.try_describe_share_groups(["s"])["s"]) is ErrorCode.UNSUPPORTED_VERSION
        return
    admin.incremental_alter_configs({ConfigResource("group", "s"): [ConfigChange("share.auto.offset.reset", "earliest")]})
    done = jvm_tools.run(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", peer.bootstrap, "--topic", topic, "--group", "s", "--max-messages", "20", "--timeout-ms", "30000"),
    )
    assert done.returncode == 0, done.stderr
    assert GroupListing("s", GroupType.SHARE, "share", GroupState.EMPTY) in admin.list_groups(types=[GroupType.SHARE])
    described = admin.describe_share_groups(["s"], include_authorized_operations=True)["s"]
    assert (described.state, described.members) == (GroupState.EMPTY, ())
    assert described.group_epoch > 0
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_share_group_offsets("s", {first: 4, second: 5})
    offsets = admin.list_share_group_offsets({"s": [first, second]})["s"]
    assert {each: info and info.start_offset for each, info in offsets.items()} == {first: 4, second: 5}
    assert set(admin.list_share_group_offsets({"s": None})["s"]) == {first, second}
    assert code(admin.try_alter_share_group_offsets("s", {TopicPartition("absent", 0): 1})[TopicPartition("absent", 0)]) is (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    admin.delete_share_group_offsets("s", [topic])
    assert admin.list_share_group_offsets({"s": None})["s"] == {}
    admin.delete_share_groups(["s"])
    assert code(admin.try_describe_share_groups(["s"])["s"]) is ErrorCode.GROUP_ID_NOT_FOUND


def test_streams_groups(peer: BrokerProcess, admin: Admin) -> None:
    expected = ErrorCode.GROUP_ID_NOT_FOUND if only_jvm(peer) else ErrorCode.UNSUPPORTED_VERSION
    assert code(admin.try_describe_streams_groups(["absent"])["absent"]) is expected


# -- replicas -----------------------------------------------------------------------------------------------------------------------------


def test_log_directories(peer: BrokerProcess, admin: Admin, topic: str) -> None:
    first, absent = TopicPartitionReplica(topic, 0, 1), TopicPartitionReplica("absent", 0, 1)
    found = admin.try_describe_log_dirs([1, 9])
    assert code(found[9]) is ErrorCode.BROKER_NOT_AVAILABLE
    folders = admin.describe_log_dirs([1])[1]
    assert list(folders) == [str(peer.data), f"{peer.data}-second"]
    assert all(each.error is None and each.total_bytes and each.usable_bytes for each in folders.values())
    sizes = {partition: info.size for each in folders.values() for partition, info in each.replicas.items()}
    assert sizes[first.topic_partition] > 0
    assert admin.describe_log_dirs([1], partitions=[first.topic_partition])[1].keys() == folders.keys()
    places = admin.describe_replica_log_dirs([first, absent])
    assert places[absent] == ReplicaLogDirInfo()
    here = places[first].current_log_dir
    (other,) = {str(peer.data), f"{peer.data}-second"} - {here}
    moved = admin.try_alter_replica_log_dirs({first: other, TopicPartitionReplica(topic, 1, 1): "/nowhere/at/all"})
    assert [code(each) for each in moved.values()] == [None, ErrorCode.LOG_DIR_NOT_FOUND]
    becomes(lambda: admin.describe_replica_log_dirs([first])[first].current_log_dir == other)


def test_leaders_and_reassignments(peer: BrokerProcess, admin: Admin, topic: str) -> None:
    first, absent = TopicPartition(topic, 0), TopicPartition("absent", 0)
    elected = admin.try_elect_leaders(ElectionType.PREFERRED, [first, absent])
    assert [code(each) for each in elected.values()] == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert admin.elect_leaders(ElectionType.PREFERRED) == []
    assert admin.elect_leaders(ElectionType.UNCLEAN, [first]) == []
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([first]) == {}
    moved = admin.try_alter_partition_reassignments({first: [9], absent: [1], TopicPartition(topic, 1): None})
    if only_jvm(peer):
        assert [code(each) for each in moved.values()] == [
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ]
        refused = admin.try_alter_partition_reassignments({first: [1, 2]}, allow_replication_factor_change=False)
        assert isinstance(refused[first], KafkaError)
        admin.alter_partition_reassignments({first: [1]})
    else:
        assert {code(each) for each in moved.values()} == {ErrorCode.UNSUPPORTED_VERSION}


# -- transactions -------------------------------------------------------------------------------------------------------------------------


def test_transactions(peer: BrokerProcess, admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    for _ in range(2):  # so that the epoch is not the first
        producer = OtherProducer({"bootstrap.servers": peer.bootstrap, "transactional.id": "tx"})
        producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    described = admin.try_describe_transactions(["tx", "absent"])
    assert code(described["absent"]) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    open_one = described["tx"]
    assert not isinstance(open_one, KafkaError)
    assert (open_one.state, open_one.coordinator_id, open_one.topic_partitions) == (TransactionState.ONGOING, 1, frozenset({partition}))
    assert open_one.transaction_start_time_ms is not None
    assert [each.transactional_id for each in admin.list_transactions(states=["ongoing"], producer_ids=[open_one.producer_id])] == ["tx"]
    assert admin.list_transactions(duration_ms=3_600_000) == []
    assert [each.transactional_id for each in admin.list_transactions(transactional_id_pattern="t.")] == ["tx"]
    assert admin.list_transactions(transactional_id_pattern="t") == []
    with pytest.raises(ValueError, match="must be one of Empty"):
        admin.list_transactions(states=["open"])
    for broker_id in (None, 1):
        found = admin.try_describe_producers([partition, TopicPartition(topic, 1)], broker_id=broker_id)
        (state,) = [each for each in _result(found[partition]) if each.producer_id == open_one.producer_id]
        assert state.current_transaction_start_offset == 10
    stale = AbortTransactionSpec(partition, open_one.producer_id, open_one.producer_epoch - 1, 0)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        admin.abort_transaction(stale)
    admin.abort_transaction(AbortTransactionSpec(partition, open_one.producer_id, open_one.producer_epoch, 0))
    (state,) = [each for each in admin.describe_producers([partition])[partition] if each.producer_id == open_one.producer_id]
    assert state.current_transaction_start_offset is None
    fenced = admin.fence_producers(["tx", "fresh"])
    assert fenced["tx"].producer_epoch > open_one.producer_epoch
    assert fenced["fresh"].producer_epoch == 0
    admin.force_terminate_transaction("tx")
    assert admin.describe_transactions(["tx"])["tx"].state is not TransactionState.ONGOING


def _result(answer: object) -> list:  # type: ignore[type-arg]
    assert isinstance(answer, list), answer
    return answer


# -- the cluster --------------------------------------------------------------------------------------------------------------------------


def test_the_cluster_and_its_quorum(peer: BrokerProcess, admin: Admin) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
    assert [each.port for each in cluster.brokers] == [peer.port]
    assert cluster.fenced_brokers == frozenset()
    assert cluster.authorized_operations
    assert AclOperation.ALTER in cluster.authorized_operations
    quorum = admin.describe_metadata_quorum()
    assert (quorum.leader_id, [each.replica_id for each in quorum.voters], quorum.observers) == (1, [1], ())
    assert quorum.high_watermark > 0
    assert [each.port for each in quorum.nodes[1]] == [peer.controller_port]
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(9)
    with pytest.raises(KafkaError) as caught:
        admin.add_raft_voter(2, UUID(int=5), [RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1)])
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError) as caught:
        admin.remove_raft_voter(2, UUID(int=5), cluster_id="other")
    assert caught.value.code is (ErrorCode.INCONSISTENT_CLUSTER_ID if only_jvm(peer) else ErrorCode.UNSUPPORTED_VERSION)
    with pytest.raises(KafkaError):
        admin.update_features({"metadata.version": 9999}, validate_only=True)


# -- security -----------------------------------------------------------------------------------------------------------------------------


def test_acls(peer: BrokerProcess, admin: Admin) -> None:
    read = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    deny = AclBinding(ResourceType.GROUP, "team-", "User:bob", AclOperation.ALL, AclPermissionType.DENY, "10.0.0.1", PatternType.PREFIXED)
    wrong = AclBinding(ResourceType.CLUSTER, "not-the-cluster", "User:bob", AclOperation.ALTER)
    created = admin.try_create_acls([read, wrong, deny])
    assert [code(each) for each in created.values()] == [None, ErrorCode.INVALID_REQUEST, None]
    becomes(lambda: set(admin.describe_acls()), {read, deny})
    matching = AclBindingFilter(ResourceType.GROUP, "team-a", pattern_type=PatternType.MATCH)
    assert admin.describe_acls(matching) == [deny]
    assert admin.describe_acls(AclBindingFilter(principal="User:alice", permission=AclPermissionType.DENY)) == []
    deleted = admin.delete_acls([matching, AclBindingFilter(principal="User:nobody")])
    assert list(deleted.values()) == [[deny], []]
    becomes(admin.describe_acls, [read])
    admin.delete_acls([AclBindingFilter()])
    becomes(admin.describe_acls, [])


def test_scram_credentials(admin: Admin) -> None:
    short, long = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    altered = admin.try_alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", short, "secret", 8192),
            UserScramCredentialUpsertion("dora", long, "secret"),
            UserScramCredentialUpsertion("dora", short, "secret"),
            UserScramCredentialUpsertion("bob", short, "secret", 1),
            UserScramCredentialDeletion("carol", short),
        ]
    )
    assert {user: code(each) for user, each in altered.items()} == {
        "alice": None,
        "dora": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
    }
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", long, b"secret", salt=b"12345678")])
    infos = [ScramCredentialInfo(short, 8192), ScramCredentialInfo(long, 4096)]
    becomes(lambda: {user: sorted(each) for user, each in admin.describe_user_scram_credentials().items()}, {"alice": infos})
    found = admin.try_describe_user_scram_credentials(["alice", "bob"])
    assert code(found["bob"]) is ErrorCode.RESOURCE_NOT_FOUND
    for mechanism in (short, long):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", mechanism)])
    becomes(admin.describe_user_scram_credentials, {})


def test_delegation_tokens_need_an_authenticated_connection(peer: BrokerProcess, admin: Admin) -> None:
    expected = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" if only_jvm(peer) else "DELEGATION_TOKEN_AUTH_DISABLED|UNSUPPORTED|NOT_ALLOWED"
    for call in (
        admin.create_delegation_token,
        lambda: admin.renew_delegation_token(b"x"),
        lambda: admin.expire_delegation_token(b"x"),
        admin.describe_delegation_token,
    ):
        with pytest.raises(KafkaError, match=expected):
            call()


def test_client_quotas(peer: BrokerProcess, admin: Admin) -> None:
    alice, everybody, address = (
        ClientQuotaEntity(user="alice", client_id="app"),
        ClientQuotaEntity(user=""),
        ClientQuotaEntity(ip="10.0.0.1"),
    )
    altered = admin.try_alter_client_quotas(
        [
            ClientQuotaAlteration(alice, {"producer_byte_rate": 1024, "consumer_byte_rate": 2048}),
            ClientQuotaAlteration(everybody, {"request_percentage": 50}),
            ClientQuotaAlteration(address, {"connection_creation_rate": 3}),
            ClientQuotaAlteration(ClientQuotaEntity(user="bob"), {"nonsense": 1}),
        ]
    )
    assert [code(each) for each in altered.values()] == [None, None, None, ErrorCode.INVALID_REQUEST]
    expected = {
        alice: {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0},
        everybody: {"request_percentage": 50.0},
        address: {"connection_creation_rate": 3.0},
    }
    becomes(admin.describe_client_quotas, expected)
    any_user = [ClientQuotaFilterComponent("user")]
    assert set(admin.describe_client_quotas(any_user)) == {alice, everybody}
    assert set(admin.describe_client_quotas(any_user, strict=True)) == {everybody}
    assert set(admin.describe_client_quotas([ClientQuotaFilterComponent("user", "")])) == {everybody}
    assert set(admin.describe_client_quotas([ClientQuotaFilterComponent("client-id", "app")])) == {alice}
    admin.alter_client_quotas([ClientQuotaAlteration(alice, {"producer_byte_rate": None})])
    becomes(lambda: admin.describe_client_quotas()[alice], {"consumer_byte_rate": 2048.0})
    for entity, quotas in admin.describe_client_quotas().items():
        admin.alter_client_quotas([ClientQuotaAlteration(entity, dict.fromkeys(quotas))])
    becomes(admin.describe_client_quotas, {})
