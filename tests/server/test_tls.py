"""The TLS of a node: what stops it at its start, whom certificates stand for, and new certificates while it runs."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

import pytest

from interop.waiting import until
from odradek.base.errors import ConfigError, ErrorCode, KafkaError
from odradek.client import Admin, ConfigChange, ConfigResource
from odradek.client.settings.config import Setting
from odradek.config.broker import standalone_config
from odradek.config.dynamic_broker import DynamicBrokerConfig
from odradek.network.tls import client_context, try_handshake
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.security.tls import ListenerKeys, NodeTls
from odradek.testing.kit.embedded import EmbeddedBroker
from tests.client.certificates import Certificates
from tests.network.stores import der_of, readers_of_files


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def settings(made: Certificates, **others: str) -> dict[str, str]:
    found = {
        "listeners": "PLAINTEXT://localhost:9092,OUT://localhost:9094,IN://localhost:9095,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SSL,IN:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "IN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
    }
    return found | {name.replace("__", "."): value for name, value in others.items()}


def node(given: dict[str, str]) -> tuple[DynamicBrokerConfig, NodeTls]:
    dynamic = DynamicBrokerConfig(standalone_config(given))
    return dynamic, NodeTls(dynamic)


# -- the start ----------------------------------------------------------------------------------------------------------------------------


def test_each_listener_has_what_is_set_for_it(made: Certificates) -> None:
    given = settings(made, listener__name__out__ssl__keystore__location=str(made.client), listener__name__out__ssl__client__auth="required")
    _, tls = node(given)
    assert tls.serving("PLAINTEXT") is None
    out, within = tls.serving("OUT"), tls.serving("IN")
    assert out is not None
    assert within is not None
    config = standalone_config(given)
    assert try_handshake(within.context, client_context(ListenerKeys(config, "IN"))) is None
    anonymous = standalone_config({**given, "ssl.keystore.location": ""})
    assert try_handshake(out.context, client_context(_WithoutKey(anonymous, "IN"))) is not None, "it demands a certificate"


class _WithoutKey(ListenerKeys):
    def given(self, key: str) -> bool:
        return "keystore" not in key and super().given(key)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "/nowhere for configuration ssl.keystore.location: No such file"),
        ({"listener.name.out.ssl.keystore.location": "/no"}, "/no for configuration listener.name.out.ssl.keystore.location: No such"),
        ({"ssl.keystore.type": "JKS"}, "looks like PEM, but ssl.keystore.type=JKS"),
        ({"ssl.principal.mapping.rules": "RULE:(/x/"}, "ssl.principal.mapping.rules: Invalid rule"),
        ({"listener.name.out.ssl.principal.mapping.rules": "x"}, "listener.name.out.ssl.principal.mapping.rules: Invalid rule"),
        ({"ssl.cipher.suites": "TLS_NONSENSE"}, "TLS_NONSENSE for configuration ssl.cipher.suites"),
        ({"ssl.enabled.protocols": "TLSv1"}, "TLSv1 for configuration ssl.enabled.protocols"),
        (
            {"ssl.truststore.location": "stranger"},
            "the trust store of listener IN .*does not accept the listener's own certificate.*unable to get",
        ),
        ({"ssl.keystore.location": "expired"}, "the trust store of listener IN .*certificate has expired"),
    ],
)
def test_what_cannot_be_used_stops_the_start(made: Certificates, changed: dict[str, str], said: str) -> None:
    changed = {name: str(getattr(made, value, value)) if value.isalpha() else value for name, value in changed.items()}
    _, tls = node(settings(made) | changed)

    def start() -> None:
        tls.check()
        for listener in ("OUT", "IN", "CONTROLLER"):
            tls.serving(listener)

    with pytest.raises(ConfigError, match=said) as raised:
        start()
    assert "\n" not in str(raised.value)


def test_a_listener_with_tls_needs_a_key() -> None:
    config = standalone_config({"listeners": "SSL://h:1,CONTROLLER://h:2", "inter.broker.listener.name": "SSL"})
    with pytest.raises(ConfigError, match=r"ssl.keystore.location is missing: a listener with TLS needs a key"):
        NodeTls(DynamicBrokerConfig(config)).serving("SSL")


def test_a_certificate_stands_for_its_name_by_the_rules_of_the_listener(made: Certificates) -> None:
    rules = {"listener.name.out.ssl.principal.mapping.rules": "RULE:^CN=(cl.*)$/$1-x/U"}
    _, tls = node(settings(made) | rules)
    out, within = tls.serving("OUT"), tls.serving("IN")
    assert out is not None
    assert out.principal is not None
    assert within is not None
    assert within.principal is not None
    client, broker = der_of(made.folder / "client.crt"), der_of(made.folder / "broker.crt")
    assert (within.principal(client), within.principal(None)) == (Principal("User", "CN=client"), ANONYMOUS)
    assert out.principal(client) == Principal("User", "CLIENT-X")
    with pytest.raises(ValueError, match=r"Failed to map name for 'CN=broker'"):
        out.principal(broker)


def test_the_key_for_all_listeners_asks_no_certificate_beside_sasl(made: Certificates) -> None:
    """SaslChannelBuilder: ssl.client.auth counts there when it is set for the listener."""

    config = standalone_config(settings(made, ssl__client__auth="required"))
    config.listener_security_protocols = {**config.listener_security_protocols, "OUT": "SASL_SSL"}
    assert ListenerKeys(config, "OUT").text("ssl.client.auth") == "none"
    assert ListenerKeys(config, "IN").text("ssl.client.auth") == "required"
    config.given["listener.name.out.ssl.client.auth"] = "requested"
    assert ListenerKeys(config, "OUT").text("ssl.client.auth") == "requested"


# -- new certificates ---------------------------------------------------------------------------------------------------------------------


class Store:
    """A PEM file whose content changes under its name."""

    def __init__(self, path: Path, content: Path) -> None:
        self.path = path
        self._ages = iter(range(1, 1000))
        self.holds(content)

    def holds(self, content: Path) -> None:
        self.path.write_bytes(content.read_bytes())
        os.utime(self.path, ns=(0, next(self._ages) * 10**9))


@pytest.fixture
def store(made: Certificates, tmp_path: Path) -> Store:
    return Store(tmp_path / "store.pem", made.broker)


@pytest.fixture(scope="module")
def renewed(made: Certificates) -> dict[str, Path]:
    """Other certificates of the broker: the same names, one more, none, and another subject."""
    found = {}
    for name, subject, names in (
        ("same", "broker", "DNS:localhost"),
        ("more", "broker", "DNS:localhost,DNS:other"),
        ("most", "broker", "DNS:localhost,DNS:other,DNS:third"),
        ("less", "broker", "DNS:other"),
        ("renamed", "another", "DNS:localhost"),
    ):
        found[name] = made.signed(name, names, subject=subject)
    return found


LOCATION = "listener.name.in.ssl.keystore.location"


@pytest.mark.parametrize(
    ("new", "allowed", "said"),
    [
        ("same", {}, None),
        ("more", {}, None),
        ("less", {}, "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=.localhost.}, new={alias=kafka, SAN=.other.}"),
        ("less", {"ssl.allow.san.changes": "true"}, None),
        ("renamed", {}, "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=broker}, new={.*DN=CN=another}"),
        ("renamed", {"ssl.allow.dn.changes": "true"}, None),
        ("expired", {"ssl.allow.dn.changes": "true"}, "does not accept the listener's own certificate"),
    ],
)
def test_a_new_certificate_is_taken_when_it_may_follow_the_old(
    made: Certificates, store: Store, renewed: dict[str, Path], new: str, allowed: dict[str, str], said: str | None
) -> None:
    dynamic, tls = node(settings(made) | {LOCATION: str(store.path)} | allowed)
    serving = tls.serving("IN")
    assert serving is not None
    before = serving.context
    dynamic.update({LOCATION: str(store.path)}, {})
    assert serving.context is before, "nothing has changed"
    store.holds(renewed.get(new, made.expired))
    if said is None:
        dynamic.check({LOCATION: str(store.path)}, for_node=True)
        assert serving.context is before, "a check changes nothing"
        dynamic.update({LOCATION: str(store.path)}, {})
        assert serving.context is not before
        assert serving.context.get_ca_certs() == before.get_ca_certs()
    else:
        with pytest.raises(ConfigError, match=said):
            dynamic.check({LOCATION: str(store.path)}, for_node=True)
        dynamic.update({LOCATION: str(store.path)}, {})
        assert serving.context is before, "what cannot be used is not taken over from the metadata either"


def test_other_settings_do_not_reread_a_file(made: Certificates, store: Store, renewed: dict[str, Path]) -> None:
    dynamic, tls = node(settings(made) | {LOCATION: str(store.path)})
    serving = tls.serving("IN")
    assert serving is not None
    before = serving.context
    store.holds(renewed["same"])
    dynamic.update({}, {"message.max.bytes": "5000000"})
    assert serving.context is before
    dynamic.update({"message.max.bytes": "5000000"}, {})
    assert serving.context is not before, "a key of this broker is set: Kafka looks at all files then"


def test_other_nodes_are_dialled_with_the_new_certificate(made: Certificates, store: Store, renewed: dict[str, Path]) -> None:
    dynamic, tls = node(settings(made) | {LOCATION: str(store.path)})
    assert tls.towards("PLAINTEXT") is None
    tls.serving("IN")
    before = tls.towards("IN")
    assert before is not None
    assert tls.towards("IN") is before
    store.holds(renewed["same"])
    dynamic.update({LOCATION: str(store.path)}, {})
    assert tls.towards("IN") is not before


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_listener_that_goes_while_its_files_are_read_is_not_renewed(
    made: Certificates, store: Store, renewed: dict[str, Path], caplog: pytest.LogCaptureFixture, comes_back: bool
) -> None:
    dynamic, tls = node(settings(made) | {LOCATION: str(store.path)})
    tls.serving("IN")
    store.holds(renewed["same"])
    read = dynamic.read({LOCATION: str(store.path)}, {})
    tls.forget("IN")
    serving = tls.serving("IN") if comes_back else None
    context = None if serving is None else serving.context
    dynamic.take(read)
    assert caplog.messages == []
    assert serving is None or serving.context is context, "it has read the files for itself"


def test_who_is_dialled_only_is_dialled_with_the_new_store_or_else_with_the_old(
    made: Certificates, store: Store, renewed: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    dynamic, tls = node(settings(made) | {LOCATION: str(store.path)})
    before = tls.towards("IN")
    store.holds(renewed["same"])
    dynamic.update({LOCATION: str(store.path)}, {})
    after = tls.towards("IN")
    assert after is not None
    assert after is not before
    store.path.write_text("no store")
    dynamic.update({LOCATION: str(store.path)}, {})
    assert tls.towards("IN") is after
    assert "connections to listener IN keep their previous settings" in caplog.text
    store.holds(renewed["same"])
    dynamic.update({LOCATION: str(store.path)}, {})
    assert tls.towards("IN") not in (before, after)


def test_a_trust_store_is_not_added_later(made: Certificates) -> None:
    given = {"listener.name.out.ssl.keystore.location": str(made.broker), "listener.name.out.ssl.keystore.type": "PEM"}
    config = {"listeners": "OUT://h:1,IN://h:3,CONTROLLER://h:2", "inter.broker.listener.name": "IN"}
    dynamic, tls = node({**config, **given, "listener.security.protocol.map": "OUT:SSL,IN:PLAINTEXT,CONTROLLER:PLAINTEXT"})
    tls.serving("OUT")
    with pytest.raises(ConfigError, match="Cannot add SSL truststore to an existing listener"):
        dynamic.check({"listener.name.out.ssl.truststore.certificates": made.authority.read_text(),
                       "listener.name.out.ssl.truststore.type": "PEM"}, for_node=True)  # fmt: skip


# -- a whole broker -----------------------------------------------------------------------------------------------------------------------

OUT = "listener.name.out.ssl.keystore.location"
BROKER = ConfigResource("broker", "1")


def shown(port: int, made: Certificates) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.authority)
    context.load_cert_chain(made.client)
    with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw, server_hostname="localhost") as wrapped:
        return wrapped.getpeercert(binary_form=True) or b""


def test_certificates_change_while_clients_stay(
    made: Certificates, store: Store, renewed: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {
        "listeners": "OUT://localhost:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUT:SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "listener.name.out.ssl.keystore.type": "PEM",
        "listener.name.out.ssl.client.auth": "required",
        OUT: str(store.path),
    }
    keys: dict[str, Setting] = {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(made.authority),
        "ssl.keystore.location": str(made.client),
    }
    with EmbeddedBroker(properties) as broker, Admin({**keys, "bootstrap.servers": f"localhost:{broker.port}"}) as admin:
        readers = readers_of_files(monkeypatch)
        old = der_of(made.folder / "broker.crt")
        assert shown(broker.port, made) == old
        store.holds(renewed["less"])
        with pytest.raises(KafkaError, match="Keystore SubjectAltNames do not match") as refused:
            admin.incremental_alter_configs({BROKER: [ConfigChange(OUT, str(store.path))]})
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert shown(broker.port, made) == old
        store.holds(renewed["more"])
        for _ in range(2):  # the second time the value is the same, and so is the file
            admin.incremental_alter_configs({BROKER: [ConfigChange(OUT, str(store.path))]})
        until(lambda: shown(broker.port, made) == der_of(made.folder / "more.crt"))
        store.holds(renewed["most"])
        secret = "listener.name.out.ssl.key.password"
        admin.incremental_alter_configs({BROKER: [ConfigChange(OUT, str(store.path)), ConfigChange(secret, "hush")]})
        until(lambda: shown(broker.port, made) == der_of(made.folder / "most.crt"))
        entries = {entry.name: entry for entry in admin.describe_configs([BROKER], synonyms=True)[BROKER]}
        assert (entries[OUT].value, entries[OUT].read_only, entries[OUT].sensitive) == (str(store.path), True, False)
        assert (entries[secret].value, entries[secret].sensitive) == (None, True)
        assert [synonym.name for synonym in entries[OUT].synonyms] == [OUT, OUT]
        assert entries["listener.name.out.ssl.client.auth"].read_only
        for name in ("ssl.keystore.location", "listener.name.out.ssl.client.auth"):
            with pytest.raises(KafkaError, match="listener"):
                admin.incremental_alter_configs({BROKER: [ConfigChange(name, "requested")]})
        with pytest.raises(KafkaError, match="broker id must be specified"):
            admin.incremental_alter_configs({ConfigResource("broker", ""): [ConfigChange(OUT, str(store.path))]})
        assert len(readers) > 5
        assert not [name for name in readers if not name.startswith("apart")], "files are read in threads of their own only"
