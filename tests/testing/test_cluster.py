"""Whole clusters on virtual time: they start, serve, lose nodes and get over it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ConfigError, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.config.broker import standalone_config
from odradek.testing.simulation.cluster import SimulatedCluster
from odradek.testing.simulation.loop import SimulatedLoop, run
from odradek.testing.simulation.network import VirtualNetwork
from odradek.testing.simulation.node import SimulatedNode


async def _create(cluster: SimulatedCluster, topic: str, factor: int = 1) -> None:
    with cluster.client("admin"):
        async with cluster.admin("admin") as admin:
            await admin.create_topics([NewTopic(topic, 3, factor)])


async def _write(cluster: SimulatedCluster, topic: str, count: int) -> None:
    with cluster.client("writer"):
        async with cluster.producer("writer", delivery_timeout_ms=120_000) as producer:
            for number in range(count):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 3)


async def _read(cluster: SimulatedCluster, topic: str, count: int) -> list[int]:
    with cluster.client("reader"):
        async with cluster.consumer("reader", auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(3)])
            found: list[int] = []
            while len(found) < count:
                found += [int(record.value or b"") for record in await consumer.poll(5000)]
            return sorted(found)


@pytest.mark.parametrize(
    "layout", [{}, {"static_voters": True}, {"nodes": 5}, {"separate_controllers": True}], ids=lambda layout: "-".join(layout) or "combined"
)
def test_a_cluster_starts_serves_and_stops(layout: dict[str, int | bool]) -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=1, **layout)  # type: ignore[arg-type]
        await cluster.start()
        assert cluster.active_controller() in cluster.controller_ids
        await _create(cluster, "topic")
        await _write(cluster, "topic", 9)
        assert await _read(cluster, "topic", 9) == list(range(9))
        await cluster.stop()

    run(main, VirtualNetwork(1))


def test_another_controller_takes_over_when_one_is_killed_and_it_comes_back() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=2)
        await cluster.start()
        first = cluster.active_controller()
        assert first is not None
        cluster.kill(first)
        await cluster.wait_until(lambda: cluster.active_controller() not in (None, first), 10, what="another controller")
        await _create(cluster, "topic")
        await cluster.heal()
        assert cluster.kraft(first) is not None
        await cluster.stop()

    run(main, VirtualNetwork(2))


def test_a_paused_controller_is_replaced_and_follows_when_it_goes_on() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=3)
        await cluster.start()
        first = cluster.active_controller()
        assert first is not None
        cluster.pause(first)
        await asyncio.sleep(12)
        second = cluster.active_controller()
        cluster.resume(first)
        await asyncio.sleep(5)
        kraft = cluster.kraft(first)
        assert kraft is not None
        assert kraft.leader_and_epoch.leader_id == second != first
        await cluster.stop()

    run(main, VirtualNetwork(3))


def test_everything_is_there_after_all_machines_lost_power() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=4, settings={"log.flush.interval.messages": "1"})
        await cluster.start()
        await _create(cluster, "topic")
        await _write(cluster, "topic", 30)
        cluster.power_cut()
        await asyncio.sleep(1)
        await cluster.heal()
        assert await _read(cluster, "topic", 30) == list(range(30))
        await cluster.stop()

    run(main, VirtualNetwork(4))


def test_clocks_may_be_wrong_by_node() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=5)
        await cluster.start()
        cluster.set_clock(2, 3_600_000)
        cluster.set_clock(3, -3_600_000)
        assert cluster.nodes[2].clock.time_ms() - cluster.nodes[1].clock.time_ms() == 3_600_000
        assert cluster.nodes[2].clock.monotonic() == cluster.nodes[1].clock.monotonic()
        await _create(cluster, "topic")
        await _write(cluster, "topic", 9)
        await cluster.stop()

    run(main, VirtualNetwork(5))


def test_a_node_that_is_cut_off_from_the_others_serves_no_changes() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=6)
        await cluster.start()
        for node in cluster.ids:
            cluster.isolate(node)
        with cluster.client("admin"):
            async with cluster.admin("admin", default_api_timeout_ms=10_000, request_timeout_ms=5_000) as admin:
                with pytest.raises(KafkaError):
                    await admin.create_topics([NewTopic("topic", 3, 1)])
        await cluster.heal()
        await _create(cluster, "other")
        await cluster.stop()

    run(main, VirtualNetwork(6))


def test_a_power_cut_of_all_machines_takes_what_killed_nodes_left_unsynced() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=7, nodes=2)
        await cluster.start()
        for node in cluster.ids:
            disk = cluster.nodes[node].disk
            file = disk.open("/data/synced", create=True)
            file.pwritev([b"synced"], 0)
            file.fsync()
            disk.fsync_dir("/data")
            for number in range(50):
                disk.open(f"/data/unsynced-{number}", create=True)
        cluster.kill(1)
        cluster.kill(2)
        assert all(simulated.disk.exists("/data/unsynced-49") for simulated in cluster.nodes.values())
        cluster.power_cut()
        for simulated in cluster.nodes.values():
            assert simulated.disk.read_bytes("/data/synced") == b"synced"
            assert not simulated.disk.exists("/data/unsynced-49")
        await cluster.heal()
        await cluster.stop()

    run(main, VirtualNetwork(7))


def test_healing_takes_back_the_latency_between_a_client_and_a_node() -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = SimulatedCluster(loop, seed=8, nodes=1)
        await cluster.start()
        cluster.slow_down("admin", 1, (20.0, 20.0))
        await cluster.heal()
        begin = loop.time()
        await _create(cluster, "topic")
        assert loop.time() - begin < 20
        await cluster.stop()

    run(main, VirtualNetwork(8))


def test_a_node_whose_settings_are_wrong_is_down_and_starts_with_better_ones() -> None:
    async def main(loop: SimulatedLoop) -> None:
        settings = {"log.dirs": "/data", "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093", "num.partitions": "none"}
        settings["controller.quorum.bootstrap.servers"] = "node:9093"
        node = SimulatedNode(loop, "node", lambda: standalone_config(settings), format_if_empty=True)
        with pytest.raises(ConfigError):
            await node.start()
        assert not node.alive
        settings["num.partitions"] = "2"
        await node.start()
        await node.stop()

    run(main, VirtualNetwork(9))
