"""PushTelemetry (API key 72, KIP-714): metrics of a client, as requested by GetTelemetrySubscriptions.

The metrics are decompressed outside the event loop and passed on; see `server.metering.telemetry`. `metrics.telemetry` says which are
refused.

ACL: none. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(
    context: RequestContext, request: PushTelemetryRequest, broker: BrokerParts
) -> PushTelemetryResponse | Deferred[PushTelemetryResponse]:
    own = context.services.telemetry
    if own is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    client = own.client(context, request.client_instance_id)
    own.telemetry.push(
        client,
        context.connection_id,
        context.services.clock.monotonic() * 1000,
        subscription_id=request.subscription_id,
        compression=request.compression_type,
        size=len(request.metrics),
        terminating=request.terminating,
    )
    if not request.metrics:
        return PushTelemetryResponse()
    return own.take(client, bytes(request.metrics), request.compression_type).then(lambda _: PushTelemetryResponse())
