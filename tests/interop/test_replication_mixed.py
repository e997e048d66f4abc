"""Replicas on brokers of both kinds: JVM Kafka copies from Odradek and Odradek from JVM Kafka, and their logs are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop.cluster import Member, MixedCluster, ask, eventually
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.campaigns.mixed_quorum import no_complaints
from tests.campaigns.reading import read_to_end

pytestmark = pytest.mark.jvm

OURS, JVM = 2, 3
TOPIC = "shared"
PATIENCE_S = 60.0


def create(cluster: MixedCluster, name: str, *replicas: list[int], **configs: str) -> None:
    """A topic with a partition for each list of replicas; the first of them leads."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(replicas)
        ],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    response = ask(cluster.nodes[OURS].port, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7, timeout=30)
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == 0, response


def states(cluster: MixedCluster, asked: int, name: str) -> dict[int, tuple[int, list[int]]]:
    """Partition -> leader and sorted ISR, as a broker says."""
    response = ask(cluster.nodes[asked].port, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)]), 12)
    assert isinstance(response, MetadataResponse)
    [topic] = response.topics
    return {each.partition_index: (each.leader_id, sorted(each.isr_nodes)) for each in topic.partitions}


def wait_for_isr(cluster: MixedCluster, asked: int, name: str, *brokers: int) -> None:
    def reached() -> bool | None:
        found = states(cluster, asked, name)
        return True if found and all(isr == sorted(brokers) for _, isr in found.values()) else None

    eventually(reached, f"the ISR of {name} to be {brokers}", PATIENCE_S)


def write(cluster: MixedCluster, name: str, partition: int, values: list[bytes], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5, **settings})
    failed: list[object] = []
    for value in values:
        producer.produce(name, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error is not None else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def write_transactions(cluster: MixedCluster, name: str, partition: int) -> None:
    """One that is committed and one that is aborted."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"t-{partition}"})
    producer.init_transactions(PATIENCE_S)
    for commits in (True, False):
        producer.begin_transaction()
        for index in range(20):
            producer.produce(name, b"committed %d" % index if commits else b"aborted %d" % index, partition=partition)
        producer.flush(PATIENCE_S)
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)


def stored(cluster: MixedCluster, broker: int, name: str, partition: int) -> bytes:
    folder = cluster.nodes[broker].data / f"{name}-{partition}"
    return b"".join([path.read_bytes() for path in sorted(folder.glob("*.log"))])


def wait_for_equal_logs(cluster: MixedCluster, name: str, *brokers: int) -> None:
    """Nobody writes: all that is in one replica's files is in the other's."""
    for partition in states(cluster, OURS, name):

        def equal(partition: int = partition) -> bool | None:
            logs = {stored(cluster, broker, name, partition) for broker in brokers}
            return True if len(logs) == 1 and logs != {b""} else None

        eventually(equal, f"equal logs of {name}-{partition}", PATIENCE_S)


@pytest.mark.parametrize("controller", ["odradek", "jvm"])
def test_replicas_of_both_kinds_are_the_same_whoever_leads_and_dies(controller: str, tmp_path: Path) -> None:
    members = {1: Member(controller, "controller"), OURS: Member("odradek", "broker"), JVM: Member("jvm", "broker")}
    settings = {"broker.session.timeout.ms": "6000", "replica.lag.time.max.ms": "4000", "transaction.state.log.min.isr": "1"}
    with MixedCluster(tmp_path, members, settings=settings) as cluster:
        # Partition 0 is led by ours, 1 by the JVM's; segments are small, so that they roll.
        create(cluster, TOPIC, [OURS, JVM], [JVM, OURS], segment_bytes="1048576", min_insync_replicas="1")
        wait_for_isr(cluster, OURS, TOPIC, OURS, JVM)
        written: dict[int, list[bytes]] = {0: [], 1: []}

        def more(count: int, size: int = 100, **how: object) -> None:
            for partition, values in written.items():
                new = [b"%d %d " % (partition, len(values) + index) + b"." * size for index in range(count)]
                write(cluster, TOPIC, partition, new, **how)
                values += new

        more(2000)
        more(300, 9000, **{"batch.size": 1_000_000})
        more(500, 500, **{"compression.type": "lz4"})
        for partition in written:
            write_transactions(cluster, TOPIC, partition)
            written[partition] += [b"committed %d" % index for index in range(20)]
        wait_for_equal_logs(cluster, TOPIC, OURS, JVM)
        for dead, alive in ((JVM, OURS), (OURS, JVM)):
            cluster.nodes[dead].kill()
            wait_for_isr(cluster, alive, TOPIC, alive)
            more(700)
            cluster.start(dead)
            wait_for_isr(cluster, alive, TOPIC, OURS, JVM)
            more(300)
            wait_for_equal_logs(cluster, TOPIC, OURS, JVM)
        for partition, values in written.items():
            rows = read_to_end(cluster.bootstrap, TOPIC, [partition])
            assert [row.value for row in rows[partition]] == values
        assert no_complaints(cluster) == []
