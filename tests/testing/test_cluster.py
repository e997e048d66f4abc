"""Whole clusters on virtual time: they start, serve, lose nodes and get over it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.types import NewTopic
from odradek.testing.cluster import SimulatedCluster
from odradek.testing.loop import SimulatedLoop, run
from odradek.testing.network import VirtualNetwork


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
