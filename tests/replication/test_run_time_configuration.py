"""min.insync.replicas and flush.messages change under a leader: the next append, and those that wait, see it."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from tests.clock import ManualClock
from tests.replication.support import Brokers, Node, PartitionMetadata, topic_config


def leader(isr: tuple[int, ...]) -> Node:
    clock = ManualClock()
    node = Node(1, clock, Brokers({1: 1, 2: 1}))
    node.partition.make_leader(PartitionMetadata(isr=isr), node.log)
    return node


def test_more_replicas_must_be_in_sync_from_now_on() -> None:
    node = leader((1,))
    assert node.append(acks=-1) == 0
    assert node.log.high_watermark == 1
    node.log.update_config(topic_config(min_insync_replicas="2"))
    with pytest.raises(KafkaError) as refused:
        node.append(acks=-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert node.append(acks=1) == 1
    assert node.log.high_watermark == 1, "and nothing more becomes visible meanwhile"
    assert node.partition.reached(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    node.log.update_config(topic_config())
    assert node.append(acks=-1) == 2
    assert node.log.high_watermark == 3


def test_records_become_visible_when_they_are_flushed_from_now_on() -> None:
    node = leader((1,))
    node.append()
    assert node.log.high_watermark == 1
    node.log.update_config(topic_config(flush_messages="1"))
    node.append()
    assert node.log.high_watermark < 2
    node.log.flush()
    node.partition.raise_high_watermark()
    assert node.log.high_watermark == 2
