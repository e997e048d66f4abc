"""BrokerRegistration, API key 62."""

from __future__ import annotations

from uuid import UUID

from odradek.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, Uint16, Uuid, Versions, field


class BrokerRegistrationRequest(Message):
    """Registration of a broker, or of a migrating one, with the controller (KIP-631, KIP-858, KIP-866)."""

    API_KEY = 62
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(0)

    broker_id: int = field(Int32, "0+")
    cluster_id: str = field(String, "0+")
    incarnation_id: UUID = field(Uuid, "0+")
    listeners: list[Listener] = field(Array("Listener"), "0+")
    features: list[Feature] = field(Array("Feature"), "0+")
    rack: str | None = field(String, "0+", nullable="0+")
    is_migrating_zk_broker: bool = field(Bool, "1+")
    log_dirs: list[UUID] = field(Array(Uuid), "2+", ignorable=True)
    previous_broker_epoch: int = field(Int64, "3+", ignorable=True, default=-1)

    class Listener(Struct):
        name: str = field(String, "0+")
        host: str = field(String, "0+")
        port: int = field(Uint16, "0+")
        security_protocol: int = field(Int16, "0+")

    class Feature(Struct):
        name: str = field(String, "0+")
        min_supported_version: int = field(Int16, "0+")
        max_supported_version: int = field(Int16, "0+")


class BrokerRegistrationResponse(Message):
    """Broker epoch."""

    API_KEY = 62
    VALID_VERSIONS = Versions(0, 4)
    FLEXIBLE_VERSIONS = Versions.since(0)

    throttle_time_ms: int = field(Int32, "0+")
    error_code: int = field(Int16, "0+")
    broker_epoch: int = field(Int64, "0+", default=-1)
