"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41): KIP-48, KIP-373.

Only clients that have authenticated, and not by a token, may send these requests. Others get DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
(kafka.server.KafkaApis.allowTokenRequests). The controller accepts a request that a broker forwards from any listener.

ACL: CREATE_TOKENS on User to create a token for another user; DESCRIBE on DelegationToken, or DESCRIBE_TOKENS on User, to see tokens of
others. Owners and renewers need no ACL to renew and expire a token. Quota: request time, controller mutations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.tokens import create_token, expire_token, owner_of, renew_token
from odradek.handlers.access import CREATE_TOKEN_FOR, DESCRIBE_TOKEN, DESCRIBE_TOKENS_OF
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from odradek.security.principal import ANONYMOUS, USER, Principal

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts, ControllerParts
    from odradek.metadata.image import DelegationToken
    from odradek.protocol.schema import Message

REQUESTER_SINCE = 3
"""First version that names the requester of a token for another owner."""
_NEVER_MS = -1


def create(
    context: RequestContext, request: CreateDelegationTokenRequest, broker: BrokerParts
) -> CreateDelegationTokenResponse | Deferred[Message]:
    """Check the request on a broker and forward it to the controller."""
    problem = _create_problem(context, request)
    if problem is None and any(renewer.principal_type != USER for renewer in request.renewers):
        problem = ErrorCode.INVALID_PRINCIPAL_TYPE
    return broker.forwarder.ask(context, request) if problem is None else _not_created(context, request, problem)


def create_on_controller(
    context: RequestContext, request: CreateDelegationTokenRequest, parts: ControllerParts
) -> CreateDelegationTokenResponse | Deferred[CreateDelegationTokenResponse]:
    """Create the token on the controller."""
    problem = _create_problem(context, request)
    if problem is not None:
        return _not_created(context, request, problem)
    who, now_ms, secret = context.principal, context.services.clock.time_ms(), context.services.token_secret
    created = parts.kraft.submit(lambda controller: create_token(controller, request, who, now_ms, secret), "createDelegationToken")
    return created if context.api_version >= REQUESTER_SINCE else _without_requester(created)


def _without_requester(created: Deferred[CreateDelegationTokenResponse]) -> Deferred[CreateDelegationTokenResponse]:
    """Clear the requester in the response, for versions without fields for it."""

    def clear(response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
        return response

    return created.then(clear)


def _create_problem(context: RequestContext, request: CreateDelegationTokenRequest) -> ErrorCode | None:
    if not _allowed(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    owner = owner_of(request, context.principal)
    if owner != context.principal and not context.allows(CREATE_TOKEN_FOR, str(owner)):
        return CREATE_TOKEN_FOR.error
    return None


def _not_created(context: RequestContext, request: CreateDelegationTokenRequest, problem: ErrorCode) -> CreateDelegationTokenResponse:
    kind, name, _ = owner_of(request, context.principal)
    response = CreateDelegationTokenResponse(
        error_code=problem,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=_NEVER_MS,
        expiry_timestamp_ms=_NEVER_MS,
        max_timestamp_ms=_NEVER_MS,
    )
    if context.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type, response.token_requester_principal_name, _ = context.principal
    return response


def renew(
    context: RequestContext, request: RenewDelegationTokenRequest, broker: BrokerParts
) -> RenewDelegationTokenResponse | Deferred[Message]:
    """Check the request on a broker and forward it to the controller."""
    if not _allowed(context):
        return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)
    return broker.forwarder.ask(context, request)


def renew_on_controller(
    context: RequestContext, request: RenewDelegationTokenRequest, parts: ControllerParts
) -> RenewDelegationTokenResponse | Deferred[RenewDelegationTokenResponse]:
    """Renew the token on the controller."""
    if not _allowed(context):
        return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)
    who, now_ms, secret = context.principal, context.services.clock.time_ms(), context.services.token_secret
    return parts.kraft.submit(lambda controller: renew_token(controller, request, who, now_ms, secret), "renewDelegationToken")


def expire(
    context: RequestContext, request: ExpireDelegationTokenRequest, broker: BrokerParts
) -> ExpireDelegationTokenResponse | Deferred[Message]:
    """Check the request on a broker and forward it to the controller."""
    if not _allowed(context):
        return ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)
    return broker.forwarder.ask(context, request)


def expire_on_controller(
    context: RequestContext, request: ExpireDelegationTokenRequest, parts: ControllerParts
) -> ExpireDelegationTokenResponse | Deferred[ExpireDelegationTokenResponse]:
    """Expire the token on the controller."""
    if not _allowed(context):
        return ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=_NEVER_MS)
    who, now_ms, secret = context.principal, context.services.clock.time_ms(), context.services.token_secret
    return parts.kraft.submit(lambda controller: expire_token(controller, request, who, now_ms, secret), "expireDelegationToken")


def describe(context: RequestContext, request: DescribeDelegationTokenRequest, broker: BrokerParts) -> DescribeDelegationTokenResponse:
    """Describe tokens on a broker, from its metadata image."""
    if not _allowed(context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret = context.services.token_secret
    if secret is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = None if request.owners is None else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    response = DescribeDelegationTokenResponse()
    for token_id, token in context.services.metadata.image.delegation_tokens.tokens.items():
        if (wanted is None or token.owner in wanted) and _may_see(context, token_id, token):
            response.tokens.append(_described(context, token_id, token, secret.mac(token_id)))
    return response


def _may_see(context: RequestContext, token_id: str, token: DelegationToken) -> bool:
    own = str(context.principal)
    return (
        own == token.owner
        or own in token.renewers
        or context.allows(DESCRIBE_TOKEN, token_id)
        or context.allows(DESCRIBE_TOKENS_OF, token.owner)
    )


def _described(
    context: RequestContext, token_id: str, token: DelegationToken, mac: bytes
) -> DescribeDelegationTokenResponse.DescribedDelegationToken:
    owner, requester = Principal.stored(token.owner), Principal.stored(token.requester or token.owner)
    renewers = [Principal.stored(each) for each in token.renewers]
    shown = requester if context.api_version >= REQUESTER_SINCE else Principal("", "")
    return DescribeDelegationTokenResponse.DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=shown.kind,
        token_requester_principal_name=shown.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token_id,
        hmac=mac,
        renewers=[
            DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer(principal_type=each.kind, principal_name=each.name)
            for each in renewers
        ],
    )


def _allowed(context: RequestContext) -> bool:
    if context.principal.token_authenticated:
        return False
    if context.forwarded:
        return True
    protocol = context.services.dynamic_config.current.listener_security_protocols.get(context.listener_name, "PLAINTEXT")
    return protocol.startswith("SASL_") or (protocol == "SSL" and context.principal != ANONYMOUS)
