"""What each API checks before it does anything (kafka.server.KafkaApis, ControllerApis).

A `Check` says what a client must be allowed to do, to which kind of resource, and which error it gets otherwise. Handlers name the check
that they make (`context.allows(check, name)`); nothing else in the broker decides about access.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.security.resources import Operation, ResourceType


class Check(NamedTuple):
    """One thing that a client must be allowed to do."""

    operation: Operation
    resource: ResourceType
    error: ErrorCode
    """What the client is told otherwise; NONE where it is told nothing, and the resource is left out."""


CREATE_TOKEN_FOR: Final = Check(Operation.CREATE_TOKENS, ResourceType.USER, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
DESCRIBE_TOKEN: Final = Check(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, ErrorCode.NONE)
DESCRIBE_TOKENS_OF: Final = Check(Operation.DESCRIBE_TOKENS, ResourceType.USER, ErrorCode.NONE)
