"""max.connections.per.ip.overrides: addresses in any form, and names of hosts."""

from __future__ import annotations

import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.base.errors import ConfigError
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.network.limits import UNLIMITED
from odradek.server.upkeep.reconfiguration import ConnectionCounts
from tests.held_jobs import HeldJobs

OVERRIDES = "max.connections.per.ip.overrides"
HOSTS = {"one.example": ["10.0.0.1"], "both.example": ["10.0.0.2", "2001:db8::2", "fe80::1%eth0"]}


class ConnectionCountsWorld:
    def __init__(self, overrides: str = "") -> None:
        self.config = DynamicBrokerConfig(standalone_config({OVERRIDES: overrides} if overrides else {}))
        self.acceptor: Any = SimpleNamespace(limits=None)
        self.jobs: Any = HeldJobs()
        self.counts = ConnectionCounts(self.config, self.acceptor, self.jobs)

    def set(self, overrides: str | None) -> None:
        self.config.update({} if overrides is None else {OVERRIDES: overrides}, {})

    def allowed(self, *hosts: str) -> list[int]:
        return [self.acceptor.limits.for_ip(host) for host in hosts]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        if host not in HOSTS:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in HOSTS[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_addresses_are_compared_as_addresses() -> None:
    world = ConnectionCountsWorld()
    world.set("::1:1, 2001:DB8::7:2 ,[2001:db8::8]:3,::ffff:10.0.0.9:4,10.0.0.5:5")
    assert world.jobs.held == []
    hosts = ("0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:7", "2001:db8:0:0:0:0:0:8", "10.0.0.9", "10.0.0.5", "10.0.0.6")
    assert world.allowed(*hosts) == [1, 2, 3, 4, 5, UNLIMITED]


def test_names_of_the_file_hold_from_the_start() -> None:
    world = ConnectionCountsWorld("one.example:1,both.example:2,10.0.0.5:5")
    looking = world.counts.resolve()
    world.jobs.do()
    assert all(each.done and each.error is None for each in looking)
    assert world.allowed("10.0.0.1", "10.0.0.2", "2001:db8:0:0:0:0:0:2", "fe80:0:0:0:0:0:0:1", "10.0.0.5") == [1, 2, 2, 2, 5]
    assert world.counts.resolve() == [], "a name is looked up once"


@pytest.mark.parametrize("name", ["no.such.example", "nameless\x1b[2K"])
def test_a_name_without_an_address_ends_the_start(name: str) -> None:
    world = ConnectionCountsWorld(f"{name}:1")
    (looking,) = world.counts.resolve()
    world.jobs.do()
    with pytest.raises(ConfigError, match=rf"^{OVERRIDES}: the host name .* has no address: Name or service not known$") as refused:
        looking.result()
    assert str(refused.value).isprintable()


def test_names_come_and_go_at_run_time(caplog: pytest.LogCaptureFixture) -> None:
    """Also while they are looked up: an answer that comes late is about what holds then."""
    world = ConnectionCountsWorld()
    for _ in range(2):
        world.set("one.example:1,no.such.example:3,10.0.0.5:5")
        assert world.allowed("10.0.0.1", "10.0.0.5") == [UNLIMITED, 5]
        with caplog.at_level(logging.WARNING):
            world.jobs.do()
        assert f"{OVERRIDES}: the host name no.such.example has no address" in caplog.text
        caplog.clear()
        assert world.allowed("10.0.0.1", "10.0.0.5") == [1, 5]
        world.set("both.example:2")
        world.set("one.example:7")
        world.jobs.do()
        assert world.allowed("10.0.0.1", "10.0.0.2", "10.0.0.5") == [7, UNLIMITED, UNLIMITED]
        world.set(None)
        assert world.allowed("10.0.0.1") == [UNLIMITED]
