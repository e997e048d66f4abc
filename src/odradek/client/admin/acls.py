"""Admin calls for ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.base.errors import KafkaError, code_of
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import Outcomes, outcome, results
from odradek.client.admin.per_item import raising_only
from odradek.client.admin.terms import number
from odradek.client.admin.types.security import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    DeletedAcl,
    PatternType,
    ResourceType,
)
from odradek.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


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


class AclCalls(AdminBase):
    """Part of `AsyncAdmin` for ACLs."""

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
