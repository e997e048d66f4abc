"""Context of every controller operation."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.broker import BrokerConfig
from odradek.config.definition import ConfigValue, Key
from odradek.config.keys.topics import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from odradek.config.topic import EffectiveValue, effective_topic_value
from odradek.controller.core.heartbeats import Heartbeats
from odradek.controller.core.partition_change import PartitionChange
from odradek.controller.core.placement import StripedPlacer, UsableBroker
from odradek.controller.core.policies import Policies
from odradek.controller.core.state import ControllerState, TopicControl
from odradek.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from odradek.metadata.registrations import PartitionRegistration
from odradek.security.resources import CLUSTER_NAME, Operation, ResourceType

Allows = Callable[[Operation, ResourceType, str], bool]
Count = Callable[[int], None]

MAX_RECORDS_PER_OPERATION = 10_000
"""Largest number of records that one client request may cause (QuorumController.MAX_RECORDS_PER_USER_OP)."""


class ControllerContext:
    """State, configuration, randomness and time of the operation.

    The shell sets three attributes before each operation: `now_s` (monotonic seconds), `next_offset` (offset of the next record) and
    `kraft_version` (the level, which only the quorum's log contains).
    """

    __slots__ = (
        "_allows",
        "_count",
        "cluster_id",
        "config",
        "heartbeats",
        "kraft_version",
        "next_offset",
        "node_id",
        "now_s",
        "policies",
        "rng",
        "state",
    )

    def __init__(
        self, state: ControllerState, config: BrokerConfig, cluster_id: str, rng: random.Random, policies: Policies | None = None
    ) -> None:
        self.state = state
        self.config = config
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self.rng = rng
        self.policies = policies or Policies()
        self.now_s = 0.0
        self.next_offset = 0
        self.kraft_version = 0
        self.heartbeats = Heartbeats(config.broker_session_timeout_ms / 1000)
        self._allows: Allows | None = None
        self._count: Count | None = None

    @contextmanager
    def on_behalf_of(self, allows: Allows, count: Count | None = None) -> Generator[None]:
        """Run the `with` block for a client that may do what `allows` says.

        `count` gets the number of partitions to create or delete. `count` raises KafkaError when the client's quota is exceeded.
        """
        self._allows = allows
        self._count = count
        try:
            yield
        finally:
            self._allows = self._count = None

    def count_partitions(self, partitions: int) -> None:
        """Count partitions to create or delete. Raises KafkaError THROTTLING_QUOTA_EXCEEDED when the client's quota is used up."""
        if self._count is not None:
            self._count(partitions)

    def allows(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do the operation, which its API declares in `handlers.access`.

        The controller itself may do everything, and so may every client without an authorizer.
        """
        return self._allows is None or self._allows(operation, resource, name)

    def placer(self) -> StripedPlacer:
        """Return a placer over the registered brokers that accept new replicas and are not shutting down."""
        usable = [
            UsableBroker(broker_id, broker.rack, broker.fenced)
            for broker_id, broker in self.state.brokers.items()
            if not self.heartbeats.is_shutting_down(broker_id) and broker.has_uncordoned_directory
        ]
        return StripedPlacer(usable, self.rng)

    def topic_config(self, name: str, key: Key[ConfigValue], creation: Mapping[str, str] | None = None) -> EffectiveValue:
        """Return a topic's effective value: the first of topic, dynamic broker, dynamic cluster, static and default value."""
        configs = self.state.configs
        own = creation if creation is not None else configs.get((RESOURCE_TOPIC, name)) or {}
        node = configs.get((RESOURCE_BROKER, str(self.node_id))) or {}
        cluster = configs.get((RESOURCE_BROKER, "")) or {}
        return effective_topic_value(key, self.config.given, cluster, node, own)

    def min_isr(self, topic: TopicControl) -> int:
        """Return min.insync.replicas of the topic, but at most its number of replicas."""
        first = topic.partitions.get(0)
        wanted = int(self.topic_config(topic.name, MIN_INSYNC_REPLICAS).value or "1")
        return wanted if first is None else min(wanted, len(first.replicas))

    def unclean_election_enabled(self, topic: TopicControl) -> bool:
        value = self.topic_config(topic.name, UNCLEAN_LEADER_ELECTION_ENABLE).value or "false"
        return value.strip().lower() == "true"

    def acceptable(self, active: Callable[[int], bool] | None = None) -> Callable[[int, UUID | None], bool]:
        """Return the test for `PartitionChange`: a broker may lead if it is active and its replica's log directory works."""
        is_active = active or self.state.is_active
        brokers = self.state.brokers

        def test(broker_id: int, directory: UUID | None) -> bool:
            broker = brokers.get(broker_id)
            return is_active(broker_id) and broker is not None and (directory is None or broker.has_online_directory(directory))

        return test

    def change(
        self, topic: TopicControl, number: int, partition: PartitionRegistration, active: Callable[[int], bool] | None = None
    ) -> PartitionChange:
        """Return a change of the partition under the current rules."""
        return PartitionChange(
            partition,
            topic.topic_id,
            number,
            acceptable=self.acceptable(active),
            metadata_version=self.state.metadata_version,
            min_isr=self.min_isr(topic),
            elr_enabled=self.state.elr_enabled,
            default_directory=self.default_directory,
        )

    def default_directory(self, broker_id: int) -> UUID:
        return self.state.default_directory(broker_id)


def check_size(records: int) -> None:
    """Raise KafkaError POLICY_VIOLATION for an operation that would write too many records."""
    if records > MAX_RECORDS_PER_OPERATION:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


__all__ = ["MAX_RECORDS_PER_OPERATION", "ControllerContext", "check_size"]
