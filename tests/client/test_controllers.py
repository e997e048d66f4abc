"""The admin client at a controller's listener (`bootstrap.controllers`, KIP-919)."""

from __future__ import annotations

import socket

from odradek.client import Admin
from odradek.testing.kit.embedded import EmbeddedBroker


def test_controllers_are_described_as_what_they_are() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    with (
        EmbeddedBroker({"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}"}) as broker,
        Admin(bootstrap_controllers=f"127.0.0.1:{port}") as controllers,
        Admin(bootstrap_servers=broker.bootstrap_servers) as brokers,
    ):
        described, ordinary = controllers.describe_cluster(), brokers.describe_cluster()
        assert [each.port for each in described.brokers] == [port]
        assert [f"127.0.0.1:{each.port}" for each in ordinary.brokers] == [broker.bootstrap_servers.replace("localhost", "127.0.0.1")]
        assert described.cluster_id == ordinary.cluster_id
