"""What access is granted to, and what for: Kafka's enumerations with their codes (org.apache.kafka.common.acl, .resource)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ResourceType(IntEnum):
    """What a resource is. 0 is what the sender did not know itself, ANY stands in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a resource's name is meant; ANY and MATCH stand in filters only (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is done."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """What an ACL says."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
"""The literal name of every resource, the principal name of everybody (User:*), and the host of everywhere."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of the type CLUSTER."""
