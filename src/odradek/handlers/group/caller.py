"""Who sends a request, as groups see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.coordinator.group.group import Caller

if TYPE_CHECKING:
    from odradek.server.context import RequestContext


def caller_of(context: RequestContext) -> Caller:
    """Its version, client id, and host as Java prints addresses."""
    return Caller(context.api_version, context.client_id or "", f"/{context.peer_host}")
