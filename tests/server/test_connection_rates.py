"""Rates of new connections follow the configuration of the start, of the broker and of its listeners, and the quotas of addresses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.network.acceptor import Acceptor
from odradek.network.admission import Admission
from odradek.server.requests.connection_rates import ConnectionLimits
from tests.clock import ManualClock
from tests.walks import step, walk

RATE = "max.connection.creation.rate"
TWO = {
    "listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
    "advertised.listeners": "IN://127.0.0.1:1,OUT://127.0.0.1:2",
    "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "IN",
}


class ConnectionRatesWorld:
    def __init__(self, **config: str) -> None:
        self.acceptor: Any = SimpleNamespace(admission=Admission(ManualClock()))
        self.config = DynamicBrokerConfig(standalone_config({"node.id": "1", "log.dirs": "/data", **config}))
        self.limits = ConnectionLimits(self.config, cast(Acceptor, self.acceptor))

    def at_once(self, listener: str = "PLAINTEXT", scope: str = BROKER, host: str = "10.0.0.1", now_ms: int = 10**9) -> int:
        """How many connections of a hundred need not wait."""
        if self.acceptor.admission.rates is None:
            return 100
        rates = self.acceptor.admission.rates[scope]
        admitted = [rates.admit(listener, host, now_ms, protected=listener == self.acceptor.admission.protected) for _ in range(100)]
        return sum(each == (0, None) for each in admitted)


def test_nothing_is_limited_at_first() -> None:
    world = ConnectionRatesWorld()
    assert world.acceptor.admission.rates is None


def test_the_rate_of_the_broker_holds_on_its_listeners_and_apart_on_those_of_controllers() -> None:
    world = ConnectionRatesWorld(**{RATE: "3"})
    assert [world.at_once(), world.at_once("CONTROLLER", CONTROLLER)] == [30, 30]


def test_windows_are_those_of_the_configuration() -> None:
    assert ConnectionRatesWorld(**{RATE: "3", "quota.window.num": "3", "quota.window.size.seconds": "2"}).at_once() == 12


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    world = ConnectionRatesWorld(**TWO, **{"listener.name.out." + RATE: "2"})
    assert [world.at_once("OUT"), world.at_once("IN")] == [20, 100]


def test_the_rate_of_the_broker_does_not_hold_between_brokers() -> None:
    world = ConnectionRatesWorld(**TWO, **{RATE: "2", "listener.name.in." + RATE: "5"})
    assert world.acceptor.admission.protected == "IN"
    assert [world.at_once("OUT"), world.at_once("IN")] == [20, 50]


def test_rates_change_while_the_broker_runs() -> None:
    world = ConnectionRatesWorld(**TWO)
    assert world.config.update({RATE: "4"}, {}) == []
    assert world.at_once("OUT") == 40
    assert world.config.update({RATE: "4", "listener.name.out." + RATE: "1"}, {}) == []
    assert world.at_once("OUT", now_ms=2 * 10**9) == 10
    assert world.config.update({}, {}) == []
    assert world.acceptor.admission.rates is None


def test_addresses_have_the_quotas_of_the_metadata() -> None:
    world = ConnectionRatesWorld()
    world.limits.addresses({(("ip", "10.0.0.1"),): {"connection_creation_rate": 1.0}})
    assert [world.at_once(), world.at_once(host="10.0.0.2")] == [10, 100]
    world.limits.addresses({(("user", "u"),): {"producer_byte_rate": 1.0}})
    assert world.acceptor.admission.rates is not None
    world.limits.addresses({(("ip", "10.0.0.1"),): {"connection_creation_rate": None}})
    assert world.acceptor.admission.rates is None


LIMITS = (1, 3, 7)
ADDRESSES = ("10.0.0.1", "10.0.0.2", None)


class Limits:
    """Rates of the broker, of a listener, of addresses and of all other addresses are set and taken back in any order."""

    def __init__(self) -> None:
        self.world = ConnectionRatesWorld(**TWO)
        self.set: dict[str, int] = {}
        self.quotas: dict[str | None, int] = {}
        self.hours = 1

    def updated(self) -> None:
        assert self.world.config.update({key: str(rate) for key, rate in self.set.items()}, {}) == []

    @step(key=(RATE, "listener.name.out." + RATE, "listener.name.in." + RATE), rate=LIMITS)
    def configures(self, key: str, rate: int) -> None:
        self.set[key] = rate
        self.updated()

    @step(key=(RATE, "listener.name.out." + RATE, "listener.name.in." + RATE))
    def takes_back(self, key: str) -> None:
        self.set.pop(key, None)
        self.updated()

    @step(address=ADDRESSES, rate=LIMITS)
    def limits(self, address: str | None, rate: int) -> None:
        self.quotas[address] = rate
        self.world.limits.addresses({(("ip", address),): {"connection_creation_rate": float(rate)}})

    @step(address=ADDRESSES)
    def lets_go(self, address: str | None) -> None:
        self.quotas.pop(address, None)
        self.world.limits.addresses({(("ip", address),): {"connection_creation_rate": None}})

    def expected(self, listener: str, host: str) -> int:
        """KIP-612: on the listener between brokers the broker's rate counts only as what its own rate is without a key."""
        rates = [self.set.get(f"listener.name.{listener.lower()}.{RATE}", self.set.get(RATE)), self.quotas.get(host, self.quotas.get(None))]
        if listener == "OUT":
            rates.append(self.set.get(RATE))
        return min([10 * each for each in rates if each is not None], default=100)

    def holds(self) -> None:
        for listener in ("IN", "OUT"):
            for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
                self.hours += 1
                assert self.world.at_once(listener, host=host, now_ms=self.hours * 3_600_000) == self.expected(listener, host), (
                    listener,
                    host,
                )
        assert (self.world.acceptor.admission.rates is None) is not bool(self.set or self.quotas), "without a limit nothing is counted"


@pytest.mark.parametrize("seed", range(3))
def test_limits_are_set_and_taken_back_in_any_order(seed: int) -> None:
    walk(Limits(), seed, 50)
