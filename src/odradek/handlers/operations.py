"""What a principal may do, as a bit field of ACL operations (org.apache.kafka.common.acl.AclOperation, KIP-430).

Without an authorizer everybody may do everything that makes sense for the resource.
"""

from __future__ import annotations

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12


def bit_field(*operations: int) -> int:
    """Bit n stands for the operation with code n."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


TOPIC_OPERATIONS = bit_field(READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS = bit_field(CREATE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALTER, DESCRIBE)
GROUP_OPERATIONS = bit_field(READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
