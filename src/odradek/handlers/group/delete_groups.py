"""DeleteGroups (42): removes groups without members, with all their offsets.

ACL: DELETE on each group. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.access import DELETE_GROUP
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

Result = DeleteGroupsResponse.DeletableGroupResult


def handle(context: RequestContext, request: DeleteGroupsRequest, broker: BrokerParts) -> Deferred[DeleteGroupsResponse]:
    wanted = list(dict.fromkeys(request.groups_names))
    denied = context.denied(DELETE_GROUP, wanted)
    refused = [Result(group_id=group_id, error_code=DELETE_GROUP.error) for group_id in wanted if group_id in denied]
    deleted = broker.groups.delete_groups([group_id for group_id in wanted if group_id not in denied])
    return deleted.then(lambda results: DeleteGroupsResponse(results=results + refused))


def error_response(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """Return a response with `error` for every group."""
    return DeleteGroupsResponse(results=[Result(group_id=group_id, error_code=error.code) for group_id in request.groups_names])
