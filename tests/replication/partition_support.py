"""Leader and follower of one partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from tests.clock import ManualClock
from tests.replication.support import Brokers, Node, PartitionMetadata, replicate


class Pair:
    """Broker 1 leads, broker 2 follows."""

    def __init__(self, isr: tuple[int, ...] = (1, 2), **config: str) -> None:
        self.clock = ManualClock()
        self.brokers = Brokers({1: 10, 2: 20})
        self.leader = Node(1, self.clock, self.brokers, **config)
        self.follower = Node(2, self.clock, self.brokers, **config)
        state = PartitionMetadata(isr=isr)
        assert self.leader.partition.make_leader(state, self.leader.log)
        assert self.follower.partition.make_follower(state, self.follower.log)

    def replicate(self) -> None:
        replicate(self.leader, self.follower, broker_epoch=20)


def error_of(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        action()
    return caught.value.code
