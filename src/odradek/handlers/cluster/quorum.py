"""Helpers of the metadata quorum's APIs, whose requests have one topic and one partition and ask the consensus core once.

Errors of the whole request are raised as KafkaError, for the top-level error code: INCONSISTENT_CLUSTER_ID for the id of another cluster,
INVALID_REQUEST for a request about anything but partition 0 of the metadata topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.consensus import messages as raft
from odradek.consensus.voters import Endpoint
from odradek.controller.kraft.wire import PARTITION, TOPIC
from odradek.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from odradek.controller.kraft.node import KRaftNode
    from odradek.handlers.context import RequestContext

ENDPOINTS_SINCE, ENDPOINTS_SINCE_FETCH = 1, 17
"""First versions of Raft's own APIs, and of Fetch, that contain the leader's address (KIP-853, org.apache.kafka.raft.RaftUtil)."""

A = TypeVar("A", bound=raft.Response)
W = TypeVar("W")


def check_cluster(node: KRaftNode, cluster_id: str | None) -> None:
    """Raise KafkaError INCONSISTENT_CLUSTER_ID for the id of another cluster."""
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {node.cluster_id}.")


def check_topic(name: str, partition: int) -> None:
    """Raise KafkaError INVALID_REQUEST for anything but the metadata log."""
    if name != TOPIC or partition != PARTITION:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Only {TOPIC}-{PARTITION} is replicated by Raft.")


def ask(node: KRaftNode, request: raft.Request, to_wire: Callable[[A], W]) -> Deferred[W]:
    """Return the core's response in the wire's form."""
    return node.request(request).then(lambda response: to_wire(cast(A, response)))


def leader_endpoints(
    context: RequestContext, node: KRaftNode, leader_id: int, endpoints: tuple[Endpoint, ...], kind: Callable[..., W]
) -> list[W]:
    """Return `node_endpoints` of a response: the leader's address, if it is known and the version has a field for it."""
    since = ENDPOINTS_SINCE_FETCH if context.api_key == ApiKey.FETCH else ENDPOINTS_SINCE
    endpoint = node.endpoint_for_peers(endpoints) if endpoints and context.api_version >= since else None
    return [] if endpoint is None else [kind(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
