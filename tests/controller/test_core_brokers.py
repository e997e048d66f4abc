"""Brokers come, live and go; leaders and ISRs follow."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.brokers import fence_stale_broker, unregister_broker
from odradek.controller.core.partitions import alter_partition, balance_leaders, elect_leaders
from odradek.controller.core.producer_ids import allocate_producer_ids
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.metadata_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest

from .harness import Controller, directory


def test_a_broker_registers_fenced_and_is_unfenced_when_it_has_caught_up() -> None:
    controller = Controller()
    epoch = controller.register(1)
    assert epoch == len(controller.log) - 1
    assert controller.log[-1].version == 4
    assert isinstance(controller.log[-1].message, RegisterBrokerRecord)
    behind = controller.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = controller.heartbeat(1, current_metadata_offset=epoch)
    assert (there.is_caught_up, there.is_fenced) == (True, False)
    change = controller.log[-1].message
    assert isinstance(change, BrokerRegistrationChangeRecord)
    assert (change.fenced, controller.log[-1].version) == (-1, 0)


def test_a_second_process_with_the_same_id_is_refused_while_the_first_lives() -> None:
    controller = Controller()
    controller.join(1)
    with pytest.raises(KafkaError) as caught:
        controller.register(1, incarnation=2, dirs=2)
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    with pytest.raises(KafkaError) as caught:
        controller.register(1, incarnation=2, port=19092)
    assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.now_s += 10
    assert controller.register(1, incarnation=2, dirs=2) == len(controller.log) - 1


def test_a_broker_that_comes_back_to_its_directories_and_addresses_need_not_wait_for_its_old_session() -> None:
    controller = Controller()
    controller.join(1, 2)
    controller.create("topic", factor=2)
    first = len(controller.log)
    epoch = controller.register(1, incarnation=2)
    assert epoch == first
    broker = controller.core.state.brokers[1]
    assert (broker.epoch, broker.fenced, broker.incarnation_id.int) == (epoch, True, 102)
    assert 1 not in controller.partition("topic").isr


def test_the_same_incarnation_keeps_its_epoch() -> None:
    controller = Controller()
    epoch = controller.register(1)
    controller.heartbeat(1)
    assert controller.register(1) == epoch
    assert not controller.core.state.brokers[1].fenced


def test_a_heartbeat_from_a_past_life_is_refused() -> None:
    controller = Controller()
    controller.join(1)
    with pytest.raises(KafkaError) as caught:
        controller.heartbeat(1, broker_epoch=0)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_and_loses_its_leaderships() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 4, 2)
    controller.now_s += 8
    controller.heartbeat(0)
    controller.now_s += 2
    assert controller.run(fence_stale_broker) == 1
    assert controller.run(fence_stale_broker) is None
    for number in range(4):
        assert controller.partition("a", number).leader == 0
        assert controller.partition("a", number).isr == (0,)


def test_after_an_unclean_stop_the_last_leader_leads_again_and_recovers() -> None:
    controller = Controller()
    controller.join(1)
    controller.create("a")
    controller.now_s += 100
    controller.register(1, incarnation=2)
    gone = controller.partition("a")
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (-1, (), (), (1,))
    controller.heartbeat(1)
    back = controller.partition("a")
    assert (back.leader, back.isr, back.leader_recovery_state, back.last_known_elr) == (1, (1,), 1, ())


def test_after_a_clean_stop_nothing_is_lost() -> None:
    controller = Controller()
    controller.join(1)
    controller.create("a")
    epoch = controller.core.state.brokers[1].epoch
    controller.now_s += 100
    controller.register(1, incarnation=2, previous_epoch=epoch)
    gone = controller.partition("a")
    assert (gone.leader, gone.isr, gone.elr) == (-1, (), (1,))
    controller.heartbeat(1)
    back = controller.partition("a")
    assert (back.leader, back.isr, back.elr, back.leader_recovery_state) == (1, (1,), (), 0)


def test_without_eligible_replicas_the_last_in_sync_replica_stays_in_the_isr() -> None:
    controller = Controller(elr=False)
    controller.join(1)
    controller.create("a")
    controller.now_s += 100
    controller.register(1, incarnation=2)
    assert (controller.partition("a").leader, controller.partition("a").isr) == (-1, (1,))
    controller.heartbeat(1)
    assert (controller.partition("a").leader, controller.partition("a").leader_epoch) == (1, 2)


def test_controlled_shutdown_moves_leaders_then_lets_go() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 2, 2)
    answer = controller.heartbeat(0, want_shut_down=True)
    assert not answer.should_shut_down
    assert all(controller.partition("a", number).leader == 1 for number in range(2))
    assert not controller.heartbeat(0, want_shut_down=True).should_shut_down  # broker 1 has not seen the change yet
    controller.heartbeat(1)
    assert controller.heartbeat(0, want_shut_down=True).should_shut_down
    assert controller.core.state.brokers[0].fenced


def test_a_directory_that_fails_takes_its_partitions_leaders_away() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    leader = controller.partition("a").leader
    controller.heartbeat(leader, offline_log_dirs=[directory(leader)])
    assert controller.partition("a").leader == 1 - leader
    assert controller.partition("a").isr == (1 - leader,)


def alter(controller: Controller, broker_id: int, isr: list[int], **fields: int) -> int:
    partition = controller.partition("a")
    topic_id = controller.core.state.topic_ids["a"]
    member = AlterPartitionRequest.BrokerState
    epochs = {broker: controller.core.state.brokers[broker].epoch for broker in isr if broker in controller.core.state.brokers}
    data = AlterPartitionRequest.PartitionData(
        partition_index=0,
        leader_epoch=fields.get("leader_epoch", partition.leader_epoch),
        partition_epoch=fields.get("partition_epoch", partition.partition_epoch),
        new_isr_with_epochs=[member(broker_id=broker, broker_epoch=fields.get("member_epoch", epochs.get(broker, -1))) for broker in isr],
        leader_recovery_state=fields.get("recovery", 0),
    )
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=controller.core.state.brokers[broker_id].epoch,
        topics=[AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[data])],
    )
    return controller.ask(alter_partition, request, 3).topics[0].partitions[0].error_code


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    leader = controller.partition("a").leader
    assert alter(controller, leader, [leader]) == 0
    assert controller.partition("a").isr == (leader,)
    assert controller.partition("a").partition_epoch == 1
    assert alter(controller, leader, [leader, 1 - leader]) == 0
    assert set(controller.partition("a").isr) == {0, 1}


def test_an_isr_that_cannot_be_is_refused() -> None:
    controller = Controller()
    controller.join(0, 1, 2)
    controller.create("a", 1, 2)
    leader = controller.partition("a").leader
    follower = next(r for r in controller.partition("a").replicas if r != leader)
    stranger = next(r for r in range(3) if r not in controller.partition("a").replicas)
    assert alter(controller, leader, [follower]) == ErrorCode.INVALID_REQUEST
    assert alter(controller, leader, [leader, stranger]) == ErrorCode.INVALID_REQUEST
    assert alter(controller, leader, []) == ErrorCode.INVALID_REQUEST
    assert alter(controller, follower, [leader]) == ErrorCode.INVALID_REQUEST
    assert alter(controller, leader, [leader], leader_epoch=5) == ErrorCode.NOT_CONTROLLER
    assert alter(controller, leader, [leader], leader_epoch=-1) == ErrorCode.FENCED_LEADER_EPOCH
    assert alter(controller, leader, [leader], partition_epoch=-1) == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(controller, leader, [leader, follower], member_epoch=3) == ErrorCode.INELIGIBLE_REPLICA
    assert alter(controller, leader, [leader], recovery=1) == ErrorCode.INVALID_REQUEST
    assert controller.partition("a").partition_epoch == 0


def test_preferred_leaders_come_back() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    preferred = controller.partition("a").replicas[0]
    epoch = controller.core.state.brokers[preferred].epoch
    controller.heartbeat(preferred, want_fence=True)
    assert controller.partition("a").leader == 1 - preferred
    controller.heartbeat(preferred)
    assert controller.core.state.brokers[preferred].epoch == epoch
    alter(controller, 1 - preferred, [0, 1])
    request = ElectLeadersRequest(election_type=0, topic_partitions=None)
    controller.ask(elect_leaders, request)
    assert controller.partition("a").leader == preferred
    assert not controller.run(balance_leaders)


def test_an_unregistered_broker_is_gone() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=1))
    assert 1 not in controller.core.state.brokers
    assert controller.partition("a").isr == (0,)
    with pytest.raises(KafkaError):
        controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=1))


def test_producer_ids_come_in_blocks_and_never_twice() -> None:
    controller = Controller()
    controller.join(0)
    epoch = controller.core.state.brokers[0].epoch
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch)
    starts = [controller.ask(allocate_producer_ids, request).producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert controller.image().producer_ids.next_producer_id == 3000
    with pytest.raises(KafkaError):
        controller.ask(allocate_producer_ids, AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch + 1))
