"""Narrow view of the cluster image, for replication's questions about other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.base.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage


class ClusterView(Protocol):
    """View of the last published image."""

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """Return the registration epoch of an unfenced broker, or None for an unknown or fenced broker."""
        ...

    def is_shutting_down(self, broker_id: int) -> bool:
        """Return whether the broker is in controlled shutdown."""
        ...

    def has_online_replica(self, partition: TopicPartition, broker_id: int) -> bool:
        """Return whether the log directory of a replica is online, as far as the controller knows."""
        ...

    def has_partition(self, partition: TopicPartition) -> bool:
        """Return whether the partition exists in the cluster, on any broker."""
        ...

    def rack(self, broker_id: int, listener: str) -> str | None:
        """Return the rack of an unfenced broker that has an endpoint on the listener. Return None for other brokers and without a rack."""
        ...


class CurrentLeader(NamedTuple):
    """Address of a partition's leader for clients (KIP-951). Ids are -1 when unknown; the host of an unknown or dead leader is `None`."""

    leader_id: int
    leader_epoch: int
    host: str | None = None
    port: int = -1
    rack: str | None = None


class ImageHolder(Protocol):
    """Holder of the current image (metadata.cache.MetadataCache)."""

    image: MetadataImage


class ImageClusterView:
    """`ClusterView` of the broker's metadata cache."""

    __slots__ = ("_metadata",)

    def __init__(self, metadata: ImageHolder) -> None:
        self._metadata = metadata

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        broker = self._metadata.image.cluster.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def is_shutting_down(self, broker_id: int) -> bool:
        broker = self._metadata.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown

    def has_online_replica(self, partition: TopicPartition, broker_id: int) -> bool:
        image = self._metadata.image
        broker = image.cluster.brokers.get(broker_id)
        registration = image.topics.partition(partition.topic, partition.partition)
        if broker is None or registration is None or broker_id not in registration.replicas:
            return False
        return broker.has_online_directory(registration.directory(broker_id))

    def has_partition(self, partition: TopicPartition) -> bool:
        return self._metadata.image.topics.partition(partition.topic, partition.partition) is not None

    def is_reassigning(self, partition: TopicPartition) -> bool:
        """Return whether a reassignment of the partition is in progress."""
        registration = self._metadata.image.topics.partition(partition.topic, partition.partition)
        return registration is not None and bool(registration.adding_replicas or registration.removing_replicas)

    def rack(self, broker_id: int, listener: str) -> str | None:
        broker = self._metadata.image.cluster.brokers.get(broker_id)
        return None if broker is None or broker.fenced or broker.endpoint(listener) is None else broker.rack

    def current_leader(self, partition: TopicPartition, listener: str, hosted: tuple[int, int] | None) -> CurrentLeader:
        """Return the leader that this broker knows: from `hosted`, the (leader id, leader epoch) of its replica, else from the image."""
        image = self._metadata.image
        if hosted is None:
            registration = image.topics.partition(partition.topic, partition.partition)
            hosted = (-1, -1) if registration is None else (registration.leader, registration.leader_epoch)
        broker = image.cluster.brokers.get(hosted[0])
        endpoint = None if broker is None or broker.fenced else broker.endpoint(listener)
        if broker is None or endpoint is None:
            return CurrentLeader(*hosted)
        return CurrentLeader(*hosted, endpoint.host, endpoint.port, broker.rack)


def is_isr_eligible(view: ClusterView, broker_id: int, fetch_broker_epoch: int | None) -> bool:
    """Return whether a replica may join the ISR: unfenced, not shutting down, and in the incarnation that fetched (KIP-841, KIP-903).

    `fetch_broker_epoch` is the epoch of its last fetch: -1 skips the comparison (an old inter-broker version), None means no fetch yet.
    """
    if fetch_broker_epoch is None:
        return False
    alive_epoch = view.alive_broker_epoch(broker_id)
    if alive_epoch is None or view.is_shutting_down(broker_id):
        return False
    return fetch_broker_epoch in (-1, alive_epoch)
