"""Admin calls for the cluster as a whole: its nodes, features, and the quorum of its controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek import __version__
from odradek.client.admin.asking import ANY_NODE, Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.types.cluster import QuorumInfo, RaftVoterEndpoint
from odradek.client.core.admin_items import Outcomes, results
from odradek.client.core.admin_quorum import (
    describe_quorum_request,
    described_cluster,
    described_features,
    described_quorum,
    raise_error,
    raise_features_error,
    update_features_request,
    voter_listeners,
)
from odradek.client.types import ClusterDescription, FeatureLevels
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.describe_quorum import DescribeQuorumResponse
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.protocol.messages.update_features import UpdateFeaturesResponse

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
