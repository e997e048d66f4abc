"""The asyncio admin client.

async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
    await admin.create_topics([NewTopic("topic", 3)])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from odradek import __version__
from odradek.base.errors import ErrorCode, KafkaError, OdradekError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster, Node
from odradek.client.config import ADMIN_CONFIG, ClientConfig, Setting
from odradek.client.core.admin_requests import alter_request, delete_records_request, deleted_records, resource_type
from odradek.client.core.metadata import Broker, MetadataCache, TopicInfo
from odradek.client.metrics import MetricName
from odradek.client.types import ClusterDescription, ConfigChange, ConfigEntry, ConfigResource, CreatedTopic, FeatureLevels, NewTopic
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_records import DeleteRecordsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

T = TypeVar("T")


class AsyncAdmin:
    """Topics, configurations and the cluster. Every call retries what can be retried, within default.api.timeout.ms."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Keys as Kafka names them in `config`, or as keyword arguments with underscores; ConfigError names a key that does not fit."""
        self._config = ClientConfig(ADMIN_CONFIG, config, **settings)
        self._cluster: Cluster | None = None

    async def start(self) -> Self:
        """Makes the client ready; connections are made when they are needed."""
        if self._cluster is None:
            self._cluster = Cluster(self._config)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def cluster(self) -> Cluster:
        """The connections; OdradekError before `start`."""
        if self._cluster is None:
            raise OdradekError("the admin client is not started: use `async with`, or await start()")
        return self._cluster

    def metrics(self) -> dict[MetricName, float]:
        """What this client has done, under Kafka's names: rates a second, times in milliseconds, sizes in bytes."""
        return self.cluster.metrics()

    async def close(self) -> None:
        """Closes the connections."""
        if self._cluster is not None:
            await self._cluster.close()

    # -- topics ---------------------------------------------------------------------------------------------------------------------

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Creates topics; raises the KafkaError of the first one that was refused (the others may exist then)."""
        created = await self.try_create_topics(topics, validate_only=validate_only)
        for topic in created:
            if topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, topic.message or f"topic {topic.name}")
        return created

    async def try_create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """As `create_topics`, with the errors in the results."""
        wanted = [_creatable(topic) for topic in topics]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=self._timeout_ms(), validate_only=validate_only)

        async def attempt(node: Node) -> list[CreatedTopic]:
            response = await self.cluster.call(node, request, CreateTopicsResponse)
            _raise_not_controller([topic.error_code for topic in response.topics])
            return [
                CreatedTopic(
                    topic.name,
                    code_of(topic.error_code),
                    topic.error_message,
                    topic.topic_id,
                    topic.num_partitions,
                    topic.replication_factor,
                )
                for topic in response.topics
            ]

        return await self._at_controller("creating topics", attempt)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics; raises the KafkaError of the first one that was refused."""
        chosen = list(names)

        async def attempt(node: Node) -> None:
            by_name = node.versions.choose(ApiKey.DELETE_TOPICS) < 6
            states = [] if by_name else [DeleteTopicsRequest.DeleteTopicState(name=name) for name in chosen]
            request = DeleteTopicsRequest(topics=states, topic_names=chosen if by_name else [], timeout_ms=self._timeout_ms())
            response = await self.cluster.call(node, request, DeleteTopicsResponse)
            _raise_not_controller([result.error_code for result in response.responses])
            for result in response.responses:
                if result.error_code:
                    raise KafkaError(code_of(result.error_code), result.error_message or f"topic {result.name}")
                self.cluster.metadata.forget(result.name or "")

        await self._at_controller("deleting topics", attempt)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raises the number of partitions of topics to these totals; raises the KafkaError of the first one that was refused."""
        topics = [CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=self._timeout_ms(), validate_only=validate_only)

        async def attempt(node: Node) -> None:
            response = await self.cluster.call(node, request, CreatePartitionsResponse)
            _raise_not_controller([result.error_code for result in response.results])
            for result in response.results:
                if result.error_code:
                    raise KafkaError(code_of(result.error_code), result.error_message or f"topic {result.name}")

        await self._at_controller("adding partitions", attempt)

    async def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """All topics by name, Kafka's own only with `internal`."""

        async def attempt() -> list[TopicInfo]:
            cache = MetadataCache(0)
            view = cache.update(await self.cluster.ask_metadata(None), 0)
            return [view.topics[name] for name in sorted(view.topics) if internal or not view.topics[name].is_internal]

        return await self.cluster.retrying("listing topics", attempt)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """Partitions and leadership of topics; KafkaError for a topic that does not exist."""
        wanted = list(names)

        async def attempt() -> dict[str, TopicInfo]:
            view = MetadataCache(0).update(await self.cluster.ask_metadata(wanted), 0)
            for name in wanted:
                info = view.topics.get(name)
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else info.error
                if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise _NoSuchTopic(name)
                if error is not ErrorCode.NONE:
                    raise KafkaError(error, f"topic {name}")
            return {name: view.topics[name] for name in wanted}

        try:
            return await self.cluster.retrying("describing topics", attempt)
        except _NoSuchTopic as missing:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(missing)) from None

    # -- configurations and the cluster -----------------------------------------------------------------------------------------------

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Sequence[str] | None = None, documentation: bool = False
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """The configuration of topics and brokers, all keys or only `names`."""
        found: dict[ConfigResource, list[ConfigEntry]] = {}
        for resource in resources:
            found[resource] = await self._describe_config(resource, names, documentation)
        return found

    async def _describe_config(self, resource: ConfigResource, names: Sequence[str] | None, documentation: bool) -> list[ConfigEntry]:
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=resource_type(resource), resource_name=resource.name, configuration_keys=None if names is None else list(names)
        )
        request = DescribeConfigsRequest(resources=[asked], include_documentation=documentation)

        async def attempt() -> list[ConfigEntry]:
            # A broker's own configuration is only known to that broker.
            node = await (self._broker(int(resource.name)) if resource.kind == "broker" and resource.name else self.cluster.any_node())
            response = await self.cluster.call(node, request, DescribeConfigsResponse)
            result = response.results[0]
            if result.error_code:
                raise KafkaError(code_of(result.error_code), result.error_message or f"configuration of {resource.kind} {resource.name}")
            return [
                ConfigEntry(entry.name, entry.value, entry.config_source, entry.read_only, entry.is_sensitive, entry.documentation)
                for entry in result.configs
            ]

        return await self.cluster.retrying(f"configuration of {resource.kind} {resource.name}", attempt)

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Changes single keys of topics and brokers and leaves the others as they are.

        Raises the KafkaError of the first resource that was refused; a resource is changed as a whole or not at all.
        """
        for resource, operations in changes.items():
            await self._alter_config(alter_request(resource, operations, validate_only), resource)

    async def _alter_config(self, request: IncrementalAlterConfigsRequest, resource: ConfigResource) -> None:
        async def attempt(node: Node) -> None:
            response = await self.cluster.call(node, request, IncrementalAlterConfigsResponse)
            result = response.responses[0]
            if result.error_code:
                raise KafkaError(code_of(result.error_code), result.error_message or f"configuration of {resource.kind} {resource.name}")

        what = f"changing the configuration of {resource.kind} {resource.name}"
        if resource.kind == "broker" and resource.name:
            # A broker judges its own keys, then it forwards them.
            await self.cluster.retrying(what, lambda: self._at_broker(int(resource.name), attempt))
        else:
            await self._at_controller(what, attempt)

    async def _at_broker(self, node_id: int, action: Callable[[Node], Awaitable[T]]) -> T:
        return await action(await self._broker(node_id))

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets (-1: all that are there) and returns the new beginnings.

        Raises the KafkaError of the first partition that was refused (others may be done then).
        """
        left = dict(offsets)
        done: dict[TopicPartition, int] = {}

        async def attempt() -> dict[TopicPartition, int]:
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for partition, offset in left.items():
                by_leader.setdefault(await self.cluster.leader(partition), {})[partition] = offset
            for leader, wanted in by_leader.items():
                request = delete_records_request(wanted, self._timeout_ms())
                response = await self.cluster.call(await self.cluster.node(leader), request, DeleteRecordsResponse)
                for partition, low_watermark, error in deleted_records(response):
                    if error is not ErrorCode.NONE:
                        self.cluster.metadata.forget(partition.topic)
                        raise KafkaError(error, f"deleting records of {partition}")
                    done[partition] = low_watermark
                    left.pop(partition, None)
            return done

        return await self.cluster.retrying("deleting records", attempt)

    async def describe_cluster(self) -> ClusterDescription:
        """Cluster id, controller and brokers."""

        async def attempt() -> ClusterDescription:
            node = await self.cluster.any_node()
            response = await self.cluster.call(node, DescribeClusterRequest(), DescribeClusterResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), response.error_message)
            brokers = tuple(Broker(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers)
            return ClusterDescription(response.cluster_id, response.controller_id, brokers)

        return await self.cluster.retrying("describing the cluster", attempt)

    async def describe_features(self) -> list[FeatureLevels]:
        """All features that a broker supports, and those finalized at a level that it does not support (with the range 0 to 0), by name."""
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)

        async def attempt() -> list[FeatureLevels]:
            node = await self.cluster.any_node()
            response = await self.cluster.call(node, request, ApiVersionsResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), "the features of the cluster")
            finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
            supported = {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features}
            return sorted(
                FeatureLevels(name, *supported.get(name, (0, 0)), finalized.get(name, 0)) for name in supported.keys() | finalized.keys()
            )

        return await self.cluster.retrying("describing features", attempt)

    async def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Finalizes these levels, all or none: upward, or with `downgrade` downward. `unsafe`: even if the broker has to drop metadata.

        Raises the KafkaError of the first one that was refused.
        """
        kind = 1 if not downgrade else 3 if unsafe else 2
        updates = [
            UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level in levels.items()
        ]
        request = UpdateFeaturesRequest(timeout_ms=self._timeout_ms(), feature_updates=updates, validate_only=validate_only)

        async def attempt(node: Node) -> None:
            response = await self.cluster.call(node, request, UpdateFeaturesResponse)
            if response.error_code:
                raise KafkaError(code_of(response.error_code), response.error_message)

        await self._at_controller("changing features", attempt)

    async def _broker(self, node_id: int) -> Node:
        if node_id not in self.cluster.view.brokers:
            await self.cluster.refresh([])
        return await self.cluster.node(node_id)

    async def _at_controller(self, what: str, action: Callable[[Node], Awaitable[T]]) -> T:
        """Runs a change at the node that Metadata names as controller (in KRaft any broker, which forwards it).

        After NOT_CONTROLLER or a lost connection it asks for new metadata and tries again.
        """

        async def attempt() -> T:
            if self.cluster.view.controller_id not in self.cluster.view.brokers:
                await self.cluster.refresh([])
            controller = self.cluster.view.controller_id
            try:
                return await action(
                    await (self.cluster.node(controller) if controller in self.cluster.view.brokers else self.cluster.any_node())
                )
            except (KafkaError, ConnectionLost) as error:
                if not isinstance(error, KafkaError) or error.code is ErrorCode.NOT_CONTROLLER:
                    await self.cluster.refresh([])
                raise

        return await self.cluster.retrying(what, attempt)

    def _timeout_ms(self) -> int:
        return self._config.integer("request.timeout.ms")


class _NoSuchTopic(OdradekError):
    """No KafkaError, so that it is not retried: a description is about the present, and waiting for the topic would be wrong."""

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} does not exist")


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.num_partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _raise_not_controller(codes: Sequence[int]) -> None:
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the broker is not the controller any more")
