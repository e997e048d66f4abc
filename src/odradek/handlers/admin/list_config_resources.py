"""ListConfigResources (API key 74): names of configurable resources, by type (KIP-1142; in version 0 only client metrics, KIP-714).

ACL: DESCRIBE_CONFIGS on Cluster. Quota: request time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts
    from odradek.metadata.image import MetadataImage

Resource = ListConfigResourcesResponse.ConfigResource

ALL_TYPES: Final = (RESOURCE_GROUP, RESOURCE_CLIENT_METRICS, RESOURCE_BROKER_LOGGER, RESOURCE_BROKER, RESOURCE_TOPIC)
"""Resource types in Kafka's order of the response, which does not depend on the request."""


def handle(context: RequestContext, request: ListConfigResourcesRequest, broker: BrokerParts) -> ListConfigResourcesResponse:
    supported = {RESOURCE_CLIENT_METRICS} if context.api_version == 0 else set(ALL_TYPES)
    wanted = set(request.resource_types) or supported
    if not wanted <= supported:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Resources of type {min(wanted - supported)} cannot be listed")
    image = context.services.metadata.image
    return ListConfigResourcesResponse(
        config_resources=[
            Resource(resource_name=name, resource_type=resource_type)
            for resource_type in ALL_TYPES
            if resource_type in wanted
            for name in _names(resource_type, image, context.listener_name)
        ]
    )


def _names(resource_type: int, image: MetadataImage, listener: str) -> Iterator[str]:
    if resource_type == RESOURCE_TOPIC:
        yield from image.topics.by_name
    elif resource_type in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        for broker_id in sorted(image.cluster.brokers):  # Including fenced brokers.
            if image.cluster.brokers[broker_id].endpoint(listener) is not None:
                yield str(broker_id)
    else:  # Groups and client metrics exist here once they are configured.
        for configured_type, name in image.configs.resources:
            if configured_type == resource_type:
                yield name
