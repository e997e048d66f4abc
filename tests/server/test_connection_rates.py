"""Rates of new connections follow the configuration of the start, of the broker and of its listeners, and the quotas of addresses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.acceptor import Acceptor
from odradek.server.connection_rates import ConnectionLimits

RATE = "max.connection.creation.rate"
TWO = {
    "listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
    "advertised.listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "IN",
}


class World:
    def __init__(self, **config: str) -> None:
        self.acceptor: Any = SimpleNamespace(rates=None, protected=None)
        self.config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data", **config}))
        self.limits = ConnectionLimits(self.config, cast(Acceptor, self.acceptor))

    def at_once(self, listener: str = "PLAINTEXT", scope: str = BROKER, host: str = "10.0.0.1", now_ms: int = 10**9) -> int:
        """How many connections of a hundred need not wait."""
        if self.acceptor.rates is None:
            return 100
        rates = self.acceptor.rates[scope]
        admitted = [rates.admit(listener, host, now_ms, protected=listener == self.acceptor.protected) for _ in range(100)]
        return sum(each == (0, None) for each in admitted)


def test_nothing_is_limited_at_first() -> None:
    world = World()
    assert world.acceptor.rates is None


def test_the_rate_of_the_broker_holds_on_its_listeners_and_apart_on_those_of_controllers() -> None:
    world = World(**{RATE: "3"})
    assert [world.at_once(), world.at_once("CONTROLLER", CONTROLLER)] == [30, 30]


def test_windows_are_those_of_the_configuration() -> None:
    assert World(**{RATE: "3", "quota.window.num": "3", "quota.window.size.seconds": "2"}).at_once() == 12


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    world = World(**TWO, **{"listener.name.out." + RATE: "2"})
    assert [world.at_once("OUT"), world.at_once("IN")] == [20, 100]


def test_the_rate_of_the_broker_does_not_hold_between_brokers() -> None:
    world = World(**TWO, **{RATE: "2", "listener.name.in." + RATE: "5"})
    assert world.acceptor.protected == "IN"
    assert [world.at_once("OUT"), world.at_once("IN")] == [20, 50]


def test_rates_change_while_the_broker_runs() -> None:
    world = World(**TWO)
    assert world.config.update({RATE: "4"}, {}) == []
    assert world.at_once("OUT") == 40
    assert world.config.update({RATE: "4", "listener.name.out." + RATE: "1"}, {}) == []
    assert world.at_once("OUT", now_ms=2 * 10**9) == 10
    assert world.config.update({}, {}) == []
    assert world.acceptor.rates is None


def test_addresses_have_the_quotas_of_the_metadata() -> None:
    world = World()
    world.limits.addresses({(("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}})
    assert [world.at_once(), world.at_once(host="10.0.0.2")] == [10, 100]
    world.limits.addresses({(("user", "u"),): {"producer_byte_rate": 1.0}})
    assert world.acceptor.rates is not None
    world.limits.addresses({(("ip", "10.0.0.1"),): {"connection_creation_rate": None}})
    assert world.acceptor.rates is None
