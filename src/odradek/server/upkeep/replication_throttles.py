"""Throttling of catching-up replicas by the configuration (KIP-73; kafka.server.ReplicationQuotaManager in KafkaServer).

The rates are broker keys that are only set at run time (leader.replication.throttled.rate and follower.replication.throttled.rate). Topic
keys name the throttled replicas (leader.replication.throttled.replicas and follower.replication.throttled.replicas). While no rate is set,
no bytes are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.config.keys.replication import REPLICATION_QUOTA_WINDOW_NUM, REPLICATION_QUOTA_WINDOW_SIZE_SECONDS
from odradek.config.keys.run_time import FOLLOWER_REPLICATION_THROTTLED_RATE, LEADER_REPLICATION_THROTTLED_RATE
from odradek.metadata.image import RESOURCE_TOPIC

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.config.dynamic_broker import DynamicBrokerConfig
    from odradek.config.topic import TopicConfig
    from odradek.metadata.image import MetadataImage
    from odradek.quotas.replication import ReplicationQuota
    from odradek.replication.fetchers import ReplicaFetchers
    from odradek.replication.partition import Partition
    from odradek.replication.replica_manager import ReplicaManager

_UNLIMITED = 2**63 - 1


class ReplicationThrottles:
    """Follower of the metadata that sets both replication quotas of a broker."""

    def __init__(self, config: DynamicBrokerConfig, clock: Clock, manager: ReplicaManager, fetchers: ReplicaFetchers) -> None:
        self._config = config
        self._clock = clock
        self._manager = manager
        self._fetchers = fetchers
        self._quotas: dict[str, ReplicationQuota] = {}
        self._throttled: dict[str, dict[str, str]] = {}
        """Side -> topic -> its throttled replicas."""

    def configure(self, image: MetadataImage) -> None:
        """Apply changed configurations of brokers or topics."""
        config = self._config
        leader = self._quota(
            "leader",
            config[LEADER_REPLICATION_THROTTLED_RATE],
            lambda topic_config: topic_config.leader_throttled_replicas,
            image,
        )
        follower = self._quota(
            "follower",
            config[FOLLOWER_REPLICATION_THROTTLED_RATE],
            lambda topic_config: topic_config.follower_throttled_replicas,
            image,
        )
        self._manager.reader.withholds = None if leader is None else partial(self._withholds, leader)
        self._manager.leader_quota = leader
        self._fetchers.quota = follower

    def _quota(
        self, side: str, rate: int, replicas_of: Callable[[TopicConfig], list[str]], image: MetadataImage
    ) -> ReplicationQuota | None:
        """Return the quota of one side; None while it throttles no replica."""
        quota = self._quotas.get(side)
        if quota is None:
            if rate == _UNLIMITED:
                return None
            quota = self._quotas[side] = self._new_quota()
        quota.limit(rate)
        wanted = {
            name: ",".join(replicas)
            for (kind, name), overrides in image.configs.resources.items()
            if kind == RESOURCE_TOPIC and (replicas := replicas_of(self._config.topic_config(overrides)))
        }
        known = self._throttled.get(side, {})
        for topic in known.keys() | wanted.keys():
            if known.get(topic) != wanted.get(topic):
                quota.throttle(topic, wanted.get(topic, ""), self._config.static.node_id)
        self._throttled[side] = wanted
        return quota if quota.limited else None

    def _new_quota(self) -> ReplicationQuota:
        from odradek.quotas.replication import ReplicationQuota
        from odradek.quotas.samples import Window

        config = self._config.static
        return ReplicationQuota(Window(config[REPLICATION_QUOTA_WINDOW_NUM], config[REPLICATION_QUOTA_WINDOW_SIZE_SECONDS] * 1000))

    def _withholds(self, quota: ReplicationQuota, partition: Partition, replica_id: int) -> bool:
        """Return whether a follower gets no records of the partition for now: it is throttled, not in sync, and the quota is exceeded."""
        topic, number = partition.topic_partition
        if not quota.holds_for(topic, number) or replica_id in partition.isr.isr:
            return False
        return quota.exceeded(int(self._clock.monotonic() * 1000))
