"""Connections in virtual time: every address is tried, idle ones are closed, throttled nodes left in peace, bootstrap servers come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.network.cluster import BOOTSTRAP, Cluster, NoBrokersAvailable
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig, Setting
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Message
from odradek.testing.simulation.loop import SimulatedClock, SimulatedLoop
from tests.client import scripted
from tests.client.scripted import TOPIC, ScriptedBrokers, cluster, produced, producer, run
from tests.loops import in_virtual_time


def serving(loop: SimulatedLoop, count: int = 1, heartbeat: Callable[[], Message | None] = HeartbeatResponse) -> ScriptedBrokers:
    def answer(_: int, request: Message) -> Message | None:
        return heartbeat() if isinstance(request, HeartbeatRequest) else brokers.metadata(leader=1)

    brokers = ScriptedBrokers(loop, count, answer)
    return brokers


async def beat(client: Cluster, node_id: int = BOOTSTRAP) -> None:
    await client.call(await client.node(node_id), HeartbeatRequest(), HeartbeatResponse)


# -- addresses ----------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_every_address_of_a_name_is_tried(loop: SimulatedLoop) -> None:
    brokers = serving(loop)
    loop.network.names["kafka"] = ["10.0.0.1", "10.0.0.2", "broker1"]
    client = cluster(loop, bootstrap_servers="kafka:9092")
    await beat(client)
    assert brokers.dialled == 1
    await client.close()


@in_virtual_time
async def test_an_address_that_does_not_answer_takes_no_longer_than_its_time(loop: SimulatedLoop) -> None:
    serving(loop)
    loop.network.names["kafka"] = ["10.0.0.1", "broker1"]
    loop.network.cut("127.0.0.1", "10.0.0.1")
    client = cluster(loop, bootstrap_servers="kafka:9092", socket_connection_setup_timeout_ms="1000")
    await beat(client)
    assert 0.8 <= loop.time() <= 1.3
    await client.close()


@in_virtual_time
async def test_what_each_address_said_is_told(loop: SimulatedLoop) -> None:
    loop.network.names.update(kafka=["10.0.0.1", "10.0.0.2"], nowhere=[])
    client = cluster(loop, bootstrap_servers="kafka:9092,nowhere:9092,[::1]:9093")
    with pytest.raises(NoBrokersAvailable) as raised:
        await client.node(BOOTSTRAP)
    for said in (
        "no listener at ('10.0.0.1'",
        "(10.0.0.2)",
        "nowhere:9092: the host name cannot be resolved",
        "cannot connect to [::1]:9093",
    ):
        assert said in str(raised.value)
    await client.close()


@in_virtual_time
async def test_canonical_names_of_bootstrap_servers(loop: SimulatedLoop) -> None:
    brokers = ScriptedBrokers(loop, 2, lambda node, _: brokers.metadata(leader=node))
    # Names of addresses are looked up in this order.
    loop.network.names.update({"broker1": ["10.0.0.1"], "broker2": ["10.0.0.2"], "kafka": ["10.0.0.1", "10.0.0.2"]})
    for node in (1, 2):
        loop.network.listen(lambda node=node: scripted.ScriptedConnection(brokers, node), f"10.0.0.{node}", 9092)  # type: ignore[misc]
    client = cluster(loop, bootstrap_servers="kafka:9092", client_dns_lookup="resolve_canonical_bootstrap_servers_only")
    node = await client.node(BOOTSTRAP)
    assert node.address in ("broker1:9092", "broker2:9092")
    await client.close()


# -- setting one up -----------------------------------------------------------------------------------------------------------------


def test_the_time_to_connect_doubles_up_to_its_limit() -> None:
    async def story(loop: SimulatedLoop) -> list[float]:
        loop.network.cut("127.0.0.1", "broker1")
        settings = {"socket_connection_setup_timeout_ms": "1000", "socket_connection_setup_timeout_max_ms": "4000"}
        client = cluster(loop, reconnect_backoff_ms="0", reconnect_backoff_max_ms="0", **settings)
        took: list[float] = []
        for _ in range(5):
            begin = loop.time()
            with pytest.raises(NoBrokersAvailable, match="did not respond within"):
                await client.node(BOOTSTRAP)
            took.append(loop.time() - begin)
        await client.close()
        return took

    took = run(story)
    for expected, actual in zip([1, 2, 4, 4, 4], took, strict=True):
        assert 0.8 * expected <= actual <= min(1.2 * expected, 4.01), took


class _Silent(asyncio.Protocol):
    """Accepts, and says what it is told to."""

    def __init__(self, says: bytes = b"") -> None:
        self._says = says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._says:
            transport.write(self._says)


@pytest.mark.parametrize(
    ("says", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it speaks HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "it speaks SSH"),
        (b"\x7f\xff\xff\xff garbage", "a frame of 2147483647 bytes"),
        (b"\x00\x20\x00\x00", "a frame of 2097152 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "response 99 instead of 0"),
    ],
)
@in_virtual_time
async def test_who_does_not_speak_kafka_is_named(loop: SimulatedLoop, says: bytes, said: str) -> None:
    loop.network.listen(lambda: _Silent(says), "broker1", 9092)
    client = cluster(loop)
    with pytest.raises(NoBrokersAvailable, match=said) as raised:
        await client.node(BOOTSTRAP)
    assert "broker1:9092" in str(raised.value)
    assert "\n" not in str(raised.value)
    await client.close()


@in_virtual_time
async def test_a_broker_that_ends_after_the_greeting_may_want_another_security_protocol(loop: SimulatedLoop) -> None:
    def answer(*_: object) -> Message | None:
        for transport in brokers.open:
            transport.close()
        return None

    brokers = ScriptedBrokers(loop, 1, answer)
    client = cluster(loop)
    with pytest.raises(ConnectionLost, match=r"at the first request; check that this listener's protocol is security.protocol=PLAINTEXT"):
        await client.refresh()
    await client.close()


def test_what_a_broker_does_not_serve_is_told_with_its_name_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.HEARTBEAT, (100, 101))

    async def story(loop: SimulatedLoop) -> None:
        serving(loop)
        client = cluster(loop)
        await client.refresh([TOPIC])
        with pytest.raises(
            KafkaError, match=r"broker 1 at broker1:9092 supports HEARTBEAT 100 to 101, this client needs a version from 0 to 4"
        ):
            await beat(client, 1)
        await client.close()

    run(story)


# -- idle -------------------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_connection_that_nobody_uses_is_closed(loop: SimulatedLoop) -> None:
    brokers = serving(loop)
    client = cluster(loop, connections_max_idle_ms="10000")
    await beat(client)
    await asyncio.sleep(9)
    await beat(client)
    await asyncio.sleep(9.5)
    assert len(brokers.open) == 1
    await asyncio.sleep(1)
    assert not brokers.open
    begin = loop.time()
    await beat(client)
    assert loop.time() - begin < 0.05, "closing an idle connection is no failure"
    await client.close()


@in_virtual_time
async def test_a_connection_with_a_request_in_flight_is_never_idle(loop: SimulatedLoop) -> None:
    serving(loop, heartbeat=lambda: None)
    client = cluster(loop, connections_max_idle_ms="1000")
    node = await client.node(BOOTSTRAP)
    answer = node.connection.request(HeartbeatRequest(), HeartbeatResponse, 0, timeout_s=60)
    await asyncio.sleep(59)
    assert not answer.done
    assert not node.connection.closed
    await client.close()


@in_virtual_time
async def test_an_answer_is_a_use(loop: SimulatedLoop) -> None:
    brokers = serving(loop, heartbeat=lambda: None)
    client = cluster(loop, connections_max_idle_ms="10000")
    node = await client.node(BOOTSTRAP)
    node.connection.request(HeartbeatRequest(), HeartbeatResponse, 0, timeout_s=60)
    await asyncio.sleep(9.9)
    transport = next(iter(brokers.open))
    transport.write(b"\0\0\0\6\0\0\0\1\0\0")  # type: ignore[attr-defined]
    await asyncio.sleep(9.5)
    assert not node.connection.closed
    await asyncio.sleep(11)
    assert node.connection.closed
    await client.close()


@in_virtual_time
async def test_minus_one_keeps_connections_for_ever(loop: SimulatedLoop) -> None:
    brokers = serving(loop)
    client = cluster(loop, connections_max_idle_ms="-1")
    await beat(client)
    await asyncio.sleep(1_000_000)
    assert len(brokers.open) == 1
    await client.close()


@in_virtual_time
async def test_one_that_is_handed_out_is_not_closed_before_it_is_used(loop: SimulatedLoop) -> None:
    serving(loop)
    client = cluster(loop, connections_max_idle_ms="1000")
    await beat(client)
    await asyncio.sleep(0.999)
    node = await client.any_node()
    await asyncio.sleep(0.5)
    await client.call(node, HeartbeatRequest(), HeartbeatResponse)
    await client.close()


# -- throttling -------------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_throttled_node_is_left_in_peace_on_all_connections(loop: SimulatedLoop) -> None:
    brokers = serving(loop, 2, lambda: HeartbeatResponse(throttle_time_ms=pauses.pop() if pauses else 0))
    pauses = [5000]
    client = cluster(loop)
    await client.refresh([TOPIC])
    other = await client.node(1, "coordinator")
    await client.node(2)
    await beat(client, 1)
    begin = loop.time()
    await beat(client, 2)
    assert loop.time() - begin < 0.1
    await client.call(other, HeartbeatRequest(), HeartbeatResponse)
    assert 4.9 <= loop.time() - begin <= 5.1
    assert brokers.count(HeartbeatRequest, 1) == 2
    await client.close()


@in_virtual_time
async def test_a_new_connection_to_a_throttled_node_waits_too(loop: SimulatedLoop) -> None:
    serving(loop, 1, lambda: HeartbeatResponse(throttle_time_ms=pauses.pop() if pauses else 0))
    pauses = [5000]
    client = cluster(loop)
    await client.refresh([TOPIC])
    await beat(client, 1)
    node = await client.node(1, "data")
    assert loop.time() < 0.1
    await client.call(node, HeartbeatRequest(), HeartbeatResponse)
    assert loop.time() >= 4.9
    await client.close()


@in_virtual_time
async def test_a_shorter_throttle_does_not_end_a_longer_one(loop: SimulatedLoop) -> None:
    serving(loop)
    client = cluster(loop)
    await client.refresh([TOPIC])
    node = await client.node(1)
    for pause_ms in (5000, 10):
        client.throttled(node, ApiKey.HEARTBEAT, 4, pause_ms)
    other = await client.node(1, "data")
    await client.call(other, HeartbeatRequest(), HeartbeatResponse)
    assert 4.9 <= loop.time() <= 5.1
    await client.close()


@pytest.mark.parametrize(("version", "waits"), [(1, False), (2, True)])
def test_an_old_version_was_throttled_by_the_broker_already(monkeypatch: pytest.MonkeyPatch, version: int, waits: bool) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.HEARTBEAT, (0, version))

    async def story(loop: SimulatedLoop) -> None:
        serving(loop, 1, lambda: HeartbeatResponse(throttle_time_ms=1000))
        client = cluster(loop)
        await beat(client)
        begin = loop.time()
        await beat(client)
        assert (loop.time() - begin > 0.9) == waits
        await client.close()

    run(story)


@in_virtual_time
async def test_the_pause_is_no_part_of_a_request_s_time(loop: SimulatedLoop) -> None:
    serving(loop, 1, lambda: HeartbeatResponse(throttle_time_ms=pauses.pop() if pauses else 0))
    pauses = [60_000]
    client = cluster(loop, request_timeout_ms="10000")
    await beat(client)
    begin = loop.time()
    await beat(client)
    assert 59 <= loop.time() - begin <= 61
    await client.close()


@in_virtual_time
async def test_what_waited_already_waits_longer(loop: SimulatedLoop) -> None:
    serving(loop)
    client = cluster(loop, request_timeout_ms="10000")
    node = await client.node(BOOTSTRAP)
    node.connection.hold(8)
    answer = asyncio.ensure_future(client.call(node, HeartbeatRequest(), HeartbeatResponse))
    await asyncio.sleep(5)
    node.connection.hold(30)
    await answer
    assert 34.9 <= loop.time() <= 35.1
    await client.close()


@in_virtual_time
async def test_a_producer_waits_out_the_throttle(loop: SimulatedLoop) -> None:
    times: list[float] = []

    def answer(_: int, request: Message) -> Message | None:
        if isinstance(request, ProduceRequest):
            times.append(loop.time())
            response = produced()
            response.throttle_time_ms = 3000
            return response
        return brokers.metadata(leader=1)

    brokers = ScriptedBrokers(loop, 1, answer)
    async with producer(loop, enable_idempotence="false") as sender:
        for _ in range(3):
            await (await sender.send(TOPIC, b"x"))
    assert [round(after - before) for before, after in pairwise(times)] == [3, 3]


# -- bounds -----------------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_only_so_many_requests_are_on_the_wire(loop: SimulatedLoop) -> None:
    brokers = serving(loop, 1, lambda: None)
    client = cluster(loop)
    node = await client.node(BOOTSTRAP)
    for _ in range(150):
        node.connection.request(HeartbeatRequest(), HeartbeatResponse, 0)
    await asyncio.sleep(1)
    assert brokers.count(HeartbeatRequest) == 100
    await client.close()


@in_virtual_time
async def test_a_large_answer_is_taken_from_who_speaks_kafka(loop: SimulatedLoop) -> None:
    brokers = ScriptedBrokers(loop, 1, lambda *_: brokers.metadata(leader=1, partitions=60_000))
    client = cluster(loop)
    view = await client.refresh([TOPIC])
    assert len(view.topics[TOPIC].partitions) == 60_000
    await client.close()


# -- metadata ---------------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_the_least_loaded_node_is_asked(loop: SimulatedLoop) -> None:
    serving(loop, 2, lambda: None)
    client = cluster(loop)
    await client.refresh([TOPIC])
    (await client.node(BOOTSTRAP)).connection.close()
    busy, free = await client.node(1), await client.node(2)
    busy.connection.request(HeartbeatRequest(), HeartbeatResponse, 0)
    assert await client.any_node() is free
    for _ in range(2):
        free.connection.request(HeartbeatRequest(), HeartbeatResponse, 0)
    assert await client.any_node() is busy
    client._connections.throttle(1, 1000)
    assert await client.any_node() is free
    await client.close()


class _Moving:
    """Two clusters: the client begins at broker1, which knows itself alone; then all of the first is gone and bootstrap is broker2."""

    def __init__(self, loop: SimulatedLoop, **settings: str) -> None:
        self.loop = loop
        self.silent = False
        self.error = ErrorCode.NONE
        self.brokers = ScriptedBrokers(loop, 2, self._answer)
        loop.network.names["kafka"] = ["broker1"]
        self.client = cluster(loop, bootstrap_servers="kafka:9092", request_timeout_ms="1000", **settings)

    def _answer(self, node: int, _: Message) -> Message | None:
        if node == 1 and self.silent:
            return None
        response = self.brokers.metadata(leader=node)
        response.brokers = [each for each in response.brokers if each.node_id == node]
        response.error_code = self.error if node == 1 else 0
        return response

    def move(self) -> None:
        """The name stands for the other cluster from now on."""
        self.loop.network.names["kafka"] = ["broker2"]


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
@in_virtual_time
async def test_back_to_the_bootstrap_servers_when_all_brokers_are_gone(loop: SimulatedLoop, strategy: str) -> None:
    world = _Moving(loop, metadata_recovery_strategy=strategy)
    await world.client.refresh([TOPIC])
    world.move()
    stop(loop, "broker1")
    for transport in list(world.brokers.open):
        transport.abort()  # type: ignore[attr-defined]
    for _ in range(5):
        await asyncio.sleep(2)
        try:
            await world.client.refresh()
        except (NoBrokersAvailable, ConnectionLost):
            assert strategy == "none"
    assert list(world.client.view.brokers) == ([2] if strategy == "rebootstrap" else [1])
    await world.client.close()


def stop(loop: SimulatedLoop, host: str) -> None:
    """Nobody listens there any more."""
    server = loop.network._servers[(host, 9092)]
    server.close()


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
@in_virtual_time
async def test_back_to_the_bootstrap_servers_when_no_metadata_comes(loop: SimulatedLoop, strategy: str) -> None:
    """KIP-1102: the known broker takes connections and answers nothing."""
    world = _Moving(loop, metadata_recovery_strategy=strategy, metadata_recovery_rebootstrap_trigger_ms="20000")
    await world.client.refresh([TOPIC])
    world.move()
    world.silent = True
    begin = loop.time()
    while loop.time() < begin + 60 and list(world.client.view.brokers) != [2]:
        try:
            await world.client.refresh()
        except (NoBrokersAvailable, ConnectionLost):
            await asyncio.sleep(0.1)
    if strategy == "rebootstrap":
        assert 20 <= loop.time() - begin <= 24
    else:
        assert list(world.client.view.brokers) == [1]
    await world.client.close()


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_broker_that_sends_its_clients_back(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.METADATA, (0, 13))

    async def story(loop: SimulatedLoop) -> None:
        world = _Moving(loop, metadata_recovery_strategy=strategy)
        await world.client.refresh([TOPIC])
        old = await world.client.node(1, "data")
        world.move()
        world.error = ErrorCode.REBOOTSTRAP_REQUIRED
        if strategy == "rebootstrap":
            info = await world.client.retrying("metadata", world.client.refresh)
            assert list(info.brokers) == [2]
            assert old.connection.closed, "nothing of the old cluster is kept"
        else:
            with pytest.raises(KafkaError) as raised:
                await world.client.refresh()
            assert raised.value.code is ErrorCode.REBOOTSTRAP_REQUIRED
        await world.client.close()

    run(story)


@in_virtual_time
async def test_topics_that_nobody_uses_are_dropped(loop: SimulatedLoop) -> None:
    brokers = serving(loop)
    client = cluster(loop, metadata_max_idle_ms="5000")
    await client.topic(TOPIC)
    for _ in range(20):
        assert client.known_topic(TOPIC) is not None
        await asyncio.sleep(1)
        await client.refresh()
    await asyncio.sleep(4)
    await client.refresh()
    assert TOPIC in client.metadata.wanted
    await asyncio.sleep(5)
    await client.refresh()
    assert TOPIC not in client.metadata.wanted
    assert TOPIC not in client.view.topics
    await client.topic(TOPIC)
    assert brokers.count(MetadataRequest) > 20
    await client.close()


def controllers(loop: SimulatedLoop, **settings: Setting) -> Cluster:
    config = ClientConfig(ADMIN_CONFIG, {"bootstrap.controllers": "broker1:9092"}, **settings)
    return Cluster(config, clock=SimulatedClock(loop))


def test_controllers_are_asked_for_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.DESCRIBE_CLUSTER, (0, 2))

    async def story(loop: SimulatedLoop) -> None:
        def answer(_: int, request: Message) -> Message | None:
            assert isinstance(request, DescribeClusterRequest)
            assert request.endpoint_type == 2
            each = DescribeClusterResponse.DescribeClusterBroker
            nodes = [each(broker_id=node, host=f"broker{node}", port=9092) for node in (1, 2)]
            return DescribeClusterResponse(endpoint_type=2, cluster_id="c", controller_id=2, brokers=nodes)

        ScriptedBrokers(loop, 2, answer)
        client = controllers(loop)
        view = await client.refresh([])
        assert (sorted(view.brokers), view.controller_id) == ([1, 2], 2)
        assert (await client.node(2)).address == "broker2:9092"
        await client.close()

    run(story)


def test_a_broker_among_the_controllers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scripted.SERVED, ApiKey.DESCRIBE_CLUSTER, (0, 2))

    async def story(loop: SimulatedLoop) -> None:
        ScriptedBrokers(loop, 1, lambda *_: DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE))
        client = controllers(loop)
        with pytest.raises(KafkaError, match="the broker at broker1:9092 is not a controller"):
            await client.retrying("controllers", lambda: client.refresh([]))
        await client.close()

    run(story)


@in_virtual_time
async def test_retries_of_the_admin_client_are_counted(loop: SimulatedLoop) -> None:
    client = Cluster(ClientConfig(ADMIN_CONFIG, bootstrap_servers="broker1:9092", retries=3), clock=SimulatedClock(loop))
    attempts: list[float] = []

    async def attempt() -> None:
        attempts.append(loop.time())
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)

    with pytest.raises(KafkaError):
        await client.retrying("nothing", attempt)
    assert len(attempts) == 4
    await client.close()


# -- metrics ----------------------------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_metrics_have_the_names_of_kafka(loop: SimulatedLoop) -> None:
    brokers = serving(loop)
    client = cluster(loop, client_id="me", connections_max_idle_ms="60000")
    await client.refresh([TOPIC])
    for _ in range(10):
        await beat(client, 1)
    found = client.metrics()
    node = (("client-id", "me"), ("node-id", "node-1"))
    values = {name.name: value for name, value in found.items() if name.group == "producer-node-metrics" and name.tags == node}
    assert values["request-total"] == values["response-total"] == 10
    assert 0 < values["request-latency-avg"] <= values["request-latency-max"] < 10
    assert values["request-rate"] == pytest.approx(10 / 30)
    assert values["outgoing-byte-total"] > values["request-size-max"] >= values["request-size-avg"] > 10
    api = {name.tags[2]: value for name, value in found.items() if name.group == "producer-api-metrics" and name.name == "response-total"}
    assert api == {("api", "HEARTBEAT"): 10, ("api", "METADATA"): 1}
    whole = {name.name: value for name, value in found.items() if name.group == "producer-metrics"}
    assert (whole["connection-count"], whole["connection-creation-total"], whole["request-total"]) == (2, 2, 11)
    await asyncio.sleep(200)
    assert not brokers.open
    found = client.metrics()
    whole = {name.name: value for name, value in found.items() if name.group == "producer-metrics"}
    assert (whole["connection-count"], whole["connection-close-total"], whole["request-rate"]) == (0, 2, 0)
    await client.close()


@in_virtual_time
async def test_the_answer_of_metadata_is_what_it_says(loop: SimulatedLoop) -> None:
    """An answer without an error is taken over also where it names nobody."""
    ScriptedBrokers(loop, 1, lambda *_: MetadataResponse(cluster_id="c", controller_id=-1))
    client = cluster(loop)
    assert (await client.refresh()).brokers == {}
    await client.close()
