"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): access control lists (KIP-140, KIP-290; kafka.server.AclApis).

Without an authorizer every request is answered SECURITY_DISABLED. As in Kafka, which cannot read such a request, a type, pattern, operation
or permission of 0 (unknown) closes the connection. The active controller writes ACLs to the metadata log. Every node authorizes by the ACLs
that it has read from this log.

ACL: DESCRIBE on Cluster to describe, ALTER on Cluster to create and delete. Quota: request time; controller mutations to create and delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.scopes import CONTROLLER
from odradek.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.security.acls import AccessControlEntry, AclFilter
from odradek.security.resources import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType

if TYPE_CHECKING:
    from odradek.controller.core.acls import Removal
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import ControllerParts, Parts

Created = CreateAclsResponse.AclCreationResult
FilterResult = DeleteAclsResponse.DeleteAclsFilterResult
Matching = DeleteAclsResponse.DeleteAclsMatchingAcl
Resource = DescribeAclsResponse.DescribeAclsResource

UNKNOWN = 0
"""Code for an unknown value in each of the ACL enumerations."""


# -- describe -----------------------------------------------------------------------------------------------------------------------------


def describe_acls(context: RequestContext, request: DescribeAclsRequest, parts: Parts) -> DescribeAclsResponse:
    _check(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    if context.services.authorizer is None:
        raise _disabled()
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    image = parts.kraft.image if context.listener_scope == CONTROLLER else context.services.metadata.image
    found: dict[tuple[int, str, int], Resource] = {}
    for entry in image.acls.entries.values():
        if wanted.matches(entry):
            pattern = entry[:3]
            resource = found.get(pattern)
            if resource is None:
                kind, name, pattern_type = pattern
                resource = found[pattern] = Resource(resource_type=kind, resource_name=name, pattern_type=pattern_type)
            resource.acls.append(
                DescribeAclsResponse.AclDescription(
                    principal=entry.principal, host=entry.host, operation=entry.operation, permission_type=entry.permission_type
                )
            )
    return DescribeAclsResponse(resources=list(found.values()))


# -- create -------------------------------------------------------------------------------------------------------------------------------


def create_acls(
    context: RequestContext, request: CreateAclsRequest, parts: ControllerParts
) -> CreateAclsResponse | Deferred[CreateAclsResponse]:
    for each in request.creations:
        _check(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    if context.services.authorizer is None:
        raise _disabled()
    if any(map(_is_a_filter, request.creations)):
        # Kafka cannot create such an ACL object, and its handler fails.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    entries = [
        AccessControlEntry(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    refused = {entry: problem for entry in entries if (problem := _name_problem(entry)) is not None}
    wanted = [entry for entry in entries if entry not in refused]

    def created(problems: Sequence[KafkaError | None]) -> CreateAclsResponse:
        outcome = {**dict(zip(wanted, problems, strict=True)), **refused}
        return CreateAclsResponse(results=[_created(outcome[entry]) for entry in entries])

    def failed(problem: BaseException) -> CreateAclsResponse:
        if not _is_per_acl(problem):
            raise problem
        return created([problem] * len(wanted))

    from odradek.controller.core import acls

    submitted = parts.kraft.submit(lambda controller: acls.create_acls(controller, wanted), "create_acls")
    return submitted.then(created, failed)


def create_acls_error(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """Return a response with `error` for every ACL of the request."""
    return CreateAclsResponse(results=[_created(error) for _ in request.creations])


def _is_a_filter(creation: CreateAclsRequest.AclCreation) -> bool:
    """Return whether the ACL contains a value that is only valid in filters."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == Operation.ANY
        or creation.permission_type == PermissionType.ANY
    )


def _name_problem(entry: AccessControlEntry) -> KafkaError | None:
    if entry.resource_type == ResourceType.CLUSTER and entry.resource_name != CLUSTER_NAME:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    return None if entry.resource_name else KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")


def _created(error: KafkaError | None) -> Created:
    return Created(error_message="") if error is None else Created(error_code=error.code, error_message=error.message)


# -- delete -------------------------------------------------------------------------------------------------------------------------------


def delete_acls(
    context: RequestContext, request: DeleteAclsRequest, parts: ControllerParts
) -> DeleteAclsResponse | Deferred[DeleteAclsResponse]:
    for each in request.filters:
        _check(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    if context.services.authorizer is None:
        raise _disabled()
    wanted = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    from odradek.controller.core import acls

    deleted = parts.kraft.submit(lambda controller: acls.delete_acls(controller, wanted), "delete_acls")
    return deleted.then(lambda removals: DeleteAclsResponse(filter_results=_removed(removals)))


def delete_acls_error(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """Return a response with `error` for every filter of the request."""
    return DeleteAclsResponse(filter_results=[FilterResult(error_code=error.code, error_message=error.message) for _ in request.filters])


def _removed(removals: Sequence[Removal]) -> list[FilterResult]:
    return [
        FilterResult(
            error_code=ErrorCode.NONE if removal.error is None else removal.error.code,
            error_message=None if removal.error is None else removal.error.message,
            matching_acls=[Matching(error_message=None, **entry._asdict()) for entry in removal.removed],
        )
        for removal in removals
    ]


# -- shared -------------------------------------------------------------------------------------------------------------------------------


def _check(*codes: int) -> None:
    if UNKNOWN in codes:
        raise ProtocolError("an ACL or a filter of ACLs with an unknown element")


def _disabled() -> KafkaError:
    return KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def _is_per_acl(problem: BaseException) -> TypeGuard[KafkaError]:
    """Return whether the error goes into the result of each ACL. NOT_CONTROLLER instead goes to the broker that forwarded the request."""
    return isinstance(problem, KafkaError) and problem.code is not ErrorCode.NOT_CONTROLLER
