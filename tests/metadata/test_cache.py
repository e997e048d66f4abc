"""Which brokers clients are told of."""

from __future__ import annotations

import pytest

from odradek.metadata.cache import MetadataCache
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataProvenance
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

FENCED = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1)
LEAVING = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1)


def registered(broker_id: int, epoch: int, *, fenced: bool = True) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=fenced)


class CacheWorld:
    def __init__(self) -> None:
        self.cache = MetadataCache(EMPTY, 9.0)
        self.now_s = 100.0
        self.apply(registered(1, 10, fenced=False), registered(2, 20, fenced=False), registered(3, 30))

    def apply(self, *records: object) -> None:
        delta = MetadataDelta(self.cache.image)
        for record in records:
            delta.replay(record)
        image = delta.apply(MetadataProvenance(self.cache.image.offset + len(records), 1, 0))
        self.cache.publish(image, self.now_s)

    def listed(self) -> list[int]:
        return [broker.broker_id for broker in self.cache.listed(self.now_s)]


@pytest.fixture
def world() -> CacheWorld:
    return CacheWorld()


def test_who_was_always_fenced_is_not_listed(world: CacheWorld) -> None:
    assert world.listed() == [1, 2]


def test_who_is_fenced_stays_listed_for_the_time_of_a_session(world: CacheWorld) -> None:
    world.apply(FENCED)
    world.now_s += 8.9
    world.apply(TopicRecord(name="another change"))
    assert world.listed() == [1, 2]
    assert not world.cache.image.cluster.is_alive(1)
    world.now_s += 0.1
    assert world.listed() == [2]


def test_who_has_announced_its_end_goes_at_once(world: CacheWorld) -> None:
    world.apply(LEAVING)
    assert world.listed() == [1, 2]
    world.apply(FENCED)
    assert world.listed() == [2]


def test_who_comes_back_is_listed_as_long_again_when_it_goes_again(world: CacheWorld) -> None:
    world.apply(FENCED)
    world.now_s += 5
    world.apply(registered(1, 11))
    assert world.listed() == [1, 2]
    world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=-1))
    world.now_s += 5
    assert world.listed() == [1, 2]
    world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=1))
    world.now_s += 8.9
    assert world.listed() == [1, 2]


def test_who_came_back_and_announces_its_end_goes_at_once_whatever_was_before(world: CacheWorld) -> None:
    for epoch in (10, 11):
        world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1))
        assert world.listed() == [1, 2]
        world.apply(registered(1, epoch + 1, fenced=False))
        world.now_s += 1
        leaving = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch + 1, in_controlled_shutdown=1)
        world.apply(leaving, BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=1))
        world.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch + 1, fenced=1))
        assert world.listed() == [2], "the other one is fenced and stays for a while"
        world.apply(registered(1, epoch + 1, fenced=False), BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=-1))


def test_who_is_registered_no_more_goes_at_once(world: CacheWorld) -> None:
    world.apply(FENCED)
    world.apply(UnregisterBrokerRecord(broker_id=1, broker_epoch=10))
    assert world.listed() == [2]


def test_nothing_is_remembered_of_those_whose_time_is_over(world: CacheWorld) -> None:
    world.apply(FENCED)
    world.now_s += 9
    world.apply(registered(4, 40))
    assert world.cache._listed_until_s == {}
