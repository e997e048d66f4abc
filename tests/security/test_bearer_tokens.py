"""Which bearer tokens are accepted, and the exchange that carries them."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, RSAKey

from odradek.base.errors import ConfigError
from odradek.security.sasl.bearer_tokens import PublicKeys, Rules, UnsecuredRules, unsecured_rules, validate_unsecured
from odradek.security.sasl.client import OAuthBearerClient, OAuthToken
from odradek.security.sasl.errors import SaslError, SaslRefused
from odradek.security.sasl.oauthbearer import BearerToken, OAuthBearerServer, TokenRefused
from tests.security.bearer_support import EC, NOW, RSA, RULES, claims, key_set, missing, part, signed, unsigned, validate

STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})


SIGNED = signed()
UNNAMED = signed(header={"kid": None})


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256")])
def test_a_signed_token_is_whose_it_says(key: RSAKey | ECKey, alg: str) -> None:
    assert validate(signed(key, alg)) == BearerToken("alice", (NOW + 100) * 1000, frozenset({"read write"}))


def test_a_token_that_names_no_key_is_tried_with_those_of_its_kind() -> None:
    assert validate(signed(header={"kid": None})).principal == "alice"


def test_other_claims_may_have_the_names() -> None:
    token = signed(user="bob", roles=["a", "b"])
    assert validate(token, RULES._replace(subject_claim="user", scope_claim="roles")) == BearerToken(
        "bob", (NOW + 100) * 1000, frozenset({"a", "b"})
    )


@pytest.mark.parametrize("changed", [{"aud": ["other", "kafka"]}, {"exp": NOW - 29}, {"nbf": NOW + 30}, {"scope": None}])
def test_what_is_still_accepted(changed: dict[str, Any]) -> None:
    assert validate(signed(**changed)).principal == "alice"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"exp": NOW - 30}, "has expired"),
        ({"exp": None}, "the claim exp is not a time"),
        ({"exp": "later"}, "the claim exp is not a time"),
        ({"exp": True}, "the claim exp is not a time"),
        ({"exp": -1}, "the claim exp is not a time"),
        ({"iat": None}, "the claim iat is not a time"),
        ({"nbf": NOW + 31}, "is not valid yet"),
        ({"iss": "https://other"}, "a different issuer"),
        ({"iss": None}, "a different issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "does not name a principal"),
        ({"sub": " "}, "does not name a principal"),
        ({"sub": 5}, "does not name a principal"),
    ],
)
def test_claims_that_do_not_do(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why) as refused:
        validate(signed(**changed))
    assert refused.value.status == "invalid_token"


def test_without_an_expected_audience_a_token_must_name_none() -> None:
    free = Rules()
    assert validate(signed(aud=None, iss=None), free).principal == "alice"
    with pytest.raises(TokenRefused, match="another audience"):
        validate(signed(), free)


def with_other_claims() -> str:
    head, _, signature = signed().split(".")
    return f"{head}.{part(claims(sub='mallory'))}.{signature}"


def signed_with_the_public_key() -> str:
    """HS256 with the bytes of the RSA key as the secret: what a library accepts that lets the token choose."""
    import hashlib
    import hmac

    body = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims())}"
    mac = hmac.new(RSA.as_pem(private=False), body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: "",
        lambda: "a.b",
        lambda: "a.b.c.d.e",
        lambda: "!.!.!",
        unsigned,
        lambda: unsigned("NONE"),
        lambda: unsigned(["RS256"]),
        lambda: unsigned("RS256", kid="rsa"),
        lambda: unsigned("PBES2-HS256+A128KW", p2c=2_000_000_000),
        with_other_claims,
        signed_with_the_public_key,
        lambda: signed(STRANGER),
        lambda: signed(EC, "ES256", {"kid": "rsa"}),
        lambda: unsigned("RS256", kid=5),
        lambda: signed(header={"jku": "http://evil/keys", "jwk": STRANGER.as_dict(private=False)}).rsplit(".", 1)[0] + ".AAAA",
        lambda: f"{part('text')}.{part(claims())}.AAAA",
        lambda: base64.urlsafe_b64encode(b"[" * 60_000).decode() + ".e30.AAAA",
        lambda: "a" * 70_000,
    ],
)
def test_tricks_with_the_signature_are_refused(make: Callable[[], str]) -> None:
    with pytest.raises(TokenRefused):
        validate(make())


def test_a_key_that_is_not_there_is_told_of() -> None:
    missing.clear()
    with pytest.raises(TokenRefused, match="no key with this id"):
        validate(signed(), keys=key_set(EC))
    assert missing == ["rsa"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', '{"keys": [{"kty": "RSA"}]}']
)
def test_what_is_no_set_of_public_keys(text: str) -> None:
    with pytest.raises(ConfigError, match="JWKS"):
        PublicKeys(text)


def bare(**changed: Any) -> str:
    return f"{part({'alg': 'none'})}.{part(claims(**changed))}."


def test_a_token_that_nobody_signs_is_taken_where_that_is_wanted() -> None:
    taken = validate_unsecured(bare(), UnsecuredRules(frozenset({"read"})), NOW * 1000)
    assert taken == BearerToken("alice", (NOW + 100) * 1000, frozenset({"read", "write"}))


@pytest.mark.parametrize(
    ("token", "rules", "status"),
    [
        (bare(exp=NOW), UnsecuredRules(), "invalid_token"),
        (bare(exp=None), UnsecuredRules(), "invalid_token"),
        (bare(iat=NOW + 1), UnsecuredRules(), "invalid_token"),
        (bare(sub=None), UnsecuredRules(), "invalid_token"),
        (bare() + "AAAA", UnsecuredRules(), "invalid_token"),
        (signed(), UnsecuredRules(), "invalid_token"),
        (bare(scope="read"), UnsecuredRules(frozenset({"read", "admin"})), "insufficient_scope"),
    ],
)
def test_even_unsecured_tokens_have_rules(token: str, rules: UnsecuredRules, status: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        validate_unsecured(token, rules, NOW * 1000)
    assert refused.value.status == status


def test_the_options_of_the_unsecured_validator() -> None:
    options = {
        "unsecuredValidatorRequiredScope": "a b",
        "unsecuredValidatorAllowableClockSkewMs": "5",
        "unsecuredLoginStringClaim_sub": "x",
    }
    assert unsecured_rules(options) == UnsecuredRules(frozenset({"a", "b"}), 5)
    for wrong in ({"unsecuredValidatorAllowableClockSkewMs": "-5"}, {"unsecuredValidatorScope": "x"}):
        with pytest.raises(ValueError, match="unsecuredValidator"):
            unsecured_rules(wrong)


def exchange() -> OAuthBearerServer:
    return OAuthBearerServer(lambda token: validate_unsecured(token, UnsecuredRules(), NOW * 1000))


def test_an_exchange_of_one_message() -> None:
    server = exchange()
    assert server.answer(OAuthBearerClient(OAuthToken(bare(), None, {"traceId": "123"})).first()) == b""
    assert server.identity is not None
    assert (server.identity.name, server.identity.expires_ms) == ("alice", (NOW + 100) * 1000)
    assert server.extensions == {"traceId": "123"}


def test_a_refusal_says_why_and_ends_with_the_next_byte() -> None:
    server = exchange()
    assert server.answer(OAuthBearerClient(OAuthToken(bare(exp=1))).first()) == b'{"status":"invalid_token"}'
    with pytest.raises(SaslRefused, match=re.escape('{"status":"invalid_token"}')):
        server.answer(b"\x01")
    assert server.identity is None


def test_another_authorization_id_is_refused() -> None:
    token = bare().encode()
    with pytest.raises(SaslRefused, match=r"an authorization id \(bob\) that is different from the token's principal name \(alice\)"):
        exchange().answer(b"n,a=bob,\x01auth=Bearer " + token + b"\x01\x01")
    server = exchange()
    server.answer(b"n,a=alice,\x01auth=bearer " + token + b"\x01\x01")
    assert server.identity is not None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01na me=x\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"\xff" * 50,
    ],
)
def test_what_is_no_first_message(message: bytes) -> None:
    with pytest.raises(SaslError) as error:
        exchange().answer(message)
    assert not isinstance(error.value, SaslRefused)


@given(st.binary(max_size=300))
def test_whatever_comes_is_refused(message: bytes) -> None:
    server = exchange()
    with contextlib.suppress(SaslError):
        server.answer(b"n,,\x01auth=Bearer " + message + b"\x01\x01")
    assert server.identity is None


@given(st.text(max_size=200))
def test_whatever_token_comes_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        validate(token)


ODD_KEYS: list[object] = [
    {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
    {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"},
    {"kty": "oct", "k": "AAAA"},
    {"kty": "no such kind"},
    {"kty": ["RSA"]},
    {"kty": None},
    {},
    {"kty": "RSA"},
    {"kty": "RSA", "n": "AAAA"},
    {"kty": "RSA", "n": 5, "e": []},
    {"kty": "RSA", "n": "!", "e": "AQAB"},
    {"kty": "RSA", "n": "", "e": ""},
    {"kty": "EC", "crv": "P-256K1", "x": "AAAA", "y": "AAAA"},
    {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
    {"kty": "EC", "crv": {"a": 1}, "x": "AAAA", "y": "AAAA"},
    {"kty": "EC", "crv": "P-256"},
    {"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"},
    "text",
    7,
    None,
    [],
]


@pytest.mark.parametrize("odd", ODD_KEYS, ids=str)
def test_a_key_that_is_not_understood_is_left_out(odd: object) -> None:
    """RFC 7517, section 5: wherever it stands in the set."""
    good = RSA.as_dict(private=False)
    for keys in ([odd, good], [good, odd], [odd, good, odd]):
        found = PublicKeys(json.dumps({"keys": keys}))
        assert len(found) == 1
        assert validate(signed(), keys=found).principal == "alice"
    with pytest.raises(ConfigError, match="no public key for signatures"):
        PublicKeys(json.dumps({"keys": [odd]}))


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "null", '"keys"', "{}", '{"keys": {}}', '{"keys": null}', '{"keys": "abc"}', "[" * 100_000]
)
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="JWKS"):
        PublicKeys(text)


OTHERS = st.tuples(st.sampled_from(("EC", "RSA")), st.sampled_from((None, "RS256", "ES256")), st.sampled_from((None, "rsa", "x")))


@given(st.lists(OTHERS, max_size=20), st.integers(0, 20), st.booleans())
def test_a_key_is_found_wherever_it_stands_among_those_that_do_not_fit(
    others: list[tuple[str, str | None, str | None]], place: int, named: bool
) -> None:
    """Only keys that the header leaves room for are tried, and of those no more than eight."""
    public = {"EC": EC.as_dict(private=False), "RSA": STRANGER.as_dict(private=False)}
    place = min(place, len(others))
    keys = []
    for kind, algorithm, key_id in others:
        key = {**public[kind], "alg": algorithm, "kid": key_id}
        keys.append({name: value for name, value in key.items() if value is not None})
    keys.insert(place, RSA.as_dict(private=False))
    fitting = [key_id == "rsa" or not named for kind, algorithm, key_id in others[:place] if kind == "RSA" and algorithm in (None, "RS256")]
    before = sum(fitting)
    found = PublicKeys(json.dumps({"keys": keys}))
    token = SIGNED if named else UNNAMED
    if before < 8:
        assert validate(token, keys=found).principal == "alice"
    else:
        with pytest.raises(TokenRefused, match="signature"):
            validate(token, keys=found)


@pytest.mark.parametrize("before", [7, 8])
def test_a_token_is_tried_with_eight_keys(before: int) -> None:
    keys = [{**STRANGER.as_dict(private=False), "kid": str(number)} for number in range(before)]
    found = PublicKeys(json.dumps({"keys": [*keys, RSA.as_dict(private=False)]}))
    if before < 8:
        assert validate(UNNAMED, keys=found).principal == "alice"
    else:
        with pytest.raises(TokenRefused, match="signature"):
            validate(UNNAMED, keys=found)
    assert validate(SIGNED, keys=found).principal == "alice", "its name says which one"
