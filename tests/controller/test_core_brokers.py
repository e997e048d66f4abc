"""Brokers come, live and go; leaders and ISRs follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.core.brokers import fence_broker, fence_stale_broker, register_controller, unregister_broker
from odradek.controller.core.partitions import (
    MAX_ELECTIONS_PER_ROUND,
    alter_partition,
    assign_replicas_to_directories,
    balance_leaders,
    elect_leaders,
    elect_leaders_error,
    elect_unclean_leaders,
)
from odradek.controller.core.producer_ids import allocate_producer_ids
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.controller_registration import ControllerRegistrationRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest

from .harness import Controller, directory

Assignment = CreateTopicsRequest.CreatableReplicaAssignment


def refusal(operation: Callable[..., object], *arguments: Any, **fields: Any) -> ErrorCode:
    """The error of a request as a whole; nothing may have been written."""
    with pytest.raises(KafkaError) as caught:
        operation(*arguments, **fields)
    return caught.value.code


def test_cordoned_directories_are_written_when_they_change_and_with_no_other_heartbeat() -> None:
    controller = Controller()
    controller.join(1)
    written: list[int] = []
    for cordoned in ([], [directory(1)], [directory(1)], None, [], []):
        end = len(controller.log)
        controller.heartbeat(1, cordoned_log_dirs=cordoned)
        written.append(len(controller.log) - end)
    assert written[1:] == [1, 0, 0, 1, 0]


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


def test_a_fenced_broker_that_is_heard_of_keeps_its_id_as_well() -> None:
    controller = Controller()
    controller.register(1)
    controller.register(1, incarnation=2, dirs=2)  # the first one has never been heard of
    controller.heartbeat(1, current_metadata_offset=-1)
    assert controller.core.state.brokers[1].fenced
    assert refusal(controller.register, 1, incarnation=3, dirs=1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.now_s += 10
    controller.register(1, incarnation=3, dirs=1)


def test_a_new_controller_waits_for_no_fenced_broker() -> None:
    controller = Controller()
    controller.join(1, 2)
    controller.heartbeat(1, want_fence=True)
    controller.core.activate(controller.now_s)
    controller.register(1, incarnation=2, dirs=2)
    assert refusal(controller.register, 2, incarnation=2, dirs=2) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


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


def test_a_broker_that_is_known_to_be_gone_is_fenced_and_no_later_life_of_it() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 4, 2)
    former = controller.core.state.brokers[1].epoch
    assert controller.run(lambda context: fence_broker(context, 1, former)) is True
    assert all(controller.partition("a", number).leader == 0 for number in range(4))
    assert controller.core.state.brokers[1].fenced
    end = len(controller.log)
    assert controller.run(lambda context: fence_broker(context, 1, former)) is False, "fenced already"
    assert controller.run(lambda context: fence_broker(context, 7, 1)) is False, "unknown"
    assert len(controller.log) == end
    controller.register(1, incarnation=2)
    controller.heartbeat(1)
    assert controller.run(lambda context: fence_broker(context, 1, former)) is False
    assert not controller.core.state.brokers[1].fenced
    controller.now_s += 1
    assert controller.run(fence_stale_broker) is None, "its session is not that of its former life"


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
    assert refusal(controller.ask, unregister_broker, UnregisterBrokerRequest(broker_id=1)) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_an_unregistered_broker_may_not_lead_and_holds_nobody_up() -> None:
    controller = Controller()
    controller.join(0, 1, 2)
    topic = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[0, 1])
    controller.create("b", -1, -1, assignments=[topic])
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(0, want_fence=True)
    controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=0))
    assert (controller.partition("b").leader, controller.partition("b").isr) == (-1, ())
    controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=2))
    assert controller.core.context.heartbeats.next_check_s() is None, "nobody who lives is registered"


def test_producer_ids_come_in_blocks_and_never_twice() -> None:
    controller = Controller()
    controller.join(0)
    epoch = controller.core.state.brokers[0].epoch
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch)
    starts = [controller.ask(allocate_producer_ids, request).producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert controller.image().producer_ids.next_producer_id == 3000
    for stranger in (AllocateProducerIdsRequest(broker_id=0, broker_epoch=epoch + 1), AllocateProducerIdsRequest(broker_id=7)):
        assert refusal(controller.ask, allocate_producer_ids, stranger) is ErrorCode.STALE_BROKER_EPOCH
    assert controller.ask(allocate_producer_ids, request).producer_id_start == 3000


def test_the_next_controller_goes_on_behind_the_last_committed_block() -> None:
    """What was not committed is taken back with the append, and nobody has been told of it: the next block may be the same one."""
    controller = Controller()
    controller.join(0)
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=controller.core.state.brokers[0].epoch)
    assert controller.ask(allocate_producer_ids, request).producer_id_start == 0
    committed = len(controller.log)
    controller.journal.commit_to(committed)
    assert controller.ask(allocate_producer_ids, request).producer_id_start == 1000
    controller.journal.revert_to(committed)
    del controller.log[committed:]
    successor = controller.replica()
    for core in (controller.core, successor):
        context = core.begin(now_s=controller.now_s, next_offset=committed, kraft_version=0)
        assert allocate_producer_ids(context, request, 0).response.producer_id_start == 1000


def test_the_last_block_of_producer_ids_fits_its_field() -> None:
    controller = Controller()
    controller.join(0)
    end = (1 << 63) - 1
    controller.append([VersionedRecord(ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=end - 1000), 0)])
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=controller.core.state.brokers[0].epoch)
    last = controller.ask(allocate_producer_ids, request)
    assert (last.producer_id_start, last.producer_id_len) == (end - 1000, 1000)
    assert refusal(controller.ask, allocate_producer_ids, request) is ErrorCode.UNKNOWN_SERVER_ERROR


class TestRegistrations:
    def test_an_answer_that_was_lost_is_given_again_also_when_a_directory_is_gone(self) -> None:
        controller = Controller()
        epoch = controller.register(1, dirs=2)
        controller.heartbeat(1)
        assert controller.register(1, dirs=1) == epoch
        assert not controller.core.state.brokers[1].fenced

    def test_one_in_shutdown_stays_so(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        assert not controller.heartbeat(0, want_shut_down=True).should_shut_down
        controller.register(0)
        assert controller.core.state.brokers[0].in_controlled_shutdown

    def test_no_directory_belongs_to_two(self) -> None:
        controller = Controller()
        controller.register(1)
        assert refusal(controller.register, 2, log_dirs=[directory(2), directory(1)]) is ErrorCode.INVALID_REGISTRATION
        assert refusal(controller.register, 2, log_dirs=[directory(2), directory(2)]) is ErrorCode.INVALID_REGISTRATION
        assert refusal(controller.register, 2, log_dirs=[]) is ErrorCode.INVALID_REGISTRATION
        assert refusal(controller.register, 2, log_dirs=[UUID(int=99)]) is ErrorCode.INVALID_REGISTRATION
        assert controller.register(2, log_dirs=[UUID(int=100)]) == len(controller.log) - 1

    @pytest.mark.parametrize("wrong", [{"name": ""}, {"host": ""}, {"port": 0}, {"security_protocol": 4}, {"security_protocol": -1}])
    def test_a_listener_that_nobody_can_connect_to_is_refused(self, wrong: dict[str, Any]) -> None:
        """A record with one would end the JVM nodes that replay it."""
        fields = {"name": "PLAINTEXT", "host": "h", "port": 1, "security_protocol": 3}
        controller = Controller()
        for of, register in (
            (BrokerRegistrationRequest, lambda listeners: controller.register(1, listeners=listeners)),
            (
                ControllerRegistrationRequest,
                lambda listeners: controller.ask(
                    register_controller, ControllerRegistrationRequest(controller_id=4, incarnation_id=UUID(int=9), listeners=listeners)
                ),
            ),
        ):
            good, bad = of.Listener(**fields), of.Listener(**(fields | wrong))
            before = len(controller.log)
            assert refusal(register, [good, bad]) is ErrorCode.INVALID_REGISTRATION
            assert len(controller.log) == before
            register([good])
            assert len(controller.log) > before

    def test_of_two_listeners_with_one_name_the_last_counts(self) -> None:
        controller = Controller()
        of = BrokerRegistrationRequest.Listener
        controller.register(1, listeners=[of(name="A", host="h", port=1), of(name="B", host="h", port=2), of(name="A", host="h", port=3)])
        listeners = controller.core.state.brokers[1].listeners
        assert [(each.name, each.port) for each in listeners] == [("A", 3), ("B", 2)]

    def test_another_cluster_s_broker_is_sent_away(self) -> None:
        assert refusal(Controller().register, 1, cluster_id="another") is ErrorCode.INCONSISTENT_CLUSTER_ID

    @pytest.mark.parametrize(("least", "most"), [(0, 1), (3, 4), (0, 0)])
    def test_a_broker_has_to_serve_every_finalized_level(self, least: int, most: int) -> None:
        controller = Controller()
        level = controller.core.state.features["transaction.version"]
        assert level == 2
        feature = BrokerRegistrationRequest.Feature
        others = [
            feature(name=name, min_supported_version=0, max_supported_version=100)
            for name, _ in controller.core.state.features.items()
            if name != "transaction.version"
        ]
        wrong = feature(name="transaction.version", min_supported_version=least, max_supported_version=most)
        right = feature(name="transaction.version", min_supported_version=level, max_supported_version=level)
        assert refusal(controller.register, 1, features=[*others, wrong]) is ErrorCode.UNSUPPORTED_VERSION
        assert refusal(controller.register, 1, features=others) is ErrorCode.UNSUPPORTED_VERSION
        controller.register(1, features=[*others, right])

    def test_a_broker_has_to_name_its_metadata_version_and_to_know_the_quorum_s(self) -> None:
        controller = Controller()
        feature = BrokerRegistrationRequest.Feature
        names = [name for name, _ in controller.core.state.features.items() if name != "metadata.version"]
        others = [feature(name=name, min_supported_version=0, max_supported_version=100) for name in names]
        assert refusal(controller.register, 1, features=others) is ErrorCode.INVALID_REGISTRATION
        whole = [*others, feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
        controller.register(1, features=whole)
        controller.kraft_version = 1
        assert refusal(controller.register, 2, features=whole) is ErrorCode.UNSUPPORTED_VERSION
        controller.register(2, features=[*whole, feature(name="kraft.version", min_supported_version=0, max_supported_version=1)])

    def test_a_feature_that_is_not_finalized_must_be_optional(self) -> None:
        controller = Controller()
        known = [(name, 0, 100) for name, _ in controller.core.state.features.items()]
        feature = BrokerRegistrationRequest.Feature
        for least, refused in ((1, True), (0, False)):
            named = [
                feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in [*known, ("to.come", least, 2)]
            ]
            if refused:
                assert refusal(controller.register, 1, features=named) is ErrorCode.UNSUPPORTED_VERSION
            else:
                controller.register(1, features=named)

    def test_a_restart_is_clean_only_with_the_epoch_of_the_life_before(self) -> None:
        for offset, eligible in ((0, (1,)), (-1, ()), (1, ())):
            controller = Controller()
            controller.join(1)
            controller.create("a")
            epoch = controller.core.state.brokers[1].epoch
            controller.register(1, incarnation=2, previous_epoch=epoch + offset)
            assert controller.partition("a").elr == eligible


class TestFencing:
    def test_a_broker_leads_before_its_registration_is_known_nowhere(self) -> None:
        controller = Controller()
        epoch = controller.register(1)
        assert controller.heartbeat(1, current_metadata_offset=epoch, want_fence=True).is_fenced
        assert controller.heartbeat(1, current_metadata_offset=epoch - 1).is_fenced
        assert not controller.heartbeat(1, current_metadata_offset=epoch).is_fenced

    def test_every_silent_broker_is_fenced_once_and_none_that_is_heard_of(self) -> None:
        controller = Controller()
        controller.join(0, 1, 2)
        controller.now_s += 8
        controller.heartbeat(1)
        controller.now_s += 2
        fenced = [controller.run(fence_stale_broker) for _ in range(3)]
        assert (sorted(fenced[:2], key=str), fenced[2]) == ([0, 2], None)
        assert [controller.core.state.brokers[broker].fenced for broker in (0, 1, 2)] == [True, False, True]

    def test_the_last_in_sync_replica_leads_again_with_the_records_that_unfence_it(self) -> None:
        controller = Controller(elr=False)
        controller.join(0)
        controller.create("a")
        controller.heartbeat(0, want_fence=True)
        assert controller.partition("a").leader == -1
        controller.heartbeat(0)
        assert controller.partition("a").leader == 0


class TestControlledShutdown:
    def shut_down(self, controller: Controller, broker: int, **fields: int) -> bool:
        return controller.heartbeat(broker, want_shut_down=True, **fields).should_shut_down

    def test_it_is_written_once_and_lasts_until_all_have_seen_its_records(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", 2, 2)
        begun = len(controller.log)
        assert not self.shut_down(controller, 0)
        after = len(controller.log)
        assert after > begun
        assert not self.shut_down(controller, 0)
        assert len(controller.log) == after
        controller.heartbeat(1, current_metadata_offset=after - 2)
        assert not self.shut_down(controller, 0), "the last of its records has not been seen"
        controller.heartbeat(1, current_metadata_offset=after - 1)
        assert self.shut_down(controller, 0)

    def test_who_leads_nothing_goes_at_once(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        assert self.shut_down(controller, 0)

    def test_what_nobody_else_can_lead_is_without_a_leader_before_it_goes(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0])])
        assert not self.shut_down(controller, 0)
        assert controller.partition("a").leader == -1
        controller.heartbeat(1)
        assert self.shut_down(controller, 0)

    def test_who_is_going_gets_no_leadership_and_comes_into_no_isr(self) -> None:
        controller = Controller()
        controller.join(0, 1, 2)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        controller.create("b", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[1, 2])])
        assert not self.shut_down(controller, 1, current_metadata_offset=0)
        assert controller.core.state.brokers[1].in_controlled_shutdown
        assert controller.partition("a").isr == (0,)
        assert alter(controller, 0, [0, 1]) == ErrorCode.INELIGIBLE_REPLICA
        controller.ask(elect_leaders, ElectLeadersRequest(election_type=0, topic_partitions=None))
        assert controller.partition("b").leader == 2
        for number in range(4):
            controller.create(f"c{number}", 1, 2)
            assert 1 not in controller.partition(f"c{number}").replicas


class TestDirectories:
    def test_a_broker_does_not_come_with_a_directory_that_goes(self) -> None:
        """One that has just failed is reported with the heartbeat that would unfence it."""
        controller = Controller(elr=False)
        controller.join(1)
        controller.create("a")
        controller.heartbeat(1, want_fence=True)
        controller.core.state.brokers[1] = controller.core.state.brokers[1]._replace(directories=(directory(1), directory(1, 1)))
        assert controller.partition("a").directory(1) == directory(1)
        assert controller.heartbeat(1, offline_log_dirs=[directory(1)]).is_fenced
        assert not controller.heartbeat(1, offline_log_dirs=[directory(1)]).is_fenced
        assert controller.partition("a").leader == -1

    @pytest.mark.parametrize(("number", "leads"), [(0, True), (1, True), (2, False), (99, False)])
    def test_of_the_reserved_ids_only_those_of_what_is_not_known_yet_are_online(self, number: int, leads: bool) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        assert self.assign(controller, 0, {"a": UUID(int=number)}) == [0]
        assert (controller.partition("a").leader == 0) is leads

    def test_only_the_partitions_of_the_directory_that_failed_move(self) -> None:
        controller = Controller()
        controller.register(0, dirs=2)
        controller.heartbeat(0)
        controller.join(1)
        for name in ("a", "b"):
            controller.create(name, -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        assert self.assign(controller, 0, {"a": directory(0, 0), "b": directory(0, 1)}) == [0, 0]
        controller.heartbeat(0, offline_log_dirs=[directory(0, 0)])
        assert [controller.partition(name).leader for name in ("a", "b")] == [1, 0]
        assert controller.core.state.brokers[0].directories == (directory(0, 1),)
        assert controller.partition("a").isr == (1,)
        written = len(controller.log)
        controller.heartbeat(0, offline_log_dirs=[directory(0, 0)])
        assert len(controller.log) == written, "what is known is not written again"

    def test_a_replica_in_a_failed_directory_is_not_elected(self) -> None:
        controller = Controller()
        controller.register(0, dirs=2)
        controller.heartbeat(0)
        controller.join(1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        self.assign(controller, 0, {"a": directory(0, 0)})
        controller.heartbeat(0, offline_log_dirs=[directory(0, 0)])
        assert controller.partition("a").leader == 1
        controller.heartbeat(1, want_fence=True)
        assert controller.partition("a").leader == -1
        controller.now_s += 1
        controller.heartbeat(0)
        assert controller.partition("a").leader == -1

    def test_the_last_in_sync_replica_does_not_lead_from_a_failed_directory(self) -> None:
        controller = Controller(elr=False)
        controller.register(0, dirs=2)
        controller.heartbeat(0)
        controller.join(1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        controller.heartbeat(1, want_fence=True)
        self.assign(controller, 0, {"a": directory(0, 0)})
        controller.heartbeat(0, offline_log_dirs=[directory(0, 0)])
        assert (controller.partition("a").leader, controller.partition("a").isr) == (-1, (0,))
        controller.heartbeat(1)
        assert controller.partition("a").leader == -1

    def test_a_leader_that_puts_a_partition_where_nothing_works_gives_it_up(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        assert self.assign(controller, 0, {"a": directory(0, 7)}) == [0]
        assert (controller.partition("a").leader, controller.partition("a").isr) == (1, (1,))

    @pytest.mark.parametrize("elr", [True, False])
    def test_the_only_replica_leads_again_when_it_is_assigned_back_to_a_directory_that_works(self, elr: bool) -> None:
        controller = Controller(elr=elr)
        controller.register(0, dirs=2)
        controller.heartbeat(0)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0])])
        self.assign(controller, 0, {"a": directory(0, 1)})
        controller.heartbeat(0, offline_log_dirs=[directory(0, 1)])
        assert controller.partition("a").leader == -1
        written = len(controller.log)
        assert self.assign(controller, 0, {"a": directory(0, 0)}) == [0]
        back = controller.partition("a")
        assert (back.leader, back.isr, back.elr, back.directories) == (0, (0,), (), (directory(0, 0),))
        assert len(controller.log) == written + 1
        self.assign(controller, 0, {"a": directory(0, 1)})
        assert controller.partition("a").leader == -1, "it goes to the failed directory before the controller hears of the failure"
        self.assign(controller, 0, {"a": directory(0, 0)})
        assert controller.partition("a").leader == 0

    def test_who_leads_stays_when_another_replica_comes_back_to_a_directory_that_works(self) -> None:
        controller = Controller()
        controller.register(0, dirs=2)
        controller.heartbeat(0)
        controller.join(1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        self.assign(controller, 0, {"a": directory(0, 7)})
        epoch = controller.partition("a").leader_epoch
        self.assign(controller, 0, {"a": directory(0, 0)})
        after = controller.partition("a")
        assert (after.leader, after.isr, after.leader_epoch) == (1, (1,), epoch), "it has to catch up first"

    def test_errors_stand_with_their_partitions(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[1])])
        assert self.assign(controller, 0, {"a": directory(0)}) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert self.assign(controller, 1, {"a": directory(1)}, number=3) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert self.assign(controller, 1, {"nothing": directory(1)}) == [ErrorCode.UNKNOWN_TOPIC_ID]
        assert controller.partition("a").directories == (directory(1),)
        request = AssignReplicasToDirsRequest(broker_id=0, broker_epoch=3)
        assert refusal(controller.ask, assign_replicas_to_directories, request) is ErrorCode.STALE_BROKER_EPOCH

    def assign(self, controller: Controller, broker: int, directories: dict[str, UUID], number: int = 0) -> list[int]:
        """The errors, topic by topic."""
        wanted = [
            AssignReplicasToDirsRequest.DirectoryData(
                id=where,
                topics=[
                    AssignReplicasToDirsRequest.TopicData(
                        topic_id=controller.core.state.topic_ids.get(name) or UUID(int=1),
                        partitions=[AssignReplicasToDirsRequest.PartitionData(partition_index=number)],
                    )
                ],
            )
            for name, where in directories.items()
        ]
        epoch = controller.core.state.brokers[broker].epoch
        request = AssignReplicasToDirsRequest(broker_id=broker, broker_epoch=epoch, directories=wanted)
        answer = controller.ask(assign_replicas_to_directories, request)
        return [each.topics[0].partitions[0].error_code for each in answer.directories]


class TestElections:
    def elect(self, controller: Controller, kind: int, *numbers: int, topic: str = "a") -> dict[int, int]:
        asked = [ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(numbers))] if numbers else None
        answer = controller.ask(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=1000))
        return {each.partition_id: each.error_code for result in answer.replica_election_results for each in result.partition_result}

    def test_what_needs_no_election_is_said_only_to_who_asked_for_it(self) -> None:
        controller = Controller()
        controller.join(0, 1)
        controller.create("a", 2, 2)
        for kind in (0, 1):
            assert self.elect(controller, kind, 0, 1) == dict.fromkeys((0, 1), ErrorCode.ELECTION_NOT_NEEDED)
            assert self.elect(controller, kind) == {}
        assert self.elect(controller, 0, 7) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert self.elect(controller, 0, 0, topic="nothing") == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_nobody_to_elect(self) -> None:
        controller = Controller(elr=False)
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        controller.heartbeat(0, want_fence=True)
        assert self.elect(controller, 0, 0) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        controller.heartbeat(1, want_fence=True)
        assert self.elect(controller, 1, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}

    def test_an_unclean_one_takes_whoever_lives(self) -> None:
        controller = Controller(elr=False)
        controller.join(0, 1)
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=0, broker_ids=[0, 1])])
        controller.heartbeat(1, want_fence=True)
        controller.heartbeat(0, want_fence=True)
        controller.heartbeat(1)
        assert self.elect(controller, 1, 0) == {0: 0}
        elected = controller.partition("a")
        assert (elected.leader, elected.isr, elected.leader_recovery_state) == (1, (1,), 1)
        assert alter(controller, 1, [1, 0], recovery=1) == ErrorCode.INVALID_REQUEST, "nobody is in sync with who still recovers"
        controller.heartbeat(0)
        assert alter(controller, 1, [1, 0], recovery=1) == ErrorCode.INVALID_REQUEST
        assert alter(controller, 1, [1, 0], recovery=0) == 0
        assert controller.partition("a").leader_recovery_state == 0

    def test_an_election_that_fails_as_a_whole_names_what_was_asked_for(self) -> None:
        asked = ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0, 1])
        answer = elect_leaders_error(ElectLeadersRequest(topic_partitions=[asked]), KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere"))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        (topic,) = answer.replica_election_results
        assert [(each.partition_id, each.error_code, each.error_message) for each in topic.partition_result] == [
            (number, ErrorCode.NOT_CONTROLLER, "elsewhere") for number in (0, 1)
        ]
        assert elect_leaders_error(ElectLeadersRequest(topic_partitions=None), KafkaError(ErrorCode.NOT_CONTROLLER)).error_code != 0

    def test_neither_without_time_nor_of_another_kind(self) -> None:
        controller = Controller()
        late = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=-1)
        assert refusal(controller.ask, elect_leaders, late) is ErrorCode.REQUEST_TIMED_OUT
        odd = ElectLeadersRequest(election_type=2, topic_partitions=None, timeout_ms=1)
        assert refusal(controller.ask, elect_leaders, odd) is ErrorCode.INVALID_REQUEST

    def test_a_round_by_timer_is_bounded_and_asks_for_another(self) -> None:
        controller = Controller(elr=False)
        controller.join(0, 1)
        count = MAX_ELECTIONS_PER_ROUND + 1
        controller.create("a", -1, -1, assignments=[Assignment(partition_index=number, broker_ids=[0, 1]) for number in range(count)])
        controller.heartbeat(1, want_fence=True)
        controller.heartbeat(0, want_fence=True)
        controller.heartbeat(1)
        assert not controller.run(elect_unclean_leaders), "the topic does not allow it"
        setting = ConfigRecord(resource_type=2, resource_name="a", name="unclean.leader.election.enable", value="true")
        controller.append([VersionedRecord(setting, 0)])
        assert controller.run(elect_unclean_leaders)
        assert sum(not controller.partition("a", number).has_leader for number in range(count)) == 1
        assert not controller.run(elect_unclean_leaders)
        assert all(controller.partition("a", number).leader == 1 for number in range(count))


def test_a_broker_of_a_past_life_proposes_nothing() -> None:
    controller = Controller()
    controller.join(0, 1)
    controller.create("a", 1, 2)
    leader = controller.partition("a").leader
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=controller.core.state.brokers[leader].epoch - 1)
    assert refusal(controller.ask, alter_partition, request) is ErrorCode.STALE_BROKER_EPOCH
