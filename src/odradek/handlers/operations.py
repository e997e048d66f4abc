"""What a principal may do, as a bit field of ACL operations (org.apache.kafka.common.acl.AclOperation, KIP-430).

Without an authorizer everybody may do everything that makes sense for the resource.
"""

from __future__ import annotations

from odradek.security.resources import Operation


def bit_field(*operations: int) -> int:
    """Bit n stands for the operation with code n."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


TOPIC_OPERATIONS = bit_field(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = bit_field(
    Operation.CREATE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
GROUP_OPERATIONS = bit_field(Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
