"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41): KIP-48, KIP-373.

Tokens are only for those who have authenticated. On PLAINTEXT listeners nobody has, and everything is answered
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (kafka.server.KafkaApis.allowTokenRequests).

ACL: CREATE_TOKENS on User to create a token for somebody else, DESCRIBE on DelegationToken or DESCRIBE_TOKENS on User to see those of
others; whose token it is may renew and expire it. Quota: request time, controller mutations.
Known gaps: there are no listeners that authenticate yet; quotas are not enforced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

REQUESTER_SINCE = 3
"""The version that names who asked for a token for somebody else."""
_NEVER_MS = -1


def create(context: RequestContext, request: CreateDelegationTokenRequest, services: Services) -> CreateDelegationTokenResponse:
    kind, name, _ = context.principal
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=_NEVER_MS,
        expiry_timestamp_ms=_NEVER_MS,
        max_timestamp_ms=_NEVER_MS,
    )
    if request.owner_principal_name:
        response.principal_type, response.principal_name = request.owner_principal_type or "", request.owner_principal_name
    if context.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


def renew(context: RequestContext, request: RenewDelegationTokenRequest, services: Services) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)


def expire(context: RequestContext, request: ExpireDelegationTokenRequest, services: Services) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)


def describe(context: RequestContext, request: DescribeDelegationTokenRequest, services: Services) -> DescribeDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
