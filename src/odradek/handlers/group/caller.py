"""The sender of a request, as groups see it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from odradek.coordinator.group.group import Caller

if TYPE_CHECKING:
    from odradek.handlers.access import Check
    from odradek.handlers.context import RequestContext


def caller_of(context: RequestContext, pattern: Check | None = None) -> Caller:
    """Return version, client id and host (as Java prints addresses) of the sender.

    `pattern` is the check that the sender must pass for each topic that a subscribed pattern matches.
    """
    may_describe = None if pattern is None or context.services.authorizer is None else partial(context.allows, pattern)
    return Caller(context.api_version, context.client_id or "", f"/{context.peer_host}", may_describe)
