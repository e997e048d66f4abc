"""Only replay changes state: a second core that replays is equal, and the journal takes back exactly."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import KafkaError
from odradek.controller.core.brokers import fence_stale_broker
from odradek.controller.core.configs import incremental_alter_configs
from odradek.controller.core.topics import delete_topics
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

from .harness import Controller


def act(controller: Controller, rng: random.Random) -> None:
    """One random operation; refusals are part of life."""
    broker = rng.randrange(3)
    name = f"t{rng.randrange(4)}" + rng.choice(["", ".x", "_x"])
    controller.now_s += rng.choice([0.1, 4.0, 12.0])
    choice = rng.randrange(8)
    try:
        if choice == 0:
            controller.register(broker, incarnation=rng.randrange(3), previous_epoch=rng.choice([-1, 7]))
        elif choice in (1, 2):
            controller.heartbeat(broker, want_fence=rng.random() < 0.2, want_shut_down=rng.random() < 0.2)
        elif choice in (3, 4):
            controller.create(name, rng.randrange(1, 4), rng.randrange(1, 4))
        elif choice == 5:
            controller.ask(delete_topics, DeleteTopicsRequest(topic_names=[name]), 1)
        elif choice == 6:
            controller.run(fence_stale_broker)
        else:
            config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value=str(rng.randrange(9)))
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
            controller.ask(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))
    except (KafkaError, KeyError):
        pass


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32))
def test_replay_of_the_log_gives_the_same_state_and_the_snapshot_the_same_image(seed: int) -> None:
    rng = random.Random(seed)
    controller = Controller(seed, elr=rng.random() < 0.5)
    for _ in range(40):
        act(controller, rng)
    assert controller.replica().state.comparable() == controller.core.state.comparable()
    image = controller.image()
    again = MetadataDelta(EMPTY)
    for record, _ in image.to_records():
        again.replay(record)
    assert again.apply(MetadataProvenance(0, 0, 0)).equal_state(image)
    state = controller.core.state
    assert {t.name: dict(t.partitions.items()) for t in state.topics.values()} == {
        name: dict(topic.partitions) for name, topic in image.topics.by_name.items()
    }
    assert dict(state.brokers.items()) == dict(image.cluster.brokers)
    assert {key: dict(value) for key, value in state.configs.items()} == {k: dict(v) for k, v in image.configs.resources.items()}


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_undo_reverts_exactly(seed: int, keep: int) -> None:
    rng = random.Random(seed)
    controller = Controller(seed)
    for _ in range(keep):
        act(controller, rng)
    expected = controller.core.state.comparable()
    offset = len(controller.log)
    for _ in range(20):
        act(controller, rng)
    controller.journal.revert_to(offset)
    assert controller.core.state.comparable() == expected


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32))
def test_invariants_of_partitions_hold(seed: int) -> None:
    rng = random.Random(seed)
    controller = Controller(seed)
    for _ in range(50):
        act(controller, rng)
        for topic, number, partition in controller.core.state.all_partitions():
            where = f"{topic.name}-{number} {partition} seed {seed}"
            assert set(partition.isr) <= set(partition.replicas), where
            assert not set(partition.isr) & set(partition.elr), where
            assert partition.leader == -1 or partition.leader in partition.isr, where
            assert partition.leader == -1 or not controller.core.state.brokers[partition.leader].fenced, where
            assert len(partition.directories) == len(partition.replicas), where


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(broker_id=0, broker_epoch=0, fenced=1),
        UnregisterBrokerRecord(broker_id=0, broker_epoch=0),
        BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=0, fenced=1),
        TopicRecord(name="a", topic_id=UUID(int=5)),
        PartitionRecord(partition_id=0, topic_id=UUID(int=5)),
        RemoveTopicRecord(topic_id=UUID(int=5)),
        PartitionChangeRecord(partition_id=7, topic_id=UUID(int=5)),
        ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=1000),
        ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=999),
    ],
)
def test_a_record_that_contradicts_the_state_is_not_replayed(record: object) -> None:
    controller = Controller()
    controller.join(0)
    controller.create("a")
    controller.append([VersionedRecord(ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=1000), 0)])
    before = controller.core.state.comparable()
    with pytest.raises(ValueError, match=r"broker|topic|producer ids|does not exist"):
        controller.core.replay(record, len(controller.log))
    assert controller.core.state.comparable() == before
