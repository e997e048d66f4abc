"""Types of ACLs, SCRAM credentials, delegation tokens and client quotas."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.base.errors import KafkaError


class ResourceType(IntEnum):
    """Type of resource of an ACL (org.apache.kafka.common.resource.ResourceType)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Kind of name in an ACL (KIP-290); ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operation on a resource (org.apache.kafka.common.acl.AclOperation); ANY is for filters."""

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


class AclPermissionType(IntEnum):
    """Permission of an ACL: allow or deny; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """ACL and its resource. `principal` is "User:name", `host` an address or "*"."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclBindingFilter(NamedTuple):
    """Filter of ACLs; None and ANY match all. MATCH matches all ACLs that apply to the resource of that name, by any pattern type."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


class DeletedAcl(NamedTuple):
    """ACL that a filter matched; `error` tells why it was not deleted."""

    binding: AclBinding
    error: KafkaError | None


class ScramMechanism(IntEnum):
    """Hash of SCRAM passwords (RFC 5802, RFC 7677)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo(NamedTuple):
    """Public part of a SCRAM credential."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialUpsertion(NamedTuple):
    """SCRAM credential to set. The client sends the salted hash, never the password. The salt is random unless given."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes
    iterations: int = 4096
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion(user={self.user!r}, mechanism={self.mechanism!r}, iterations={self.iterations})"


class UserScramCredentialDeletion(NamedTuple):
    """SCRAM credential to delete."""

    user: str
    mechanism: ScramMechanism


class KafkaPrincipal(NamedTuple):
    """Principal of a user as the authorizer knows it."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


class DelegationToken(NamedTuple):
    """Delegation token (KIP-48).

    A client with `token_id` and `hmac` acts as the owner until `expiry_timestamp`, which renewals move up to `max_timestamp`.
    """

    token_id: str
    hmac: bytes
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    def __repr__(self) -> str:
        return f"DelegationToken(token_id={self.token_id!r}, owner={str(self.owner)!r}, expiry_timestamp={self.expiry_timestamp})"


class ClientQuotaEntity(NamedTuple):
    """Entity of a quota: `user`, `client_id` or both, or `ip`.

    "" is the default entity of that kind. None means that the kind is absent.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class ClientQuotaFilterComponent(NamedTuple):
    """Filter of one kind of entity ("user", "client-id" or "ip"): by exact name, "" for the default, None for any named entity."""

    entity_type: str
    name: str | None = None


class ClientQuotaAlteration(NamedTuple):
    """Quotas to set, or with None to remove."""

    entity: ClientQuotaEntity
    quotas: Mapping[str, float | None]
