"""Admin calls for ACLs, SCRAM credentials, delegation tokens and client quotas."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising_only
from odradek.client.admin.types.security import (
    AclBinding,
    AclBindingFilter,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    DelegationToken,
    DeletedAcl,
    KafkaPrincipal,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.core.admin_items import Outcomes, results
from odradek.client.core.admin_security import (
    acl_label,
    alter_quotas_request,
    alter_scram_request,
    altered_quotas,
    altered_scram,
    create_acls_request,
    created_acls,
    created_token,
    delete_acls_request,
    deleted_acls,
    describe_acls_request,
    describe_quotas_request,
    describe_scram_request,
    described_acls,
    described_quotas,
    described_scram,
    described_tokens,
    entity_label,
)
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse
from odradek.protocol.messages.create_acls import CreateAclsResponse
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.delete_acls import DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsResponse
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from odradek.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_SALT_LENGTH = 32


class SecurityCalls(AdminBase):
    """Part of `AsyncAdmin` for security and quotas."""

    # -- ACLs -------------------------------------------------------------------------------------------------------------------------

    async def describe_acls(self, matching: AclBindingFilter = AclBindingFilter()) -> list[AclBinding]:  # noqa: B008  (it is immutable)
        """Return the ACLs that match the filter, by default all.

        Raises KafkaError(SECURITY_DISABLED) when the brokers have no authorizer.
        """

        async def ask(peer: Peer) -> list[AclBinding]:
            return described_acls(await peer.call(describe_acls_request(matching), DescribeAclsResponse))

        return await self._any_broker("describing ACLs", ask)

    async def try_create_acls(self, bindings: Iterable[AclBinding]) -> Outcomes[AclBinding, None]:
        """Create ACLs. An ACL that exists already is not an error."""

        async def ask(peer: Peer, asked: Sequence[AclBinding]) -> Outcomes[AclBinding, None]:
            return created_acls(await peer.call(create_acls_request(asked), CreateAclsResponse), asked)

        return await self._at_controller(bindings, ask, name=acl_label)

    create_acls = raising_only(try_create_acls)

    async def try_delete_acls(self, filters: Iterable[AclBindingFilter]) -> Outcomes[AclBindingFilter, list[DeletedAcl]]:
        """Delete the ACLs that match any of the filters. Return for each filter the ACLs that it matched."""

        async def ask(peer: Peer, asked: Sequence[AclBindingFilter]) -> Outcomes[AclBindingFilter, list[DeletedAcl]]:
            return deleted_acls(await peer.call(delete_acls_request(asked), DeleteAclsResponse), asked)

        return await self._at_controller(filters, ask)

    async def delete_acls(self, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, list[AclBinding]]:
        """Delete the ACLs that match any of the filters. Return for each filter the ACLs that were deleted.

        Raises the KafkaError of the first filter, or matched ACL, that failed. Other ACLs may be deleted then.
        """
        found = results(await self.try_delete_acls(filters))
        for deleted in (each for matches in found.values() for each in matches):
            if deleted.error is not None:
                raise deleted.error
        return {wanted: [each.binding for each in matches] for wanted, matches in found.items()}

    # -- SCRAM credentials ------------------------------------------------------------------------------------------------------------

    async def try_describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> Outcomes[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, by default of all. Error of a user without credentials: RESOURCE_NOT_FOUND."""
        wanted = None if users is None else list(dict.fromkeys(users))
        if wanted is not None and not wanted:
            return {}  # The broker takes an empty list for all users.

        async def ask(peer: Peer) -> Outcomes[str, list[ScramCredentialInfo]]:
            return described_scram(await peer.call(describe_scram_request(wanted), DescribeUserScramCredentialsResponse))

        return await self._any_broker("describing SCRAM credentials", ask)

    async def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, list[ScramCredentialInfo]]:
        """Return the SCRAM credentials of users, by default of all. Raises the KafkaError of the first user without credentials."""
        return results(await self.try_describe_user_scram_credentials(users))

    async def try_alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> Outcomes[str, None]:
        """Set and delete SCRAM credentials. One call takes one alteration per user: DUPLICATE_RESOURCE for a user with two.

        Other errors of a user: UNACCEPTABLE_CREDENTIAL for too few or too many iterations, RESOURCE_NOT_FOUND for a missing credential to
        delete. An empty password raises KafkaError(UNACCEPTABLE_CREDENTIAL) before anything is sent.
        """
        wanted = list(alterations)
        salts = {
            each: secrets.token_bytes(_SALT_LENGTH) if each.salt is None else each.salt
            for each in wanted
            if isinstance(each, UserScramCredentialUpsertion)
        }
        for each in salts:
            if not each.password:
                raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the password of user {each.user} must not be empty")

        async def ask(peer: Peer, users: Sequence[str]) -> Outcomes[str, None]:
            asked = set(users)
            request = alter_scram_request([each for each in wanted if each.user in asked], salts)
            return altered_scram(await peer.call(request, AlterUserScramCredentialsResponse))

        return await self._at_controller((each.user for each in wanted), ask, name=lambda user: f"user {user}")

    alter_user_scram_credentials = raising_only(try_alter_user_scram_credentials)

    # -- delegation tokens ------------------------------------------------------------------------------------------------------------

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

    # -- quotas -----------------------------------------------------------------------------------------------------------------------

    async def describe_client_quotas(
        self, components: Iterable[ClientQuotaFilterComponent] = (), *, strict: bool = False
    ) -> Mapping[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match all of these components, by default of all.

        `strict` excludes entities with other components.
        """
        request = describe_quotas_request(components, strict)

        async def ask(peer: Peer) -> Mapping[ClientQuotaEntity, dict[str, float]]:
            return described_quotas(await peer.call(request, DescribeClientQuotasResponse))

        return await self._any_broker("describing client quotas", ask)

    async def try_alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> Outcomes[ClientQuotaEntity, None]:
        """Set and remove quotas of entities.

        Error of an entity: INVALID_REQUEST for a key that such entities do not have, or an invalid value.
        """
        wanted = {each.entity: each for each in alterations}

        async def ask(peer: Peer, entities: Sequence[ClientQuotaEntity]) -> Outcomes[ClientQuotaEntity, None]:
            request = alter_quotas_request([wanted[each] for each in entities], validate_only)
            return altered_quotas(await peer.call(request, AlterClientQuotasResponse))

        return await self._at_controller(wanted, ask, name=entity_label)

    alter_client_quotas = raising_only(try_alter_client_quotas)
