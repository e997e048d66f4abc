"""Audit log of the authorizer (`kafka.authorizer.logger`): one line for each decision, in Kafka's words.

Lines are written after the request, in later loop iterations, several at once. When more decisions come than can be written, the excess is
counted, and the count is logged. Names are escaped by `base.text.printable`; the end of a long name is left out.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.base.text import printable
from odradek.handlers.context import AUDIT_LOGGER
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.security.principal import Principal
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.handlers.access import Check
    from odradek.handlers.context import RequestContext
    from odradek.security.standard import StandardAuthorizer

logger = logging.getLogger(AUDIT_LOGGER)

MOST_WAITING: Final = 10_000
"""Decisions that may wait to be written."""
MOST_BYTES: Final = 4 << 20
"""Bytes of the names in waiting decisions; bounded because clients choose the length of names."""
_LONGEST_NAME: Final = 1_000
"""Characters of a name that are written."""
_AT_ONCE: Final = 500

RESOURCE_NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""Resource type -> name that Kafka prints (org.apache.kafka.common.utils.SecurityUtils.resourceTypeName)."""


class _Decision(NamedTuple):
    principal: Principal
    host: str
    api_key: int
    check: Check
    name: str
    allowed: bool
    times: int


class Audit:
    """Audit log of one node."""

    def __init__(self, clock: Clock, authorizer: StandardAuthorizer[Any]) -> None:
        self._clock = clock
        self._authorizer = authorizer
        self._waiting: list[_Decision] = []
        self._waiting_bytes = 0
        self._left_out = 0

    def note(self, context: RequestContext, check: Check, name: str, *, allowed: bool, count: int) -> None:
        """Queue a decision to be written. `count`: how often the request names the resource. Drop and count the decision when the queue is
        full.
        """
        size = sys.getsizeof(name)
        if len(self._waiting) >= MOST_WAITING or self._waiting_bytes + size > MOST_BYTES:
            self._left_out += 1
            return
        self._waiting_bytes += size
        if not self._waiting:
            self._clock.call_later(0, self._write)
        self._waiting.append(_Decision(context.principal, context.peer_host, context.api_key, check, name, allowed, count))

    def _write(self) -> None:
        batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
        for decision in batch:
            self._waiting_bytes -= sys.getsizeof(decision.name)
            logger.log(logging.DEBUG if decision.allowed else logging.INFO, "%s", printable(self._line(decision)))
        if self._waiting:
            self._clock.call_later(0, self._write)
        elif self._left_out:
            logger.warning("%d decisions were not logged: there were too many at once", self._left_out)
            self._left_out = 0

    def _line(self, decision: _Decision) -> str:
        principal, host, api_key, check, name, allowed, times = decision
        rule = self._authorizer.explain(principal, host, check.operation, check.resource, name)
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}... ({len(name)} characters)"
        return (
            f"Principal = {principal} is {'Allowed' if allowed else 'Denied'} operation = {check.operation.name} from host = {host} "
            f"on resource = {RESOURCE_NAMES[check.resource]}:LITERAL:{name} for request = {API_INFO[ApiKey(api_key)].name} "
            f"with resourceRefCount = {times} based on rule {rule}"
        )
