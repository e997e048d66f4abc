"""Listeners that come and go while a broker runs, and what of TLS and SASL changes with them or without."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from interop.waiting import until as wait_for
from odradek.base.deferred import Deferred
from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.client import Admin, ConfigChange, ConfigResource
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.config.keys.security import SASL_MECHANISM_INTER_BROKER_PROTOCOL, SSL_TRUSTSTORE_TYPE
from odradek.network.acceptor import Listener, ListenError
from odradek.server.cluster.internal_channel import NodeLogins
from odradek.server.requests.dynamic_listeners import DynamicListeners
from odradek.server.start.process import run_loop
from odradek.testing import EmbeddedBroker
from odradek.testing.kit.temporary import free_ports
from tests.client.certificates import Certificates
from tests.network.stores import readers_of_files
from tests.server.listener_support import ANSWERED, API_VERSIONS, listens, login
from tests.waiting import until

BROKER = ConfigResource("broker", "1")
_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="among-nodes"'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Changing:
    """A broker whose `listeners` change; `added` are behind those that it began with."""

    def __init__(self, broker: EmbeddedBroker, admin: Admin) -> None:
        self.broker = broker
        self.admin = admin
        entries = {entry.name: entry.value for entry in admin.describe_configs([BROKER])[BROKER]}
        self.first = str(entries["listeners"])

    def remove(self, *settings: str) -> None:
        """Takes all that were added away, and with them these settings."""
        deleted = [ConfigChange(name, None, "delete") for name in settings]
        self.admin.incremental_alter_configs({BROKER: [ConfigChange("listeners", self.first), *deleted]})

    def set(self, settings: dict[str, str], *added: str) -> None:
        protocols = [f"{each.partition('://')[0]}:{each.rpartition(' ')[2]}" for each in added]
        listeners = ",".join([self.first, *(each.rpartition(" ")[0] for each in added)])
        changes = [ConfigChange("listeners", listeners)]
        changes.append(ConfigChange("listener.security.protocol.map", ",".join(["PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", *protocols])))
        changes += [ConfigChange(name, value) for name, value in settings.items()]
        self.admin.incremental_alter_configs({BROKER: changes})


@contextlib.contextmanager
def changing(settings: dict[str, str] | None = None, directory: Path | None = None) -> Iterator[Changing]:
    port, controller = free_ports(2)
    given = {
        "listeners": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "controller.quorum.bootstrap.servers": f"localhost:{controller}",
    }
    with EmbeddedBroker(given | (settings or {}), directory=directory) as broker, Admin(bootstrap_servers=f"localhost:{port}") as admin:
        yield Changing(broker, admin)


def versions(port: int) -> bytes:
    """What the port answers to ApiVersions; nothing where the connection is closed."""
    with socket.create_connection(("localhost", port), 5) as raw:
        raw.settimeout(5)
        raw.sendall(API_VERSIONS)
        return raw.recv(8)


def test_a_listener_comes_and_goes(caplog: pytest.LogCaptureFixture) -> None:
    (port,) = free_ports(1)
    with changing() as broker:
        assert not listens(port)
        broker.set({}, f"EXTRA://localhost:{port} PLAINTEXT")
        wait_for(lambda: listens(port))
        assert versions(port)[4:] == ANSWERED
        with socket.create_connection(("localhost", port)) as stays:
            stays.settimeout(20)
            broker.admin.incremental_alter_configs({BROKER: [ConfigChange("listeners", None, "delete")]})
            assert stays.recv(1) == b"", "its connections end with it"
        wait_for(lambda: not listens(port))
        broker.set({}, f"EXTRA://localhost:{port} PLAINTEXT")
        wait_for(lambda: listens(port))
        with socket.create_connection(("localhost", port)) as busy:
            with pytest.raises(KafkaError, match="already exists, and its address cannot change"):
                broker.set({}, f"EXTRA://localhost:{port + 1} PLAINTEXT")
            assert busy.fileno() > 0
    assert not listens(port), "it ends with the broker"


def test_a_listener_that_was_added_is_there_after_a_restart(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with changing(directory=tmp_path) as broker:
        broker.set({}, f"EXTRA://localhost:{port} PLAINTEXT")
        wait_for(lambda: listens(port))
    with changing(directory=tmp_path):
        assert listens(port)


def test_a_port_that_is_taken_leaves_the_rest_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    one, other = free_ports(2)
    with socket.create_server(("127.0.0.1", one)), changing() as broker, caplog.at_level(logging.ERROR):
        broker.set({}, f"TAKEN://127.0.0.1:{one} PLAINTEXT", f"EXTRA://localhost:{other} PLAINTEXT")
        wait_for(lambda: listens(other))
        assert f"TAKEN://127.0.0.1:{one} cannot be opened" in caplog.text
        assert "already in use" in caplog.text


def test_a_listener_comes_with_tls_and_sasl_of_its_own(made: Certificates) -> None:
    tls, sasl = free_ports(2)
    settings = {
        "listener.name.extra.ssl.keystore.type": "PEM",
        "listener.name.extra.ssl.keystore.location": str(made.broker),
        "listener.name.extra.ssl.client.auth": "required",
        "listener.name.extra.ssl.truststore.type": "PEM",
        "listener.name.extra.ssl.truststore.location": str(made.authority),
        "listener.name.logins.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.logins.plain.sasl.jaas.config": f'{_PLAIN} user_alice="wonderland";',
    }
    with changing() as broker:
        with pytest.raises(KafkaError, match=r"ssl.keystore.location is missing"):
            broker.set({}, f"EXTRA://localhost:{tls} SSL")
        with pytest.raises(KafkaError, match=r"listener.name.logins.plain.sasl.jaas.config is missing"):
            broker.set({"listener.name.logins.sasl.enabled.mechanisms": "PLAIN"}, f"LOGINS://localhost:{sasl} SASL_PLAINTEXT")
        broker.set(settings, f"EXTRA://localhost:{tls} SSL", f"LOGINS://localhost:{sasl} SASL_PLAINTEXT")
        wait_for(lambda: listens(sasl) and listens(tls))
        context = ssl.create_default_context(cafile=str(made.authority))
        context.load_cert_chain(made.client)
        with socket.create_connection(("localhost", tls), 5) as raw, context.wrap_socket(raw, server_hostname="localhost") as secured:
            secured.sendall(API_VERSIONS)
            assert secured.recv(8)[4:] == ANSWERED
        anonymous = ssl.create_default_context(cafile=str(made.authority))
        anonymous.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("localhost", tls), 5) as raw, pytest.raises((ssl.SSLError, ConnectionError)):
            anonymous.wrap_socket(raw, server_hostname="localhost")
        assert versions(sasl)[4:] == ANSWERED
        entries = {entry.name: entry for entry in broker.admin.describe_configs([BROKER])[BROKER]}
        assert entries["listener.name.logins.plain.sasl.jaas.config"].value is None
        with pytest.raises(KafkaError, match="cannot be updated dynamically for existing listener EXTRA"):
            broker.admin.incremental_alter_configs({BROKER: [ConfigChange("listener.name.extra.ssl.client.auth", "none")]})


def test_a_listener_with_tls_goes_with_all_that_was_set_for_it(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    settings = {
        "listener.name.extra.ssl.keystore.type": "PEM",
        "listener.name.extra.ssl.keystore.location": str(made.broker),
        "listener.name.extra.ssl.client.auth": "requested",
    }
    with changing() as broker:
        readers = readers_of_files(monkeypatch)
        broker.set(settings, f"EXTRA://localhost:{port} SSL")
        wait_for(lambda: listens(port))
        gone = [ConfigChange(name, None, "delete") for name in ("listeners", "listener.security.protocol.map", *settings)]
        broker.admin.incremental_alter_configs({BROKER: gone})
        wait_for(lambda: not listens(port))
        broker.set(settings | {"listener.name.extra.ssl.client.auth": "none"}, f"EXTRA://localhost:{port} SSL")
        wait_for(lambda: listens(port))
        assert len(readers) >= 4
        assert not [name for name in readers if not name.startswith("apart")], "its files are read in threads of their own only"


def test_who_logs_in_on_a_listener_that_was_added() -> None:
    (port,) = free_ports(1)
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.logins.plain.sasl.jaas.config": f'{_PLAIN} user_alice="wonderland";',
    }
    with changing({"connection.failed.authentication.delay.ms": "0"}) as broker:
        broker.set(settings, f"LOGINS://localhost:{port} SASL_PLAINTEXT")
        wait_for(lambda: listens(port))
        assert login(port, "alice", "wonderland")
        assert not login(port, "alice", "looking-glass")


def test_what_is_kept_of_a_listener_goes_with_it() -> None:
    """Twice over, so that what was asked for the last time is not known: with SASL, without, with other users."""
    (port,) = free_ports(1)
    users = "listener.name.logins.plain.sasl.jaas.config"
    with changing({"connection.failed.authentication.delay.ms": "0", "sasl.enabled.mechanisms": "PLAIN"}) as broker:
        for name in ("alice", "bob"):
            broker.set({users: f'{_PLAIN} user_{name}="wonderland";'}, f"LOGINS://localhost:{port} SASL_PLAINTEXT")
            wait_for(lambda: listens(port))
            assert [login(port, each, "wonderland") for each in ("alice", "bob")] == [name == "alice", name == "bob"]
            broker.remove(users)
            wait_for(lambda: not listens(port))
            broker.set({}, f"LOGINS://localhost:{port} PLAINTEXT")
            wait_for(lambda: listens(port))
            with Admin(bootstrap_servers=f"localhost:{port}") as admin:
                assert admin.describe_cluster().cluster_id
            assert not login(port, name, "wonderland"), "a listener without SASL lets nobody log in"
            broker.remove()
            wait_for(lambda: not listens(port))


def test_tokens_are_made_on_a_listener_that_was_added() -> None:
    """As on those of the file; and no more once it is there without a login."""
    (port,) = free_ports(1)
    secured = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "wonderland",
    }
    settings = {"listener.name.logins.plain.sasl.jaas.config": f'{_PLAIN} user_alice="wonderland";'}
    with changing({"delegation.token.secret.key": "secret", "sasl.enabled.mechanisms": "PLAIN"}) as broker:
        broker.set(settings, f"LOGINS://localhost:{port} SASL_PLAINTEXT")
        wait_for(lambda: listens(port))
        with Admin(bootstrap_servers=f"localhost:{port}", **secured) as admin:
            token = admin.create_delegation_token()
            assert [each.token_id for each in admin.describe_delegation_token()] == [token.token_id]
        broker.remove(*settings)
        wait_for(lambda: not listens(port))
        broker.set({}, f"LOGINS://localhost:{port} PLAINTEXT")
        wait_for(lambda: listens(port))
        with Admin(bootstrap_servers=f"localhost:{port}") as admin, pytest.raises(KafkaError) as refused:
            admin.create_delegation_token()
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_the_keys_of_tls_for_all_listeners_hold_for_those_to_come(
    made: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, controller, port, late = free_ports(4)
    store = tmp_path / "store.pem"
    shutil.copy(made.broker, store)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUT:SSL",
        "listeners": f"PLAINTEXT://localhost:{first},CONTROLLER://localhost:{controller},OUT://localhost:{port}",
        "advertised.listeners": f"PLAINTEXT://localhost:{first},OUT://localhost:{port}",
        "controller.quorum.bootstrap.servers": f"localhost:{controller}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
    }

    def handshake(port: int, *, known: bool = False) -> bool:
        context = ssl.create_default_context(cafile=str(made.authority))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        if known:
            context.load_cert_chain(made.client)
        try:
            with socket.create_connection(("localhost", port), 5) as raw, context.wrap_socket(raw, server_hostname="localhost") as one:
                one.sendall(API_VERSIONS)
                return one.recv(8)[4:] == ANSWERED
        except (ssl.SSLError, ConnectionError):
            return False

    with EmbeddedBroker(settings), Admin(bootstrap_servers=f"localhost:{first}") as admin:
        assert handshake(port)
        added = {
            "ssl.client.auth": "required",
            "listeners": f"{settings['listeners']},LATE://localhost:{late}",
            "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},LATE:SSL",
        }
        admin.incremental_alter_configs({BROKER: [ConfigChange(name, value) for name, value in added.items()]})
        wait_for(lambda: listens(late))
        assert not handshake(late)
        assert handshake(late, known=True)
        assert handshake(port), "a listener that is there keeps what it began with"
        shutil.copy(made.broker, store)
        os.utime(store, ns=(1, 1))
        with caplog.at_level(logging.INFO):
            admin.incremental_alter_configs({BROKER: [ConfigChange("listener.name.out.ssl.keystore.location", str(store))]})
            wait_for(lambda: "listener OUT has new certificates" in caplog.text)
        assert handshake(port), "also when its certificate is renewed"
        assert not handshake(late)
        with pytest.raises(KafkaError, match="broker id must be specified"):
            admin.incremental_alter_configs({ConfigResource("broker", ""): [ConfigChange("ssl.client.auth", "none")]})


def with_logins(mechanism: str = "PLAIN") -> dict[str, str]:
    scram = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="other" password="among-others";'
    return {
        "listeners": "PLAINTEXT://h:1,IN://h:3,CONTROLLER://h:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,IN:SASL_PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "listener.name.in.plain.sasl.jaas.config": f'{_PLAIN} user_node="among-nodes";',
        "listener.name.in.scram-sha-256.sasl.jaas.config": scram,
    }


def test_the_mechanism_between_brokers_changes_for_new_connections() -> None:
    config = DynamicBrokerConfig(standalone_config(with_logins()))
    logins = NodeLogins(config.static)
    assert str(logins.principal("IN")) == "User:node"
    with pytest.raises(ConfigError, match=r"listener.name.in.scram-sha-512.sasl.jaas.config is missing"):
        config.check({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, for_node=True)
    config.check({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, for_node=True)
    config.subscribe((SASL_MECHANISM_INTER_BROKER_PROTOCOL,), lambda: logins.read(config.current))
    assert config.update({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, {}) == []
    assert str(logins.principal("IN")) == "User:other"


def test_what_a_listener_of_the_file_has_is_not_overridden_by_metadata() -> None:
    config = DynamicBrokerConfig(standalone_config(with_logins()))
    name = "listener.name.in.sasl.enabled.mechanisms"
    with pytest.raises(ConfigError, match=f"for existing listener IN, restart broker or create a new listener for update: {name}"):
        config.check({name: "PLAIN"}, for_node=True)
    (line,) = config.update({name: "PLAIN"}, {})
    assert line == f"A setting of this broker is ignored: the listener IN keeps the value in the file: {name}"
    assert name not in config.current.given


def test_stores_that_change_while_a_new_listener_reads_them_are_read_again() -> None:
    static = {"listeners": "PLAINTEXT://localhost:1,CONTROLLER://localhost:2"}
    added = {
        "listeners": "PLAINTEXT://localhost:1,EXTRA://localhost:3,CONTROLLER://localhost:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:SSL,CONTROLLER:PLAINTEXT",
    }
    served: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        config = DynamicBrokerConfig(standalone_config(static))
        jobs: list[tuple[Callable[[], object], Deferred[object]]] = []

        def apart(job: Callable[[], object]) -> Deferred[object]:
            jobs.append((job, Deferred()))
            return jobs[-1][1]

        async def bind(listener: Listener) -> object:
            return SimpleNamespace(name=listener.name, scope=listener.scope, host=listener.host, listener=listener)

        async def serve(listener: object) -> None:
            served.append(listener)

        tls = SimpleNamespace(read=lambda config, name: config[SSL_TRUSTSTORE_TYPE], serve=lambda name, made: f"{name} with {made}")
        services = SimpleNamespace(dynamic_config=config)
        there = SimpleNamespace(name="PLAINTEXT", scope="broker", host="localhost", listener=SimpleNamespace(port=1))
        acceptor = SimpleNamespace(bind=bind, serve=serve)
        binding = SimpleNamespace(listeners=SimpleNamespace(bound=[there], acceptor=acceptor))
        node = SimpleNamespace(services=services, tls=tls, loop=loop, jobs=SimpleNamespace(apart=apart))
        dynamic = DynamicListeners(cast(Any, node), cast(Any, binding))
        config.update(added, {})
        following = loop.create_task(dynamic.follow())
        for type_ in ("PKCS12", None):
            await until(lambda: bool(jobs))
            job, done = jobs.pop()
            if type_ is not None:
                config.update({**added, "ssl.truststore.type": type_}, {})
            done.complete(job() if type_ is not None else "PKCS12")
        await following

    run_loop(main())
    assert [each.listener.tls for each in cast("list[Any]", served)] == ["EXTRA with PKCS12"]


def test_a_listener_that_cannot_be_served_is_not_among_those_that_are_bound() -> None:
    removed: list[object] = []
    forgotten: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        config = DynamicBrokerConfig(standalone_config({"listeners": "PLAINTEXT://localhost:1,CONTROLLER://localhost:2"}))

        async def bind(listener: Listener) -> object:
            return SimpleNamespace(name=listener.name, scope=listener.scope, host=listener.host, listener=listener)

        async def serve(listener: Any) -> None:
            raise ListenError(listener.name, listener.host, 3, OSError("as the test wanted"))

        services = SimpleNamespace(dynamic_config=config)
        tls = SimpleNamespace(read=lambda config, name: None, serve=lambda name, made: None)
        there = SimpleNamespace(name="PLAINTEXT", scope="broker", host="localhost", listener=SimpleNamespace(port=1))
        bound: list[object] = [there]
        acceptor = SimpleNamespace(bind=bind, serve=serve, remove=removed.append)
        binding = SimpleNamespace(listeners=SimpleNamespace(bound=bound, acceptor=acceptor), forget=forgotten.append)
        node = SimpleNamespace(services=services, tls=tls, loop=loop, jobs=SimpleNamespace(apart=lambda job: Deferred.of(job())))
        dynamic = DynamicListeners(cast(Any, node), cast(Any, binding))
        added = {
            "listeners": "PLAINTEXT://localhost:1,EXTRA://localhost:3,CONTROLLER://localhost:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        config.update(added, {})
        await dynamic.follow()
        assert bound == [there]

    run_loop(main())
    assert [cast(Any, each).name for each in removed] == forgotten == ["EXTRA"]
