"""DescribeConfigs (API key 32): configuration of topics and brokers, with the source of each value (KIP-133, KIP-226, KIP-569).

ACL: DESCRIBE_CONFIGS on Topic or Cluster. Quota: request time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.repeats import Repeats
from odradek.config.describe import (
    BrokerLayers,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from odradek.config.topic import SOURCE_DYNAMIC_BROKER_LOGGER
from odradek.handlers.access import DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_TOPIC_CONFIGS
from odradek.handlers.admin.broker_loggers import describe_loggers
from odradek.handlers.scopes import CONTROLLER
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_TOPIC
from odradek.metadata.topic_names import check_topic_name
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.security.resources import CLUSTER_NAME

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import Parts
    from odradek.metadata.image import MetadataImage

Result = DescribeConfigsResponse.DescribeConfigsResult
Config = DescribeConfigsResponse.DescribeConfigsResourceResult

_INTEGER = re.compile(r"[+-]?\d{1,10}")
"""Form of a text that Java parses as an int. The range is not checked."""

_CHECKS = {RESOURCE_TOPIC: DESCRIBE_TOPIC_CONFIGS, RESOURCE_GROUP: DESCRIBE_GROUP_CONFIGS}
"""Check by resource type. All other resources belong to the cluster."""

RESOURCE_TYPES = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)


def handle(context: RequestContext, request: DescribeConfigsRequest, parts: Parts) -> Entries[DescribeConfigsResponse]:
    for resource in request.resources:
        if resource.resource_type not in RESOURCE_TYPES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The resource type {resource.resource_type} does not exist")
    image = parts.kraft.image if context.listener_scope == CONTROLLER else context.services.metadata.image
    # Keys in the metadata that this broker ignores (those of another implementation) are not shown as effective.
    dynamic = context.services.dynamic_config
    layers = BrokerLayers(context.services.config, dynamic.node, dynamic.cluster, dynamic.current)
    refused: list[Result] = []
    repeats = Repeats()
    for resource in request.resources:
        if not repeats.answered((resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ()))):
            continue
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        check = _CHECKS.get(resource.resource_type, DESCRIBE_CLUSTER_CONFIGS)
        if not context.allows(check, resource.resource_name if resource.resource_type in _CHECKS else CLUSTER_NAME):
            result.error_code, result.error_message = check.error, f"{check.resource.name.capitalize()} authorization failed."
            refused.append(result)
            continue
        try:
            described = _describe(resource, image, layers, context.services.node_id)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            result.error_message = ""
            result.configs = [_shown(config, request) for config in described]
        yield result
    yield from refused
    return DescribeConfigsResponse()


def error_response(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    """Return a response with `error` for every resource of the request."""
    return DescribeConfigsResponse(
        results=[
            Result(error_code=error.code, error_message=error.message, resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )


def _describe(
    resource: DescribeConfigsRequest.DescribeConfigsResource, image: MetadataImage, layers: BrokerLayers, node_id: int
) -> list[DescribedConfig]:
    name = resource.resource_name
    keys = frozenset(resource.configuration_keys) if resource.configuration_keys else None
    if resource.resource_type == RESOURCE_TOPIC:
        check_topic_name(name)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(layers, image.configs.topic(name), keys)
    if resource.resource_type == RESOURCE_GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(layers, image.configs.of(RESOURCE_GROUP, name), keys)
    if resource.resource_type == RESOURCE_CLIENT_METRICS:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(image.configs.of(RESOURCE_CLIENT_METRICS, name), keys)
    if not name:
        if resource.resource_type == RESOURCE_BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        return describe_cluster_default(layers, keys)
    if _INTEGER.fullmatch(name) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
    return describe_loggers(keys) if resource.resource_type == RESOURCE_BROKER_LOGGER else describe_broker(layers, keys)


def _shown(config: DescribedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym
    # A logger's row has an empty documentation, even for a client that did not ask for documentation.
    documented = request.include_documentation or config.source == SOURCE_DYNAMIC_BROKER_LOGGER
    return Config(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.sensitive,
        synonyms=[synonym(name=s.name, value=s.value, source=s.source) for s in config.synonyms] if request.include_synonyms else [],
        config_type=0 if config.type is None else config.type,
        documentation=config.documentation if documented else None,
    )
