"""ListGroups (16): groups that this broker coordinates; filtered by state since version 4, by type since 5.

ACL: DESCRIBE on the cluster, or on each group listed. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.handlers.access import LIST_ALL_GROUPS, LIST_GROUP
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(context: RequestContext, request: ListGroupsRequest, broker: BrokerParts) -> ListGroupsResponse:
    response = broker.groups.list_groups(request)
    if not context.allows(LIST_ALL_GROUPS):
        response.groups = [group for group in response.groups if context.allows(LIST_GROUP, group.group_id)]
    return response
