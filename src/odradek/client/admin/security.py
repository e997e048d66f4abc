"""ACLs, SCRAM credentials, delegation tokens and client quotas."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.faces import raising_only
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
    """The part of `AsyncAdmin` that is about who may do what, and how much of it."""

    # -- ACLs -------------------------------------------------------------------------------------------------------------------------

    async def describe_acls(self, matching: AclBindingFilter = AclBindingFilter()) -> list[AclBinding]:  # noqa: B008  (it is immutable)
        """The ACLs that match, all by default; SECURITY_DISABLED when the brokers have no authorizer."""

        async def ask(peer: Peer) -> list[AclBinding]:
            return described_acls(await peer.call(describe_acls_request(matching), DescribeAclsResponse))

        return await self._any_broker("describing ACLs", ask)

    async def try_create_acls(self, bindings: Iterable[AclBinding]) -> Outcomes[AclBinding, None]:
        """Creates ACLs; one that is there already is no error."""

        async def ask(peer: Peer, asked: Sequence[AclBinding]) -> Outcomes[AclBinding, None]:
            return created_acls(await peer.call(create_acls_request(asked), CreateAclsResponse), asked)

        return await self._at_controller(bindings, ask, name=acl_label)

    create_acls = raising_only(try_create_acls)

    async def try_delete_acls(self, filters: Iterable[AclBindingFilter]) -> Outcomes[AclBindingFilter, list[DeletedAcl]]:
        """Deletes the ACLs that match any of the filters; gives for each filter what it matched."""

        async def ask(peer: Peer, asked: Sequence[AclBindingFilter]) -> Outcomes[AclBindingFilter, list[DeletedAcl]]:
            return deleted_acls(await peer.call(delete_acls_request(asked), DeleteAclsResponse), asked)

        return await self._at_controller(filters, ask)

    async def delete_acls(self, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, list[AclBinding]]:
        """Deletes the ACLs that match any of the filters; gives for each filter what was deleted.

        Raises the KafkaError of the first filter, or ACL that it matched, that failed; the others may be done then.
        """
        found = results(await self.try_delete_acls(filters))
        for deleted in (each for matches in found.values() for each in matches):
            if deleted.error is not None:
                raise deleted.error
        return {wanted: [each.binding for each in matches] for wanted, matches in found.items()}

    # -- SCRAM credentials ------------------------------------------------------------------------------------------------------------

    async def try_describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> Outcomes[str, list[ScramCredentialInfo]]:
        """Which credentials users have, all users by default; RESOURCE_NOT_FOUND for a user that has none."""
        wanted = None if users is None else list(dict.fromkeys(users))
        if wanted is not None and not wanted:
            return {}  # For the broker no name means all of them.

        async def ask(peer: Peer) -> Outcomes[str, list[ScramCredentialInfo]]:
            return described_scram(await peer.call(describe_scram_request(wanted), DescribeUserScramCredentialsResponse))

        return await self._any_broker("describing SCRAM credentials", ask)

    async def describe_user_scram_credentials(self, users: Iterable[str] | None = None) -> dict[str, list[ScramCredentialInfo]]:
        """Which credentials users have, all users by default. Raises the KafkaError of the first user that has none."""
        return results(await self.try_describe_user_scram_credentials(users))

    async def try_alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> Outcomes[str, None]:
        """Sets and deletes credentials, one of each user in one call: DUPLICATE_RESOURCE for a user with two.

        UNACCEPTABLE_CREDENTIAL for too few or too many iterations or an empty password, RESOURCE_NOT_FOUND for one to delete.
        """
        wanted = list(alterations)
        salts = {
            each: secrets.token_bytes(_SALT_LENGTH) if each.salt is None else each.salt
            for each in wanted
            if isinstance(each, UserScramCredentialUpsertion)
        }
        for each in salts:
            if not each.password:
                raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"the password of user {each.user} is empty")

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
        """A token for the client's own principal, or for `owner` (KIP-373); -1 lets it live as long as the broker allows.

        DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a connection without authentication.
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
        """Prolongs a token, by delegation.token.expiry.time.ms by default; gives its new time of expiry."""

        async def ask(peer: Peer) -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_time_period_ms)
            response = await peer.call(request, RenewDelegationTokenResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "renewing a delegation token")
            return response.expiry_timestamp_ms

        return await self._controller("renewing a delegation token", ask)

    async def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Ends a token after that time, by default at once; gives its new time of expiry."""

        async def ask(peer: Peer) -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
            response = await peer.call(request, ExpireDelegationTokenResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "expiring a delegation token")
            return response.expiry_timestamp_ms

        return await self._controller("expiring a delegation token", ask)

    async def describe_delegation_token(self, owners: Iterable[KafkaPrincipal] | None = None) -> list[DelegationToken]:
        """The tokens that the client may see, all or those of `owners`."""
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
        """The quotas of the entities that have all of these components, all entities by default; with `strict` no other components."""
        request = describe_quotas_request(components, strict)

        async def ask(peer: Peer) -> Mapping[ClientQuotaEntity, dict[str, float]]:
            return described_quotas(await peer.call(request, DescribeClientQuotasResponse))

        return await self._any_broker("describing client quotas", ask)

    async def try_alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], *, validate_only: bool = False
    ) -> Outcomes[ClientQuotaEntity, None]:
        """Sets and removes quotas of entities; INVALID_REQUEST for a key that an entity of that kind does not have, or a wrong value."""
        wanted = {each.entity: each for each in alterations}

        async def ask(peer: Peer, entities: Sequence[ClientQuotaEntity]) -> Outcomes[ClientQuotaEntity, None]:
            request = alter_quotas_request([wanted[each] for each in entities], validate_only)
            return altered_quotas(await peer.call(request, AlterClientQuotasResponse))

        return await self._at_controller(wanted, ask, name=entity_label)

    alter_client_quotas = raising_only(try_alter_client_quotas)
