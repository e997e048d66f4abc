"""Cluster, features and quorum in the admin client: requests built from its arguments, results read from responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.types.cluster import QuorumInfo, QuorumReplicaState, RaftVoterEndpoint
from odradek.client.core.admin_terms import authorized_operations, present
from odradek.client.core.metadata import Broker
from odradek.client.types import ClusterDescription, FeatureLevels
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_METADATA_TOPIC = "__cluster_metadata"


def raise_error(code: int, message: str | None, what: str) -> None:
    """Raise KafkaError for any code but 0, with the broker's message or with `what` as its message."""
    if code:
        raise KafkaError(code_of(code), message or what)


def described_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    """Return the description of the cluster. Raises KafkaError when the broker refused the request."""
    raise_error(response.error_code, response.error_message, "describing the cluster")
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(Broker(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers),
        authorized_operations(response.cluster_authorized_operations),
        frozenset(broker.broker_id for broker in response.brokers if broker.is_fenced),
    )


def described_features(response: ApiVersionsResponse) -> list[FeatureLevels]:
    """Return all features, sorted by name. Raises KafkaError when the broker refused the request."""
    raise_error(response.error_code, None, "the features of the cluster")
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features}
    return sorted(FeatureLevels(name, *supported.get(name, (0, 0)), finalized.get(name, 0)) for name in supported.keys() | finalized.keys())


def update_features_request(levels: Mapping[str, int], kind: int, timeout_ms: int, validate_only: bool) -> UpdateFeaturesRequest:
    """Build the request. `kind`: 1 upgrade, 2 safe downgrade, 3 downgrade even if metadata is lost."""
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level in levels.items()
    ]
    return UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=updates, validate_only=validate_only)


def raise_features_error(response: UpdateFeaturesResponse) -> None:
    """Raise KafkaError for an error of the whole request, or (before version 2) of the first feature that failed."""
    raise_error(response.error_code, response.error_message, "changing features")
    for result in response.results:
        raise_error(result.error_code, result.error_message, f"feature {result.feature}")


def describe_quorum_request() -> DescribeQuorumRequest:
    """Build the request about the quorum of the metadata log."""
    partitions = [DescribeQuorumRequest.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name=_METADATA_TOPIC, partitions=partitions)])


def described_quorum(response: DescribeQuorumResponse) -> QuorumInfo:
    """Return the quorum. Raises KafkaError when the broker refused the request, or its response is not about the metadata log."""
    raise_error(response.error_code, response.error_message, "describing the quorum")
    for topic in response.topics:
        for part in topic.partitions:
            if topic.topic_name == _METADATA_TOPIC and part.partition_index == 0:
                raise_error(part.error_code, part.error_message, "describing the quorum")
                nodes = {
                    node.node_id: tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
                    for node in response.nodes
                }
                voters, observers = _replicas(part.current_voters), _replicas(part.observers)
                return QuorumInfo(part.leader_id, part.leader_epoch, part.high_watermark, voters, observers, nodes)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response does not describe {_METADATA_TOPIC}")


def _replicas(states: Iterable[DescribeQuorumResponse.ReplicaState]) -> tuple[QuorumReplicaState, ...]:
    return tuple(
        QuorumReplicaState(
            each.replica_id,
            each.replica_directory_id,
            each.log_end_offset,
            present(each.last_fetch_timestamp),
            present(each.last_caught_up_timestamp),
        )
        for each in states
    )


def voter_listeners(endpoints: Iterable[RaftVoterEndpoint]) -> list[AddRaftVoterRequest.Listener]:
    """Return the request's entries for the listeners of a new voter."""
    return [AddRaftVoterRequest.Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints]
