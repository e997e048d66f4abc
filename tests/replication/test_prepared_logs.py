"""Making the logs of new partitions never holds the metadata up, whatever becomes of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.ids import TopicPartition
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage, MetadataProvenance
from odradek.protocol.messages.metadata_records import PartitionRecord, TopicRecord
from odradek.replication.roles import Role
from tests.handlers.support import NODE, Broker, topic_id


def new_topic(broker: Broker) -> tuple[MetadataDelta, MetadataImage]:
    image = broker.services.metadata.image
    delta = MetadataDelta(image)
    delta.replay(TopicRecord(name="orders", topic_id=topic_id(1)))
    delta.replay(
        PartitionRecord(partition_id=0, topic_id=topic_id(1), replicas=[NODE], isr=[NODE], leader=NODE, leader_epoch=0, partition_epoch=0)
    )
    return delta, delta.apply(MetadataProvenance(image.offset + 2, 1, 0))


def fails_before(job: Callable[[], object], done: Deferred[Any]) -> None:
    done.fail(RuntimeError("cannot start a thread"))


def fails_after(job: Callable[[], object], done: Deferred[Any]) -> None:
    job()
    done.fail(RuntimeError("the executor is gone"))


@pytest.mark.parametrize("fail", [fails_before, fails_after])
def test_the_metadata_goes_on_when_the_job_that_makes_logs_fails(fail: Callable[..., None]) -> None:
    broker = Broker()
    done: Deferred[Any] = Deferred()

    def run_job(job: Callable[[], object]) -> Deferred[Any]:
        fail(job, done)
        return done

    broker.manager.run_job = run_job
    delta, image = new_topic(broker)
    prepared = broker.manager.changes.prepare(delta, image)
    assert prepared is not None
    assert prepared.done
    assert prepared.error is None
    broker.manager.changes.apply(delta, image)
    assert broker.manager.partition(TopicPartition("orders", 0)).role is Role.LEADER
