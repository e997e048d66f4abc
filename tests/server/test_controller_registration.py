"""A controller registers with the active controller whenever the metadata log does not know this start of it."""

from __future__ import annotations

import random
from typing import cast
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.consensus.messages import LeaderAndEpoch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.metadata.registrations import ControllerRegistration
from odradek.network.transport import dial
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.controller_registration import ControllerRegistrar
from odradek.server.cluster.registration import AdvertisedListener
from odradek.testing.simulation.disk import VirtualDisk
from odradek.testing.simulation.loop import SimulatedLoop
from tests.clock import ManualClock
from tests.loops import in_virtual_time
from tests.server.boot_support import create_topic, make_broker, result
from tests.server.registration_support import FakeChannel

INCARNATION = UUID(int=77)


class ControllerRegistrationWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.channel = FakeChannel()
        listeners = [AdvertisedListener("CONTROLLER", "localhost", 9093, 0)]
        self.registrar = ControllerRegistrar(
            3, INCARNATION, listeners, cast(InterBrokerChannel, self.channel), self.clock, random.Random(1)
        )

    def publish(self, image: MetadataImage) -> None:
        self.registrar.publish(MetadataDelta(EMPTY), image, LeaderAndEpoch(3, 1))


def image(metadata_version: int = 30, incarnation_id: UUID | None = None) -> MetadataImage:
    controllers = {} if incarnation_id is None else {3: ControllerRegistration(3, incarnation_id, False, (), ())}
    return EMPTY._replace(
        features=EMPTY.features._replace(metadata_version=metadata_version), cluster=EMPTY.cluster._replace(controllers=controllers)
    )


def test_it_registers_once_and_again_when_the_registration_is_another_ones() -> None:
    world = ControllerRegistrationWorld()
    world.publish(image())
    request = cast(ControllerRegistrationRequest, world.channel.answer(ControllerRegistrationResponse()))
    assert (request.controller_id, request.incarnation_id) == (3, INCARNATION)
    assert [(each.name, each.host, each.port) for each in request.listeners] == [("CONTROLLER", "localhost", 9093)]
    assert {feature.name for feature in request.features} >= {"metadata.version", "kraft.version"}
    assert not world.registrar.registered
    world.publish(image(incarnation_id=INCARNATION))
    assert world.registrar.registered
    assert world.channel.sent == []
    world.publish(image(incarnation_id=UUID(int=78)))
    assert len(world.channel.sent) == 1


def test_an_old_metadata_version_has_no_registrations() -> None:
    world = ControllerRegistrationWorld()
    old = image(metadata_version=14)
    world.publish(old)
    assert world.channel.sent == []
    world.publish(old._replace(features=image(metadata_version=15).features))
    assert len(world.channel.sent) == 1, "an upgrade changes nothing else of the cluster"


def test_a_refused_registration_is_sent_again_with_longer_and_longer_pauses() -> None:
    world = ControllerRegistrationWorld()
    world.publish(image())
    pauses: list[float] = []
    for number in range(13):
        if number % 2:
            world.channel.fail()
        else:
            world.channel.answer(ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER))
        world.publish(image())  # a new image does not hasten it
        assert world.channel.sent == []
        before = world.clock.now_s
        world.clock.advance_to_next()
        pauses.append(world.clock.now_s - before)
    assert [round(pause, 1) for pause in pauses[:4]] == [0.1, 0.2, 0.4, 0.8]
    assert 117 < pauses[-1] < 123


def test_pauses_are_short_again_after_a_registration() -> None:
    world = ControllerRegistrationWorld()
    world.publish(image())
    for incarnation in (UUID(int=78), UUID(int=79)):
        pauses = list[float]()
        for _ in range(5):
            world.channel.fail()
            before = world.clock.now_s
            world.clock.advance_to_next()
            pauses.append(round(world.clock.now_s - before, 1))
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6]
        world.channel.answer(ControllerRegistrationResponse())
        world.publish(image(incarnation_id=INCARNATION))
        assert world.channel.sent == []
        world.publish(image(incarnation_id=incarnation))


def test_nothing_is_sent_after_stop() -> None:
    world = ControllerRegistrationWorld()
    world.publish(image())
    world.channel.fail()
    world.registrar.stop()
    world.clock.advance_s(600)
    world.publish(image())
    assert world.channel.sent == []


@in_virtual_time
async def test_a_node_describes_its_controller(loop: SimulatedLoop) -> None:
    broker = make_broker(loop, VirtualDisk())
    await broker.start()
    connection = await dial("127.0.0.1", broker.port("CONTROLLER"), clock=broker.clock, client_id="test", loop=loop)
    response: DescribeClusterResponse
    for _ in range(3):
        response = await result(loop, connection.request(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse, 1))
    assert (response.error_code, response.controller_id, response.endpoint_type) == (0, 1, 2)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [(1, "127.0.0.1", broker.port("CONTROLLER"))]
    connection.close()
    await broker.stop()


@in_virtual_time
async def test_a_start_that_draws_the_random_numbers_of_the_last_one_is_a_new_incarnation(loop: SimulatedLoop) -> None:
    """Else the broker would take over its own wish to shut down, and nothing could be placed on it."""
    disk = VirtualDisk()
    for number in range(3):
        broker = make_broker(loop, disk, seed=5)
        await broker.start()
        assert await create_topic(loop, broker, f"topic-{number}") == 0
        await broker.stop()
