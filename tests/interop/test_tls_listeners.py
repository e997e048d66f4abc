"""TLS listeners of Odradek's broker and of the JVM's, beside one another: clients that nobody changed get in, or are kept out, alike."""

from __future__ import annotations

import contextlib
import gc
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interop.cluster import Member, MixedCluster
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker, free_port
from interop.tools import JvmTools
from odradek.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.client.certificates import Certificates
from tests.interop.tls_clients import CLIENTS, TOPIC, Told, jvm_topics

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""The clients' own warnings, not ours."""

LISTENERS = ("TLS", "MUTUAL", "WANTED", "EXPIRED", "NEWEST", "OLDER")


DELAY_MS = 15_000
"""So long that only a broker that waits for it is slower."""


@pytest.fixture(autouse=True)
def _sockets_left_open() -> Iterator[None]:
    """Clients that were refused leave sockets to the garbage collector, which complains here and not at the end of all tests."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class TlsBroker:
    """A broker, and where its listeners are."""

    def __init__(self, process: BrokerProcess, made: Certificates) -> None:
        self.process = process
        ports = {name: free_port() for name in LISTENERS}
        self.address = {name: f"localhost:{port}" for name, port in ports.items()} | {"PLAINTEXT": f"localhost:{process.port}"}
        listeners = ",".join(f"{name}://{address}" for name, address in self.address.items())
        process.overrides = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{process.controller_port}",
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "TLS",
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", *(f"{name}:SSL" for name in LISTENERS)]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(made.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.wanted.ssl.client.auth": "requested",
            "listener.name.expired.ssl.keystore.location": str(made.expired),
            "listener.name.newest.ssl.enabled.protocols": "TLSv1.3",
            "listener.name.older.ssl.enabled.protocols": "TLSv1.2",
            "connection.failed.authentication.delay.ms": str(DELAY_MS),
            "listener.name.older.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        }

    def port(self, listener: str) -> int:
        return int(self.address[listener].rpartition(":")[2])


@pytest.fixture(scope="module", params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[TlsBroker]:
    folder = tmp_path_factory.mktemp("broker")
    process: BrokerProcess = OdradekBroker(folder) if request.param == "odradek" else JvmBroker(folder, heap="512m")
    started = TlsBroker(process, made)
    try:
        process.start(120)
        with Admin(bootstrap_servers=started.address["PLAINTEXT"]) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
        yield started
    finally:
        process.kill()


@pytest.mark.parametrize("listener", ["TLS", "NEWEST", "OLDER", "WANTED"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_record_goes_there_and_back(broker: TlsBroker, made: Certificates, client: str, listener: str) -> None:
    value = f"{client} {listener}".encode() * 10_000
    assert CLIENTS[client](Told(broker.address[listener], made.authority), value) == value


@pytest.mark.parametrize("listener", ["MUTUAL", "WANTED"])
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_show_their_certificates(broker: TlsBroker, made: Certificates, client: str, listener: str) -> None:
    value = f"{client} {listener}".encode()
    assert CLIENTS[client](Told(broker.address[listener], made.authority, made.client), value) == value


REFUSALS = [
    ("TLS", "localhost", "stranger", None, "unknown authority"),
    ("TLS", "127.0.0.1", "authority", None, "another host"),
    ("EXPIRED", "localhost", "authority", None, "expired"),
    ("MUTUAL", "localhost", "authority", None, "no certificate of the client"),
    ("MUTUAL", "localhost", "authority", "strange_client", "a client of an unknown authority"),
    ("WANTED", "localhost", "authority", "strange_client", "an unknown authority, where none is demanded"),
]


@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS)
def test_who_is_kept_out(broker: TlsBroker, made: Certificates, client: str) -> None:
    """All at the same time: most clients try again until their patience ends."""

    def comes_in(refusal: tuple[str, str, str, str | None, str]) -> bool:
        listener, host, authority, key, _ = refusal
        told = Told(f"{host}:{broker.port(listener)}", getattr(made, authority), getattr(made, key) if key else None, patience_s=3)
        try:
            CLIENTS[client](told, b"anonymous")
        except AssertionError:
            raise
        except Exception:  # each client has its own
            return False
        return True

    with ThreadPoolExecutor(len(REFUSALS)) as pool:
        came_in = {refusal[-1] for refusal, in_ in zip(REFUSALS, pool.map(comes_in, REFUSALS), strict=True) if in_}
    # The JVM names the authorities that it trusts, and librdkafka keeps back a certificate of another (docs/differences.md).
    kept_back = (client, broker.process.name) == ("confluent", "jvm")
    assert came_in == ({"an unknown authority, where none is demanded"} if kept_back else set())


@pytest.mark.parametrize(("listener", "offered"), [("NEWEST", ssl.TLSVersion.TLSv1_2), ("OLDER", ssl.TLSVersion.TLSv1_3)])
def test_protocols_that_have_none_in_common(broker: TlsBroker, made: Certificates, listener: str, offered: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.authority)
    context.minimum_version = context.maximum_version = offered
    with socket.create_connection(("127.0.0.1", broker.port(listener))) as raw, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        context.wrap_socket(raw, server_hostname="localhost")


def test_the_alert_comes_at_once_and_then_the_end(broker: TlsBroker, made: Certificates) -> None:
    """Kafka delays the answer to a failed SASL exchange, connection.failed.authentication.delay.ms, and not a failed handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.authority)
    context.load_cert_chain(made.strange_client)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", broker.port("MUTUAL"))) as raw, contextlib.suppress(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="localhost")
    assert time.monotonic() - begin < DELAY_MS / 1000


@pytest.mark.jvm
def test_the_tools_of_the_jvm(broker: TlsBroker, made: Certificates, jvm_tools: JvmTools, tmp_path: Path) -> None:
    for listener, key in (("TLS", None), ("OLDER", None), ("MUTUAL", made.client)):
        status, said = jvm_topics(jvm_tools, Told(broker.address[listener], made.authority, key), tmp_path)
        assert (status, TOPIC in said) == (0, True), said
    for listener, host, authority, name, why in REFUSALS:
        told = Told(f"{host}:{broker.port(listener)}", getattr(made, authority), getattr(made, name) if name else None)
        status, said = jvm_topics(jvm_tools, told, tmp_path)
        if (listener, broker.process.name) == ("WANTED", "jvm"):
            assert status == 0, "Java, too, keeps back a certificate of an authority that was not named"
            continue
        assert status == 1, (why, said)
        assert "SslAuthenticationException" in said or "SSL handshake failed" in said, (why, said)


# -- clusters -----------------------------------------------------------------------------------------------------------------------------


class TlsCluster(MixedCluster):
    """Brokers and controllers speak TLS to one another, with certificates on both sides; clients have a plaintext listener beside."""

    def __init__(self, folder: Path, kinds: dict[int, str], made: Certificates) -> None:
        super().__init__(folder, {node: Member(kind) for node, kind in kinds.items()})
        nodes = made.signed("nodes", "DNS:localhost,IP:127.0.0.1")
        taken = {port for process in self.nodes.values() for port in (process.port, process.controller_port)}
        for process in self.nodes.values():
            while (port := free_port()) in taken:
                pass
            taken.add(port)
            inside = f"INSIDE://localhost:{port}"
            process.overrides = {
                **process.overrides,
                "listeners": f"{process.overrides['listeners']},{inside}",
                "advertised.listeners": f"{process.overrides['advertised.listeners']},{inside}",
                "inter.broker.listener.name": "INSIDE",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL,INSIDE:SSL",
                "ssl.client.auth": "required",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(nodes),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(made.authority),
            }


@pytest.mark.parametrize(
    "kinds",
    [
        {1: "odradek", 2: "odradek", 3: "odradek"},
        pytest.param({1: "odradek", 2: "jvm", 3: "odradek"}, marks=pytest.mark.jvm),
        pytest.param({1: "jvm", 2: "odradek", 3: "jvm"}, marks=pytest.mark.jvm),
    ],
    ids=["ours", "one of the JVM", "one of ours"],
)
def test_a_cluster_whose_nodes_speak_tls(kinds: dict[int, str], tmp_path: Path, made: Certificates) -> None:
    """Records reach all replicas, a node may end and come back, and the controllers go on without it."""
    with TlsCluster(tmp_path, kinds, made) as cluster:
        bootstrap = ",".join(process.bootstrap for process in cluster.nodes.values())
        with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap, acks="all") as producer:
            admin.create_topics([NewTopic("t", 3, 3, {"min.insync.replicas": "2"})])

            def write(values: range) -> None:
                for done in [producer.send("t", str(value).encode(), partition=value % 3) for value in values]:
                    done.result(60)

            write(range(300))
            assert cluster.nodes[1].stop() in (0, 143)  # a JVM says what signal has ended it
            write(range(300, 600))
            cluster.start(1)
            write(range(600, 900))
        with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([TopicPartition("t", partition) for partition in range(3)])
            for partition in range(3):
                consumer.seek(TopicPartition("t", partition), 0)
            found: set[int] = set()
            while len(found) < 900:
                found |= {int(record.value or b"") for record in consumer.poll(20)}
        assert found == set(range(900))
