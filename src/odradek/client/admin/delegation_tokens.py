"""Admin calls for delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.errors import KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.types.security import (
    DelegationToken,
    KafkaPrincipal,
)
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def created_token(response: CreateDelegationTokenResponse, renewers: Iterable[KafkaPrincipal]) -> DelegationToken:
    """Return the new token. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), "creating a delegation token")
    owner = KafkaPrincipal(response.principal_type, response.principal_name)
    return DelegationToken(
        response.token_id,
        response.hmac,
        owner,
        _requester(response.token_requester_principal_type, response.token_requester_principal_name, owner),
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


def described_tokens(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
    """Return the tokens. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), "delegation tokens")
    tokens: list[DelegationToken] = []
    for each in response.tokens:
        owner = KafkaPrincipal(each.principal_type, each.principal_name)
        tokens.append(
            DelegationToken(
                each.token_id,
                each.hmac,
                owner,
                _requester(each.token_requester_principal_type, each.token_requester_principal_name, owner),
                tuple(KafkaPrincipal(renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
                each.issue_timestamp,
                each.expiry_timestamp,
                each.max_timestamp,
            )
        )
    return tokens


def _requester(kind: str, name: str, owner: KafkaPrincipal) -> KafkaPrincipal:
    """Return the principal that asked for the token: before version 3 always its owner."""
    return KafkaPrincipal(kind, name) if kind else owner


class DelegationTokenCalls(AdminBase):
    """Part of `AsyncAdmin` for delegation tokens."""

    async def create_delegation_token(
        self, *, owner: KafkaPrincipal | None = None, renewers: Iterable[KafkaPrincipal] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a delegation token for the client's own principal, or for `owner` (KIP-373). Lifetime -1 is the broker's maximum.

        Raises KafkaError: DELEGATION_TOKEN_AUTH_DISABLED; DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a connection without authentication.
        """
        allowed = list(renewers)
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.principal_type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(principal_type=each.principal_type, principal_name=each.name)
                for each in allowed
            ],
            max_lifetime_ms=max_lifetime_ms,
        )

        async def ask(peer: Peer) -> DelegationToken:
            return created_token(await peer.call(request, CreateDelegationTokenResponse), allowed)

        return await self._controller("creating a delegation token", ask)

    async def renew_delegation_token(self, hmac: bytes, *, renew_time_period_ms: int = -1) -> int:
        """Renew a token for `renew_time_period_ms` milliseconds (-1: delegation.token.expiry.time.ms).

        Return the new expiry time in Unix milliseconds.
        """

        async def ask(peer: Peer) -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_time_period_ms)
            response = await peer.call(request, RenewDelegationTokenResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "renewing a delegation token")
            return response.expiry_timestamp_ms

        return await self._controller("renewing a delegation token", ask)

    async def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Let a token expire in `expiry_time_period_ms` milliseconds, by default at once.

        Return the new expiry time in Unix milliseconds.
        """

        async def ask(peer: Peer) -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
            response = await peer.call(request, ExpireDelegationTokenResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "expiring a delegation token")
            return response.expiry_timestamp_ms

        return await self._controller("expiring a delegation token", ask)

    async def describe_delegation_token(self, owners: Iterable[KafkaPrincipal] | None = None) -> list[DelegationToken]:
        """Return the tokens that the client may see, all or those of `owners`."""
        named = (
            None
            if owners is None
            else [
                DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type=each.principal_type, principal_name=each.name)
                for each in owners
            ]
        )

        async def ask(peer: Peer) -> list[DelegationToken]:
            return described_tokens(await peer.call(DescribeDelegationTokenRequest(owners=named), DescribeDelegationTokenResponse))

        return await self._any_broker("describing delegation tokens", ask)
