"""Nodes that log in to one another, whole and on virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.network import login as network_login
from odradek.network.transport import ClientConnection, dial
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.negotiation import ApiVersionTable
from odradek.security.sasl.client import PlainClient
from odradek.testing.simulation.loop import SimulatedLoop
from odradek.testing.simulation.network import on_host
from tests.loops import in_virtual_time
from tests.server.several_nodes import BOTH, BROKER, MAP, Cluster, ready

JAVA = "org.apache.kafka.common.security"


def settings(password: str = "node-secret", reauth_ms: str = "0") -> dict[str, str]:
    line = f'{JAVA}.plain.PlainLoginModule required username="node" password="{password}" user_node="node-secret";'
    return {
        "listener.security.protocol.map": MAP,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": line,
        "listener.name.controller.plain.sasl.jaas.config": line,
        "connections.max.reauth.ms": reauth_ms,
    }


async def log_in(cluster: Cluster, node: int, password: str = "node-secret") -> ClientConnection:
    """A connection to a broker, as the user `node`."""
    with on_host("client"):
        connection = await dial(f"n{node}", 9092, clock=cluster.nodes[node].clock, client_id="test", loop=cluster.loop)
    table = ApiVersionTable({ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)})
    await network_login.log_in(connection, table, PlainClient("node", password), 10)
    return connection


async def create(cluster: Cluster, node: int, name: str) -> int:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=3, replication_factor=3)
    connection = await log_in(cluster, node)
    future = cluster.loop.create_future()
    connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse, 7).add_callback(
        lambda done: future.set_exception(done.error) if done.error else future.set_result(done.result())
    )
    response: CreateTopicsResponse = await future
    connection.close()
    return response.topics[0].error_code


@pytest.mark.parametrize("reauth_ms", ["0", "2000"])
@in_virtual_time
async def test_nodes_log_in_to_each_other_and_again_before_their_sessions_end(
    loop: SimulatedLoop, reauth_ms: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BOTH}, **settings(reauth_ms=reauth_ms))
    await cluster.start()
    first = cluster.active()
    others = [node for node in (1, 2, 3) if node != first]
    await cluster.until(lambda: all(cluster.registered(node) == {1: False, 2: False, 3: False} for node in (1, 2, 3)))
    assert await create(cluster, others[0], "a") == 0, "forwarded"
    await cluster.until(lambda: all(ready(cluster, node, "PLAINTEXT") for node in (1, 2, 3)))
    caplog.clear()
    await asyncio.sleep(20)
    assert cluster.active() == first
    assert all(ready(cluster, node, "PLAINTEXT") for node in (1, 2, 3))
    assert all(first in ready(cluster, node, "CONTROLLER") for node in others)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_virtual_time
async def test_a_node_with_a_wrong_password_is_no_part_of_the_cluster_and_says_so(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(loop, {1: BOTH, 2: BOTH, 3: BROKER}, **settings())
    cluster.nodes[3].configure(settings("wrong"))
    starting = loop.create_task(cluster.nodes[3].start())
    await cluster.start(1, 2)
    await cluster.until(lambda: any("cannot log in by PLAIN" in record.getMessage() for record in caplog.records))
    await asyncio.sleep(5)
    assert set(cluster.registered(1)) == {1, 2}
    said = [record.getMessage() for record in caplog.records if record.name == "odradek.network.peers"]
    assert "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username or password" in said[0]
    assert not any("wrong" in record.getMessage() for record in caplog.records)
    assert len(said) == 2, "once for each node"
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


@in_virtual_time
async def test_a_client_with_a_wrong_password_is_refused(loop: SimulatedLoop) -> None:
    cluster = Cluster(loop, {1: BOTH}, **settings())
    await cluster.start()
    with pytest.raises(network_login.LoginRefused, match="Invalid username or password"):
        await log_in(cluster, 1, "wrong")
