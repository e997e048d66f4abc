"""DescribeCluster (API key 60): brokers of the cluster or, on a controller listener, controllers (KIP-700, KIP-919, KIP-1073).

ACL: DESCRIBE on Cluster for the authorized operations; on a controller listener ALTER on Cluster. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.handlers.access import CLUSTER_DESCRIPTION
from odradek.handlers.cluster.metadata import any_alive_broker
from odradek.handlers.operations import authorized_operations
from odradek.handlers.scopes import CONTROLLER
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.security.resources import ResourceType

if TYPE_CHECKING:
    from odradek.controller.kraft.node import KRaftNode
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import Parts

Broker = DescribeClusterResponse.DescribeClusterBroker

ENDPOINT_NAMES = {1: "BROKER", 2: "CONTROLLER"}
"""Endpoint types by code (org.apache.kafka.clients.admin EndpointType)."""


def handle(context: RequestContext, request: DescribeClusterRequest, parts: Parts) -> DescribeClusterResponse:
    on_controller = context.listener_scope == CONTROLLER
    expected = 2 if on_controller else 1
    wanted = request.endpoint_type if context.api_version >= 1 else 1
    if wanted not in ENDPOINT_NAMES:
        return _error(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {wanted}")
    if wanted != expected:
        # Version 0 has neither endpoint types nor this error.
        return _error(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if context.api_version >= 1 else ErrorCode.INVALID_REQUEST,
            f"The request was sent to an endpoint of type {ENDPOINT_NAMES[expected]}, "
            f"but we wanted an endpoint of type {ENDPOINT_NAMES[wanted]}",
        )
    response = DescribeClusterResponse(cluster_id=context.services.cluster_id, endpoint_type=expected)
    if on_controller:
        _add_controllers(context, parts.kraft, response)
    else:
        _add_brokers(context, request, response)
    if request.include_cluster_authorized_operations:
        allowed = context.allows(CLUSTER_DESCRIPTION)
        response.cluster_authorized_operations = authorized_operations(context, ResourceType.CLUSTER) if allowed else 0
    return response


def error_response(request: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    """Return a response with only the error."""
    return _error(error.code, error.message)


def _error(code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)


def _add_brokers(context: RequestContext, request: DescribeClusterRequest, response: DescribeClusterResponse) -> None:
    image = context.services.metadata.image
    response.controller_id = any_alive_broker(image, context.services)
    for broker_id in sorted(image.cluster.brokers):
        broker = image.cluster.brokers[broker_id]
        endpoint = broker.endpoint(context.listener_name)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            response.brokers.append(
                Broker(broker_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced)
            )


def _add_controllers(context: RequestContext, kraft: KRaftNode, response: DescribeClusterResponse) -> None:
    image = kraft.image
    response.controller_id = kraft.leader_and_epoch.leader_id
    for controller_id in sorted(image.cluster.controllers):
        for endpoint in image.cluster.controllers[controller_id].listeners:
            if endpoint.name == context.listener_name:
                response.brokers.append(Broker(broker_id=controller_id, host=endpoint.host, port=endpoint.port))
