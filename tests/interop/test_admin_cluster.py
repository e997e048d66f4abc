"""Our admin client with three brokers of JVM Kafka: leaders and coordinators that move and end."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from interop.cluster import Member, MixedCluster
from interop.waiting import becomes
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, NewTopic, Producer
from odradek.client.admin.types.cluster import RaftVoterEndpoint
from odradek.client.admin.types.groups import OffsetAndMetadata
from odradek.client.admin.types.replicas import ElectionType, TopicPartitionReplica
from odradek.client.admin.types.topics import OffsetSpec

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

PATIENCE_S = 60.0
MEMBERS = {1: Member("jvm"), 2: Member("jvm", "broker"), 3: Member("jvm", "broker")}
PARTITIONS = [TopicPartition("spread", number) for number in range(3)]
GROUPS = [f"group-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path_factory.mktemp("cluster"), MEMBERS, dynamic=True) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: MixedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=30_000) as client:
        becomes(lambda: len(client.describe_cluster().brokers), 3)
        client.create_topics([NewTopic("spread", assignments={0: [1, 3], 1: [2, 3], 2: [3, 2]})])
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(30):
                producer.send("spread", b"%d" % number, partition=number % 3)
            producer.flush()
        yield client


def code(answer: object) -> ErrorCode | None:
    return answer.code if isinstance(answer, KafkaError) else None


def leaders(admin: Admin) -> list[int]:
    return [each.leader for each in admin.describe_topics(["spread"])["spread"].partitions.values()]


def test_each_leader_is_asked_for_its_partitions(admin: Admin) -> None:
    becomes(lambda: leaders(admin), [1, 2, 3])
    assert [each.offset for each in admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetSpec.LATEST)).values()] == [10, 10, 10]
    found = admin.try_delete_records({PARTITIONS[0]: 2, PARTITIONS[1]: 99, PARTITIONS[2]: 4})
    assert [each if isinstance(each, int) else code(each) for each in found.values()] == [2, ErrorCode.OFFSET_OUT_OF_RANGE, 4]
    assert [code(each) for each in admin.try_describe_producers(PARTITIONS).values()] == [None, None, None]


def test_each_coordinator_is_asked_for_its_groups(admin: Admin) -> None:
    for number, group in enumerate(GROUPS):
        admin.alter_consumer_group_offsets(group, {PARTITIONS[0]: number})
    described = admin.describe_consumer_groups(GROUPS)
    assert {each.coordinator.node_id for each in described.values()} == {1, 2, 3}
    assert {group: offsets[PARTITIONS[0]] for group, offsets in admin.list_consumer_group_offsets(GROUPS).items()} == {
        group: OffsetAndMetadata(number) for number, group in enumerate(GROUPS)
    }
    assert [each.group_id for each in admin.list_groups()] == GROUPS
    assert sorted(each.group_id for found in admin.try_list_groups().values() if isinstance(found, list) for each in found) == GROUPS


def test_directories_of_all_brokers(cluster: MixedCluster, admin: Admin) -> None:
    found = admin.describe_log_dirs([1, 2, 3], partitions=PARTITIONS)
    held = {broker: {each.partition for folder in folders.values() for each in folder.replicas} for broker, folders in found.items()}
    assert held == {1: {0}, 2: {1, 2}, 3: {0, 1, 2}}
    places = admin.describe_replica_log_dirs([TopicPartitionReplica("spread", 1, broker) for broker in (2, 3)])
    assert {replica.broker_id: info.current_log_dir for replica, info in places.items()} == {
        broker: str(cluster.nodes[broker].data) for broker in (2, 3)
    }


def test_partitions_move_to_other_brokers_and_are_found_there(admin: Admin) -> None:
    moving = PARTITIONS[1]
    admin.alter_partition_reassignments({moving: [1]})
    becomes(admin.list_partition_reassignments, {})
    becomes(lambda: leaders(admin), [1, 1, 3])
    # The client still believes in the leader of before.
    assert admin.delete_records({moving: 3}) == {moving: 3}
    assert admin.describe_topics(["spread"])["spread"].partitions[1].replicas == (1,)


def test_the_preferred_replica_leads_again(admin: Admin) -> None:
    partition = PARTITIONS[0]
    admin.alter_partition_reassignments({partition: [3, 1]})
    becomes(admin.list_partition_reassignments, {})
    elected = admin.try_elect_leaders(ElectionType.PREFERRED, [partition, PARTITIONS[2]])
    assert [code(each) for each in elected.values()] == [None, ErrorCode.ELECTION_NOT_NEEDED]
    becomes(lambda: leaders(admin), [3, 1, 3])
    admin.alter_partition_reassignments({partition: [1, 3]})
    becomes(admin.list_partition_reassignments, {})
    assert admin.elect_leaders(ElectionType.PREFERRED) == [partition]


def test_voters_by_their_directories(cluster: MixedCluster, admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    assert [each.replica_id for each in quorum.voters] == [1]
    assert {each.replica_id for each in quorum.observers} == {2, 3}
    (voter,) = quorum.voters
    endpoint = RaftVoterEndpoint("CONTROLLER", "127.0.0.1", cluster.nodes[1].controller_port)
    assert quorum.nodes[1] == (endpoint,)
    with pytest.raises(KafkaError, match="DUPLICATE_VOTER"):
        admin.add_raft_voter(1, voter.replica_directory_id, [endpoint])
    with pytest.raises(KafkaError, match="VOTER_NOT_FOUND"):
        admin.remove_raft_voter(1, UUID(int=5))
    with pytest.raises(KafkaError, match="INCONSISTENT_CLUSTER_ID"):
        admin.remove_raft_voter(1, voter.replica_directory_id, cluster_id="another")


def test_a_broker_that_ended_takes_only_its_own_items_with_it(cluster: MixedCluster, admin: Admin) -> None:
    """The last story: broker 2 is killed and taken out of the cluster."""
    coordinators = {group: each.coordinator.node_id for group, each in admin.describe_consumer_groups(GROUPS).items()}
    lost = {group for group, node in coordinators.items() if node == 2}
    cluster.nodes[2].kill()
    with Admin(bootstrap_servers=cluster.bootstrap, default_api_timeout_ms=15_000, request_timeout_ms=3_000) as hasty:
        becomes(lambda: 2 in [each.node_id for each in hasty.describe_cluster().brokers], False)
        found = hasty.try_list_consumer_group_offsets(GROUPS)
        # The offsets of these groups have one replica, which is gone.
        assert {group for group, each in found.items() if isinstance(each, KafkaError)} == lost
        assert code(hasty.try_describe_log_dirs([1, 2])[2]) is ErrorCode.BROKER_NOT_AVAILABLE
        assert sorted(hasty.try_list_groups()) == [1, 3]
        fenced = hasty.describe_cluster(include_fenced_brokers=True)
        assert fenced.fenced_brokers == {2}
    admin.unregister_broker(2)
    becomes(lambda: admin.describe_cluster(include_fenced_brokers=True).fenced_brokers, frozenset())
