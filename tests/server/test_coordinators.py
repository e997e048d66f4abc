"""When a broker's coordinators are made, what they are told, and what stays unloaded until somebody needs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.keys.transactions import TRANSACTION_STATE_LOG_NUM_PARTITIONS
from odradek.coordinator.partition_log import open_partition_log
from odradek.coordinator.transaction.records import encoded_transaction
from odradek.coordinator.transaction.state import Transaction
from odradek.protocol.messages.metadata_records import PartitionChangeRecord
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.records.batch import encode_batch
from odradek.replication.verification import Again, Support
from odradek.server.cluster.coordinators import Coordinators, partition_count
from tests.handlers.support import NODE, Broker, batch, run_inline

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Ids:
    def next_id(self) -> Deferred[int]:
        return Deferred.of(1)


def node(**config: str) -> Broker:
    return Broker(producer_ids=Ids(), **config)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def made(coordinators: Coordinators) -> tuple[bool, bool]:
    return coordinators.made_groups is not None, coordinators.made_transactions is not None


def test_nobody_needs_them_and_none_is_made() -> None:
    broker = node()
    coordinators = broker.parts.coordinators
    broker.create_topic("t")
    coordinators.abort_timed_out_transactions()
    coordinators.remove_expired_transactional_ids()
    coordinators.close()
    assert made(coordinators) == (False, False)


def test_their_code_is_not_even_loaded() -> None:
    program = "import sys, odradek.server.cluster.coordinators; print(*[name for name in sys.modules if '.coordinator' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["odradek.server.cluster.coordinators"]


@pytest.mark.parametrize(("topic", "expected"), [(GROUPS, (True, False)), (TRANSACTIONS, (False, True))])
def test_leading_a_partition_of_the_topic_makes_the_coordinator(topic: str, expected: tuple[bool, bool]) -> None:
    broker = node()
    id_ = broker.create_topic(topic)
    broker.clock.run_due()
    assert made(broker.parts.coordinators) == expected
    runtime = broker.parts.groups.runtime if topic == GROUPS else broker.parts.transactions.runtime
    home = TopicPartition(topic, 0)
    assert runtime.leader_epoch(home) is not None
    broker.move_leader(id_, 2)
    assert runtime.leader_epoch(home) is None
    broker.move_leader(id_, NODE)
    broker.clock.run_due()
    assert runtime.leader_epoch(home) is not None


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_topic_that_is_deleted_and_made_anew_in_one_image_is_loaded_anew(topic: str) -> None:
    """Its partition has the epoch of the former one."""
    broker = node()
    former = broker.create_topic(topic)
    broker.clock.run_due()
    runtime = broker.parts.groups.runtime if topic == GROUPS else broker.parts.transactions.runtime
    home = TopicPartition(topic, 0)
    before = runtime.read(home, lambda shard: shard)
    broker.create_topic(topic, number=2, former=former)
    broker.clock.run_due()
    assert runtime.leader_epoch(home) == 0
    assert runtime.read(home, lambda shard: shard) is not before


def test_following_makes_none() -> None:
    broker = node()
    broker.create_topic(GROUPS, leader=2, replicas=(1, 2))
    broker.create_topic(TRANSACTIONS, number=2, leader=2, replicas=(1, 2))
    assert made(broker.parts.coordinators) == (False, False)


def test_after_the_end_nobody_coordinates() -> None:
    broker = node()
    broker.create_topic(TRANSACTIONS)
    broker.clock.run_due()
    assert code_of(lambda: broker.parts.transactions.describe("x")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    broker.parts.coordinators.close()
    assert code_of(lambda: broker.parts.transactions.describe("x")) is ErrorCode.NOT_COORDINATOR
    late = node()
    late.parts.coordinators.close()
    assert code_of(lambda: late.parts.transactions.describe("x")) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_after_the_end_nothing_is_loaded(topic: str) -> None:
    broker = node()
    broker.parts.coordinators.close()
    broker.create_topic(topic)
    broker.clock.run_due()
    runtime = broker.parts.groups.runtime if topic == GROUPS else broker.parts.transactions.runtime
    assert runtime.leader_epoch(TopicPartition(topic, 0)) is None


def test_whoever_waits_for_a_topic_hears_of_it_in_time_or_at_the_end() -> None:
    broker = node()
    coordinators = broker.parts.coordinators
    timers = len(broker.clock.pending)
    comes, too_late, until_the_end = (coordinators.await_topic(topic, 30) for topic in (GROUPS, "t", "t"))
    broker.create_topic(GROUPS)
    assert comes.done
    assert coordinators.await_topic(GROUPS, 30).done
    broker.clock.run_due()
    assert len([each for each in broker.clock.pending if "_arrived" in each]) == 2
    broker.clock.advance_s(30)
    assert too_late.done
    until_the_end = [coordinators.await_topic(topic, 30) for topic in ("t", "t", "u")]
    assert not any(each.done for each in until_the_end)
    coordinators.close()
    assert all(each.done for each in until_the_end)
    assert coordinators.await_topic("t", 30).done, "nobody waits after the end"
    assert len([each for each in broker.clock.pending if "_arrived" in each]) == timers == 0


def test_all_who_wait_for_a_topic_hear_of_it_and_nobody_else_does() -> None:
    broker = node()
    coordinators = broker.parts.coordinators
    for number, name in enumerate(("a", "b"), 1):
        waiting = [coordinators.await_topic(topic, 30) for topic in (name, "other", name, name)]
        broker.create_topic(name, number=number)
        assert [each.done for each in waiting] == [True, False, True, True]


def test_a_coordinator_of_a_former_leadership_writes_nothing_and_hears_of_it() -> None:
    broker = node()
    id_ = broker.create_topic(GROUPS)
    log = open_partition_log(broker.manager, run_inline)(TopicPartition(GROUPS, 0))
    told: list[str] = []
    log.listen(lambda _: told.append("high watermark"), lambda: told.append("lost"))
    broker.move_leader(id_, 2)
    broker.move_leader(id_, NODE)
    broker.clock.run_due()
    assert "lost" in told
    assert code_of(lambda: log.append(batch(), 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.log_end(GROUPS) == 0
    assert not log.continue_leading(1), "that was another's"
    assert code_of(lambda: log.high_watermark) is ErrorCode.FENCED_LEADER_EPOCH
    assert log.continue_leading(2)
    assert log.append(batch(), 2) == 0


def test_a_partition_that_is_led_in_an_epoch_that_its_coordinator_has_not_heard_of_is_lost() -> None:
    broker = node()
    id_ = broker.create_topic(GROUPS)
    home = TopicPartition(GROUPS, 0)
    log = open_partition_log(broker.manager, run_inline)(home)
    told: list[str] = []
    log.listen(lambda _: told.append("high watermark"), lambda: told.append("lost"))
    change = PartitionChangeRecord(partition_id=0, topic_id=id_, leader=2)
    broker.apply(change, PartitionChangeRecord(partition_id=0, topic_id=id_, leader=NODE))
    open_partition_log(broker.manager, run_inline)(home).append(batch(), 2)
    broker.clock.run_due()
    assert set(told) == {"lost"}


@pytest.mark.parametrize("runs", [False, True])
def test_what_a_coordinator_has_read_is_let_go(runs: bool) -> None:
    """Else its segments would never be deleted."""
    broker = node()
    broker.create_topic(GROUPS)
    home = TopicPartition(GROUPS, 0)
    log = open_partition_log(broker.manager, run_inline, runs=runs)(home)
    log.append(batch(), 0)
    read = log.read(0, 1, 1000)
    assert read.done
    hosted = broker.manager.partition(home).log
    assert hosted is not None
    assert hosted.segments.active.pin.readers == 0


def test_a_read_of_a_coordinator_that_fails_is_let_go_as_well() -> None:
    broker = node()
    broker.create_topic(GROUPS)
    home = TopicPartition(GROUPS, 0)
    log = open_partition_log(broker.manager, lambda job: Deferred.failed(OSError(5, "broken")))(home)
    log.append(batch(), 0)
    read = log.read(0, 1, 1000)
    assert isinstance(read.error, OSError)
    hosted = broker.manager.partition(home).log
    assert hosted is not None
    assert hosted.segments.active.pin.readers == 0


@pytest.mark.parametrize(("messages", "flushed"), [("1", 1), ("100", 0)])
def test_flush_messages_holds_for_coordinators(messages: str, flushed: int) -> None:
    broker = node()
    broker.create_topic(GROUPS, flush_messages=messages)
    partition = TopicPartition(GROUPS, 0)
    open_partition_log(broker.manager, run_inline)(partition).append(batch(), 0)
    broker.clock.run_due()
    log = broker.manager.partition(partition).log
    assert log is not None
    assert log.recovery_point == flushed


def test_what_was_copied_as_a_follower_is_flushed_before_its_coordinator_serves() -> None:
    """Under flush.messages only what is durable counts, and a coordinator that is not active yet writes nothing that would flush it."""
    broker = node()
    id_ = broker.create_topic(GROUPS, leader=2, replicas=(NODE, 2), flush_messages="1")
    partition = broker.manager.partition(TopicPartition(GROUPS, 0))
    unknown = encode_batch([(0, (99).to_bytes(2, "big") + b"of a later release", b"", ())])
    partition.append_as_follower(memoryview(unknown), 0, high_watermark=0, log_start_offset=0)
    assert partition.log is not None
    assert partition.log.recovery_point == 0
    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, leader=NODE, isr=[NODE]))
    broker.clock.run_due()
    assert partition.log.high_watermark == 1
    assert broker.parts.groups.runtime.leader_epoch(TopicPartition(GROUPS, 0)) == 1


@pytest.mark.parametrize("topic", [GROUPS, TRANSACTIONS])
def test_a_leader_that_leads_on_keeps_its_shards_and_one_that_led_in_between_ends_them(topic: str) -> None:
    broker = node()
    id_ = broker.create_topic(topic)
    broker.clock.run_due()
    runtime = broker.parts.groups.runtime if topic == GROUPS else broker.parts.transactions.runtime
    home = TopicPartition(topic, 0)
    [first] = runtime.each_active(lambda shard: shard)
    broker.move_leader(id_, NODE)
    broker.clock.run_due()
    assert runtime.leader_epoch(home) == 1
    assert runtime.each_active(lambda shard: shard) == [first]
    # Two epochs at once: another was elected, and this broker has never followed it.
    change = PartitionChangeRecord(partition_id=0, topic_id=id_, leader=2)
    broker.apply(change, PartitionChangeRecord(partition_id=0, topic_id=id_, leader=NODE))
    broker.clock.run_due()
    assert runtime.leader_epoch(home) == 3
    assert runtime.each_active(lambda shard: shard) == [first]
    broker.move_leader(id_, 2)
    assert runtime.leader_epoch(home) is None
    broker.move_leader(id_, NODE)
    broker.clock.run_due()
    assert runtime.leader_epoch(home) == 5
    assert runtime.each_active(lambda shard: shard) != [first]


def test_a_load_is_begun_anew_after_a_term_of_another_leader() -> None:
    """Leader, follower and leader again, while the first read is under way: what it finds may have been cut off since."""
    broker = node()
    jobs: list[tuple[Callable[[], None], Deferred[None]]] = []

    def run_job(job: Callable[[], None]) -> Deferred[None]:
        jobs.append((job, Deferred()))
        return jobs[-1][1]

    coordinators = broker.coordinators = Coordinators(broker.services, broker.manager, Ids(), None, run_job)  # type: ignore[arg-type]
    broker.manager.changes.on_leadership = [coordinators.leadership_changed]
    home = TopicPartition(TRANSACTIONS, 0)

    def known(name: str, leader_epoch: int) -> memoryview:
        encoded = encoded_transaction(Transaction(name, 7, 0, 60_000), 2)
        return memoryview(encode_batch([(0, *encoded, ())], partition_leader_epoch=leader_epoch))

    id_ = broker.create_topic(TRANSACTIONS, leader=2, replicas=(NODE, 2))
    partition = broker.manager.partition(home)
    partition.append_as_follower(known("cut", 0), 0, high_watermark=0, log_start_offset=0)
    broker.apply(PartitionChangeRecord(partition_id=0, topic_id=id_, leader=NODE, isr=[NODE]))
    (first, first_done), *_ = jobs
    first()
    broker.move_leader(id_, 2)
    assert partition.log is not None
    partition.log.truncate_to(0)
    partition.append_as_follower(known("kept", 2), 2, high_watermark=0, log_start_offset=0)
    broker.move_leader(id_, NODE)
    first_done.complete(None)
    (second, second_done), *_ = jobs[1:]
    second()
    second_done.complete(None)
    broker.clock.run_due()
    assert [each.transactional_id for each in coordinators.transactions.all()] == ["kept"]


def test_partitions_are_counted_in_the_topic_or_in_the_settings() -> None:
    broker = node(transaction_state_log_num_partitions="7")
    assert partition_count(broker.services, TRANSACTIONS, TRANSACTION_STATE_LOG_NUM_PARTITIONS) == 7
    broker.create_topic(TRANSACTIONS, partitions=3)
    assert partition_count(broker.services, TRANSACTIONS, TRANSACTION_STATE_LOG_NUM_PARTITIONS) == 3


def test_a_verification_without_a_coordinator_is_tried_again_by_the_client() -> None:
    broker = node()
    partition = TopicPartition("t", 0)
    answer = broker.parts.coordinators.verify("x", 7, 0, [partition], Support(False, True))
    assert answer.result() == {partition: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    broker.move_leader(broker.create_topic(TRANSACTIONS), -1)
    answer = broker.parts.coordinators.verify("x", 7, 0, [partition], Support(False, True))
    assert answer.result() == {partition: ErrorCode.COORDINATOR_NOT_AVAILABLE}, "the controller is none"


class Verifier:
    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.asked: list[tuple[str, Support]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        support: Support,
        again: Again | None = None,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        self.asked.append((transactional_id, support))
        return Deferred.of({} if self.code is ErrorCode.NONE else dict.fromkeys(partitions, self.code))


@pytest.mark.parametrize(("setting", "version", "asked"), [("true", 4, True), ("true", 5, True), ("false", 4, False), ("false", 5, True)])
def test_offsets_are_verified_unless_that_is_off_and_the_client_adds_them_itself(setting: str, version: int, asked: bool) -> None:
    broker = node(transaction_partition_verification_enable=setting)
    broker.create_topic(GROUPS)
    verifier = Verifier()
    broker.manager.verified_appender.verifier = verifier
    verify = broker.parts.groups.verify
    assert verify is not None
    request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=7, producer_epoch=0)
    guard = verify(TopicPartition(GROUPS, 0), request, version).result()
    assert (guard is not None) is asked
    assert verifier.asked == ([("x", Support(version >= 5, True))] if asked else [])
    verifier.code = ErrorCode.TRANSACTION_ABORTABLE
    refused = verify(TopicPartition(GROUPS, 0), request, version)
    assert (refused.error is not None) is asked
    elsewhere = verify(TopicPartition(GROUPS, 5), request, version)
    assert (elsewhere.error is not None) is asked
