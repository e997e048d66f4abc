"""The mechanisms of SASL without a network: RFC vectors, a server of its own, and messages that nobody should believe."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.client.security.credentials import Credentials
from odradek.security.jaas import LoginModule, parse_jaas
from odradek.security.sasl.client import OAuthBearerClient, OAuthToken, PlainClient, refresh_ms, unsecured_token
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.scram_client import MAX_ITERATIONS, ScramClient
from tests.client.secured import ScramServer

NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_7677_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def rfc_client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_exchange_of_rfc_7677() -> None:
    client = rfc_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.answer(RFC_7677_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(deadline=None, max_examples=40)
@given(
    digest=st.sampled_from(["SHA-256", "SHA-512"]),
    username=text,
    password=text,
    salt=st.binary(min_size=1, max_size=40),
    iterations=st.integers(4096, 5000),
)
def test_client_and_server_agree(digest: str, username: str, password: str, salt: bytes, iterations: int) -> None:
    server = ScramServer(digest.replace("-", "").lower(), password, salt=salt, iterations=iterations)
    client = ScramClient(f"SCRAM-{digest}", username, password, "nonce")
    challenge = server.challenge(client.first())
    name = server.bare.split(b",")[0].removeprefix(b"n=").decode()
    assert name.replace("=2C", ",").replace("=3D", "=") == username
    final = client.answer(challenge)
    assert final is not None
    verdict = server.verdict(final)
    assert verdict is not None
    assert client.answer(verdict) is None


@given(password=text)
def test_another_password_is_no_proof(password: str) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", password + "x", "nonce")
    server = ScramServer(password=password)
    final = client.answer(server.challenge(client.first()))
    assert final is not None
    assert server.verdict(final) is None


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (RFC_7677_FIRST.replace(b"r=rO", b"r=rX"), "nonce does not extend"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce does not extend"),
        (RFC_7677_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (RFC_7677_FIRST.replace(b"i=4096", b"i=%d" % (MAX_ITERATIONS + 1)), "iterations"),
        (RFC_7677_FIRST.replace(b"i=4096", b"i=-1"), "not a SCRAM message"),
        (RFC_7677_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "not a SCRAM message"),
        (RFC_7677_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""), "no salt"),
        (RFC_7677_FIRST.replace(b"W22Z", b"!!!!"), "not a SCRAM message"),
        (b"m=must," + RFC_7677_FIRST, "unknown extension"),
        (b"", "not a SCRAM message"),
        (b"\xff\xfe", "not a SCRAM message"),
    ],
)
def test_a_first_message_of_a_server_that_is_none(challenge: bytes, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        rfc_client().answer(challenge)


@pytest.mark.parametrize("verdict", [b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"v=", b"x=1", b"e=other-error", b""])
def test_a_server_that_does_not_know_the_password_is_not_believed(verdict: bytes) -> None:
    client = rfc_client()
    client.answer(RFC_7677_FIRST)
    with pytest.raises(SaslError):
        client.answer(verdict)


@given(first=st.binary(max_size=200), last=st.binary(max_size=200))
def test_garbage_is_an_error_and_nothing_else(first: bytes, last: bytes) -> None:
    with pytest.raises(SaslError):
        rfc_client().answer(first)
    client = rfc_client()
    client.answer(RFC_7677_FIRST)
    with pytest.raises(SaslError):
        client.answer(last)


def test_a_delegation_token_says_that_it_is_one() -> None:
    client = ScramClient("SCRAM-SHA-256", "id", "hmac", "nonce", extensions={"tokenauth": "true"})
    assert client.first() == b"n,,n=id,r=nonce,tokenauth=true"


def test_plain() -> None:
    client = PlainClient("us,er=", "pass word")
    assert client.first() == b"\0us,er=\0pass word"
    assert client.answer(b"") is None
    with pytest.raises(SaslError) as raised:
        PlainClient("user", "secret\0").first()
    assert "secret" not in str(raised.value)


def test_oauthbearer() -> None:
    client = OAuthBearerClient(OAuthToken("abc.def.", extensions={"traceId": "1 2"}))
    assert client.first() == b"n,,\x01auth=Bearer abc.def.\x01traceId=1 2\x01\x01"
    assert client.answer(b"") is None
    assert client.answer(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize(
    "token",
    [
        OAuthToken(""),
        OAuthToken("a b"),
        OAuthToken("a\x01auth=Bearer b"),
        OAuthToken("a", extensions={"auth": "x"}),
        OAuthToken("a", extensions={"b1": "x"}),
        OAuthToken("a", extensions={"b": "x\x01y=z"}),
    ],
)
def test_a_token_that_cannot_be_sent(token: OAuthToken) -> None:
    with pytest.raises(SaslError):
        OAuthBearerClient(token).first()


def test_a_token_that_nobody_signed() -> None:
    token = unsecured_token({"sub": "me"}, 1_000_000, 60)
    assert token.expires_ms == 1_060_000
    header, body, signature = token.value.split(".")
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(body + "==")) == {"sub": "me", "iat": 1000, "exp": 1060}


@pytest.mark.parametrize(
    ("lifetime_s", "factor", "expected_s"),
    [(10_000, 0.8, 8000), (1000, 0.9, 700), (400, 0.5, 100), (361, 0.5, 61), (300, 0.8, 240), (361, 0.1, 60)],
)
def test_when_a_token_is_replaced(lifetime_s: int, factor: float, expected_s: int) -> None:
    at = refresh_ms(5000, 5000 + lifetime_s * 1000, factor=factor, min_period_s=60, buffer_s=300)
    assert at == 5000 + expected_s * 1000


def test_a_line_of_java() -> None:
    line = """
      // who we are
      org.apache.kafka.common.security.plain.PlainLoginModule REQUIRED /* really */
        username=alice password="a \\"b\\" = ; \\\\ c" other='single "one"' empty="";
    """
    options = {"username": "alice", "password": 'a "b" = ; \\ c', "other": 'single "one"', "empty": ""}
    assert parse_jaas(line) == LoginModule("PlainLoginModule", options, "org.apache.kafka.common.security.plain")


def test_an_option_may_be_a_mark_in_quotes() -> None:
    assert parse_jaas('M required a="=" b=";";').options == {"a": "=", "b": ";"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "must be `LoginModule"),
        ("secret", "must be `LoginModule"),
        ('M wanted password="secret";', "required, requisite"),
        ('M required password="secret"', "end with a semicolon"),
        ('M required password="secret"; M required password="secret";', "one login module"),
        ("M required password secret;", "option 1"),
        ('M required a=b password="secret" c;', "option 3"),
        ('M required password="secret;', "quotation mark"),
        ('M required password=="secret";', "option 1"),
    ],
)
def test_a_line_that_is_none_is_not_quoted(line: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        parse_jaas(line)
    assert "secret" not in str(raised.value)
    assert "sasl.jaas.config" in str(raised.value)


@settings(max_examples=300)
@given(st.text(max_size=60))
def test_any_line_is_read_or_refused(line: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_jaas(line), LoginModule)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20)))
def test_options_come_back_as_they_were_quoted(options: dict[str, str]) -> None:
    quoted = " ".join(f'{name}="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in options.items())
    assert parse_jaas(f"M required {quoted};").options == options


def test_what_holds_secrets_does_not_show_them() -> None:
    shown = [repr(LoginModule("M", {"password": "secret"})), repr(OAuthToken("secret")), repr(Credentials("PLAIN", "user", "secret"))]
    assert "secret" not in " ".join(shown)
