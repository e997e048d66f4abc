"""Which replica a consumer had better read from (KIP-392, replica.selector.class).

A leader that knows a better one says so instead of sending records; the consumer turns to it until its metadata is old, or that replica
refuses. A replica can be preferred when it is in the ISR, has the wanted offset, and its broker stands on the listener that the consumer
came by.
(kafka.server.ReplicaManager.findPreferredReadReplica, org.apache.kafka.common.replica.RackAwareReplicaSelector)
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
    """A replica to choose from. `rack` is None where its broker has none or is not to be reached."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_s: float
    """How long ago it last had all of the leader's log; 0 while it has."""


Selector = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""(the client's rack, the leader, followers that have the wanted offset) -> the one to read from."""


def rack_aware(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
    """One in the client's rack: the leader where it is there, else the follower that is caught up most; without one, the leader."""
    near = [follower for follower in followers if follower.rack == rack]
    if not rack or not near or leader.rack == rack:
        return leader
    return max(near, key=lambda follower: (follower.log_end_offset, -follower.behind_s, follower.broker_id))


_SELECTORS: dict[str, Selector] = {RACK_AWARE: rack_aware}


def selector_for(class_name: str) -> Selector | None:
    """The selector of that name, one of those that the configuration lets pass; None where it is empty: everybody reads from the leader."""
    return _SELECTORS[class_name] if class_name else None


class PreferredReplicas:
    """The choice on one broker."""

    __slots__ = ("_clock", "_cluster", "_local_id", "_select")

    def __init__(self, select: Selector, cluster: ClusterView, clock: Clock, local_id: int) -> None:
        self._select = select
        self._cluster = cluster
        self._clock = clock
        self._local_id = local_id

    def choose(self, partition: Partition, offset: int, rack: str, listener: str) -> int | None:
        """The broker to read from `offset` instead of from this one, which leads the partition; None when this is the best."""
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
