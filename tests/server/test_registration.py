"""The broker's talk with the controller: registration, heartbeats, being unfenced, leaving; and its blocks of producer ids."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.broker import standalone_config
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY, MetadataImage, MetadataProvenance
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.protocol.messages.metadata_records import FeatureLevelRecord, RegisterBrokerRecord
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.lifecycle import BrokerState, BrokerStateMachine
from odradek.server.cluster.producer_ids import ProducerIdManager
from odradek.server.cluster.registration import AdvertisedListener, BrokerRegistrar, Identity, RegisterBroker
from tests.clock import ManualClock
from tests.server.registration_support import FakeChannel


class RegistrationWorld:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.channel = FakeChannel()
        self.states = BrokerStateMachine()
        self.states.to(BrokerState.STARTING)
        self.offline: list[UUID] = []
        self.cordoned: list[UUID] = []
        self.fatal: list[BaseException] = []
        self.registrar = BrokerRegistrar(
            Identity(1, "cluster", UUID(int=1000), [AdvertisedListener("PLAINTEXT", "localhost", 9092, 0)], None, [UUID(int=2000)], -1),
            cast(InterBrokerChannel, self.channel),
            self.clock,
            self.states,
            heartbeat_interval_s=2.0,
            session_timeout_s=9.0,
            metadata_offset=lambda: 17,
            offline_log_dirs=lambda: self.offline,
            cordoned_log_dirs=lambda: self.cordoned,
            failure_timeout_s=30.0,
            on_fatal=self.fatal.append,
        )

    def registered(self) -> None:
        self.registrar.start()
        request = self.channel.answer(BrokerRegistrationResponse(broker_epoch=5))
        assert isinstance(request, BrokerRegistrationRequest)

    def beat(self, **answer: Any) -> BrokerHeartbeatRequest:
        return cast(BrokerHeartbeatRequest, self.channel.answer(BrokerHeartbeatResponse(**answer)))


def running() -> RegistrationWorld:
    world = RegistrationWorld()
    world.registrar.ready()
    world.registered()
    world.beat(is_caught_up=True, is_fenced=True)
    assert not world.beat(is_caught_up=True, is_fenced=False).want_fence
    assert world.states.state is BrokerState.RUNNING
    return world


def test_a_broker_becomes_running_without_waiting_for_a_beat() -> None:
    world = running()
    assert world.clock.now_s == 0
    assert world.registrar.running.done
    assert world.channel.sent == []
    world.clock.advance_s(2)
    request = world.beat(is_caught_up=True, is_fenced=False)
    assert (request.broker_id, request.broker_epoch, request.current_metadata_offset) == (1, 5, 17)


def image(metadata_version: int, directories: tuple[UUID, ...], epoch: int = 5) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=metadata_version))
    delta.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=epoch, log_dirs=list(directories), fenced=False))
    return delta.apply(MetadataProvenance(2, 1, 0))


def test_log_directories_are_registered_as_soon_as_the_metadata_has_room_for_them() -> None:
    world = running()
    for nothing_to_do in (EMPTY, image(16, ()), image(17, (UUID(int=2000),)), image(17, (), epoch=4)):
        world.registrar.metadata_changed(nothing_to_do)
    assert world.channel.sent == []
    world.registrar.metadata_changed(image(17, ()))
    world.registrar.metadata_changed(image(17, ()))
    assert len(world.channel.sent) == 1
    world.channel.fail()
    world.clock.advance_s(1)
    request = world.channel.answer(BrokerRegistrationResponse(broker_epoch=5))
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.incarnation_id, request.log_dirs) == (UUID(int=1000), [UUID(int=2000)])
    assert world.states.state is BrokerState.RUNNING
    world.clock.advance_s(1)
    assert isinstance(world.channel.sent.pop()[0], BrokerHeartbeatRequest), "beats go on"
    assert world.channel.sent == []


def test_it_stays_fenced_until_it_is_caught_up_and_ready() -> None:
    world = RegistrationWorld()
    world.registered()
    assert world.beat(is_caught_up=False).want_fence
    assert world.states.state is BrokerState.STARTING
    world.registrar.metadata_changed(EMPTY)
    assert world.beat(is_caught_up=True).want_fence
    assert world.states.state is BrokerState.RECOVERY
    assert world.channel.sent == []
    world.clock.advance_s(2)
    assert world.beat(is_caught_up=True).want_fence, "caught up, but not ready"
    world.registrar.ready()
    assert not world.beat(is_caught_up=True, is_fenced=True).want_fence
    assert world.states.state is BrokerState.RECOVERY
    world.clock.advance_s(2)
    world.beat(is_caught_up=True, is_fenced=False)
    assert world.states.state is BrokerState.RUNNING


def test_news_of_the_cluster_is_worth_a_beat_until_the_broker_is_unfenced() -> None:
    world = RegistrationWorld()
    world.registrar.ready()
    world.registered()
    world.beat(is_caught_up=True, is_fenced=True)
    world.beat(is_caught_up=True, is_fenced=True)
    assert (world.states.state, world.channel.sent) == (BrokerState.RECOVERY, [])
    world.registrar.metadata_changed(EMPTY)
    world.beat(is_caught_up=True, is_fenced=False)
    assert world.states.state is BrokerState.RUNNING
    world.registrar.metadata_changed(EMPTY)
    assert world.channel.sent == []


def test_a_refused_registration_is_tried_again_with_longer_and_longer_pauses() -> None:
    world = RegistrationWorld()
    world.registrar.start()
    pauses: list[float] = []
    for _ in range(10):
        world.channel.fail()
        before = world.clock.now_s
        world.clock.advance_to_next()
        pauses.append(round(world.clock.now_s - before, 2))
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 4.5
    world.channel.answer(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
    assert not world.registrar.registered.done
    world.clock.advance_s(5)
    world.channel.answer(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert world.registrar.registered.error is not None


def test_a_stale_epoch_registers_anew() -> None:
    world = running()
    world.clock.advance_s(2)
    world.beat(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert world.registrar.broker_epoch == -1
    world.clock.advance_s(1)
    world.channel.answer(BrokerRegistrationResponse(broker_epoch=9))
    assert world.beat(is_caught_up=True, is_fenced=False).broker_epoch == 9


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION])
def test_a_broker_that_was_registered_goes_on_trying_when_it_is_refused(code: ErrorCode) -> None:
    world = running()
    world.clock.advance_s(2)
    world.beat(error_code=ErrorCode.STALE_BROKER_EPOCH)
    for _ in range(3):
        world.clock.advance_s(1)
        world.channel.answer(BrokerRegistrationResponse(error_code=code))
        assert world.registrar.problem == code.name
    world.clock.advance_s(1)
    world.channel.answer(BrokerRegistrationResponse(broker_epoch=9))
    assert world.beat(is_caught_up=True, is_fenced=False).broker_epoch == 9
    assert world.fatal == []


def test_leaving_waits_until_the_controller_lets_go() -> None:
    world = running()
    left = world.registrar.leave()
    assert world.beat(is_caught_up=True, is_fenced=False).want_shut_down
    assert not left.done
    world.clock.advance_s(0.05)
    world.beat(is_caught_up=True, should_shut_down=True)
    assert left.done


def test_leaving_goes_on_as_long_as_the_controller_answers() -> None:
    """To move many leaders away takes as long as it takes."""
    world = running()
    left = world.registrar.leave()
    for _ in range(4000):
        world.beat(is_caught_up=True)
        world.clock.advance_s(0.05)
    assert not left.done
    world.beat(should_shut_down=True)
    assert left.done


def test_leaving_ends_with_the_session_that_nobody_keeps() -> None:
    world = running()
    world.clock.advance_s(2)
    world.beat(is_caught_up=True)
    left = world.registrar.leave()
    since = world.clock.now_s
    while not left.done:
        while world.channel.sent:
            world.channel.fail()
        world.clock.advance_s(0.1)
        assert world.clock.now_s < 60
    assert 9 <= world.clock.now_s - since < 9.5


def test_a_broker_that_is_not_registered_any_more_has_left() -> None:
    """As after the controllers have lost it, or taken its id for another broker: nobody moves leaders away for it."""
    for code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
        world = running()
        left = world.registrar.leave()
        world.beat(error_code=code)
        assert left.done
        world.clock.advance_s(1)
        assert world.channel.sent == [], "nor does it register again"


def test_another_controller_hears_of_the_broker_at_once() -> None:
    world = running()
    world.clock.advance_s(0.5)
    world.registrar.controller_changed()
    assert len(world.channel.sent) == 1, "a second and a half before its time"
    world.registrar.controller_changed()
    assert len(world.channel.sent) == 1, "the channel takes what is under way to the new one"
    for _ in range(5):
        world.channel.fail()
        world.clock.advance_s(5)
    world.channel.fail()
    world.registrar.controller_changed()
    world.beat(is_caught_up=True)
    world.clock.advance_s(1.9)
    assert world.channel.sent == [], "the pause that was running is over"


def test_pauses_are_short_again_after_another_controller_was_known() -> None:
    world = running()
    world.clock.advance_s(2)
    for _ in range(2):
        pauses: list[float] = []
        for _ in range(4):
            world.channel.fail()
            before = world.clock.now_s
            world.clock.advance_to_next()
            pauses.append(round(world.clock.now_s - before, 2))
        assert pauses == [0.05, 0.1, 0.2, 0.4]
        world.channel.fail()
        world.registrar.controller_changed()


def test_another_controller_is_asked_for_the_registration_at_once() -> None:
    world = RegistrationWorld()
    world.registrar.start()
    for _ in range(6):
        world.channel.fail()
        world.clock.advance_s(5)
    world.channel.fail()
    world.registrar.controller_changed()
    assert isinstance(world.channel.answer(BrokerRegistrationResponse(broker_epoch=5)), BrokerRegistrationRequest)


def test_a_beat_for_its_own_reason_takes_the_place_of_the_next_regular_one() -> None:
    world = running()
    world.clock.advance_s(1.9)
    world.registrar.directories_changed()
    world.clock.advance_s(1)
    assert len(world.channel.sent) == 1


def test_a_number_that_is_no_error_of_ours_is_one_to_ask_again_after() -> None:
    world = RegistrationWorld()
    world.registrar.start()
    world.channel.answer(BrokerRegistrationResponse(error_code=12345))
    assert not world.registrar.registered.done
    world.clock.advance_s(1)
    assert len(world.channel.sent) == 1


def test_one_beat_is_under_way_at_a_time_whatever_its_answer_leads_to() -> None:
    world = RegistrationWorld()
    world.registrar.ready()
    world.registrar.running.add_callback(lambda _: world.registrar.directories_changed())
    world.registered()
    world.beat(is_caught_up=True, is_fenced=True)
    world.beat(is_caught_up=True, is_fenced=False)
    assert len(world.channel.sent) == 1
    world.clock.advance_s(4)
    assert len(world.channel.sent) == 1
    world.beat(is_caught_up=True, is_fenced=False)
    world.clock.advance_s(2)
    assert len(world.channel.sent) == 1, "beats go on"


def test_a_wish_that_changes_during_a_beat_is_sent_right_after_it() -> None:
    world = running()
    world.clock.advance_s(2)
    world.registrar.leave()
    assert len(world.channel.sent) == 1
    assert not world.beat(is_caught_up=True, is_fenced=False).want_shut_down
    assert world.beat(should_shut_down=True).want_shut_down


def test_a_failed_directory_is_reported_at_once() -> None:
    world = running()
    world.offline.append(UUID(int=2000))
    world.registrar.directory_failed(UUID(int=2000))
    assert world.beat(is_caught_up=True).offline_log_dirs == [UUID(int=2000)]
    world.clock.advance_s(60)
    assert not world.fatal


def test_a_broker_that_cannot_report_a_failed_directory_ends() -> None:
    """log.dir.failure.timeout.ms: clients would be sent here for ever for what is not here any more."""
    world = running()
    world.offline.append(UUID(int=2000))
    world.registrar.directory_failed(UUID(int=2000))
    for _ in range(100):
        if world.clock.now_s > 29:
            break
        assert not world.fatal
        if world.channel.sent:
            world.channel.fail()
        world.clock.advance_s(0.5)
    world.clock.advance_s(2)
    assert len(world.fatal) == 1
    assert "30 s" in str(world.fatal[0])


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH])
def test_a_beat_that_is_refused_has_not_told_of_a_failed_directory(code: ErrorCode) -> None:
    world = running()
    world.offline.append(UUID(int=2000))
    world.registrar.directory_failed(UUID(int=2000))
    while world.clock.now_s < 40 and not world.fatal:
        while world.channel.sent:
            if isinstance(world.channel.sent[0][0], BrokerRegistrationRequest):
                world.channel.fail()
            else:
                world.beat(error_code=code)
        world.clock.advance_s(0.5)
    assert len(world.fatal) == 1
    assert world.clock.now_s >= 30


def test_which_of_two_failed_directories_was_told_of() -> None:
    """The first is told of; the second fails while its beats are refused."""
    world = running()
    world.offline.append(UUID(int=2000))
    world.registrar.directory_failed(UUID(int=2000))
    world.beat(is_caught_up=True)
    world.offline.append(UUID(int=2001))
    world.registrar.directory_failed(UUID(int=2001))
    while world.clock.now_s < 40 and not world.fatal:
        while world.channel.sent:
            world.beat(error_code=ErrorCode.NOT_CONTROLLER)
        world.clock.advance_s(0.5)
    assert len(world.fatal) == 1
    assert str(UUID(int=2001)) in str(world.fatal[0])


def test_cordons_are_told_once_the_broker_recovers() -> None:
    world = RegistrationWorld()
    world.cordoned.append(UUID(int=2000))
    world.registered()
    assert world.beat(is_caught_up=True, is_fenced=True).cordoned_log_dirs is None
    world.registrar.ready()
    assert world.beat(is_caught_up=True, is_fenced=False).cordoned_log_dirs == [UUID(int=2000)]
    world.cordoned.clear()
    world.registrar.directories_changed()
    assert world.beat(is_caught_up=True).cordoned_log_dirs == []


def test_an_answer_that_comes_after_the_stop_starts_nothing() -> None:
    world = running()
    world.clock.advance_s(2)
    world.registrar.stop()
    world.beat(is_caught_up=True, is_fenced=False)
    world.clock.advance_s(60)
    assert world.channel.sent == []
    failed = running()
    failed.clock.advance_s(2)
    failed.registrar.stop()
    failed.channel.fail()
    failed.clock.advance_s(60)
    assert failed.channel.sent == []


def test_an_answer_that_comes_after_the_stop_changes_no_state() -> None:
    world = RegistrationWorld()
    world.registered()
    world.registrar.stop()
    world.beat(is_caught_up=True, is_fenced=False)
    assert world.states.state is BrokerState.STARTING


def test_a_directory_that_fails_during_a_beat_is_not_reported_by_it() -> None:
    world = running()
    world.clock.advance_s(2)
    world.offline.append(UUID(int=2000))
    world.registrar.directory_failed(UUID(int=2000))
    world.channel.sent[0][1].complete(BrokerHeartbeatResponse(is_caught_up=True))
    world.channel.sent.pop(0)
    while world.clock.now_s < 35:
        world.clock.advance_s(0.5)
        while world.channel.sent:
            world.channel.fail()
    assert len(world.fatal) == 1, "no answer to a beat that named it ever came"


def test_after_an_answer_pauses_are_short_again() -> None:
    world = running()
    for _ in range(2):
        world.clock.advance_s(2)
        pauses: list[float] = []
        for _ in range(3):
            world.channel.fail()
            before = world.clock.now_s
            world.clock.advance_to_next()
            pauses.append(round(world.clock.now_s - before, 2))
        assert pauses == [0.05, 0.1, 0.2]
        world.beat(is_caught_up=True)


def test_nothing_is_sent_after_stop() -> None:
    world = running()
    world.registrar.stop()
    world.clock.advance_s(60)
    assert world.channel.sent == []
    assert world.registrar.leave().done


def test_producer_ids_come_from_blocks_and_the_next_block_is_asked_for_in_time() -> None:
    channel = FakeChannel()
    manager = ProducerIdManager(cast(InterBrokerChannel, channel), 1, lambda: 5)
    first = manager.next_id()
    second = manager.next_id()
    assert len(channel.sent) == 1
    channel.answer(AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=10))
    ids = [first.result(), second.result(), *(manager.next_id().result() for _ in range(6))]
    assert channel.sent == []
    ids.append(manager.next_id().result())
    assert len(channel.sent) == 1
    ids.append(manager.next_id().result())
    waiting = manager.next_id()
    assert not waiting.done
    channel.answer(AllocateProducerIdsResponse(producer_id_start=7000, producer_id_len=10))
    assert [*ids, waiting.result()] == [*range(1000, 1010), 7000]


def test_without_a_block_producers_are_told_to_come_back() -> None:
    channel = FakeChannel()
    manager = ProducerIdManager(cast(InterBrokerChannel, channel), 1, lambda: 5)
    refused, lost = manager.next_id(), None
    channel.answer(AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    lost = manager.next_id()
    channel.fail()
    for result in (refused, lost):
        assert isinstance(result.error, KafkaError)
        assert result.error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again = manager.next_id()
    channel.answer(AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000))
    assert again.result() == 0


def test_those_who_wait_for_an_id_are_not_without_number() -> None:
    channel = FakeChannel()
    manager = ProducerIdManager(cast(InterBrokerChannel, channel), 1, lambda: 5)
    waiting = [manager.next_id() for _ in range(10_001)]
    assert [each.done for each in waiting[-2:]] == [False, True]
    assert isinstance(waiting[-1].error, KafkaError)
    assert waiting[-1].error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_last_id_of_a_block_is_the_last() -> None:
    channel = FakeChannel()
    manager = ProducerIdManager(cast(InterBrokerChannel, channel), 1, lambda: 5)
    ids = [manager.next_id() for _ in range(3)]
    channel.answer(AllocateProducerIdsResponse(producer_id_start=10, producer_id_len=2))
    assert [each.done for each in ids] == [True, True, False], "12 belongs to another broker's block"
    channel.answer(AllocateProducerIdsResponse(producer_id_start=90, producer_id_len=2))
    assert [each.result() for each in ids] == [10, 11, 90]


# -- in the start -----------------------------------------------------------------------------------------------------------------


def image_with(epoch: int) -> MetadataImage:
    delta = MetadataDelta(EMPTY)
    delta.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=epoch))
    return delta.apply(MetadataProvenance(epoch, 1, 0))


def test_the_start_goes_on_when_the_metadata_has_the_registration() -> None:
    async def main() -> None:
        world, told = RegistrationWorld(), list[Any]()
        kraft: Any = SimpleNamespace(image=image_with(4), loader=SimpleNamespace(on_image=told), on_leader=[])
        node: Any = SimpleNamespace(loop=asyncio.get_running_loop(), config=standalone_config({}), clock=world.clock)
        step = RegisterBroker(node, kraft, world.registrar)
        start = asyncio.ensure_future(step.start())
        await asyncio.sleep(0)
        world.channel.answer(BrokerRegistrationResponse(broker_epoch=5))
        for image in (EMPTY, image_with(4)):
            for _ in range(5):
                await asyncio.sleep(0)
            assert not start.done()
            (look,) = told
            look(image)
        look(image_with(5))
        await asyncio.wait_for(start, 10)
        assert told == []
        await step.stop()
        assert kraft.on_leader == []

    asyncio.run(main())


def test_the_start_goes_on_when_the_metadata_has_a_later_registration_before_its_response() -> None:
    async def main() -> None:
        world = RegistrationWorld()
        kraft: Any = SimpleNamespace(image=EMPTY, loader=SimpleNamespace(on_image=[]), on_leader=[])
        node: Any = SimpleNamespace(loop=asyncio.get_running_loop(), config=standalone_config({}), clock=world.clock)
        start = asyncio.ensure_future(RegisterBroker(node, kraft, world.registrar).start())
        await asyncio.sleep(0)
        world.channel.answer(BrokerRegistrationResponse(broker_epoch=5))
        world.beat(error_code=ErrorCode.STALE_BROKER_EPOCH)
        for _ in range(5):
            await asyncio.sleep(0)
        world.clock.advance_s(1)
        kraft.image = image_with(9)
        for look in kraft.loader.on_image:
            look(kraft.image)
        world.channel.answer(BrokerRegistrationResponse(broker_epoch=9))
        for _ in range(5):
            await asyncio.sleep(0)
        assert start.done()
        await start

    asyncio.run(main())


def test_a_start_that_is_given_up_looks_at_no_image_any_more() -> None:
    async def main() -> None:
        world, told = RegistrationWorld(), list[Any]()
        kraft: Any = SimpleNamespace(image=EMPTY, loader=SimpleNamespace(on_image=told), on_leader=[])
        node: Any = SimpleNamespace(loop=asyncio.get_running_loop(), config=standalone_config({}), clock=world.clock)
        step = RegisterBroker(node, kraft, world.registrar)
        start = asyncio.ensure_future(step.start())
        await asyncio.sleep(0)
        world.channel.answer(BrokerRegistrationResponse(broker_epoch=5))
        for _ in range(5):
            await asyncio.sleep(0)
        assert told
        start.cancel()
        await step.stop()
        assert told == []
        assert world.registrar.running.done

    asyncio.run(main())
