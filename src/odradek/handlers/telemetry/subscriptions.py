"""GetTelemetrySubscriptions (API key 71, KIP-714): metrics that this broker wants from a client, and the push interval.

A client without an id gets one. ApiVersions lists the API only when odradek.client.telemetry sets a destination for metrics; without one
the response is UNSUPPORTED_VERSION.

ACL: none. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import random_uuid
from odradek.metrics.telemetry import COMPRESSIONS
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts


def handle(context: RequestContext, request: GetTelemetrySubscriptionsRequest, broker: BrokerParts) -> GetTelemetrySubscriptionsResponse:
    if context.services.telemetry is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    instance_id = request.client_instance_id
    if not instance_id.int:
        instance_id = random_uuid(context.services.random)
    telemetry = context.services.telemetry.telemetry
    client = context.services.telemetry.client(context, instance_id)
    wanted = telemetry.ask(client, context.connection_id, context.services.clock.monotonic() * 1000)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )
