"""Validation of bearer tokens: signed JSON Web Tokens (BrokerJwtValidator), and unsigned tokens for tests.

Unsigned tokens follow OAuthBearerUnsecuredValidatorCallbackHandler. Time and keys are arguments. joserfc checks signatures with public keys
only. Whatever the header says, neither the algorithm `none` nor a shared secret is accepted as a signature.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from odradek.base.errors import ConfigError
from odradek.security.sasl.oauthbearer import BearerToken, TokenRefused

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_KINDS = {"R": "RSA", "P": "RSA", "E": "EC"}
_LONGEST = 64 * 1024
_MOST_KEYS = 8
"""Most keys that are tried for a token without a key id."""


class Rules(NamedTuple):
    """Claims that a signed token needs."""

    issuer: str | None = None
    audiences: Sequence[str] = ()
    skew_s: float = 30.0
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class UnsecuredRules(NamedTuple):
    """Claims that an unsigned token needs."""

    required_scopes: frozenset[str] = frozenset()
    skew_ms: int = 0
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class PublicKeys:
    """Set of public keys (RFC 7517).

    Keys that are not understood are skipped (section 5): keys of another kind or curve, incomplete keys, keys for other uses. Raises
    ConfigError when the text is not a key set or has no usable key, and when `joserfc` is not installed.
    """

    def __init__(self, text: str | bytes) -> None:
        if find_spec("joserfc") is None:
            raise ConfigError("OAUTHBEARER needs the package joserfc: pip install 'odradek[security]'")
        try:
            entries = json.loads(text)["keys"]
            if not isinstance(entries, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"malformed key set (JWKS): {type(error).__name__}") from None
        self._keys: list[tuple[dict[str, Any], Any]] = []
        for each in cast("list[object]", entries):
            key = _public_key(each)
            if key is not None:
                self._keys.append((cast("dict[str, Any]", each), key))
        if not self._keys:
            raise ConfigError("the key set (JWKS) has no public key for signatures")

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, key_id: str) -> bool:
        """Return whether a key has the id."""
        return any(each.get("kid") == key_id for each, _ in self._keys)

    def verify(self, token: str, algorithm: str, key_id: str | None) -> bytes | None:
        """Return the payload when a key that fits `algorithm` and `key_id` signed the token; else None."""
        from joserfc import jws
        from joserfc.errors import JoseError

        fitting = [
            key
            for each, key in self._keys
            if each["kty"] == _KINDS[algorithm[0]] and each.get("alg", algorithm) == algorithm and key_id in (None, each.get("kid"))
        ]
        for key in fitting[:_MOST_KEYS]:
            try:
                return bytes(jws.deserialize_compact(token, key, algorithms=[algorithm]).payload)
            except (JoseError, ValueError, TypeError):
                continue
        return None


def _public_key(entry: object) -> object | None:
    """Return the key of an entry of a set; None when the entry is not understood, or the key is not for signatures."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if not isinstance(entry, dict):
        return None
    given = cast("dict[str, Any]", entry)
    if given.get("kty") not in ("RSA", "EC") or given.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(cast(Any, given))
        _ = key.public_key  # raises for a point outside of its curve
    except (JoseError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return key


def validate_signed(token: str, keys: PublicKeys, rules: Rules, now_s: float, missing: Callable[[str], object]) -> BearerToken:
    """Return the claims of a valid signed token.

    Raises TokenRefused, which quotes nothing of the token. Before a refusal because of an unknown key id, `missing` is called with the id.
    """
    header, _ = _parts(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenRefused("the algorithm of the signature is not accepted")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the header requires an unsupported extension")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenRefused("the id of the key must be text")
    if key_id is not None and not keys.has(key_id):
        missing(key_id)
        raise TokenRefused("the key set has no key with this id")
    payload = keys.verify(token, cast(str, algorithm), key_id)
    if payload is None:
        raise TokenRefused("the signature is wrong")
    claims = _object(payload)
    expiry_s, issued_s = _time(claims, "exp", required=True), _time(claims, "iat", required=True)
    before_s = _time(claims, "nbf", required=False)
    assert expiry_s is not None
    assert issued_s is not None
    if now_s - rules.skew_s >= expiry_s:
        raise TokenRefused("the token has expired")
    if before_s is not None and now_s + rules.skew_s < before_s:
        raise TokenRefused("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("the token has a different issuer")
    _check_audience(claims.get("aud"), rules.audiences)
    return BearerToken(_subject(claims, rules.subject_claim), int(expiry_s * 1000), _scopes(claims.get(rules.scope_claim), split=False))


def validate_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> BearerToken:
    """Return the claims of a valid unsigned token. Raises TokenRefused for a malformed, expired or signed token and for a missing scope."""
    if ".." in token:
        raise TokenRefused("Malformed compact serialization contains '..'")
    header, payload = _parts(token)
    if header.get("alg") != "none" or token.rpartition(".")[2]:
        raise TokenRefused("an unsecured token must have the algorithm `none` and no signature")
    claims = _object(payload)
    subject, expiry_s, issued_s = (
        _subject(claims, rules.subject_claim),
        _time(claims, "exp", required=True),
        _time(claims, "iat", required=False),
    )
    assert expiry_s is not None
    if issued_s is not None and issued_s * 1000 > now_ms + rules.skew_ms:
        raise TokenRefused("the token was issued in the future")
    if now_ms - rules.skew_ms >= expiry_s * 1000:
        raise TokenRefused("the token has expired")
    if issued_s is not None and expiry_s <= issued_s:
        raise TokenRefused("the token expires before it was issued")
    scopes = _scopes(claims.get(rules.scope_claim), split=True)
    if not rules.required_scopes <= scopes:
        raise TokenRefused("a required scope is missing", "insufficient_scope", " ".join(sorted(rules.required_scopes)))
    return BearerToken(subject, math.floor(expiry_s * 1000), scopes)


def unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """Return the rules of a login module's options. Raises ValueError for an unknown option or an invalid clock skew."""
    prefix = "unsecuredValidator"
    known = {f"{prefix}{name}" for name in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope", "AllowableClockSkewMs")}
    for name in options:
        if name.startswith(prefix) and name not in known:
            raise ValueError(f"unknown option {name}")
    skew = options.get(f"{prefix}AllowableClockSkewMs", "0")
    if not skew.isascii() or not skew.isdecimal():
        raise ValueError(f"{prefix}AllowableClockSkewMs must be a number of at least 0")
    return UnsecuredRules(
        frozenset(options.get(f"{prefix}RequiredScope", "").split()),
        int(skew),
        options.get(f"{prefix}ScopeClaimName", "scope"),
        options.get(f"{prefix}PrincipalClaimName", "sub"),
    )


def _parts(token: str) -> tuple[dict[str, Any], bytes]:
    if len(token) > _LONGEST:
        raise TokenRefused(f"the token is longer than {_LONGEST} characters")
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token does not have three parts")
    return _object(_decoded(parts[0])), _decoded(parts[1])


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused("the token is not encoded as base64url") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise TokenRefused("the token is not JSON") from None
    if not isinstance(found, dict):
        raise TokenRefused("the token is not a JSON object")
    return cast("dict[str, Any]", found)


def _time(claims: Mapping[str, Any], name: str, *, required: bool) -> float | None:
    value = claims.get(name)
    if value is None and not required:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e13:
        raise TokenRefused(f"the claim {name} is not a time")
    return float(value)


def _subject(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused("the token does not name a principal")
    return value.strip()


def _check_audience(given: object, expected: Sequence[str]) -> None:
    named = [given] if isinstance(given, str) else cast("list[object]", given) if isinstance(given, list) else []
    if not expected and given is None:
        return
    if not any(each in expected for each in named):
        raise TokenRefused("the token is for another audience")


def _scopes(given: object, *, split: bool) -> frozenset[str]:
    if isinstance(given, str):
        return frozenset(given.split() if split else [given.strip()])
    if isinstance(given, list) and all(isinstance(each, str) for each in cast("list[object]", given)):
        return frozenset(each.strip() for each in cast("list[str]", given))
    return frozenset()
