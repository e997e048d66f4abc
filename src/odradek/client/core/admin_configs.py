"""Configurations in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.types import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.list_config_resources import ListConfigResourcesResponse

RESOURCE_TYPES = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}
"""Kind of a resource -> Kafka's number (org.apache.kafka.common.config.ConfigResource.Type)."""

_KINDS = {number: kind for kind, number in RESOURCE_TYPES.items()}
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


def resource_type(kind: str) -> int:
    """Return Kafka's number for the kind of resource. Raise ValueError for an unknown kind."""
    number = RESOURCE_TYPES.get(kind)
    if number is None:
        raise ValueError(f"a config resource must be one of {', '.join(RESOURCE_TYPES)}, not {kind!r}")
    return number


def resource_label(resource: ConfigResource) -> str:
    """Return the name of the resource for messages."""
    return f"configuration of {resource.kind.replace('_', ' ')} {resource.name or '(default)'}"


def broker_of(resource: ConfigResource) -> int | None:
    """Return the id of the broker that alone can answer for the resource; None where any broker can.

    Raises ValueError for an unknown kind, or a broker whose name is not a number.
    """
    resource_type(resource.kind)
    if resource.kind not in ("broker", "broker_logger") or not resource.name:
        return None
    if not (resource.name.isascii() and resource.name.isdigit()):
        raise ValueError(f"a broker resource must be the number of a broker, not {resource.name!r}")
    return int(resource.name)


def describe_configs_request(
    resources: Iterable[ConfigResource], names: Sequence[str] | None, synonyms: bool, documentation: bool
) -> DescribeConfigsRequest:
    """Build the request; `names` are the keys to describe, None for all keys. Raises ValueError for an unknown kind of resource."""
    asked = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=resource_type(each.kind),
            resource_name=each.name,
            configuration_keys=None if names is None else list(names),
        )
        for each in resources
    ]
    return DescribeConfigsRequest(resources=asked, include_synonyms=synonyms, include_documentation=documentation)


def described_configs(response: DescribeConfigsResponse) -> Outcomes[ConfigResource, list[ConfigEntry]]:
    """Return the configuration entries, or the error, of every resource."""
    found: Outcomes[ConfigResource, list[ConfigEntry]] = {}
    for result in response.results:
        resource = ConfigResource(_KINDS.get(result.resource_type, "unknown"), result.resource_name)
        error = outcome(result.error_code, result.error_message, resource_label(resource))
        found[resource] = error or [
            ConfigEntry(
                entry.name,
                entry.value,
                entry.config_source,
                entry.read_only,
                entry.is_sensitive,
                entry.documentation,
                tuple(ConfigSynonym(each.name, each.value, each.source) for each in entry.synonyms),
                entry.config_type,
            )
            for entry in result.configs
        ]
    return found


def alter_request(changes: Mapping[ConfigResource, Iterable[ConfigChange]], validate_only: bool) -> IncrementalAlterConfigsRequest:
    """Build the request that changes several resources. Raises ValueError for an unknown kind of resource or an unknown operation."""
    resources = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=resource_type(resource.kind), resource_name=resource.name, configs=[_change(each) for each in operations]
        )
        for resource, operations in changes.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _change(change: ConfigChange) -> IncrementalAlterConfigsRequest.AlterableConfig:
    operation = _OPERATIONS.get(change.operation)
    if operation is None:
        raise ValueError(f"the operation for {change.name} must be one of {', '.join(_OPERATIONS)}, not {change.operation!r}")
    return IncrementalAlterConfigsRequest.AlterableConfig(name=change.name, config_operation=operation, value=change.value)


def altered_configs(response: IncrementalAlterConfigsResponse) -> Outcomes[ConfigResource, None]:
    """Return None or the error of every resource."""
    found: Outcomes[ConfigResource, None] = {}
    for result in response.responses:
        resource = ConfigResource(_KINDS.get(result.resource_type, "unknown"), result.resource_name)
        found[resource] = outcome(result.error_code, result.error_message, resource_label(resource))
    return found


def listed_resources(response: ListConfigResourcesResponse) -> list[ConfigResource]:
    """Return the listed resources, without resources of a kind that only a later Kafka has."""
    return [
        ConfigResource(_KINDS[each.resource_type], each.resource_name) for each in response.config_resources if each.resource_type in _KINDS
    ]
