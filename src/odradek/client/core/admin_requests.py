"""Requests of the admin client: from what is wanted to messages, and from responses back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.base.errors import ErrorCode, code_of
from odradek.base.ids import TopicPartition
from odradek.client.types import ConfigChange, ConfigResource
from odradek.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterResponse
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata import MetadataResponse

_RESOURCE_TYPES = {"topic": 2, "broker": 4}
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


def controllers_as_metadata(answer: DescribeClusterResponse) -> MetadataResponse:
    """What DescribeCluster says of the controllers, in the form of an answer to Metadata without topics (KIP-919)."""
    each = MetadataResponse.MetadataResponseBroker
    nodes = [each(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack) for node in answer.brokers]
    return MetadataResponse(brokers=nodes, cluster_id=answer.cluster_id, controller_id=answer.controller_id, topics=[])


def resource_type(resource: ConfigResource) -> int:
    """Kafka's number for the kind of resource; ValueError for another kind."""
    kind = _RESOURCE_TYPES.get(resource.kind)
    if kind is None:
        raise ValueError(f"a config resource is a topic or a broker, not {resource.kind!r}")
    return kind


def alter_request(resource: ConfigResource, changes: Iterable[ConfigChange], validate_only: bool) -> IncrementalAlterConfigsRequest:
    """Changes of one resource; ValueError for a kind of resource or an operation that there is not."""
    configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = []
    for change in changes:
        operation = _OPERATIONS.get(change.operation)
        if operation is None:
            raise ValueError(f"a change of {change.name} is one of {', '.join(_OPERATIONS)}, not {change.operation!r}")
        configs.append(IncrementalAlterConfigsRequest.AlterableConfig(name=change.name, config_operation=operation, value=change.value))
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type(resource), resource_name=resource.name, configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)


def delete_records_request(offsets: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    """For partitions of one leader."""
    topics: dict[str, DeleteRecordsRequest.DeleteRecordsTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[])
        topic.partitions.append(DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)


def deleted_records(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, ErrorCode]]:
    """Partition, its low watermark, and what went wrong."""
    for topic in response.topics:
        for result in topic.partitions:
            yield TopicPartition(topic.name, result.partition_index), result.low_watermark, code_of(result.error_code)
