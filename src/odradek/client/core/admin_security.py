"""ACLs, credentials, delegation tokens and quotas in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import KafkaError, code_of
from odradek.client.admin.types.security import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
    DelegationToken,
    DeletedAcl,
    KafkaPrincipal,
    PatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import number
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from odradek.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from odradek.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from odradek.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from odradek.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from odradek.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

# -- ACLs ---------------------------------------------------------------------------------------------------------------------------------


def describe_acls_request(wanted: AclBindingFilter) -> DescribeAclsRequest:
    """Build the request for the ACLs that match the filter."""
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def described_acls(response: DescribeAclsResponse) -> list[AclBinding]:
    """Return the matching ACLs. Raises KafkaError when the broker refused the request (SECURITY_DISABLED without an authorizer)."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "ACLs")
    return [
        AclBinding(
            number(ResourceType, resource.resource_type),
            resource.resource_name,
            each.principal,
            number(AclOperation, each.operation),
            number(AclPermissionType, each.permission_type),
            each.host,
            number(PatternType, resource.pattern_type),
        )
        for resource in response.resources
        for each in resource.acls
    ]


def create_acls_request(bindings: Iterable[AclBinding]) -> CreateAclsRequest:
    """Build the request; the response has the outcomes in the order of `bindings`."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            resource_pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in bindings
    ]
    return CreateAclsRequest(creations=creations)


def created_acls(response: CreateAclsResponse, asked: Sequence[AclBinding]) -> Outcomes[AclBinding, None]:
    """Return None or the error of every ACL."""
    return {
        binding: outcome(result.error_code, result.error_message, f"ACL {acl_label(binding)}")
        for binding, result in zip(asked, response.results, strict=False)
    }


def acl_label(binding: AclBinding) -> str:
    """Return the name of the ACL for messages."""
    what = f"{binding.pattern_type.name.lower()} {binding.resource_type.name.lower()} {binding.resource_name}"
    return f"{binding.principal} {binding.permission.name} {binding.operation.name} on {what}"


def delete_acls_request(filters: Iterable[AclBindingFilter]) -> DeleteAclsRequest:
    """Build the request; the response has the outcomes in the order of `filters`."""
    wanted = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.resource_name,
            pattern_type_filter=each.pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    return DeleteAclsRequest(filters=wanted)


def deleted_acls(response: DeleteAclsResponse, asked: Sequence[AclBindingFilter]) -> Outcomes[AclBindingFilter, list[DeletedAcl]]:
    """Return, for every filter, the ACLs that it matched, each with None or the error of its deletion; or the filter's error."""
    found: Outcomes[AclBindingFilter, list[DeletedAcl]] = {}
    for wanted, result in zip(asked, response.filter_results, strict=False):
        error = outcome(result.error_code, result.error_message, f"ACLs that match {wanted}")
        found[wanted] = error or [_deleted(each) for each in result.matching_acls]
    return found


def _deleted(match: DeleteAclsResponse.DeleteAclsMatchingAcl) -> DeletedAcl:
    binding = AclBinding(
        number(ResourceType, match.resource_type),
        match.resource_name,
        match.principal,
        number(AclOperation, match.operation),
        number(AclPermissionType, match.permission_type),
        match.host,
        number(PatternType, match.pattern_type),
    )
    return DeletedAcl(binding, outcome(match.error_code, match.error_message, f"ACL {acl_label(binding)}"))


# -- SCRAM credentials --------------------------------------------------------------------------------------------------------------------

_DIGESTS = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


def describe_scram_request(users: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    """Build the request; None asks for all users."""
    names = None if users is None else [DescribeUserScramCredentialsRequest.UserName(name=each) for each in users]
    return DescribeUserScramCredentialsRequest(users=names)


def described_scram(response: DescribeUserScramCredentialsResponse) -> Outcomes[str, list[ScramCredentialInfo]]:
    """Return the credentials, or the error, of every user. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "SCRAM credentials")
    return {
        each.user: outcome(each.error_code, each.error_message, f"user {each.user}")
        or [ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations) for info in each.credential_infos]
        for each in response.results
    }


def salted_password(mechanism: ScramMechanism, password: str | bytes, salt: bytes, iterations: int) -> bytes:
    """Return the salted password from which the server derives its keys (RFC 5802: Hi)."""
    secret = password.encode() if isinstance(password, str) else password
    return hashlib.pbkdf2_hmac(_DIGESTS[mechanism], secret, salt, iterations)


def alter_scram_request(
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion], salts: Mapping[UserScramCredentialUpsertion, bytes]
) -> AlterUserScramCredentialsRequest:
    """Build the request that sets and deletes credentials; `salts` has the salt of each credential to set."""
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = []
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = []
    for each in alterations:
        if isinstance(each, UserScramCredentialDeletion):
            deletions.append(AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism))
            continue
        salt = salts[each]
        upsertions.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=each.user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=salt,
                salted_password=salted_password(each.mechanism, each.password, salt, each.iterations),
            )
        )
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def altered_scram(response: AlterUserScramCredentialsResponse) -> Outcomes[str, None]:
    """Return None or the error of every user."""
    return {each.user: outcome(each.error_code, each.error_message, f"user {each.user}") for each in response.results}


# -- delegation tokens --------------------------------------------------------------------------------------------------------------------


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


# -- quotas -------------------------------------------------------------------------------------------------------------------------------

_FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def describe_quotas_request(components: Iterable[ClientQuotaFilterComponent], strict: bool) -> DescribeClientQuotasRequest:
    """Build the request. Raises ValueError for an unknown type of entity."""
    wanted: list[DescribeClientQuotasRequest.ComponentData] = []
    for each in components:
        if each.entity_type not in _FIELDS:
            raise ValueError(f"an entity type must be one of {', '.join(_FIELDS)}, not {each.entity_type!r}")
        kind = _ANY if each.name is None else _DEFAULT if not each.name else _EXACT
        wanted.append(
            DescribeClientQuotasRequest.ComponentData(
                entity_type=each.entity_type, match_type=kind, match=each.name if kind == _EXACT else None
            )
        )
    return DescribeClientQuotasRequest(components=wanted, strict=strict)


def described_quotas(response: DescribeClientQuotasResponse) -> dict[ClientQuotaEntity, dict[str, float]]:
    """Return the quotas of every entity. Raises KafkaError when the broker refused the request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), response.error_message or "client quotas")
    found: dict[ClientQuotaEntity, dict[str, float]] = {}
    for entry in response.entries or ():
        entity = _entity((each.entity_type, each.entity_name) for each in entry.entity)
        found[entity] = {each.key: each.value for each in entry.values}
    return found


def alter_quotas_request(alterations: Iterable[ClientQuotaAlteration], validate_only: bool) -> AlterClientQuotasRequest:
    """Build the request that sets quotas, and removes those with the value None."""
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[
                AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name or None)
                for kind, field in _FIELDS.items()
                if (name := getattr(each.entity, field)) is not None
            ],
            ops=[
                AlterClientQuotasRequest.OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                for key, value in each.quotas.items()
            ],
        )
        for each in alterations
    ]
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def altered_quotas(response: AlterClientQuotasResponse) -> Outcomes[ClientQuotaEntity, None]:
    """Return None or the error of every entity."""
    found: Outcomes[ClientQuotaEntity, None] = {}
    for entry in response.entries:
        entity = _entity((each.entity_type, each.entity_name) for each in entry.entity)
        found[entity] = outcome(entry.error_code, entry.error_message, entity_label(entity))
    return found


def _entity(parts: Iterable[tuple[str, str | None]]) -> ClientQuotaEntity:
    return ClientQuotaEntity(**{_FIELDS[kind]: name or "" for kind, name in parts if kind in _FIELDS})


def entity_label(entity: ClientQuotaEntity) -> str:
    """Return the name of the entity for messages."""
    parts = [f"{kind} {name or '(default)'}" for kind, field in _FIELDS.items() if (name := getattr(entity, field)) is not None]
    return f"quotas of {', '.join(parts)}"
