"""Brokers and partitions at random: they come, go, fail and come back with or without what they had, and leaders change their ISRs.

After each step: an ISR and the eligible replicas are replicas, and no replica is both; a leader is in the ISR, lives, and its log directory
works; epochs rise with what they count. With eligible leader replicas: whoever leads without having to recover has everything that was ever
committed, and so has everybody who may be elected; who goes in an orderly way never leaves fewer of them than min.insync.replicas asks for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import pytest

from odradek.controller.core.brokers import broker_heartbeat, fence_stale_broker, unregister_broker
from odradek.controller.core.configs import SET, incremental_alter_configs
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.partitions import (
    alter_partition,
    assign_replicas_to_directories,
    balance_leaders,
    elect_leaders,
    elect_unclean_leaders,
)
from odradek.controller.core.result import ControllerResult
from odradek.metadata.registrations import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.controller.harness import Controller, directory

BROKERS = range(5)
DIRS = 2
Place = tuple[str, int]
R = TypeVar("R")


class Watched(Controller):
    """Tells of each operation that has been decided and replayed."""

    on_decided: Callable[[], object] = staticmethod(lambda: None)

    def run(self, operation: Callable[[ControllerContext], ControllerResult[R]]) -> R:
        response = super().run(operation)
        self.on_decided()
        return response


class History:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.elr = self.rng.random() < 0.75
        self.controller = Watched(seed, elr=self.elr)
        self.min_isr = {"a": 1, "b": 2, "c": 3}
        self.incarnations = dict.fromkeys(BROKERS, 1)
        self.running: set[int] = set(BROKERS)
        """Processes that are there; the others have stopped, and the controller may not know yet."""
        self.leaving: set[int] = set()
        """Those that want to shut down, which does not change any more."""
        self.clean_epochs: dict[int, int] = {}
        """The epoch that an orderly stop left behind."""
        self.holders: dict[Place, set[int]] = {}
        """Who has everything that was ever committed, as far as the controller's decisions let anybody know."""
        self.orderly = True
        for broker_id in BROKERS:
            self.register(broker_id, -1)
            self.heartbeat(broker_id)
        for name, min_isr in self.min_isr.items():
            config = CreateTopicsRequest.CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr))
            assert self.controller.create(name, 2, 3, configs=[config]).error_code == 0
        self.before = self.partitions()
        self.note_commits()
        self.controller.on_decided = self.check

    # -- what happens ------------------------------------------------------------------------------------------------------------

    def register(self, broker_id: int, previous_epoch: int) -> None:
        self.controller.register(broker_id, incarnation=self.incarnations[broker_id], dirs=DIRS, previous_epoch=previous_epoch)

    def heartbeat(self, broker_id: int, **fields: object) -> bool:
        """False when the controller does not know this life any more."""
        broker = self.controller.core.state.brokers.get(broker_id)
        if broker is None or broker.incarnation_id != UUID(int=broker_id * 100 + self.incarnations[broker_id]):
            return False
        values: dict[str, object] = {
            "broker_id": broker_id,
            "broker_epoch": broker.epoch,
            "current_metadata_offset": len(self.controller.log),
            "want_shut_down": broker_id in self.leaving,
        }
        answer = self.controller.ask(broker_heartbeat, BrokerHeartbeatRequest(**(values | fields)))
        if answer.should_shut_down:
            self.running.discard(broker_id)
            self.clean_epochs[broker_id] = broker.epoch
        return True

    def step(self) -> None:
        rng, controller = self.rng, self.controller
        broker_id = rng.choice(BROKERS)
        roll = rng.random()
        self.orderly = True
        if roll < 0.30:
            self.alter()
        elif roll < 0.48:
            self.live(broker_id)
        elif roll < 0.56:
            self.stop(broker_id)
        elif roll < 0.66:
            self.start(broker_id)
        elif roll < 0.74:
            self.pass_time(rng.choice((1, 5, 10)))
        elif roll < 0.79:
            self.run_elections()
        elif roll < 0.83:
            self.fail_directory(broker_id)
        elif roll < 0.87:
            self.assign(broker_id)
        elif roll < 0.90 and broker_id not in self.running:
            self.orderly = False
            self.forget(broker_id)
        elif roll < 0.94:
            self.orderly = False
            self.configure()
        else:
            controller.run(balance_leaders)

    def live(self, broker_id: int) -> None:
        if broker_id in self.running:
            if self.rng.random() < 0.2:
                self.leaving.add(broker_id)
            self.heartbeat(broker_id, want_fence=self.rng.random() < 0.15)

    def stop(self, broker_id: int) -> None:
        """A crash: what is not on its disk is lost, and it comes back without the epoch that says otherwise."""
        self.running.discard(broker_id)
        self.clean_epochs.pop(broker_id, None)

    def start(self, broker_id: int) -> None:
        """Once the session of the life before is over, so that it is let in whatever became of its directories."""
        if broker_id in self.running:
            return
        self.pass_time(12)
        self.incarnations[broker_id] += 1
        clean = self.clean_epochs.pop(broker_id, -1)
        known = self.controller.core.state.brokers.get(broker_id)
        if known is None or known.epoch != clean:
            self.orderly = False
            for holders in self.holders.values():
                holders.discard(broker_id)
        self.leaving.discard(broker_id)
        self.register(broker_id, clean)
        self.running.add(broker_id)

    def pass_time(self, seconds: int) -> None:
        self.controller.now_s += seconds
        for broker_id in sorted(self.running):
            if self.rng.random() < 0.9:
                self.heartbeat(broker_id)
        while self.controller.run(fence_stale_broker) is not None:
            pass

    def alter(self) -> None:
        """A leader proposes an ISR of those that it may take for alive."""
        rng = self.rng
        name, number = rng.choice(list(self.before))
        partition = self.controller.partition(name, number)
        leader = partition.leader
        if leader not in self.running:
            return
        state = self.controller.core.state
        others = [replica for replica in partition.replicas if replica != leader and rng.random() < 0.6]
        grown = [replica for replica in others if replica in self.running]
        recovering = partition.leader_recovery_state == RECOVERING
        data = AlterPartitionRequest.PartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(broker_id=each, broker_epoch=state.brokers[each].epoch if each in state.brokers else -1)
                for each in ([leader] if recovering else [leader, *grown])
            ],
            leader_recovery_state=RECOVERED,
        )
        topic_id = state.topic_ids[name]
        topics = [AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[data])]
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=state.brokers[leader].epoch, topics=topics)
        self.controller.ask(alter_partition, request, 3)

    def run_elections(self) -> None:
        rng = self.rng
        if rng.random() < 0.5:
            self.controller.run(elect_unclean_leaders)
        else:
            kind = 1 if rng.random() < 0.3 else 0
            self.controller.ask(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=None))

    def fail_directory(self, broker_id: int) -> None:
        if broker_id in self.running:
            self.heartbeat(broker_id, offline_log_dirs=[directory(broker_id, self.rng.randrange(DIRS))])

    def assign(self, broker_id: int) -> None:
        broker = self.controller.core.state.brokers.get(broker_id)
        if broker is None or broker_id not in self.running:
            return
        name, number = self.rng.choice(list(self.before))
        place = AssignReplicasToDirsRequest
        topics = [
            place.TopicData(topic_id=self.controller.core.state.topic_ids[name], partitions=[place.PartitionData(partition_index=number)])
        ]
        where = place.DirectoryData(id=directory(broker_id, self.rng.randrange(DIRS)), topics=topics)
        request = AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=broker.epoch, directories=[where])
        self.controller.ask(assign_replicas_to_directories, request)

    def forget(self, broker_id: int) -> None:
        """Registers anew as somebody of whom nothing is known."""
        if broker_id in self.controller.core.state.brokers:
            self.controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=broker_id))
            self.clean_epochs.pop(broker_id, None)

    def configure(self) -> None:
        name = self.rng.choice(list(self.min_isr))
        key, value = ("unclean.leader.election.enable", self.rng.choice(("true", "false", "false")))
        if self.rng.random() < 0.5:
            self.min_isr[name] = self.rng.randint(1, 3)
            key, value = "min.insync.replicas", str(self.min_isr[name])
        config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=SET, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
        self.controller.ask(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource]))

    # -- what has to be --------------------------------------------------------------------------------------------------------------

    def partitions(self) -> dict[Place, PartitionRegistration]:
        return {(each.topic.name, each.number): each.partition for each in self.controller.core.state.all_partitions()}

    def note_commits(self) -> None:
        """The worst that can be: all that may be committed now is, and lies with the ISR alone."""
        for place, partition in self.partitions().items():
            holders = self.holders.setdefault(place, set())
            if partition.leader == NO_LEADER:
                continue
            if len(partition.isr) >= self.min_isr[place[0]]:
                holders.clear()
            # Who joins an ISR has what the leader has.
            holders.update(partition.isr)

    def check(self) -> None:
        state = self.controller.core.state
        for place, now in self.partitions().items():
            before = self.before[place]
            replicas, isr, elr = set(now.replicas), set(now.isr), set(now.elr)
            assert len(isr) == len(now.isr) <= len(replicas), place
            assert isr <= replicas, place
            assert elr <= replicas, place
            assert not isr & elr, place
            assert self.elr or not elr, place
            if now.leader != NO_LEADER:
                assert now.leader in isr, place
                assert state.is_active(now.leader), place
                assert state.brokers[now.leader].has_online_directory(now.directory(now.leader)), place
            self.check_epochs(place, before, now)
            if self.elr:
                self.check_eligible(place, before, now)
        self.before = self.partitions()
        self.note_commits()

    def check_epochs(self, place: Place, before: PartitionRegistration, now: PartitionRegistration) -> None:
        changed = before._replace(partition_epoch=0) != now._replace(partition_epoch=0)
        assert (now.partition_epoch > before.partition_epoch) == changed, place
        assert now.leader_epoch >= before.leader_epoch, place
        assert now.leader_epoch > before.leader_epoch or now.leader == before.leader, place

    def check_eligible(self, place: Place, before: PartitionRegistration, now: PartitionRegistration) -> None:
        holders = self.holders[place]
        if now.leader not in (before.leader, NO_LEADER):
            if now.leader in (*before.isr, *before.elr):
                assert now.leader in holders, f"{place}: {now.leader} was elected, and only {holders} have all"
            else:
                assert now.leader_recovery_state == RECOVERING, f"{place}: {now.leader} was elected uncleanly"
                holders.clear()
                holders.add(now.leader)
        assert set(now.elr) <= holders, f"{place}: {now.elr} are eligible, and only {holders} have all"
        if self.orderly and now.leader_recovery_state == before.leader_recovery_state == RECOVERED:
            least = min(self.min_isr[place[0]], len(before.isr) + len(before.elr))
            assert len(now.isr) + len(now.elr) >= least, f"{place}: {before} became {now}"


@pytest.mark.parametrize("seed", range(60))
def test_partitions_stay_what_they_must_be(seed: int) -> None:
    history = History(seed)
    for _ in range(250):
        history.step()
    assert history.controller.replica().state.comparable() == history.controller.core.state.comparable()
    image = history.controller.image().topics
    for (name, number), partition in history.partitions().items():
        assert image.by_name[name].partitions[number] == partition
