"""Signed tokens and their keys."""

from __future__ import annotations

import base64
import json
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from odradek.security.sasl.bearer_tokens import PublicKeys, Rules, validate_signed
from odradek.security.sasl.oauthbearer import BearerToken

NOW = 1_700_000_000


RSA = RSAKey.generate_key(2048, {"kid": "rsa"})


EC = ECKey.generate_key("P-256", {"kid": "ec"})


def key_set(*keys: RSAKey | ECKey) -> PublicKeys:
    return PublicKeys(json.dumps({"keys": [each.as_dict(private=False) for each in keys]}))


KEYS = key_set(RSA, EC)


def claims(**changed: Any) -> dict[str, Any]:
    all_ = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 100, "iss": "https://issuer", "aud": "kafka", "scope": "read write"}
    return {name: value for name, value in {**all_, **changed}.items() if value is not None}


def signed(key: RSAKey | ECKey = RSA, alg: str = "RS256", header: dict[str, Any] | None = None, **changed: Any) -> str:
    head = {"alg": alg, "kid": key.kid, **(header or {})}
    protected = {name: value for name, value in head.items() if value is not None}
    return jws.serialize_compact(protected, json.dumps(claims(**changed)), key, algorithms=[alg])


RULES = Rules("https://issuer", ("kafka",))


missing: list[str] = []


def validate(token: str, rules: Rules = RULES, keys: PublicKeys = KEYS) -> BearerToken:
    return validate_signed(token, keys, rules, NOW, missing.append)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(alg: object = "none", **header: Any) -> str:
    return f"{part({'alg': alg, **header})}.{part(claims())}."
