"""DescribeCluster, API key 60."""

from __future__ import annotations

from odradek.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Versions, field


class DescribeClusterRequest(Message):
    """Request for cluster id, controller, brokers or controllers (KIP-700, KIP-919)."""

    API_KEY = 60
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    include_cluster_authorized_operations: bool = field(Bool, "0+")
    endpoint_type: int = field(Int8, "1+", default=1)
    include_fenced_brokers: bool = field(Bool, "2+")


class DescribeClusterResponse(Message):
    """Nodes of the cluster."""

    API_KEY = 60
    VALID_VERSIONS = Versions(0, 2)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    error_message: str | None = field(String, "0+", nullable="0+", default=None)
    endpoint_type: int = field(Int8, "1+", default=1)
    cluster_id: str = field(String, "0+")
    controller_id: int = field(Int32, "0+", default=-1)
    brokers: list[DescribeClusterBroker] = field(Array("DescribeClusterBroker"), "0+")
    cluster_authorized_operations: int = field(Int32, "0+", default=-2147483648)

    class DescribeClusterBroker(Struct):
        broker_id: int = field(Int32, "0+")
        host: str = field(String, "0+")
        port: int = field(Int32, "0+")
        rack: str | None = field(String, "0+", nullable="0+", default=None)
        is_fenced: bool = field(Bool, "2+")
