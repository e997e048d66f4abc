"""What every operation of the controller works with."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.broker import BrokerConfig
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
"""As many records one client request may cause (QuorumController.MAX_RECORDS_PER_USER_OP)."""


class ControllerContext:
    """State, configuration, randomness and the time of the operation.

    `now_s` (monotonic seconds), `next_offset` (where the next record will be appended) and `kraft_version` (its level, which only the
    quorum's own log says) are set by the shell before each operation.
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
        """What is decided meanwhile is decided for a client that may do what `allows` says. `count` is told of the partitions that are to
        be created or deleted, and raises KafkaError where that is too much for the client's quota.
        """
        self._allows = allows
        self._count = count
        try:
            yield
        finally:
            self._allows = self._count = None

    def count_partitions(self, partitions: int) -> None:
        """So many are to be created or deleted; THROTTLING_QUOTA_EXCEEDED where the client may not do that now."""
        if self._count is not None:
            self._count(partitions)

    def allows(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client may do this; its API declares it in `handlers.access`. Everybody may without an authorizer, and the
        controller itself.
        """
        return self._allows is None or self._allows(operation, resource, name)

    def placer(self) -> StripedPlacer:
        """Places replicas on the brokers that are registered, have room for new ones and are not shutting down."""
        usable = [
            UsableBroker(broker_id, broker.rack, broker.fenced)
            for broker_id, broker in self.state.brokers.items()
            if not self.heartbeats.is_shutting_down(broker_id) and broker.has_uncordoned_directory
        ]
        return StripedPlacer(usable, self.rng)

    def topic_config(self, name: str, key: str, creation: Mapping[str, str] | None = None) -> EffectiveValue:
        """A topic's effective value: its own, else the broker's dynamic one, the cluster's dynamic one, the static one, the default."""
        configs = self.state.configs
        own = creation if creation is not None else configs.get((RESOURCE_TOPIC, name)) or {}
        node = configs.get((RESOURCE_BROKER, str(self.node_id))) or {}
        cluster = configs.get((RESOURCE_BROKER, "")) or {}
        return effective_topic_value(key, self.config.given, cluster, node, own)

    def min_isr(self, topic: TopicControl) -> int:
        """min.insync.replicas of the topic, but never more than it has replicas."""
        first = topic.partitions.get(0)
        wanted = int(self.topic_config(topic.name, "min.insync.replicas").value or "1")
        return wanted if first is None else min(wanted, len(first.replicas))

    def unclean_election_enabled(self, topic: TopicControl) -> bool:
        value = self.topic_config(topic.name, "unclean.leader.election.enable").value or "false"
        return value.strip().lower() == "true"

    def acceptable(self, active: Callable[[int], bool] | None = None) -> Callable[[int, UUID | None], bool]:
        """Return the test of `PartitionChange`: a broker may lead if it is active and the log directory of its replica works."""
        is_active = active or self.state.is_active
        brokers = self.state.brokers

        def test(broker_id: int, directory: UUID | None) -> bool:
            broker = brokers.get(broker_id)
            return is_active(broker_id) and broker is not None and (directory is None or broker.has_online_directory(directory))

        return test

    def change(
        self, topic: TopicControl, number: int, partition: PartitionRegistration, active: Callable[[int], bool] | None = None
    ) -> PartitionChange:
        """A change of a partition under the rules that hold now."""
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
    """POLICY_VIOLATION for an operation that would write too many records at once."""
    if records > MAX_RECORDS_PER_OPERATION:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


__all__ = ["MAX_RECORDS_PER_OPERATION", "ControllerContext", "check_size"]
