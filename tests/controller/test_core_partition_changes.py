"""What becomes of a partition: the record from what it is and what it should be, and the partition after it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from odradek.controller.core.partition_change import Election, PartitionChange
from odradek.controller.core.partitions import list_partition_reassignments
from odradek.controller.core.result import VersionedRecord
from odradek.metadata.features import LATEST_METADATA_VERSION
from odradek.metadata.registrations import NO_LEADER, RECOVERED, RECOVERING, PartitionRegistration
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.metadata_records import PartitionChangeRecord

from .harness import Controller, directory

TOPIC = UUID(int=7 << 64)


def partition(
    replicas: tuple[int, ...] = (0, 1, 2), isr: tuple[int, ...] = (0, 1, 2), leader: int = 0, **fields: Any
) -> PartitionRegistration:
    values: dict[str, Any] = {
        "replicas": replicas,
        "directories": tuple(directory(replica) for replica in replicas),
        "isr": isr,
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": leader,
        "leader_recovery_state": RECOVERED,
        "leader_epoch": 5,
        "partition_epoch": 9,
    }
    return PartitionRegistration(**(values | fields))


def change(
    before: PartitionRegistration, alive: set[int] | None = None, *, min_isr: int = 2, elr: bool = True, **targets: Any
) -> PartitionRegistration | None:
    """The partition after a change towards the targets; None where nothing is written."""
    living = {0, 1, 2, 3, 4} if alive is None else alive
    builder = PartitionChange(
        before,
        TOPIC,
        0,
        acceptable=lambda broker, _: broker in living,
        metadata_version=LATEST_METADATA_VERSION,
        min_isr=min_isr,
        elr_enabled=elr,
        default_directory=directory,
    )
    for name, value in targets.items():
        setattr(builder, name, value)
    record = builder.build()
    if record is None:
        return None
    assert isinstance(record.message, PartitionChangeRecord)
    return before.merge(record.message)


def after(before: PartitionRegistration, alive: set[int] | None = None, **options: Any) -> PartitionRegistration:
    changed = change(before, alive, **options)
    assert changed is not None
    return changed


def test_no_difference_no_record() -> None:
    assert change(partition()) is None
    assert change(partition(), election=Election.PREFERRED) is None


class TestElections:
    def test_the_first_replica_in_sync_and_alive_follows_a_leader_that_goes(self) -> None:
        new = after(partition(isr=(0, 2, 1)), {1, 2}, isr=[2, 1])
        assert (new.leader, new.leader_epoch, new.isr, new.leader_recovery_state) == (1, 6, (2, 1), RECOVERED)
        assert after(partition(isr=(0, 2)), {1, 2}, isr=[2]).leader == 2, "1 lives, but is not in sync"

    def test_nobody_leads_while_nobody_in_sync_is_alive(self) -> None:
        new = after(partition(isr=(0,)), {1, 2}, elr=False)
        assert (new.leader, new.isr, new.leader_epoch) == (NO_LEADER, (0,), 6)

    @pytest.mark.parametrize(("isr", "alive", "leader"), [((0, 1), {0, 1}, 0), ((1, 2), {0, 1, 2}, 1), ((0, 1), {1}, 1)])
    def test_the_preferred_replica_leads_only_in_sync_and_alive(self, isr: tuple[int, ...], alive: set[int], leader: int) -> None:
        new = change(partition(isr=isr, leader=1), alive, election=Election.PREFERRED)
        assert (1 if new is None else new.leader) == leader

    def test_an_unclean_leader_is_alone_and_has_to_recover(self) -> None:
        new = after(partition(isr=(0,), leader=NO_LEADER), {1, 2}, elr=False, election=Election.UNCLEAN)
        assert (new.leader, new.isr, new.leader_recovery_state) == (1, (1,), RECOVERING)

    def test_an_election_is_not_unclean_where_it_need_not_be(self) -> None:
        new = after(partition(isr=(0, 2), leader=0), {1, 2}, elr=False, election=Election.UNCLEAN, isr=[2])
        assert (new.leader, new.isr, new.leader_recovery_state) == (2, (2,), RECOVERED)

    def test_a_leader_that_has_recovered_says_so(self) -> None:
        new = after(partition(isr=(0,), leader_recovery_state=RECOVERING), recovery_state=RECOVERED)
        assert (new.leader_recovery_state, new.leader_epoch) == (RECOVERED, 5)


class TestEligibleReplicas:
    def test_who_leaves_below_min_isr_stays_eligible(self) -> None:
        new = after(partition(isr=(0, 1)), isr=[0])
        assert (new.isr, new.elr) == ((0,), (1,))

    def test_who_leaves_while_enough_stay_does_not(self) -> None:
        new = after(partition(), isr=[0, 1])
        assert (new.isr, new.elr) == ((0, 1), ())

    def test_who_left_earlier_stays_until_enough_are_in_sync_again(self) -> None:
        few = after(partition(isr=(0,), elr=(1,)), isr=[0, 2], min_isr=3)
        assert (few.isr, few.elr) == ((0, 2), (1,))
        enough = after(few, isr=[0, 2, 1], min_isr=3)
        assert (enough.isr, enough.elr) == ((0, 2, 1), ())
        others = after(partition(replicas=(0, 1, 2, 3), isr=(0,), elr=(1,)), isr=[0, 2, 3], min_isr=3)
        assert (others.isr, others.elr) == ((0, 2, 3), ()), "what these three acknowledge, 1 may lack"

    def test_who_stopped_uncleanly_is_not_eligible(self) -> None:
        new = after(partition(isr=(0, 1)), isr=[0], unclean_shutdown=(1,))
        assert (new.isr, new.elr) == ((0,), ())
        new = after(partition(isr=(0,), elr=(1, 2)), {0, 2}, unclean_shutdown=(1,))
        assert new.elr == (2,)

    def test_one_of_them_leads_when_nobody_is_in_sync(self) -> None:
        new = after(partition(isr=(), leader=NO_LEADER, elr=(1, 2)), {2})
        assert (new.leader, new.isr, new.elr, new.leader_recovery_state) == (2, (2,), (1,), RECOVERED)

    def test_none_of_them_leads_while_somebody_in_sync_may_come_back(self) -> None:
        gone = after(partition(isr=(0,), elr=(1,)), {1})
        assert gone.leader == NO_LEADER

    def test_none_without_the_feature(self) -> None:
        new = after(partition(isr=(0, 1)), isr=[0], elr=False)
        assert (new.isr, new.elr) == ((0,), ())
        assert after(partition(isr=(0,), elr=(1,), last_known_elr=()), elr=False).elr == ()


class TestLastKnownLeader:
    def test_it_is_kept_when_the_last_in_sync_replica_goes(self) -> None:
        new = after(partition(isr=(0,)), {1, 2}, isr=[], unclean_shutdown=(0,))
        assert (new.leader, new.isr, new.elr, new.last_known_elr) == (NO_LEADER, (), (), (0,))

    def test_it_leads_uncleanly_when_nobody_else_may(self) -> None:
        new = after(partition(isr=(), leader=NO_LEADER, last_known_elr=(0,)), {0, 1, 2})
        assert (new.leader, new.isr, new.leader_recovery_state, new.last_known_elr) == (0, (0,), RECOVERING, ())

    def test_it_waits_for_eligible_replicas(self) -> None:
        assert change(partition(isr=(), leader=NO_LEADER, elr=(1,), last_known_elr=(0,)), {0}) is None

    def test_nobody_else_leads_in_its_place(self) -> None:
        assert change(partition(isr=(), leader=NO_LEADER, last_known_elr=(0,)), {1, 2}) is None


class TestReassignments:
    BEFORE = partition(replicas=(2, 0, 1), isr=(0, 1), adding_replicas=(2,), removing_replicas=(0,))

    def test_the_old_replicas_stay_until_the_new_ones_are_in_sync(self) -> None:
        before = partition(replicas=(2, 3, 0, 1), isr=(0, 1), adding_replicas=(2, 3), removing_replicas=(0,))
        new = after(before, isr=[0, 1, 2])
        assert (new.replicas, new.adding_replicas, new.removing_replicas) == ((2, 3, 0, 1), (2, 3), (0,))

    def test_then_they_go_and_a_new_one_leads(self) -> None:
        new = after(self.BEFORE, isr=[0, 1, 2])
        assert (new.replicas, new.isr, new.adding_replicas, new.removing_replicas) == ((2, 1), (1, 2), (), ())
        assert (new.leader, new.leader_epoch) == (2, 6)
        assert new.directories == (directory(2), directory(1))

    def test_the_leader_epoch_goes_up_with_it_whoever_leads(self) -> None:
        before = partition(replicas=(2, 0, 1), isr=(0, 1), adding_replicas=(2,), removing_replicas=(1,))
        new = after(before, isr=[0, 1, 2])
        assert (new.leader, new.leader_epoch, new.replicas) == (0, 6, (2, 0)), "1 must not go on fetching"

    def test_not_into_nothing(self) -> None:
        before = partition(replicas=(0, 1), isr=(0,), removing_replicas=(0,))
        assert change(before) is None, "1 is not in sync"

    def test_those_under_way_are_listed_among_what_was_asked_for(self) -> None:
        controller = Controller()
        controller.join(0, 1, 2)
        for name in ("coming", "going", "still"):
            controller.create(name, 3, 2)
        coming = self.begin(controller, "coming", 1, replicas=[2, 0, 1], adding_replicas=[2], removing_replicas=[0])
        going = self.begin(controller, "going", 2, replicas=[0, 1], removing_replicas=[1])
        adding = self.begin(controller, "going", 0, replicas=[0, 1, 2], adding_replicas=[2])
        assert (coming, going, adding) == ((1, [2, 0, 1], [2], [0]), (2, [0, 1], [], [1]), (0, [0, 1, 2], [2], []))

        assert self.listed(controller, None) == [("coming", [coming]), ("going", [adding, going])]
        assert self.listed(controller, []) == []
        assert self.listed(controller, [("still", [0, 1, 2]), ("unknown", [0]), ("coming", [0, 2, 7, -1]), ("going", [])]) == []
        asked = [("going", [2, 0, 2]), ("coming", [1, 0]), ("going", [0])]
        assert self.listed(controller, asked) == [("going", [going, adding, going]), ("coming", [coming]), ("going", [adding])]

        self.begin(controller, "coming", 1, replicas=[2, 1], adding_replicas=[], removing_replicas=[])
        assert self.listed(controller, [("coming", [1])]) == [], "it is over"

    def begin(self, controller: Controller, name: str, number: int, **fields: list[int]) -> tuple[int, list[int], list[int], list[int]]:
        """Writes what a reassignment changes of a partition; gives the partition as it is to be listed."""
        topic_id = controller.core.state.topic_ids[name]
        directories = [directory(replica) for replica in fields["replicas"]]
        record = PartitionChangeRecord(topic_id=topic_id, partition_id=number, directories=directories, **fields)
        controller.append([VersionedRecord(record, 2)])
        now = controller.partition(name, number)
        return number, list(now.replicas), list(now.adding_replicas), list(now.removing_replicas)

    def listed(self, controller: Controller, wanted: list[tuple[str, list[int]]] | None) -> list[tuple[str, list[Any]]]:
        topics_of = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        topics = None if wanted is None else [topics_of(name=name, partition_indexes=numbers) for name, numbers in wanted]
        answer = controller.ask(list_partition_reassignments, ListPartitionReassignmentsRequest(topics=topics))
        assert (answer.error_code, answer.error_message) == (0, None)
        return [
            (topic.name, [(p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas) for p in topic.partitions])
            for topic in answer.topics
        ]


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    controller = Controller(settings={"min.insync.replicas": "2"})
    controller.join(0)
    controller.create("a")
    controller.heartbeat(0, want_fence=True)
    gone = controller.partition("a")
    assert (gone.isr, gone.elr) == ((), (0,))
    controller.heartbeat(0)
    back = controller.partition("a")
    assert (back.leader, back.isr, back.elr) == (0, (0,), ()), "one replica is enough where there is only one"
