"""The system's Kerberos in a realm of a test: which keys and tickets do, and what is said of those that do not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.kerberos import REALM, Kdc, kdc
from odradek.base.errors import ConfigError
from odradek.network import kerberos
from odradek.network.kerberos import Service, Tickets, default_realm
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.gssapi import GssapiClient, GssapiServer


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdc(tmp_path_factory.mktemp("realm")) as one:
        one.add("kafka/here", "alice", "bob")
        one.keytab("broker", "kafka/here")
        one.keytab("alice", "alice")
        one.keytab("people", "alice", "bob")
        yield one


def path(realm: Kdc, name: str) -> str:
    return str(realm.folder / f"{name}.keytab")


def service(realm: Kdc, keytab: str = "broker") -> Service:
    return Service(f"kafka/here@{REALM}", path(realm, keytab))


def log_in(tickets: Tickets, server: Service, name: str = "kafka", host: str = "here") -> str:
    """Who has logged in."""
    client = GssapiClient(lambda: tickets.context(name, host))
    exchange = GssapiServer(server.context, lambda principal: principal)
    message: bytes | None = client.first()
    while message is not None:
        work = exchange.prepare(message)
        assert work is not None
        work()
        message = client.answer(exchange.answer(message))
    assert exchange.identity is not None
    return exchange.identity.name


def test_a_client_with_its_keytab(realm: Kdc) -> None:
    assert log_in(Tickets("alice", path(realm, "alice")), service(realm)) == f"alice@{REALM}"
    assert default_realm() == REALM


def test_clients_that_share_a_keytab_log_in_each_by_its_own_name(realm: Kdc) -> None:
    server, keytab = service(realm), path(realm, "people")
    for _ in range(2):
        for who in ("alice", "bob"):
            assert log_in(Tickets(who, keytab), server) == f"{who}@{REALM}"


def test_a_client_with_a_cache_of_tickets(realm: Kdc, tmp_path: Path) -> None:
    realm.kinit("alice", realm.folder / "alice.keytab", tmp_path / "cache")
    assert log_in(Tickets(cache=str(tmp_path / "cache")), service(realm)) == f"alice@{REALM}"
    with pytest.raises(SaslError, match=r"no ticket for anybody in .*/none: No credentials cache found"):
        log_in(Tickets(cache=str(tmp_path / "none")), service(realm))
    with pytest.raises(SaslError, match="no ticket for bob in "):
        log_in(Tickets("bob", cache=str(tmp_path / "cache")), service(realm))


def test_a_keytab_without_the_key(realm: Kdc, tmp_path: Path) -> None:
    with pytest.raises(SaslError, match=r"no ticket for bob with the keytab .*alice\.keytab: "):
        log_in(Tickets("bob", path(realm, "alice")), service(realm))
    with pytest.raises(
        ConfigError, match=r"alice\.keytab cannot be used for kafka/here@ODRADEK\.TEST: No key table entry found for kafka/here"
    ):
        service(realm, "alice")
    with pytest.raises(ConfigError, match=r"the keytab .*none\.keytab cannot be read: No such file"):
        service(realm, "none")
    with pytest.raises(ConfigError, match=r"the keytab .*none\.keytab cannot be read: No such file"):
        Tickets("alice", path(realm, "none"))
    (tmp_path / "x.keytab").write_bytes(b"no keytab")
    with pytest.raises(ConfigError, match=r"x\.keytab is not a keytab"):
        Service("kafka/here", str(tmp_path / "x.keytab"))


def test_a_service_that_nobody_knows(realm: Kdc) -> None:
    with pytest.raises(SaslError, match=r"Server other/here@ODRADEK\.TEST not found in Kerberos database"):
        log_in(Tickets("alice", path(realm, "alice")), service(realm), "other")


def test_keys_that_are_new_are_read_by_a_service_that_runs(realm: Kdc) -> None:
    realm.add("kafka/moving")
    keytab = realm.keytab("moving", "kafka/moving")
    server = Service(f"kafka/moving@{REALM}", str(keytab))
    alice = Tickets("alice", path(realm, "alice"))
    assert log_in(alice, server, host="moving")
    realm.keytab("elsewhere", "kafka/moving", new_keys=True)
    again = realm.keytab("again", "alice")
    with pytest.raises(SaslError, match="kafka/moving"):
        log_in(Tickets("alice", str(again)), server, host="moving")
    (realm.folder / "elsewhere.keytab").replace(keytab)
    assert log_in(Tickets("alice", str(again)), server, host="moving")


def test_a_ticket_that_has_ended_is_refused_and_a_keytab_gets_a_new_one(realm: Kdc, tmp_path: Path) -> None:
    realm.write_config("2s", 1)
    try:
        server = service(realm)
        realm.kinit("alice", realm.folder / "alice.keytab", tmp_path / "short")
        cached, renewed = Tickets(cache=str(tmp_path / "short")), Tickets("alice", str(realm.keytab("short", "alice")))
        assert log_in(cached, server)
        assert log_in(renewed, server)
        old = cached.context("kafka", "here").step(b"")
        end = time.monotonic() + 3.5
        while time.monotonic() < end:  # the lifetime of a ticket in whole seconds, and the skew
            time.sleep(0.1)
        with pytest.raises(SaslError, match=r"Ticket expired|Clock skew too great"):
            server.context().step(old)
        with pytest.raises(SaslError, match=r"expired"):
            log_in(cached, server)
        assert log_in(renewed, server)
    finally:
        realm.write_config()


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"GSSAPI needs the package gssapi: pip install 'odradek\[kerberos\]'"):
        kerberos.library()
