"""Delegation tokens in the controller."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.tokens import create_token, expire_token, renew_token, sweep_expired_tokens
from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.image import DelegationToken
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.security.principal import Principal
from odradek.security.tokens import TokenLogins, TokenSecret
from tests.controller.harness import Controller, level_records

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
SECRET = TokenSecret("cluster-secret")
DAY = 86_400_000
NOW = 1_000_000


def create(controller: Controller, who: Principal = ALICE, now_ms: int = NOW, **how: Any) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(**{"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1, **how})
    return controller.run(lambda context: create_token(context, request, who, now_ms, SECRET))


def renewers(*names: str) -> list[CreateDelegationTokenRequest.CreatableRenewers]:
    return [CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name=name) for name in names]


def renew(controller: Controller, mac: bytes, who: Principal, now_ms: int = NOW, period_ms: int = -1) -> tuple[int, int]:
    request = RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms)
    answer = controller.run(lambda context: renew_token(context, request, who, now_ms, SECRET))
    return answer.error_code, answer.expiry_timestamp_ms


def expire(controller: Controller, mac: bytes, who: Principal, now_ms: int = NOW, period_ms: int = -1) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms)
    answer = controller.run(lambda context: expire_token(context, request, who, now_ms, SECRET))
    return answer.error_code, answer.expiry_timestamp_ms


def test_a_token_is_its_id_under_the_secret() -> None:
    controller = Controller()
    token = create(controller)
    assert token.error_code == 0
    assert token.hmac == hmac.new(b"cluster-secret", token.token_id.encode(), hashlib.sha512).digest()
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW, NOW + DAY, NOW + 7 * DAY)
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    kept = controller.core.context.state.tokens[token.token_id]
    assert (kept.owner, kept.requester, kept.expiration_timestamp) == ("User:alice", "User:alice", NOW + DAY)
    assert create(controller).token_id != token.token_id


@pytest.mark.parametrize(
    ("asked_ms", "life_ms"), [(-1, 7 * DAY), (0, 7 * DAY), (1000, 1000), (2 * DAY, 2 * DAY), (30 * DAY, 7 * DAY), ((1 << 63) - 1, 7 * DAY)]
)
def test_no_token_lives_longer_than_the_key_says(asked_ms: int, life_ms: int) -> None:
    token = create(Controller(), max_lifetime_ms=asked_ms)
    assert (token.max_timestamp_ms, token.expiry_timestamp_ms) == (NOW + life_ms, NOW + min(life_ms, DAY))


def test_a_token_for_somebody_else() -> None:
    controller = Controller()
    token = create(controller, owner_principal_type="User", owner_principal_name="bob", renewers=renewers("carol"))
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    kept = controller.core.context.state.tokens[token.token_id]
    assert (kept.owner, kept.requester, kept.renewers) == ("User:bob", "User:alice", ("User:carol",))
    assert renew(controller, token.hmac, ALICE)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(controller, token.hmac, BOB)[0] == 0
    assert renew(controller, token.hmac, CAROL)[0] == 0


def test_only_users_renew() -> None:
    controller = Controller()
    other = CreateDelegationTokenRequest.CreatableRenewers(principal_type="Group", principal_name="staff")
    before = len(controller.log)
    assert create(controller, renewers=[other]).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert len(controller.log) == before


def test_a_renewal_ends_with_the_life_of_the_token() -> None:
    controller = Controller()
    token = create(controller, max_lifetime_ms=2 * DAY)
    assert renew(controller, token.hmac, ALICE, NOW + DAY // 2, 1000) == (0, NOW + DAY // 2 + 1000)
    assert renew(controller, token.hmac, ALICE, NOW + DAY // 2) == (0, NOW + DAY // 2 + DAY)
    assert renew(controller, token.hmac, ALICE, NOW + DAY + DAY // 2, 30 * DAY) == (0, NOW + 2 * DAY)
    assert renew(controller, token.hmac, ALICE, NOW + 2 * DAY + 1)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_ends_at_once_or_later() -> None:
    controller = Controller()
    token = create(controller, renewers=renewers("bob"))
    assert expire(controller, token.hmac, CAROL)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(controller, token.hmac, ALICE, NOW + 5, 1000) == (0, NOW + 1005)
    assert expire(controller, token.hmac, ALICE, NOW + 2000, 1000)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(controller, token.hmac, BOB, NOW + 2000, -1) == (0, NOW + 2000)
    assert expire(controller, token.hmac, ALICE)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert renew(controller, b"", ALICE)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_sweep_removes_what_has_expired_and_no_more_than_a_thousand_at_once() -> None:
    controller = Controller()
    for _ in range(1001):
        create(controller, max_lifetime_ms=1000)
    kept = create(controller)
    assert not controller.run(lambda context: sweep_expired_tokens(context, NOW + 1000)), "not yet"
    assert controller.run(lambda context: sweep_expired_tokens(context, NOW + 1001))
    assert not controller.run(lambda context: sweep_expired_tokens(context, NOW + 1001))
    assert [token_id for token_id, _ in controller.core.context.state.tokens.items()] == [kept.token_id]


def test_without_a_secret_or_in_an_old_cluster_there_are_none() -> None:
    controller = Controller()
    request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None)
    answer = controller.run(lambda context: create_token(context, request, ALICE, NOW, None))
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    renewal = RenewDelegationTokenRequest(hmac=b"x")
    assert controller.run(lambda context: renew_token(context, renewal, ALICE, NOW, None)).error_code == answer.error_code
    controller.append(level_records({METADATA_VERSION: 13}))
    assert create(controller).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert renew(controller, b"x", ALICE)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("owner", ["User:", ":alice", ":", "User:a:b", "alice", ""])
def test_whatever_the_metadata_says_of_an_owner_a_login_does_not_fail(owner: str) -> None:
    """Another implementation may have written it."""
    token = DelegationToken(owner, "", (), 1, 2, 3)
    logins = TokenLogins(SECRET, lambda _: token, lambda size: b"s" * size)
    found = logins.owner("id")
    assert found is not None
    assert found.name == (owner.partition(":")[2] if ":" in owner else owner)


def test_what_is_kept_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.security import tokens

    monkeypatch.setattr(tokens, "_MOST_KEPT", 2)
    monkeypatch.setattr(tokens, "salted_password", lambda *_: b"salted")
    controller = Controller()
    ids = [create(controller).token_id for _ in range(3)]
    logins = TokenLogins(SECRET, controller.core.context.state.tokens.get, lambda size: b"s" * size)
    for token_id in ids:
        work = logins.prepare("SCRAM-SHA-256", token_id)
        assert work is not None
        work()
    assert logins.credential("SCRAM-SHA-256", ids[0]) is None
    assert logins.credential("SCRAM-SHA-256", ids[2]) is not None
    assert logins.prepare("SCRAM-SHA-256", ids[2]) is None
    assert logins.prepare("SCRAM-SHA-256", "unknown") is None
    assert "cluster-secret" not in repr(SECRET)
