"""Odradek and JVM Kafka in one metadata quorum: as voters, and as readers of the other's snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster, ask
from interop.tools import JvmTools
from interop.waiting import until
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.campaigns.mixed_quorum import campaign, no_complaints

pytestmark = pytest.mark.jvm

PATIENCE_S = 40.0


@pytest.mark.parametrize(("kinds", "dynamic"), [(("odradek", "jvm", "jvm"), False), (("odradek", "odradek", "jvm"), True)])
def test_leaders_end_and_the_quorum_goes_on(kinds: tuple[str, ...], dynamic: bool, tmp_path: Path, jvm_tools: JvmTools) -> None:
    """A kill, an orderly stop and a pause until another leads; the campaign has more of each, of longer pauses and of mixtures."""
    assert campaign(kinds, 3, 1, tmp_path, jvm_tools, dynamic=dynamic, pause_s=0) == []


def create(cluster: MixedCluster, through: int, name: str, on: int) -> None:
    """A topic with one partition on broker `on`."""
    assignment = [CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[on])]
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignment)
    response = ask(cluster.nodes[through].port, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7, timeout=30)
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == 0, response


def topics(cluster: MixedCluster, asked: int) -> set[str]:
    response = ask(cluster.nodes[asked].port, MetadataRequest(topics=None), 12)
    assert isinstance(response, MetadataResponse)
    return {topic.name for topic in response.topics if topic.name is not None}


def first_offset(folder: Path) -> int:
    return min(int(path.stem) for path in folder.glob("*.log"))


def snapshots(folder: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in folder.glob("*.checkpoint") if not path.name.startswith("0" * 20))


def test_each_loads_the_snapshot_of_the_other(tmp_path: Path) -> None:
    members = {
        1: Member("odradek", "controller"),
        2: Member("odradek", "broker"),
        3: Member("jvm", "broker"),
        4: Member("odradek", "broker"),
    }
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "3000",
        "metadata.max.retention.bytes": "4000",
        "internal.metadata.log.segment.bytes": "2048",
    }
    cluster = MixedCluster(tmp_path, members, settings=settings)
    cluster.format()
    log = "__cluster_metadata-0"
    try:
        cluster.start(1, 2)
        for number in range(60):
            create(cluster, 2, f"topic-{number}", 2)
        own = cluster.nodes[1].data / log
        until(lambda: first_offset(own) > 0, "the old log to be deleted", PATIENCE_S)
        names = {f"topic-{number}" for number in range(60)}
        cluster.start(3)
        assert topics(cluster, 3) == names
        assert snapshots(cluster.nodes[3].data / log), "the JVM's broker has begun with our snapshot"
        assert cluster.nodes[1].stop() == 0
        cluster.swap(1, "jvm")
        cluster.start(1)
        cluster.start(4)
        assert topics(cluster, 4) == names
        assert snapshots(cluster.nodes[4].data / log), "our broker has begun with the snapshot of the JVM's controller"
        create(cluster, 4, "after", 3)
        until(lambda: cluster.brokers(2).get(4) is False, "broker 4 to be unfenced", PATIENCE_S)
        assert no_complaints(cluster) == []
    finally:
        cluster.kill()
