"""Delegation tokens (org.apache.kafka.controller.DelegationTokenControlManager, KIP-48, KIP-373). Times are Unix milliseconds.

The shell passes the requester, the time and the cluster's secret. Without a secret (None) tokens are disabled.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.base.ids import random_uuid, uuid_to_string
from odradek.config.keys.security import DELEGATION_TOKEN_EXPIRY_TIME_MS, DELEGATION_TOKEN_MAX_LIFETIME_MS
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult, VersionedRecord
from odradek.metadata.image import DelegationToken
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from odradek.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from odradek.security.principal import USER, Principal
from odradek.security.tokens import TokenSecret, has_expired

TOKENS_SINCE = 14
"""metadata.version 3.6-IV2, since which token records exist."""

_MOST_EXPIRED = 1000
"""Largest number of tokens that one sweep removes."""
_LONG_MAX = (1 << 63) - 1


def create_token(
    context: ControllerContext, request: CreateDelegationTokenRequest, requester: Principal, now_ms: int, secret: TokenSecret | None
) -> ControllerResult[CreateDelegationTokenResponse]:
    """Create a token for the requester, or for the owner that the request names."""
    owner = owner_of(request, requester)
    response = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
    )
    problem = _problem(context, secret)
    if problem is None and any(renewer.principal_type != USER for renewer in request.renewers):
        problem = ErrorCode.INVALID_PRINCIPAL_TYPE
    if problem is not None or secret is None:
        response.error_code = problem or ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return ControllerResult([], response)
    lifetime_ms = context.config[DELEGATION_TOKEN_MAX_LIFETIME_MS]
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _sum(now_ms, lifetime_ms)
    expiry_ms = min(max_ms, _sum(now_ms, context.config[DELEGATION_TOKEN_EXPIRY_TIME_MS]))
    token_id = uuid_to_string(random_uuid(context.rng))
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=expiry_ms,
        token_id=token_id,
    )
    response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms = now_ms, expiry_ms, max_ms
    response.token_id, response.hmac = token_id, secret.mac(token_id)
    return ControllerResult([VersionedRecord(record, 0)], response, atomic=True)


def renew_token(
    context: ControllerContext, request: RenewDelegationTokenRequest, requester: Principal, now_ms: int, secret: TokenSecret | None
) -> ControllerResult[RenewDelegationTokenResponse]:
    """Renew a token, at most to the end of its life. Only the token's owner and renewers may do so."""
    found = _found(context, bytes(request.hmac), secret)
    if isinstance(found, ErrorCode):
        return ControllerResult([], RenewDelegationTokenResponse(error_code=found))
    token_id, token = found
    if has_expired(token, now_ms):
        return ControllerResult([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_renew(token, requester):
        return ControllerResult([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = context.config[DELEGATION_TOKEN_EXPIRY_TIME_MS]
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp, _sum(now_ms, period_ms))
    return ControllerResult(
        [_renewed(token_id, token, expiry_ms)], RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms), atomic=True
    )


def expire_token(
    context: ControllerContext, request: ExpireDelegationTokenRequest, requester: Principal, now_ms: int, secret: TokenSecret | None
) -> ControllerResult[ExpireDelegationTokenResponse]:
    """Change a token's expiry, or remove the token when the period is negative. Only the token's owner and renewers may do so."""
    found = _found(context, bytes(request.hmac), secret)
    if isinstance(found, ErrorCode):
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=found))
    token_id, token = found
    if not _may_renew(token, requester):
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if request.expiry_time_period_ms < 0:
        removed = VersionedRecord(RemoveDelegationTokenRecord(token_id=token_id), 0)
        return ControllerResult([removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms), atomic=True)
    if has_expired(token, now_ms):
        return ControllerResult([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry_ms = min(token.max_timestamp, _sum(now_ms, request.expiry_time_period_ms))
    return ControllerResult(
        [_renewed(token_id, token, expiry_ms)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms), atomic=True
    )


def sweep_expired_tokens(context: ControllerContext, now_ms: int) -> ControllerResult[bool]:
    """Remove expired tokens, and return whether more may remain."""
    doomed: list[str] = []
    for token_id, token in context.state.tokens.items():
        if has_expired(token, now_ms):
            doomed.append(token_id)
            if len(doomed) >= _MOST_EXPIRED:
                break
    records = [VersionedRecord(RemoveDelegationTokenRecord(token_id=each), 0) for each in doomed]
    return ControllerResult(records, len(doomed) >= _MOST_EXPIRED, atomic=True)


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of a token to create."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def _problem(context: ControllerContext, secret: TokenSecret | None) -> ErrorCode | None:
    if secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return ErrorCode.UNSUPPORTED_VERSION if context.state.metadata_version < TOKENS_SINCE else None


def _found(context: ControllerContext, mac: bytes, secret: TokenSecret | None) -> tuple[str, DelegationToken] | ErrorCode:
    problem = _problem(context, secret)
    if problem is not None or secret is None:
        return problem or ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    tokens = dict(context.state.tokens.items())
    token_id = secret.find(mac, tokens.keys())
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND if token_id is None else (token_id, tokens[token_id])


def _may_renew(token: DelegationToken, principal: Principal) -> bool:
    return str(principal) == token.owner or str(principal) in token.renewers


def _renewed(token_id: str, token: DelegationToken, expiry_ms: int) -> VersionedRecord:
    record = DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token_id,
    )
    return VersionedRecord(record, 0)


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _LONG_MAX)
