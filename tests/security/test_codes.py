"""Codes that ACLs are written with in requests and in the metadata log, as of Kafka 4.3 (org.apache.kafka.common.acl, .resource)."""

from __future__ import annotations

from enum import IntEnum

import pytest

from odradek.client.admin.types import security as of_clients
from odradek.security import resources as of_brokers

RESOURCE_TYPES = "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
PATTERN_TYPES = "UNKNOWN ANY MATCH LITERAL PREFIXED"
PERMISSION_TYPES = "UNKNOWN ANY DENY ALLOW"
OPERATIONS = (
    "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE "
    "CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
)


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (of_brokers.ResourceType, RESOURCE_TYPES),
        (of_brokers.PatternType, PATTERN_TYPES),
        (of_brokers.PermissionType, PERMISSION_TYPES),
        (of_brokers.Operation, OPERATIONS),
        (of_clients.ResourceType, RESOURCE_TYPES),
        (of_clients.PatternType, PATTERN_TYPES),
        (of_clients.AclPermissionType, PERMISSION_TYPES),
        (of_clients.AclOperation, OPERATIONS),
    ],
)
def test_codes_are_those_of_kafka(codes: type[IntEnum], names: str) -> None:
    assert {code.value: code.name for code in codes} == dict(enumerate(names.split()))
