"""Admin calls for configurations: of topics, brokers, brokers' loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import ANY_NODE, Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import CONTROLLER_ERRORS, Outcomes, outcome
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.types import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

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


_TYPES_SINCE = 1
"""First version of ListConfigResources that lists other resources than client metrics."""


class ConfigCalls(AdminBase):
    """Part of `AsyncAdmin` for configurations."""

    async def try_describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> Outcomes[ConfigResource, list[ConfigEntry]]:
        """Return the configuration of each resource: all keys, or only `names`. A broker's own configuration comes from that broker.

        Raises ValueError for an unknown type of resource.
        """

        async def ask(peer: Peer, asked: Sequence[ConfigResource]) -> Outcomes[ConfigResource, list[ConfigEntry]]:
            request = describe_configs_request(asked, names, synonyms, documentation)
            return described_configs(await peer.call(request, DescribeConfigsResponse))

        wanted = list(resources)
        nodes = {resource: broker_of(resource) for resource in wanted}
        return await self._at_brokers(wanted, ask, broker_of=lambda each: _node(nodes[each]), name=resource_label)

    describe_configs = raising(try_describe_configs)

    async def try_incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> Outcomes[ConfigResource, None]:
        """Change single keys of each resource and leave its other keys as they are. All changes of a resource are made, or none.

        Error of a resource: INVALID_CONFIG for an invalid value. Raises ValueError for an unknown type of resource or operation.
        """
        wanted = {resource: list(operations) for resource, operations in changes.items()}
        alter_request(wanted, validate_only)
        nodes = {resource: broker_of(resource) for resource in wanted}

        async def ask(peer: Peer, asked: Sequence[ConfigResource]) -> Outcomes[ConfigResource, None]:
            request = alter_request({each: wanted[each] for each in asked}, validate_only)
            return altered_configs(await peer.call(request, IncrementalAlterConfigsResponse))

        # A broker validates its own keys, then forwards the request to the controller.
        return await self._at_brokers(
            wanted, ask, broker_of=lambda each: _node(nodes[each]), retried=CONTROLLER_ERRORS, name=resource_label
        )

    incremental_alter_configs = raising_only(try_incremental_alter_configs)

    async def list_config_resources(self, kinds: Iterable[str] = ()) -> list[ConfigResource]:
        """Return the resources that have a configuration, of all types or only of `kinds` (KIP-1142).

        Raises ValueError for an unknown type. Raises KafkaError(UNSUPPORTED_VERSION) when a broker before Kafka 4.1 is asked for other
        types than client metrics.
        """
        wanted = list(kinds)
        numbers = [resource_type(kind) for kind in wanted]

        async def ask(peer: Peer) -> list[ConfigResource]:
            only_metrics = wanted == ["client_metrics"]
            if peer.version(ApiKey.LIST_CONFIG_RESOURCES) < _TYPES_SINCE and not only_metrics:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, "the broker can list only client-metrics resources: it is older than Kafka 4.1"
                )
            request = ListConfigResourcesRequest(
                resource_types=numbers if peer.version(ApiKey.LIST_CONFIG_RESOURCES) >= _TYPES_SINCE else []
            )
            response = await peer.call(request, ListConfigResourcesResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "listing config resources")
            return listed_resources(response)

        return await self._any_broker("listing config resources", ask)

    async def list_client_metrics_resources(self) -> list[str]:
        """Return the names of the client metrics subscriptions (KIP-714)."""
        return [resource.name for resource in await self.list_config_resources(["client_metrics"])]


def _node(broker: int | None) -> int:
    return ANY_NODE if broker is None else broker
