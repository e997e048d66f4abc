"""ConsumerGroupHeartbeat (68): join, stay in, or leave a group of the consumer protocol (KIP-848).

UNSUPPORTED_VERSION while the protocol is off: group.coordinator.rebalance.protocols, or the feature group.version at level 0.
ACL: READ on the group, DESCRIBE on each topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.keys.groups import GROUP_COORDINATOR_REBALANCE_PROTOCOLS
from odradek.handlers.access import CONSUMER_HEARTBEAT_GROUP, CONSUMER_HEARTBEAT_MATCH, CONSUMER_HEARTBEAT_TOPIC
from odradek.handlers.group.caller import caller_of
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts, Services


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, broker: BrokerParts
) -> Deferred[ConsumerGroupHeartbeatResponse] | ConsumerGroupHeartbeatResponse:
    if not serves_consumer_groups(context.services):
        return error_response(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    context.require(CONSUMER_HEARTBEAT_GROUP, request.group_id)
    if context.denied(CONSUMER_HEARTBEAT_TOPIC, request.subscribed_topic_names or ()):
        raise KafkaError(CONSUMER_HEARTBEAT_TOPIC.error)
    return broker.groups.consumer_group_heartbeat(caller_of(context, CONSUMER_HEARTBEAT_MATCH), request)


def serves_consumer_groups(services: Services) -> bool:
    """Return whether the consumer protocol is enabled by both configuration and feature level."""
    protocols = [name.lower() for name in services.config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]]
    return "consumer" in protocols and services.metadata.image.features.levels.get("group.version", 0) >= 1


def error_response(request: ConsumerGroupHeartbeatRequest, error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
