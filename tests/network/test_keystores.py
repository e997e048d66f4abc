"""Key stores and trust stores in the three formats, and the contexts that are made of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.network.keystores import read_keys, read_trust
from odradek.network.tls import client_context, server_tls, try_handshake
from odradek.security import jks as jks_format
from odradek.security.x509 import alternative_names, issuer, oid_text, read_value, subject
from tests.client.certificates import KEY_PASSWORD, Certificates, openssl
from tests.network.stores import der_of, jks, pkcs8

PASSWORD = "store-secret"
INLINE = {"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}
DEFAULTS = {"ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.protocol": "TLSv1.3", "ssl.client.auth": "none"}


class Keys:
    """Keys of a configuration, by name with underscores."""

    def __init__(self, **given: str) -> None:
        self._given = {name.replace("_", "."): value for name, value in given.items()}

    def text(self, key: str) -> str | None:
        return self._given.get(key, DEFAULTS.get(key))

    def items(self, key: str) -> list[str]:
        return list(filter(None, (self.text(key) or "").split(",")))

    def given(self, key: str) -> bool:
        return key in self._given

    def shown(self, key: str) -> str:
        return f"listener.name.out.{key}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def stores(made: Certificates) -> dict[str, Path]:
    """The broker's key, and the authority, in each format."""
    folder, found = made.folder, {}
    key, chain = pkcs8(folder / "broker.key"), [der_of(folder / "broker.crt"), der_of(made.authority)]
    found["key.jks"] = folder / "key.jks"
    found["key.jks"].write_bytes(jks(PASSWORD, [("Broker", key, KEY_PASSWORD, chain)], [("other", der_of(made.stranger))]))
    found["trust.jks"] = folder / "trust.jks"
    found["trust.jks"].write_bytes(jks(PASSWORD, [], [("authority", der_of(made.authority))]))
    found["key.p12"], found["trust.p12"] = folder / "key.p12", folder / "trust.p12"
    both = folder / "both.crt"
    both.write_text(made.stranger.read_text() + made.authority.read_text())
    given = ("-in", str(folder / "broker.crt"), "-inkey", str(folder / "broker.key"), "-certfile", str(both), "-name", "broker")
    openssl("pkcs12", "-export", *given, "-out", str(found["key.p12"]), "-passout", f"pass:{PASSWORD}")
    openssl("pkcs12", "-export", "-nokeys", "-in", str(made.authority), "-out", str(found["trust.p12"]), "-passout", f"pass:{PASSWORD}")
    return found


def key_settings(kind: str, stores: dict[str, Path], made: Certificates) -> dict[str, str]:
    if kind == "PEM":
        return {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(made.broker)}
    if kind == "inline":
        return {
            "ssl_keystore_type": "PEM",
            "ssl_keystore_certificate_chain": (made.folder / "broker.crt").read_text().replace("\n", " "),
            "ssl_keystore_key": (made.folder / "broker.key").read_text().replace("\n", " "),
        }
    found = {"ssl_keystore_location": str(stores[f"key.{'jks' if kind.startswith('JKS') else 'p12'}"]), "ssl_keystore_password": PASSWORD}
    return found | ({"ssl_key_password": KEY_PASSWORD} if kind.startswith("JKS") else {})


def trust_settings(kind: str, stores: dict[str, Path], made: Certificates) -> dict[str, str]:
    if kind == "PEM":
        return {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(made.authority)}
    if kind == "inline":
        return {"ssl_truststore_certificates": made.authority.read_text().replace("\n", " ")}
    return {"ssl_truststore_location": str(stores[f"trust.{'jks' if kind == 'JKS' else 'p12'}"]), "ssl_truststore_password": PASSWORD}


@pytest.mark.parametrize("kind", ["PEM", "inline", "JKS", "PKCS12"])
def test_each_format_makes_a_server_that_clients_accept(kind: str, made: Certificates, stores: dict[str, Path]) -> None:
    server = server_tls(Keys(**key_settings(kind, stores, made)))
    client = client_context(Keys(**trust_settings(kind, stores, made)))
    assert try_handshake(server.context, client) is None
    stranger = client_context(Keys(ssl_truststore_location=str(made.stranger)))
    assert try_handshake(server.context, stranger) is not None
    (identity,) = server.identities
    assert identity.subject == subject(der_of(made.folder / "broker.crt"))
    assert identity.names == {b"\x82\x09localhost"}


@pytest.mark.parametrize(("type", "kind"), [("JKS", "PKCS12"), ("PKCS12", "JKS"), ("pkcs12", "PKCS12"), ("JKS", "JKS")])
def test_javas_two_types_stand_for_one_another(type: str, kind: str, made: Certificates, stores: dict[str, Path]) -> None:
    (pair,) = read_keys(Keys(ssl_keystore_type=type, **key_settings(kind, stores, made)))
    assert pair.chain == (der_of(made.folder / "broker.crt"), der_of(made.authority)), "the chain, in its order, and nobody else"
    assert PASSWORD not in repr(pair)
    assert "PRIVATE" not in repr(pair)


def test_who_is_trusted_is_what_java_takes(made: Certificates, stores: dict[str, Path]) -> None:
    """Trusted entries, and the certificates of keys (sun.security.validator.TrustStoreUtil)."""
    own, stranger = der_of(made.folder / "broker.crt"), der_of(made.stranger)
    assert read_trust(Keys(ssl_truststore_location=str(stores["key.jks"]), ssl_truststore_password=PASSWORD)) == [stranger, own]
    assert read_trust(Keys(ssl_truststore_location=str(stores["key.jks"]))) == [stranger, own], "without a password nothing vouches for it"
    assert read_trust(Keys()) is None


def test_of_several_keys_the_first_of_each_algorithm_is_used(made: Certificates, tmp_path: Path) -> None:
    folder = made.folder
    openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(folder / "curve.key"))
    given = ("-key", str(folder / "curve.key"), "-subj", "/CN=curve", "-addext", "subjectAltName=DNS:localhost")
    openssl("req", "-x509", "-new", *given, "-days", "30", "-out", str(folder / "curve.crt"))
    entries = [
        ("first", pkcs8(folder / "broker.key"), PASSWORD, [der_of(folder / "broker.crt")]),
        ("second", pkcs8(folder / "expired.key"), PASSWORD, [der_of(folder / "expired.crt")]),
        ("third", pkcs8(folder / "curve.key"), PASSWORD, [der_of(folder / "curve.crt")]),
    ]
    path = tmp_path / "several.jks"
    path.write_bytes(jks(PASSWORD, entries, [], version=1))
    server = server_tls(Keys(ssl_keystore_location=str(path), ssl_keystore_password=PASSWORD)).context
    for suite, trusted in (
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", made.authority),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", folder / "curve.crt"),
    ):
        assert try_handshake(server, client_context(Keys(ssl_truststore_location=str(trusted), ssl_cipher_suites=suite))) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl_keystore_location": "key.jks"}, "listener.name.out.ssl.keystore.password is missing: .*of type JKS"),
        ({"ssl_keystore_location": "key.jks", "ssl_keystore_password": "hush"}, "key.jks .*the password is wrong"),
        ({"ssl_keystore_location": "key.jks", "ssl_keystore_password": PASSWORD}, "password of its key is wrong .*ssl.key.password"),
        ({"ssl_keystore_location": "trust.jks", "ssl_keystore_password": PASSWORD}, "contains no private key"),
        ({"ssl_keystore_location": "trust.p12", "ssl_keystore_password": PASSWORD}, "contains no private key"),
        ({"ssl_keystore_location": "key.p12", "ssl_keystore_password": "hush"}, "ssl.keystore.password is missing or wrong"),
        ({"ssl_keystore_location": "key.p12", "ssl_keystore_password": PASSWORD, "ssl_key_password": "hush"}, "has a single password"),
        ({"ssl_truststore_location": "trust.p12"}, "ssl.truststore.password is missing or wrong"),
        ({"ssl_truststore_location": "trust.jks", "ssl_truststore_type": "PEM"}, "looks like JKS, but .*ssl.truststore.type=PEM"),
        (
            {"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y", "ssl_keystore_type": "JKS"},
            "is PEM, but .*ssl.keystore.type=JKS",
        ),
        ({"ssl_truststore_certificates": "x", "ssl_truststore_type": "JKS"}, "is PEM, but .*ssl.truststore.type=JKS"),
        ({"ssl_truststore_certificates": "x", "ssl_truststore_location": "trust.jks"}, "are both given"),
        ({**INLINE, "ssl_keystore_location": "key.jks"}, "are both given"),
    ],
)
def test_stores_that_cannot_be_used(settings: dict[str, str], said: str, stores: dict[str, Path]) -> None:
    keys = Keys(**{name: str(stores.get(value, value)) for name, value in settings.items()})
    read = read_trust if any("trust" in name for name in settings) else read_keys
    with pytest.raises(ConfigError, match=said) as raised:
        read(keys)
    assert "\n" not in str(raised.value)
    assert "hush" not in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_trust_may_begin_in_the_middle_of_its_chain(made: Certificates) -> None:
    """As in Java: whoever stands in the trust store is trusted, be it the broker itself. And nothing is renegotiated."""
    server = server_tls(Keys(ssl_keystore_location=str(made.broker)))
    itself = client_context(Keys(ssl_truststore_location=str(made.folder / "broker.crt")))
    assert try_handshake(server.context, itself) is None
    assert server.context.options & ssl.OP_NO_RENEGOTIATION


def test_a_listener_needs_a_key(made: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"listener.name.out.ssl.keystore.location is missing"):
        server_tls(Keys(ssl_truststore_location=str(made.authority)))


def test_pkcs12_says_what_it_needs(stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigError, match=r"needs cryptography: pip install 'odradek\[security\]'"):
        read_keys(Keys(ssl_keystore_location=str(stores["key.p12"]), ssl_keystore_password=PASSWORD))


def test_a_store_that_is_cut_off_anywhere_is_an_error_and_no_more(stores: dict[str, Path]) -> None:
    whole = stores["key.jks"].read_bytes()
    for end in range(0, len(whole), 7):
        with pytest.raises(jks_format.JksError):
            jks_format.read_store(whole[:end], PASSWORD)
        with pytest.raises(jks_format.JksError):
            jks_format.read_store(whole[:end], None)
    (entry,) = jks_format.read_store(whole, PASSWORD).keys
    with pytest.raises(jks_format.JksError):
        jks_format.unprotect(entry.protected[:40], KEY_PASSWORD)
    with pytest.raises(jks_format.JksError, match="protected by an unknown algorithm"):
        jks_format.unprotect(entry.protected.replace(b"\x2a\x02\x11", b"\x2a\x02\x12"), KEY_PASSWORD)


def test_certificates_that_are_cut_off_are_no_certificates(made: Certificates) -> None:
    whole = der_of(made.folder / "broker.crt")
    assert alternative_names(der_of(made.authority)) == frozenset()
    for end in range(200):
        with pytest.raises(ValueError):  # noqa: PT011
            subject(whole[:end])
    assert oid_text(bytes.fromhex("883703")) == "2.999.3"
    for broken in (b"", b"\x88"):
        with pytest.raises(ValueError, match="invalid object identifier"):
            oid_text(broken)
    with pytest.raises(ValueError, match="length"):
        read_value(b"\x30\x80")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_reading_a_damaged_certificate_raises_nothing_but_value_errors(made: Certificates, place: int, byte: int) -> None:
    damaged = bytearray(der_of(made.folder / "broker.crt"))
    damaged[place % len(damaged)] = byte
    for read in (subject, issuer, alternative_names):
        with contextlib.suppress(ValueError):
            read(bytes(damaged))


def test_alternative_names_without_a_value_are_a_value_error(made: Certificates) -> None:
    whole = der_of(made.folder / "broker.crt")
    name = whole.index(bytes.fromhex("0603551d11"))  # The identifier of subjectAltName; an OCTET STRING follows.
    with pytest.raises(ValueError, match="without a value"):
        alternative_names(whole[: name + 5] + b"\x05" + whole[name + 6 :])


@pytest.mark.jvm
def test_stores_that_keytool_made(made: Certificates, tmp_path: Path) -> None:
    keytool = shutil.which("keytool") or os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "keytool")
    for kind in ("JKS", "PKCS12"):
        key, trust = tmp_path / f"key.{kind}", tmp_path / f"trust.{kind}"
        own = KEY_PASSWORD if kind == "JKS" else PASSWORD
        store = ["-keystore", trust, "-storetype", kind, "-storepass", PASSWORD]
        made_of = ["-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me, OU=tests", "-ext", "san=dns:localhost"]
        for command in (
            [*made_of, "-keystore", key, "-storetype", kind, "-storepass", PASSWORD, "-keypass", own],
            ["-exportcert", "-alias", "me", "-keystore", key, "-storepass", PASSWORD, "-file", tmp_path / "me.crt"],
            [*["-importcert", "-noprompt", "-alias", "a", "-file"], tmp_path / "me.crt", *store],
        ):
            subprocess.run([keytool, *map(str, command)], check=True, capture_output=True)
        (tmp_path / "me.crt").unlink()
        server = server_tls(Keys(ssl_keystore_location=str(key), ssl_keystore_password=PASSWORD, ssl_key_password=own))
        client = client_context(Keys(ssl_truststore_location=str(trust), ssl_truststore_password=PASSWORD))
        assert try_handshake(server.context, client) is None
        assert server.context.verify_mode is ssl.CERT_NONE
