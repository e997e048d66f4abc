"""Several whole nodes on virtual time: they find each other, elect, register, serve, and go on when some of them go."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.consensus.messages import LeaderAndEpoch
from odradek.controller import format as controller_format
from odradek.controller.format import bootstrap_records
from odradek.handlers.table import APIS
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from odradek.server.cluster.publisher import BrokerPublisher
from odradek.server.step import StartError
from odradek.testing.simulation.broker import DATA, SimulatedBroker
from odradek.testing.simulation.loop import SimulatedLoop, run
from tests.loops import in_virtual_time
from tests.server.several_nodes import BOTH, BROKER, CONTROLLER, Cluster


@pytest.mark.parametrize("dynamic", [False, True])
@in_virtual_time
async def test_three_nodes_form_a_quorum_serve_and_survive_the_end_of_the_controller(loop: SimulatedLoop, dynamic: bool) -> None:
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH}, dynamic=dynamic)
    await cluster.start()
    first = cluster.active()
    await cluster.until(lambda: all(cluster.registered(node) == {1: False, 2: False, 3: False} for node in (1, 2, 3)))
    await cluster.until(lambda: all(len(cluster.kraft(node).image.cluster.controllers) == 3 for node in (1, 2, 3)))
    assert cluster.kraft(first).kraft_version == (1 if dynamic else 0)
    others = [node for node in (1, 2, 3) if node != first]
    assert await cluster.create(others[0], "a") == [0], "forwarded"
    assert await cluster.create(first, "b") == [0]
    cluster.nodes[first].kill()
    begin = loop.time()
    assert await cluster.create(others[0], "c") == [0], "the client's request waits for the next controller"
    assert loop.time() - begin < 6
    second = cluster.active()
    assert second != first
    await cluster.until(lambda: "c" in cluster.known(others[1]))
    assert await cluster.topics(others[1]) == ["a", "b", "c"]
    await cluster.until(lambda: cluster.registered(second)[first], 15)
    await cluster.start(first)
    await cluster.until(lambda: not cluster.registered(second)[first])
    assert await cluster.topics(first) == ["a", "b", "c"]
    assert cluster.active() == second, "who comes back takes nothing over"


@pytest.mark.parametrize("settings", [{}, {"controller_quorum_fetch_timeout_ms": "2000"}], ids=str)
@in_virtual_time
async def test_a_controller_that_stops_in_order_leaves_no_gap(loop: SimulatedLoop, settings: dict[str, str]) -> None:
    """Also where voters wait for the fetch timeout when the connections of their leader are refused."""
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH}, **settings)
    await cluster.start()
    for _ in range(3):
        active = cluster.active()
        begin = loop.time()
        stopping = asyncio.ensure_future(cluster.nodes[active].stop())
        await cluster.until(lambda active=active: cluster.has_leader(but=active))  # type: ignore[misc]
        await stopping
        assert loop.time() - begin < 1.5, "without a time-out of fetches or elections"
        other = next(node for node, broker in cluster.nodes.items() if broker.alive)
        assert cluster.registered(other)[active], "fenced by its own wish"
        await cluster.start(active)
        await cluster.until(cluster.has_leader)


def test_a_new_controller_hears_of_every_broker_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.controller.core import brokers

    heard: list[tuple[float, int]] = []
    real = brokers.broker_heartbeat

    async def main(loop: SimulatedLoop) -> None:
        def heartbeat(context: Any, request: Any, version: int) -> Any:
            heard.append((loop.time(), request.broker_id))
            return real(context, request, version)

        monkeypatch.setattr(brokers, "broker_heartbeat", heartbeat)
        patience = {"broker_heartbeat_interval_ms": "60000", "broker_session_timeout_ms": "180000"}
        cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH}, **patience)
        await cluster.start()
        await asyncio.sleep(5)
        active = cluster.active()
        cluster.nodes[active].kill()
        await cluster.until(lambda: cluster.has_leader(but=active))
        elected = loop.time()
        await asyncio.sleep(1)
        assert {broker for at, broker in heard if at > elected - 0.2} == {1, 2, 3} - {active}

    run(main)


def test_no_partition_takes_a_role_before_the_controller_knows_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata may still call it the leader of what a power cut has taken from it."""
    told: list[MetadataImage] = []
    publish = BrokerPublisher.publish

    def note(self: BrokerPublisher, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        if self._config.static.node_id == 2:
            told.append(image)
        publish(self, delta, image, leader_and_epoch)

    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: CONTROLLER, 2: BROKER, 3: BROKER})
        await cluster.start()
        assert await cluster.create(2, "a", replicas=2) == [0]
        before = cluster.kraft(1).image
        led = [number for number, partition in before.topics.by_name["a"].partitions.items() if partition.leader == 2]
        assert led
        cluster.nodes[2].kill()
        monkeypatch.setattr(BrokerPublisher, "publish", note)
        await cluster.start(2)
        first, now = told[0], cluster.kraft(1).image
        assert first.cluster.brokers[2].epoch == now.cluster.brokers[2].epoch > before.cluster.brokers[2].epoch
        assert all(first.topics.by_name["a"].partitions[number].leader != 2 for number in led)

    run(main)


def test_a_broker_registers_levels_that_it_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """JVM Kafka formats with them, and its controllers let nobody in who does not name them."""
    unserved = {"share.version": 1, "streams.version": 1}

    def as_jvm_kafka_formats(release: str | None, chosen: Mapping[str, int]) -> list[VersionedRecord]:
        levels = [VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in unserved.items()]
        return bootstrap_records(release, chosen) + levels

    monkeypatch.setattr(controller_format, "bootstrap_records", as_jvm_kafka_formats)

    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: CONTROLLER, 2: BROKER, 3: BROKER})
        await cluster.start()
        registered = {broker.broker_id: dict(broker.supported_features) for broker in cluster.kraft(1).image.cluster.brokers.values()}
        assert registered.keys() == {2, 3}
        assert all(levels.get(name) == (0, level) for levels in registered.values() for name, level in unserved.items())

    run(main)


@in_virtual_time
async def test_brokers_and_controllers_may_be_different_nodes(loop: SimulatedLoop) -> None:
    roles = {1: CONTROLLER, 2: CONTROLLER, 3: CONTROLLER, 4: BROKER, 5: BROKER}
    cluster = Cluster(loop, roles)
    await cluster.start()
    active = cluster.active()
    assert active in (1, 2, 3)
    assert cluster.registered(active) == {4: False, 5: False}
    assert await cluster.create(4, "a", "b") == [0, 0]
    cluster.nodes[active].kill()
    assert await cluster.create(5, "c") == [0]
    await cluster.until(lambda: "c" in cluster.known(4))
    assert await cluster.topics(4) == ["a", "b", "c"]
    controller = cluster.active()
    described: DescribeClusterResponse = await cluster.ask(
        controller, DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse, 2, 9093
    )
    assert described.controller_id == controller
    assert [(each.broker_id, each.host, each.port) for each in described.brokers] == [(node, f"n{node}", 9093) for node in (1, 2, 3)]
    await cluster.nodes[4].stop()
    assert cluster.registered(controller)[4]


def test_a_controller_node_answers_from_the_metadata_and_not_from_nothing() -> None:
    from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER})
        await cluster.start()
        await cluster.create(4, "a")
        await cluster.until(lambda: "a" in cluster.kraft(1).image.topics.by_name)
        question = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        versions: ApiVersionsResponse = await cluster.ask(1, question, ApiVersionsResponse, 4, 9093)
        assert {each.name: each.max_version_level for each in versions.finalized_features}["metadata.version"] == 30
        assert versions.finalized_features_epoch > 0
        resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=["retention.ms"])
        configs: DescribeConfigsResponse = await cluster.ask(
            1, DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4, 9093
        )
        assert [(each.error_code, [c.name for c in each.configs]) for each in configs.results] == [(0, ["retention.ms"])]

    run(main)


@in_virtual_time
async def test_controllers_of_an_older_release_hear_nothing_that_they_cannot_read(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 4.2 know BrokerHeartbeat 1, which has no field for cordoned log directories."""
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER}, release="4.2", server_max_startup_time_ms="30000")
    heartbeat = next(api for api in APIS if api.api_key is ApiKey.BROKER_HEARTBEAT)
    monkeypatch.setattr(heartbeat, "max_version", 1)
    await cluster.start()
    assert await cluster.create(4, "a") == [0]


def test_a_controller_that_is_no_voter_follows(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: BOTH, 2: BOTH}, dynamic=True, joining=[2])
        await cluster.start()
        assert cluster.active() == 1
        assert await cluster.create(2, "a") == [0]
        await cluster.until(lambda: "a" in cluster.kraft(2).image.topics.by_name)
        assert not cluster.kraft(2).raft.is_voter

    with caplog.at_level(logging.WARNING):
        run(main)
    assert any("controller 2 does not know the voters yet" in line for line in caplog.messages)


def test_a_node_of_another_cluster_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: BOTH, 2: BOTH}, server_max_startup_time_ms="20000")
        other = cluster.nodes[2]
        for name in ("meta.properties", "bootstrap.checkpoint"):
            other.disk.remove(f"{DATA}/{name}")
        other.disk.write_atomic(f"{DATA}/meta.properties", b"version=1\ncluster.id=another\nnode.id=2\n")
        results = await asyncio.gather(*(node.start() for node in cluster.nodes.values()), return_exceptions=True)
        for node, error in zip((1, 2), results, strict=True):
            assert isinstance(error, StartError)
            expected = rf"waiting for a leader .*n{3 - node}:9093: it belongs to another cluster: INCONSISTENT_CLUSTER_ID"
            assert re.search(expected, str(error)), error

    with caplog.at_level(logging.WARNING):
        run(main)
    assert sum("does not take part in a metadata quorum" in line for line in caplog.messages) == 2, "once on each side"


def test_another_node_at_the_address_of_a_voter_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: SimulatedLoop) -> None:
        cluster = Cluster(loop, {1: BOTH, 2: BOTH}, server_max_startup_time_ms="20000")
        # Node 1 takes n2 for the address of node 3.
        wrong = "1@n1:9093,3@n2:9093"
        cluster.nodes[1] = SimulatedBroker(
            loop,
            seed=1,
            host="n1",
            settings={"node.id": "1", "controller.quorum.voters": wrong, "server.max.startup.time.ms": "20000"},
            disk=cluster.nodes[1].disk,
        )
        # Node 2, which is right about both, finds a majority all the same.
        await cluster.start()

    with caplog.at_level(logging.WARNING):
        run(main)
    assert sum("node 3 at n2:9093" in line and "it has another node id" in line for line in caplog.messages) == 1


@in_virtual_time
async def test_a_node_whose_controllers_are_gone_stops_within_a_session(loop: SimulatedLoop) -> None:
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER})
    await cluster.start()
    cluster.nodes[1].kill()
    begin = loop.time()
    await cluster.nodes[4].stop()
    assert 1 < loop.time() - begin < 15


@pytest.mark.parametrize(
    "roles", [{1: CONTROLLER, 4: BROKER}, {1: BOTH, 2: BOTH, 3: BOTH}, {1: CONTROLLER, 2: CONTROLLER, 3: CONTROLLER}], ids=str
)
@in_virtual_time
async def test_a_node_in_haste_waits_for_no_other(loop: SimulatedLoop, roles: dict[int, str]) -> None:
    cluster = Cluster(loop, roles)
    await cluster.start()
    last = cluster.active() if 3 in roles else 4
    for other in roles.keys() - {last}:
        cluster.nodes[other].kill()
    node, begin = cluster.nodes[last], loop.time()
    stopping = loop.create_task(node.stop())
    await asyncio.sleep(0.5)
    assert not stopping.done()
    assert node.broker is not None
    node.broker.hurry()
    node.broker.hurry()
    await stopping
    assert loop.time() - begin < 0.6
    assert node.disk.exists(f"{DATA}/.kafka_cleanshutdown") == (BROKER in roles[last])


@pytest.mark.parametrize(("grace_ms", "least_s", "most_s"), [("1000", 0.0, 0.2), ("0", 0.0, 0.2), ("-1", 6.9, 9.2)])
@in_virtual_time
async def test_a_broker_whose_process_is_gone_is_fenced_without_its_session(
    loop: SimulatedLoop, grace_ms: str, least_s: float, most_s: float
) -> None:
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER, 5: BROKER}, broker_session_disconnect_timeout_ms=grace_ms)
    await cluster.start()
    await cluster.create(5, "a")
    cluster.nodes[4].kill()
    took = await cluster.until(lambda: cluster.registered(1)[4])
    assert least_s <= took <= most_s
    assert not cluster.registered(1)[5]
    await asyncio.sleep(1)
    other = cluster.nodes[5].broker
    assert other is not None
    listed = [broker.broker_id for broker in other.services.metadata.listed(loop.time())]
    assert listed == ([5] if grace_ms == "-1" else [4, 5]), "as long as its session would have lasted"
    await cluster.start(4)
    assert not cluster.registered(1)[4]


@in_virtual_time
async def test_a_broker_that_is_gone_with_the_active_controller_is_fenced_by_the_next(loop: SimulatedLoop) -> None:
    """Which has never heard of it."""
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH})
    await cluster.start()
    former = cluster.active()
    asked = next(node for node in cluster.nodes if node != former)
    cluster.nodes[former].kill()
    assert await cluster.until(lambda: cluster.registered(asked)[former]) < 1.0
    assert [node for node, fenced in cluster.registered(asked).items() if fenced] == [former]


@in_virtual_time
async def test_a_broker_that_hangs_after_its_connection_has_ended_is_fenced_without_its_session(loop: SimulatedLoop) -> None:
    """Its system still takes connections, so that nobody can tell at once."""
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER, 5: BROKER})
    await cluster.start()
    cluster.nodes[4].pause()
    loop.network.reset_connections("n4")
    assert 0.9 <= await cluster.until(lambda: cluster.registered(1)[4]) <= 2.6
    assert not cluster.registered(1)[5]


@in_virtual_time
async def test_a_broker_that_comes_back_over_another_connection_keeps_its_leaderships(loop: SimulatedLoop) -> None:
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER})
    await cluster.start()
    seen: list[bool] = []
    for _ in range(5):
        loop.network.reset_connections("n4")
        for _ in range(30):
            await asyncio.sleep(0.1)
            seen.append(cluster.registered(1)[4])
    assert not any(seen)


@pytest.mark.parametrize("seconds", [0.9, 2.0, 5.0, 20.0])
@in_virtual_time
async def test_nobody_is_fenced_because_the_controller_stood_still(loop: SimulatedLoop, seconds: float) -> None:
    """Brokers end connections over which nothing is answered for half a session, and what they have begun anew waits unread."""
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER, 5: BROKER, 6: BROKER})
    await cluster.start()
    for lost in (False, True):
        cluster.nodes[1].pause()
        await asyncio.sleep(seconds / 2)
        if lost:
            loop.network.reset_connections("n1")
        await asyncio.sleep(seconds / 2)
        cluster.nodes[1].resume()
        for _ in range(120):
            await asyncio.sleep(0.1)
            assert not any(cluster.registered(1).values())


@in_virtual_time
async def test_nobody_is_fenced_because_the_controller_s_disk_is_slow(loop: SimulatedLoop) -> None:
    """Heartbeats over new connections come in time, and are answered when what was decided before them is durable."""
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER, 5: BROKER, 6: BROKER})
    await cluster.start()
    cluster.nodes[1].slow_jobs((3.5, 3.6))
    for _ in range(5):
        await asyncio.sleep(1.9)
        loop.network.reset_connections("n1")
        for _ in range(50):
            await asyncio.sleep(0.1)
            assert not any(cluster.registered(1).values())


@in_virtual_time
async def test_a_heartbeat_that_waits_for_the_disk_before_the_question_counts(loop: SimulatedLoop) -> None:
    """Whether a broker is to be fenced is asked while heartbeats over its new connection wait for their turn."""
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER, 5: BROKER})
    await cluster.start()
    queue = cluster.kraft(1)._queue
    await asyncio.sleep(1.9)
    loop.network.reset_connections("n1")
    queue.put(queue.suspend)
    await asyncio.sleep(4)
    queue.resume(lambda: None)
    for _ in range(50):
        assert not any(cluster.registered(1).values())
        await asyncio.sleep(0.1)


@in_virtual_time
async def test_a_deposed_controller_judges_nobody_by_what_it_heard_before(loop: SimulatedLoop) -> None:
    """Brokers leave it, and it may soon be active again."""
    cluster = Cluster(loop, {1: CONTROLLER, 2: CONTROLLER, 3: CONTROLLER, 4: BROKER})
    await cluster.start()
    await asyncio.sleep(3)
    former = cluster.active()
    broker = cluster.nodes[former].broker
    assert broker is not None
    assert broker.node.controller is not None
    connections: Any = broker.node.controller.heartbeat_connections
    assert connections is not None
    assert connections.known == {4}
    cluster.nodes[former].pause()
    await asyncio.sleep(5)
    cluster.nodes[former].resume()
    await asyncio.sleep(1)
    assert cluster.active() != former
    assert connections.known == set()


@in_virtual_time
async def test_a_controller_that_stops_notes_no_more_heartbeats(loop: SimulatedLoop) -> None:
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER})
    await cluster.start()
    broker = cluster.nodes[1].broker
    assert broker is not None
    parts = broker.node.controller
    assert parts is not None
    assert parts.heartbeat_connections is not None
    await cluster.nodes[1].stop()
    assert parts.heartbeat_connections is None


@in_virtual_time
async def test_a_broker_that_is_cut_off_has_its_session(loop: SimulatedLoop) -> None:
    cluster = Cluster(loop, {1: CONTROLLER, 4: BROKER})
    await cluster.start()
    loop.network.cut("n4", "n1")
    loop.network.cut("n1", "n4")
    assert 6.9 <= await cluster.until(lambda: cluster.registered(1)[4]) <= 9.2


@in_virtual_time
async def test_a_follower_that_was_away_loads_the_snapshot_of_the_leader(loop: SimulatedLoop) -> None:
    tight = {"metadata_log_max_record_bytes_between_snapshots": "2000", "internal_metadata_log_segment_bytes": "4096"}
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH}, metadata_max_retention_bytes="4096", **tight)
    await cluster.start()
    away = next(node for node in (1, 2, 3) if node != cluster.active())
    cluster.nodes[away].kill()
    present = next(node for node in (1, 2, 3) if node != away)
    for number in range(120):
        assert await cluster.create(present, f"topic-{number}") == [0]
    # Old segments and snapshots go by a timer of their own.
    await asyncio.sleep(120)
    assert cluster.kraft(cluster.active()).log.start_offset > 0
    await cluster.start(away)
    assert len(await cluster.topics(away)) == 120
