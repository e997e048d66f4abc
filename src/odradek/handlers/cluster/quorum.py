"""What the APIs of the metadata quorum have in common: one topic, one partition, one question to the consensus core.

Errors of the whole request are raised as KafkaError, for the top-level error code: INCONSISTENT_CLUSTER_ID for another cluster's id,
INVALID_REQUEST where the request is not about partition 0 of the metadata topic alone.
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
    from odradek.server.context import RequestContext

ENDPOINTS_SINCE, ENDPOINTS_SINCE_FETCH = 1, 17
"""The versions of Raft's own APIs, and of Fetch, that say where the leader is (KIP-853, org.apache.kafka.raft.RaftUtil)."""

A = TypeVar("A", bound=raft.Response)
W = TypeVar("W")


def check_cluster(node: KRaftNode, cluster_id: str | None) -> None:
    """INCONSISTENT_CLUSTER_ID for another cluster's id."""
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {node.cluster_id}.")


def check_topic(name: str, partition: int) -> None:
    """INVALID_REQUEST for anything but the metadata log."""
    if name != TOPIC or partition != PARTITION:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Only {TOPIC}-{PARTITION} is replicated by Raft.")


def ask(node: KRaftNode, request: raft.Request, to_wire: Callable[[A], W]) -> Deferred[W]:
    """The core's answer, put into the wire's form."""
    answer: Deferred[W] = Deferred()

    def answered(deferred: Deferred[raft.Response]) -> None:
        try:
            answer.complete(to_wire(cast(A, deferred.result())))
        except Exception as error:
            answer.fail(error)

    node.request(request).add_callback(answered)
    return answer


def leader_endpoints(
    context: RequestContext, node: KRaftNode, leader_id: int, endpoints: tuple[Endpoint, ...], kind: Callable[..., W]
) -> list[W]:
    """The `node_endpoints` of an answer: where the leader is, when that is known and the version has a place for it."""
    since = ENDPOINTS_SINCE_FETCH if context.api_key == ApiKey.FETCH else ENDPOINTS_SINCE
    endpoint = node.endpoint_for_peers(endpoints) if endpoints and context.api_version >= since else None
    return [] if endpoint is None else [kind(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
