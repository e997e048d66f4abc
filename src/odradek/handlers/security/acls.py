"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): access control lists (KIP-140, KIP-290).

There is no authorizer, and everything is answered SECURITY_DISABLED, as Kafka does without one (kafka.server.AclApis). A type, pattern,
operation or permission of 0 (unknown) closes the connection, as in Kafka, which cannot even read such a request.

ACL: DESCRIBE on Cluster, to create and delete ALTER on Cluster. Quota: request time, to create and delete controller mutations.
Known gaps: an authorizer cannot be configured yet (authorizer.class.name is refused); quotas are not enforced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

UNKNOWN = 0
"""The code of what the sender did not know itself, in each of the enumerations of ACLs."""


def describe_acls(context: RequestContext, request: DescribeAclsRequest, services: Services) -> DescribeAclsResponse:
    _check(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    raise _disabled()


def create_acls(context: RequestContext, request: CreateAclsRequest, services: Services) -> CreateAclsResponse:
    for each in request.creations:
        _check(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    raise _disabled()


def create_acls_error(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    """Every ACL of the request with the same error."""
    result = CreateAclsResponse.AclCreationResult
    return CreateAclsResponse(results=[result(error_code=error.code, error_message=error.message) for _ in request.creations])


def delete_acls(context: RequestContext, request: DeleteAclsRequest, services: Services) -> DeleteAclsResponse:
    for each in request.filters:
        _check(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    raise _disabled()


def delete_acls_error(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    """Every filter of the request with the same error."""
    result = DeleteAclsResponse.DeleteAclsFilterResult
    return DeleteAclsResponse(filter_results=[result(error_code=error.code, error_message=error.message) for _ in request.filters])


def _check(*codes: int) -> None:
    if UNKNOWN in codes:
        raise ProtocolError("an ACL or a filter of ACLs with an unknown element")


def _disabled() -> KafkaError:
    return KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
