"""Nodes that log in to one another with Kerberos: whole, on virtual time, with a KDC that is real."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from interop.kerberos import REALM, Kdc, kdc
from odradek.config.broker import standalone_config
from odradek.security.principal import Principal
from odradek.server.cluster.internal_channel import NodeLogins
from odradek.testing.simulation.loop import SimulatedLoop
from tests.loops import in_virtual_time
from tests.server.several_nodes import BOTH, BROKER, MAP, Cluster, ready


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdc(tmp_path_factory.mktemp("realm")) as one:
        principals = [f"kafka/n{node}" for node in (1, 2, 3)]
        one.add(*principals)
        one.keytab("nodes", *principals)
        yield one


def settings(realm: Kdc, node: int, service: str = "kafka", reauth_ms: str = "0") -> dict[str, str]:
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{realm.folder}/nodes.keytab" principal="kafka/n{node}@{REALM}";'
    )
    return {
        "listener.security.protocol.map": MAP,
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": service,
        "listener.name.plaintext.gssapi.sasl.jaas.config": line,
        "listener.name.controller.gssapi.sasl.jaas.config": line,
        "connections.max.reauth.ms": reauth_ms,
    }


def cluster_of(loop: SimulatedLoop, realm: Kdc, roles: dict[int, str], *, stranger: int = 0, reauth_ms: str = "0") -> Cluster:
    """Each node has a principal of its own; the stranger asks for a service that is not there."""
    cluster = Cluster(loop, roles)
    for node, each in cluster.nodes.items():
        each.configure(settings(realm, node, "nothing" if node == stranger else "kafka", reauth_ms))
    return cluster


@pytest.mark.parametrize("reauth_ms", ["0", "2000"])
@in_virtual_time
async def test_nodes_log_in_to_each_other_and_again_before_their_sessions_end(
    loop: SimulatedLoop, realm: Kdc, reauth_ms: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(loop, realm, {1: BOTH, 2: BOTH, 3: BOTH}, reauth_ms=reauth_ms)
    await cluster.start()
    first = cluster.active()
    await cluster.until(lambda: all(cluster.registered(node) == {1: False, 2: False, 3: False} for node in (1, 2, 3)))
    caplog.clear()
    await asyncio.sleep(10)
    assert cluster.active() == first
    assert all(first in ready(cluster, node, "CONTROLLER") for node in (1, 2, 3) if node != first)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_virtual_time
async def test_a_node_that_asks_for_another_service_is_no_part_of_the_cluster_and_says_so(
    loop: SimulatedLoop, realm: Kdc, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(loop, realm, {1: BOTH, 2: BROKER}, stranger=2)
    starting = loop.create_task(cluster.nodes[2].start())
    await cluster.start(1)
    await cluster.until(lambda: any("cannot log in by GSSAPI" in record.getMessage() for record in caplog.records))
    assert set(cluster.registered(1)) == {1}
    said = next(record.getMessage() for record in caplog.records if "cannot log in by GSSAPI" in record.getMessage())
    assert f"Server nothing/n1@{REALM} not found in Kerberos database" in said
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)


def test_what_a_node_asks_itself_comes_from_its_short_name(realm: Kdc) -> None:
    config = standalone_config(
        {
            **settings(realm, 1),
            "listeners": "PLAINTEXT://n1:9092,CONTROLLER://n1:9093",
            "sasl.mechanism.controller.protocol": "GSSAPI",
            "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2]",
        }
    )
    assert NodeLogins(config).principal("PLAINTEXT") == Principal("User", "kafka-n1")
