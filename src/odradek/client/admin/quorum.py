"""Admin calls for the cluster as a whole: its nodes, features, and the quorum of its controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek import __version__
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.admin.asking import ANY_NODE, Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import Outcomes, results
from odradek.client.admin.terms import authorized_operations, present
from odradek.client.admin.types.cluster import QuorumInfo, QuorumReplicaState, RaftVoterEndpoint
from odradek.client.core.metadata import Broker
from odradek.client.types import ClusterDescription, FeatureLevels
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
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


_BROKERS: Final = 1
_CONTROLLERS: Final = 2
"""Endpoint types of DescribeCluster (KIP-919)."""


class QuorumCalls(AdminBase):
    """Part of `AsyncAdmin` for the cluster as a whole."""

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, include_fenced_brokers: bool = False
    ) -> ClusterDescription:
        """Return cluster id, controller and brokers; with `include_fenced_brokers` also fenced brokers (KIP-1073).

        With `bootstrap.controllers` the `brokers` are the controllers (KIP-919).
        """
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
            endpoint_type=_CONTROLLERS if self._config.uses_controllers else _BROKERS,
        )

        async def ask(peer: Peer) -> ClusterDescription:
            return described_cluster(await peer.call(request, DescribeClusterResponse))

        return await self._any_broker("describing the cluster", ask)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that will not come back from the cluster's metadata. Raises KafkaError(BROKER_ID_NOT_REGISTERED)."""

        async def ask(peer: Peer) -> None:
            response = await peer.call(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
            raise_error(response.error_code, response.error_message, f"broker {broker_id}")

        await self._controller(f"unregistering broker {broker_id}", ask)

    # -- features ---------------------------------------------------------------------------------------------------------------------

    async def describe_features(self, *, node_id: int | None = None) -> list[FeatureLevels]:
        """Return the features that a broker supports, and features finalized at a level that it does not support (with range 0 to 0), by
        name.

        The broker is `node_id`, by default any. Raises KafkaError(BROKER_NOT_AVAILABLE) when `node_id` is not in the cluster.
        """
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version=__version__)

        async def ask(peer: Peer, nodes: Sequence[int]) -> Outcomes[int, list[FeatureLevels]]:
            found = described_features(await peer.call(request, ApiVersionsResponse))
            return dict.fromkeys(nodes, found)

        asked = ANY_NODE if node_id is None else node_id
        (found,) = results(await self._at_brokers([asked], ask, broker_of=int, name=lambda _: "describing features")).values()
        return found

    async def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Finalize all of these levels or none: upgrades, or with `downgrade` downgrades. `unsafe` allows a downgrade that loses metadata.

        Raises the KafkaError of the first feature that was refused.
        """
        kind = 1 if not downgrade else 3 if unsafe else 2

        async def ask(peer: Peer) -> None:
            request = update_features_request(levels, kind, peer.timeout_ms, validate_only)
            raise_features_error(await peer.call(request, UpdateFeaturesResponse))

        await self._controller("changing features", ask)

    # -- the quorum -------------------------------------------------------------------------------------------------------------------

    async def describe_metadata_quorum(self) -> QuorumInfo:
        """Return leader, voters and observers of the metadata log, and the log end offset of each."""

        async def ask(peer: Peer) -> QuorumInfo:
            return described_quorum(await peer.call(describe_quorum_request(), DescribeQuorumResponse))

        return await self._controller("describing the quorum", ask)

    async def add_raft_voter(
        self, voter_id: int, voter_directory_id: UUID, endpoints: Iterable[RaftVoterEndpoint], *, cluster_id: str | None = None
    ) -> None:
        """Make a controller that follows the metadata log a voter (KIP-853). The controller has to be caught up.

        Raises KafkaError: DUPLICATE_VOTER; INCONSISTENT_CLUSTER_ID when `cluster_id` is that of another cluster; UNSUPPORTED_VERSION while
        kraft.version is 0.
        """
        listeners = voter_listeners(endpoints)

        async def ask(peer: Peer) -> None:
            request = AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=peer.timeout_ms,
                voter_id=voter_id,
                voter_directory_id=voter_directory_id,
                listeners=listeners,
            )
            response = await peer.call(request, AddRaftVoterResponse)
            raise_error(response.error_code, response.error_message, f"adding voter {voter_id}")

        await self._controller(f"adding voter {voter_id}", ask)

    async def remove_raft_voter(self, voter_id: int, voter_directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a voter from the quorum (KIP-853). Raises KafkaError(VOTER_NOT_FOUND), and the errors of `add_raft_voter`."""
        request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=voter_directory_id)

        async def ask(peer: Peer) -> None:
            response = await peer.call(request, RemoveRaftVoterResponse)
            raise_error(response.error_code, response.error_message, f"removing voter {voter_id}")

        await self._controller(f"removing voter {voter_id}", ask)
