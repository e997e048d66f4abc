"""Choice of the replica that a consumer should read from (KIP-392, replica.selector.class).

A leader that knows a better replica names it instead of sending records. The consumer reads from that replica until its metadata is old, or
the replica refuses. A replica can be preferred when it is in the ISR and has the wanted offset. Its broker must have an endpoint on the
consumer's listener. (kafka.server.ReplicaManager.findPreferredReadReplica, org.apache.kafka.common.replica.RackAwareReplicaSelector)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.clock import Clock

if TYPE_CHECKING:
    from odradek.replication.cluster_view import ClusterView
    from odradek.replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """Replica to choose from. `rack` is empty (None) when its broker has no rack or cannot be reached."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_s: float
    """Seconds since the replica last had the leader's whole log; 0 while it has."""


Selector = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""Function from the client's rack, the leader and the followers that have the wanted offset to the replica to read from."""


def rack_aware(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
    """Return the leader if it is in the client's rack, else the most caught-up follower there, else the leader."""
    near = [follower for follower in followers if follower.rack == rack]
    if not rack or not near or leader.rack == rack:
        return leader
    return max(near, key=lambda follower: (follower.log_end_offset, -follower.behind_s, follower.broker_id))


_SELECTORS: dict[str, Selector] = {RACK_AWARE: rack_aware}


def selector_for(class_name: str) -> Selector | None:
    """Return the selector of this validated name; None for an empty name, with which all consumers read from the leader."""
    return _SELECTORS[class_name] if class_name else None


class PreferredReplicas:
    """Preferred replicas of the partitions that one broker leads."""

    __slots__ = ("_clock", "_cluster", "_local_id", "_select")

    def __init__(self, select: Selector, cluster: ClusterView, clock: Clock, local_id: int) -> None:
        self._select = select
        self._cluster = cluster
        self._clock = clock
        self._local_id = local_id

    def choose(self, partition: Partition, offset: int, rack: str, listener: str) -> int | None:
        """Return the broker to read `offset` from instead of this leader; None when the leader is the best choice."""
        log = partition.log
        if log is None or not partition.is_leader or not rack:
            return None
        end_offset = log.log_end_offset
        now_s = self._clock.monotonic()
        followers = [
            ReplicaView(
                replica.broker_id,
                self._cluster.rack(replica.broker_id, listener),
                replica.log_end_offset,
                0.0 if replica.log_end_offset == end_offset else now_s - replica.last_caught_up_s,
            )
            for replica in partition.replicas.values()
            if replica.broker_id in partition.isr.isr and replica.log_start_offset <= offset <= replica.log_end_offset
        ]
        leader = ReplicaView(self._local_id, self._cluster.rack(self._local_id, listener), end_offset, 0.0)
        chosen = self._select(rack, leader, followers)
        return None if chosen is leader else chosen.broker_id
