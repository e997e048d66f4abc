"""Admin calls for configurations: of topics, brokers, brokers' loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import ANY_NODE, Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.core.admin_configs import (
    alter_request,
    altered_configs,
    broker_of,
    describe_configs_request,
    described_configs,
    listed_resources,
    resource_label,
    resource_type,
)
from odradek.client.core.admin_items import CONTROLLER_ERRORS, Outcomes
from odradek.client.types import ConfigChange, ConfigEntry, ConfigResource
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_configs import DescribeConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from odradek.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

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
