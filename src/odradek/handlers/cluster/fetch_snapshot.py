"""FetchSnapshot (59), versions 0-1, controller listener: a piece of a snapshot of the metadata log (KIP-630).

- ACL: ClusterAction on the cluster (not enforced yet: there is no authorizer).
- Bounded by controller.quorum.fetch.snapshot.max.bytes. SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE by partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.handlers.registration import CONTROLLER, handler
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services


@handler(ApiKey.FETCH_SNAPSHOT, versions=(0, 1), listeners=(CONTROLLER,))
def handle(context: RequestContext, request: FetchSnapshotRequest, services: Services) -> Deferred[FetchSnapshotResponse]:
    return services.kraft.handle_fetch_snapshot(request)


def error_response(request: FetchSnapshotRequest, error: KafkaError) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(error_code=error.code)
