"""Eligible leader replicas (KIP-966) as the cluster lives through them: min.insync.replicas changes, clean and unclean stops, elections."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.core.brokers import fence_stale_broker
from odradek.controller.core.configs import DELETE, SET, alter_configs, incremental_alter_configs
from odradek.controller.core.partitions import ELECTION_PREFERRED, ELECTION_UNCLEAN, balance_leaders, elect_leaders, elect_unclean_leaders
from odradek.metadata.features import SUPPORTED_LEVELS, registered_features, supported_features
from odradek.metadata.registrations import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from odradek.protocol.messages.alter_configs import AlterConfigsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata_records import ClearElrRecord
from tests.controller.harness import Controller, level_records

Alterable = IncrementalAlterConfigsRequest.AlterableConfig
TOPIC, BROKER = 2, 4
MIN_ISR = "min.insync.replicas"


def set_config(controller: Controller, kind: int, name: str, operation: int, value: str | None = None, key: str = MIN_ISR) -> ErrorCode:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[Alterable(name=key, config_operation=operation, value=value)]
    )
    answer = controller.ask(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))
    return ErrorCode(answer.responses[0].error_code)


def create(controller: Controller, name: str = "t", replicas: tuple[int, ...] = (1, 2, 3), min_isr: int = 2) -> None:
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    config = CreateTopicsRequest.CreatableTopicConfig(name=MIN_ISR, value=str(min_isr))
    assert controller.create(name, -1, -1, assignments=[assignment], configs=[config]).error_code == 0


def fence(controller: Controller, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        controller.heartbeat(broker_id, want_fence=True)


def restart(controller: Controller, broker_id: int, *, clean: bool) -> None:
    """The same directories and addresses, another process."""
    broker = controller.core.state.brokers[broker_id]
    previous = broker.epoch if clean else -1
    controller.register(broker_id, incarnation=broker.incarnation_id.int % 100 + 1, previous_epoch=previous)


def shape(partition: PartitionRegistration) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def elect(controller: Controller, kind: int) -> ErrorCode:
    named = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
    answer = controller.ask(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=[named]))
    return ErrorCode(answer.replica_election_results[0].partition_result[0].error_code)


@pytest.fixture
def controller() -> Controller:
    controller = Controller()
    controller.join(1, 2, 3)
    create(controller)
    return controller


class TestStops:
    def test_who_stopped_cleanly_comes_back_as_leader_and_who_did_not_does_not(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        assert shape(controller.partition("t")) == (NO_LEADER, (), (2, 3), (3,))
        restart(controller, 3, clean=False)
        assert shape(controller.partition("t")) == (NO_LEADER, (), (2,), (3,))
        controller.heartbeat(3)
        assert controller.partition("t").leader == NO_LEADER, "another may have more"
        restart(controller, 2, clean=True)
        controller.heartbeat(2)
        assert shape(controller.partition("t")) == (2, (2,), (), ())
        assert controller.partition("t").leader_recovery_state == RECOVERED

    def test_when_all_stopped_uncleanly_the_last_leader_leads_and_recovers(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        for broker_id in (2, 3, 1):
            restart(controller, broker_id, clean=False)
        assert shape(controller.partition("t")) == (NO_LEADER, (), (), (3,))
        controller.heartbeat(1)
        assert controller.partition("t").leader == NO_LEADER
        controller.heartbeat(3)
        assert shape(controller.partition("t")) == (3, (3,), (), ())
        assert controller.partition("t").leader_recovery_state == RECOVERING

    def test_a_leaderless_partition_of_before_has_no_last_leader_to_name(self) -> None:
        """It lost its leader while the last in-sync replica stayed in the ISR, and the feature was turned on since."""
        controller = Controller(elr=False)
        controller.join(1, 2)
        create(controller, replicas=(1,), min_isr=1)
        controller.now_s += 100
        controller.heartbeat(2)
        assert controller.run(fence_stale_broker) == 1
        assert shape(controller.partition("t")) == (NO_LEADER, (1,), (), ())
        controller.append(level_records({"eligible.leader.replicas.version": 1}))
        restart(controller, 1, clean=False)
        assert shape(controller.partition("t")) == (NO_LEADER, (), (), ())

    def test_the_last_leader_that_is_known_is_that_of_the_last_term(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        restart(controller, 2, clean=True)
        controller.heartbeat(2)
        assert controller.partition("t").last_known_elr == ()
        fence(controller, 2)
        assert shape(controller.partition("t")) == (NO_LEADER, (), (2, 3), (2,))


class TestMinIsr:
    @pytest.mark.parametrize(("kind", "name", "others_too"), [(TOPIC, "t", False), (BROKER, "", True)])
    def test_a_change_makes_eligible_replicas_begin_anew(self, controller: Controller, kind: int, name: str, others_too: bool) -> None:
        create(controller, "other")
        fence(controller, 1, 2)
        assert [controller.partition(topic).elr for topic in ("t", "other")] == [(2,), (2,)]
        assert set_config(controller, kind, name, SET, "3") is ErrorCode.NONE
        assert [controller.partition(topic).elr for topic in ("t", "other")] == [(), () if others_too else (2,)]
        assert controller.image().topics.by_name["t"].partitions[0].elr == ()

    def test_taking_a_topic_s_value_away_is_a_change_as_well(self, controller: Controller) -> None:
        fence(controller, 1, 2)
        topic = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
        controller.ask(alter_configs, AlterConfigsRequest(resources=[topic]))
        assert controller.partition("t").elr == ()

    def test_other_keys_and_dry_runs_clear_nothing(self, controller: Controller) -> None:
        fence(controller, 1, 2)
        set_config(controller, TOPIC, "t", SET, "1", key="retention.ms")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=[Alterable(name=MIN_ISR, config_operation=SET, value="1")]
        )
        controller.ask(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource], validate_only=True))
        assert controller.partition("t").elr == (2,)

    def test_nothing_is_cleared_without_the_feature(self) -> None:
        controller = Controller(elr=False)
        controller.join(1)
        create(controller, replicas=(1,), min_isr=1)
        assert set_config(controller, TOPIC, "t", SET, "2") is ErrorCode.NONE
        assert not any(isinstance(record, ClearElrRecord) for record, _ in controller.log)

    def test_all_brokers_have_one_value_for_all_topics(self, controller: Controller) -> None:
        assert set_config(controller, BROKER, "1", SET, "2") is ErrorCode.INVALID_CONFIG
        assert set_config(controller, BROKER, "1", DELETE) is ErrorCode.INVALID_CONFIG
        assert set_config(controller, BROKER, "", SET, "2") is ErrorCode.NONE
        assert set_config(controller, BROKER, "", DELETE) is ErrorCode.INVALID_CONFIG
        cluster = AlterConfigsRequest.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[])
        answer = controller.ask(alter_configs, AlterConfigsRequest(resources=[cluster]))
        assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
        assert set_config(controller, TOPIC, "t", DELETE) is ErrorCode.NONE

    def test_each_broker_may_have_its_own_without_the_feature(self) -> None:
        controller = Controller(elr=False)
        controller.join(1)
        assert set_config(controller, BROKER, "1", SET, "2") is ErrorCode.NONE
        assert set_config(controller, BROKER, "", SET, "2") is ErrorCode.NONE
        assert set_config(controller, BROKER, "", DELETE) is ErrorCode.NONE


class TestElections:
    def test_an_unclean_election_is_not_needed_where_an_eligible_replica_lives(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        controller.heartbeat(2)
        assert shape(controller.partition("t")) == (2, (2,), (3,), ())
        assert elect(controller, ELECTION_UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED

    def test_one_that_is_asked_for_takes_whoever_lives(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        controller.heartbeat(1)
        assert controller.partition("t").leader == NO_LEADER
        assert elect(controller, ELECTION_PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert elect(controller, ELECTION_UNCLEAN) is ErrorCode.NONE
        assert shape(controller.partition("t")) == (1, (1,), (), ())
        assert controller.partition("t").leader_recovery_state == RECOVERING

    @pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, ""), (BROKER, "node")])
    def test_topics_that_allow_it_need_not_be_asked_for(self, controller: Controller, kind: int, name: str) -> None:
        fence(controller, 1, 2, 3)
        controller.heartbeat(1)
        controller.run(elect_unclean_leaders)
        assert controller.partition("t").leader == NO_LEADER
        node = str(controller.core.context.node_id)
        if name == "node" and node not in "123":
            controller.join(int(node))
        set_config(controller, kind, node if name == "node" else name, SET, "true", key="unclean.leader.election.enable")
        controller.run(elect_unclean_leaders)
        assert shape(controller.partition("t")) == (1, (1,), (), ())

    def test_the_configuration_file_may_allow_it(self) -> None:
        controller = Controller(settings={"unclean.leader.election.enable": "true"})
        controller.join(1, 2)
        create(controller, replicas=(1, 2), min_isr=1)
        fence(controller, 1)
        controller.heartbeat(1)
        fence(controller, 2)
        assert (controller.partition("t").leader, controller.partition("t").leader_recovery_state) == (1, RECOVERING)

    def test_balancing_finds_a_leader_where_there_is_none(self, controller: Controller) -> None:
        fence(controller, 1, 2, 3)
        topic = controller.core.state.topic("t")
        assert topic is not None
        controller.heartbeat(1)
        # Broker 1 has become eligible by a way that elects nobody.
        topic.partitions[0] = topic.partitions[0]._replace(elr=(1,))
        controller.run(balance_leaders)
        assert controller.partition("t").leader == 1


def test_levels_that_nobody_here_serves_are_registered_where_they_are_finalized() -> None:
    unserved = [name for name, level in SUPPORTED_LEVELS.items() if level == 0]
    assert set(unserved) == {"share.version", "streams.version"}
    assert registered_features({}) == supported_features()
    assert registered_features({"share.version": 1, "group.version": 1}) == supported_features() | {"share.version": (0, 1)}
    assert registered_features({"share.version": 7, "unheard.of": 1}) == supported_features()
