"""Operations that a client may do on a resource, as a bit field of ACL operations (org.apache.kafka.common.acl.AclOperation, KIP-430).

Without an authorizer every client may do every operation that exists for the resource.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.handlers.access import AUTHORIZED_OPERATIONS
from odradek.security.resources import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext


def bit_field(operations: Iterable[int]) -> int:
    """Return a bit field in which bit n stands for the operation with code n."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


_ALL: Final = {resource: bit_field(operations) for resource, operations in AUTHORIZED_OPERATIONS.items()}


def authorized_operations(context: RequestContext, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
    """Return the bit field of the operations that the client may do on the resource."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return _ALL[resource]
    principal, host = context.principal, context.peer_host
    return bit_field(each for each in AUTHORIZED_OPERATIONS[resource] if authorizer.allows(principal, host, each, resource, name))
