"""Fetch (1), versions 4-18, controller listener: the metadata log, for voters, brokers and other observers (KIP-595).

- ACL: ClusterAction on the cluster (not enforced yet: there is no authorizer).
- Exactly one topic and partition, `__cluster_metadata`-0; no sessions. Bounded by controller.quorum.fetch.max.bytes.
- Waits up to max_wait_ms at the end of the log. Diverging epoch and snapshot id tell a replica how to come back in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.FETCH, versions=(4, 18), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: FetchRequest, services: Services) -> Deferred[FetchResponse]:
    return services.kraft.handle_fetch(request)


def error_response(request: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code)
