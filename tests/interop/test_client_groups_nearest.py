"""Our consumer reads from the replica in its rack (KIP-392), from brokers in two racks."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster
from odradek.client import Admin, Consumer, NewTopic, TopicPartition
from odradek.replication.selector import RACK_AWARE
from tests.client.internals import engine_of
from tests.client.members import fill

RACKS = {1: "a", 2: "b"}
COUNT = 100


@pytest.mark.timeout(240)
@pytest.mark.parametrize("release", ["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def test_a_consumer_reads_from_its_rack(tmp_path: Path, release: str) -> None:
    selector = RACK_AWARE
    settings = {"replica.selector.class": selector, "offsets.topic.replication.factor": "1"}
    cluster = MixedCluster(tmp_path, {node: Member(release) for node in RACKS}, settings=settings)
    for node, process in cluster.nodes.items():
        process.overrides["broker.rack"] = RACKS[node]
    with cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 2, 2)])
        fill(cluster.bootstrap, "orders", COUNT, 2)
        with Consumer(bootstrap_servers=cluster.bootstrap, client_rack="b", auto_offset_reset="earliest") as consumer:
            partitions = [TopicPartition("orders", number) for number in range(2)]
            consumer.assign(partitions)
            seen = 0
            while seen < COUNT:
                seen += len(consumer.poll(20_000))
            positions = engine_of(consumer).fetcher.positions
            leaders = {each: engine_of(consumer).cluster.view.leader(each) for each in partitions}
            read_from = {each: leaders[each] if positions[each].preferred is None else positions[each].preferred for each in partitions}
            assert set(read_from.values()) == {2}
            assert set(leaders.values()) == {1, 2}
