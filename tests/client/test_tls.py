"""TLS: what the configuration means, and what is said of certificates that one of the two sides does not accept."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import stat
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.base.errors import ConfigError, ErrorCode
from odradek.client.network.cluster import AuthenticationFailed, Cluster, NoBrokersAvailable
from odradek.client.security.tls import tls_context
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig, Setting
from odradek.security.ciphers import openssl_name
from odradek.security.pem import PemError, certificates, private_key
from tests.client.certificates import KEY_PASSWORD, Certificates
from tests.client.scripted import ScriptedBrokers, ScriptedConnection


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def context(**settings: Setting) -> ssl.SSLContext:
    found = tls_context(ClientConfig(ADMIN_CONFIG, {"security.protocol": "SSL"}, **settings))
    assert found is not None
    return found


# -- configuration ------------------------------------------------------------------------------------------------------------------


def test_without_tls_there_is_none() -> None:
    assert tls_context(ClientConfig(ADMIN_CONFIG)) is None


def test_names_and_certificates_are_checked_unless_switched_off() -> None:
    assert context().check_hostname
    assert not context(ssl_endpoint_identification_algorithm="").check_hostname
    assert context(ssl_endpoint_identification_algorithm="").verify_mode is ssl.CERT_REQUIRED


def test_only_what_is_given_is_trusted(made: Certificates) -> None:
    trusted = context(ssl_truststore_location=str(made.authority)).get_ca_certs()
    assert [dict(part[0] for part in each["subject"])["commonName"] for each in trusted] == ["authority of tests"]  # type: ignore[misc, call-overload]


@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        ({"ssl_protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.2,TLSv1.3"}, "TLSv1_2", "TLSv1_3"),
        ({"ssl_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"}, "TLSv1_3", "TLSv1_3"),
    ],
)
def test_protocols(settings: dict[str, Setting], least: str, most: str) -> None:
    made = context(**settings)
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion[least], ssl.TLSVersion[most])


def test_cipher_suites_by_the_names_of_java() -> None:
    made = context(ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,ECDHE-RSA-AES256-GCM-SHA384")
    names = {each["name"] for each in made.get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"}


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
    ],
)
def test_openssl_knows_the_suites_of_java(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(openssl)


def _keystore(made: Certificates, tmp_path: Path) -> str:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    return str(path)


def _pkcs12(made: Certificates, tmp_path: Path) -> str:
    path = tmp_path / "store.p12"
    path.write_bytes(b"\x30\x82\x0a\x00")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"ssl_truststore_type": "JKS", "ssl_truststore_location": "/nowhere"},
            "/nowhere for configuration ssl.truststore.location: No such",
        ),
        ({"ssl_truststore_type": "BCFKS"}, "BCFKS for configuration ssl.truststore.type"),
        ({"ssl_truststore_location": _keystore}, "store.jks .ssl.truststore.location. cannot be read: it is cut off"),
        ({"ssl_keystore_location": _pkcs12}, "ssl.keystore.password is missing: .*store.p12 is a keystore of type PKCS12"),
        ({"ssl_keystore_location": _pkcs12, "ssl_keystore_password": "secret"}, "ssl.keystore.password is missing or wrong"),
        ({"ssl_keystore_location": _pkcs12, "ssl_keystore_type": "PEM"}, "looks like PKCS12, but ssl.keystore.type=PEM"),
        ({"ssl_keystore_location": lambda made, _: str(made.client), "ssl_keystore_type": "JKS"}, "ssl.keystore.type=PEM is missing"),
        ({"ssl_truststore_location": "/nowhere"}, "/nowhere for configuration ssl.truststore.location: No such file"),
        ({"ssl_truststore_certificates": "secret"}, "ssl.truststore.certificates contains no readable certificates"),
        ({"ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----c2VjcmV0-----END CERTIFICATE-----"}, "no readable certificates"),
        ({"ssl_truststore_password": "secret"}, "ssl.truststore.password has no effect"),
        ({"ssl_keystore_password": "secret"}, "ssl.keystore.password has no effect without"),
        (
            {"ssl_keystore_location": lambda made, _: str(made.client), "ssl_keystore_password": "secret"},
            "password of the key is ssl.key.password",
        ),
        ({"ssl_keystore_certificate_chain": "secret"}, "need each other"),
        ({"ssl_keystore_key": "secret"}, "need each other"),
        ({"ssl_keystore_certificate_chain": "secret", "ssl_keystore_key": "secret"}, "no private key"),
        ({"ssl_key_location": lambda made, _: str(made.client)}, "needs ssl.certificate.location"),
        ({"ssl_keystore_location": lambda made, _: str(made.authority)}, "ssl.keystore.location: it contains no private key"),
        ({"ssl_keystore_location": lambda made, _: str(made.encrypted)}, "ssl.key.password is missing"),
        ({"ssl_keystore_location": lambda made, _: str(made.encrypted), "ssl_key_password": "secret"}, "a wrong ssl.key.password"),
        (
            {
                "ssl_certificate_location": lambda made, _: str(made.folder / "client.crt"),
                "ssl_key_location": lambda made, _: str(made.folder / "broker.key"),
            },
            "the key of another certificate",
        ),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "TLSv1.1 for configuration ssl.enabled.protocols"),
        ({"ssl_protocol": "SSLv3"}, "SSLv3 for configuration ssl.protocol"),
        ({"ssl_cipher_suites": "NONSENSE"}, "NONSENSE for configuration ssl.cipher.suites"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "allows all of them"),
        ({"ssl_enabled_protocols": "TLSv1.3", "ssl_cipher_suites": "ECDHE-RSA-AES128-GCM-SHA256"}, "allow no TLS version"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "ssl.endpoint.identification.algorithm"),
        ({"ssl_provider": "BC"}, "ssl.provider is refused: .*OpenSSL"),
    ],
)
def test_settings_that_cannot_be_used(
    made: Certificates, tmp_path: Path, settings: dict[str, str | Callable[[Certificates, Path], str]], said: str
) -> None:
    plain = {name: value(made, tmp_path) if callable(value) else value for name, value in settings.items()}
    with pytest.raises(ConfigError, match=said) as raised:
        context(**plain)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_pem_with_its_lines_joined(made: Certificates) -> None:
    text = made.client.read_text()
    for joined in (text.replace("\n", " "), text.replace("\n", ""), text.replace("\n", "\r\n"), "some words\n" + text):
        assert certificates(joined) == certificates(text)
        assert private_key(joined) == private_key(text)
    with pytest.raises(PemError, match="several"):
        private_key(text + text)
    assert certificates(text + text).count("BEGIN") == 2


def test_a_key_is_on_disk_for_a_moment_and_for_nobody_else(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: Path, **others: Any) -> None:
        seen.append(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        load(self, path, **others)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    context(ssl_keystore_location=str(made.encrypted), ssl_key_password=KEY_PASSWORD)
    assert seen
    assert not seen[0].parent.exists()


# -- handshakes ---------------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def listening(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """A broker on a socket of the system; the port."""
    brokers = ScriptedBrokers(cast(Any, None), 0, lambda *_: brokers.metadata(leader=1))
    server = await asyncio.get_running_loop().create_server(
        lambda: ScriptedConnection(brokers, 1), "localhost", 0, ssl=tls, family=socket.AF_INET
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for transport in list(brokers.open):
            transport.abort()  # type: ignore[attr-defined]
        while brokers.open:  # noqa: ASYNC110  (nothing tells when the loop has let go of them)
            await asyncio.sleep(0)


@contextlib.contextmanager
def handshaking(tls: ssl.SSLContext) -> Iterator[int]:
    """Does one handshake after the other and tells why one fails, as brokers do (asyncio's server does not); the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            connection.settimeout(5)
            with tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as wrapped:
                with contextlib.suppress(OSError):
                    wrapped.do_handshake()
                    wrapped.read()
                with contextlib.suppress(OSError):  # closing with requests unread would reset the connection before the alert is read
                    wrapped.shutdown(socket.SHUT_WR)
                    while wrapped.recv(4096):
                        pass

    threading.Thread(target=_until_closed, args=(serve,), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _until_closed(serve: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        serve()


def served(certificate: Path, *, clients: Path | None = None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    made.minimum_version = made.maximum_version = version
    if clients is not None:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(clients)
    return made


def _loops() -> Iterator[Any]:
    import uvloop

    yield pytest.param(asyncio.new_event_loop, id="asyncio")
    yield pytest.param(uvloop.new_event_loop, id="uvloop")


@pytest.fixture(params=list(_loops()))
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    def runs(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(story(), 20))

    return runs


Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


async def ask(port: int, made: Certificates, **settings: Setting) -> None:
    keys: dict[str, Setting] = {
        "bootstrap.servers": f"localhost:{port}",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(made.authority),
        "default.api.timeout.ms": 1000,
    }
    client = Cluster(ClientConfig(ADMIN_CONFIG, keys | {name.replace("_", "."): value for name, value in settings.items()}))
    try:
        await client.retrying("metadata", lambda: client.ask_metadata([]))
    finally:
        await client.close()


def test_a_request_over_tls(run: Run, made: Certificates) -> None:
    async def story() -> None:
        async with listening(served(made.broker, clients=made.authority)) as port:
            await ask(port, made, ssl_keystore_location=str(made.client), send_buffer_bytes=65536, receive_buffer_bytes=65536)

    run(story)


@pytest.mark.parametrize(
    ("how", "settings", "said"),
    [
        ({}, {"ssl_truststore_location": "stranger"}, "the certificate of localhost:PORT is not accepted: .*ssl.truststore.location"),
        ({"certificate": "expired"}, {}, "the certificate of localhost:PORT is not accepted: certificate has expired"),
        ({"certificate": "client"}, {}, "not accepted: Hostname mismatch.*ssl.endpoint.identification.algorithm"),
        ({"clients": "authority"}, {}, "localhost:PORT requires a client certificate: ssl.keystore.location is missing"),
        (
            {"clients": "authority"},
            {"ssl_keystore_location": "strange_client"},
            "localhost:PORT does not accept the certificate of the client",
        ),
        ({"version": ssl.TLSVersion.TLSv1_2}, {"ssl_enabled_protocols": "TLSv1.3"}, "no TLS version in common"),
    ],
)
def test_a_handshake_that_fails_is_final_and_says_why(
    run: Run, made: Certificates, how: dict[str, Any], settings: dict[str, str], said: str
) -> None:
    async def story() -> None:
        certificate = getattr(made, how.get("certificate", "broker"))
        clients = getattr(made, how["clients"]) if "clients" in how else None
        tls = served(certificate, clients=clients, version=how.get("version", ssl.TLSVersion.TLSv1_3))
        files = {name: str(getattr(made, value, value)) for name, value in settings.items()}
        with handshaking(tls) as port:
            with pytest.raises(AuthenticationFailed, match=said.replace("PORT", str(port))) as raised:
                await ask(port, made, **files)
            assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
            assert "\n" not in str(raised.value)

    run(story)


def test_a_certificate_for_another_name_when_that_is_not_checked(run: Run, made: Certificates) -> None:
    async def story() -> None:
        async with listening(served(made.client)) as port:
            await ask(port, made, ssl_endpoint_identification_algorithm="")

    run(story)


def test_who_does_not_speak_tls(run: Run, made: Certificates) -> None:
    async def story() -> None:
        async with listening(None) as port:
            with pytest.raises(NoBrokersAvailable, match=r"whether this listener uses TLS \(security.protocol\)"):
                await ask(port, made, socket_connection_setup_timeout_ms=200)

    run(story)


def test_who_accepts_and_says_nothing_in_tls(run: Run, made: Certificates) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            with pytest.raises(NoBrokersAvailable, match="did not respond within"):
                await ask(port, made, socket_connection_setup_timeout_ms=200, socket_connection_setup_timeout_max_ms=200)

    run(story)


def test_sizes_of_the_kernel_s_buffers(run: Run, made: Certificates) -> None:
    async def story() -> None:
        async with listening(None) as port:
            keys: dict[str, Setting] = {"send.buffer.bytes": 20_000, "receive.buffer.bytes": 30_000}
            client = Cluster(ClientConfig(ADMIN_CONFIG, keys, bootstrap_servers=f"localhost:{port}"))
            node = await client.any_node()
            transport = node.connection._transport
            assert transport is not None
            found = transport.get_extra_info("socket")
            # Linux doubles what it is asked for.
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 40_000
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 60_000
            await client.close()

    run(story)
