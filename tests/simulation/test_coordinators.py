"""Coordinators and partition leaders on different nodes: what they ask each other goes over the network; leadership moves in between."""

from __future__ import annotations

import random
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.replication.support import batch
from tests.simulation.cluster import DATA, OFFSETS, TRANSACTIONS, Cluster

STATE, GROUPS = TopicPartition(TRANSACTIONS, 0), TopicPartition(OFFSETS, 0)
AFAR = TopicPartition(DATA, 2)
"""Led by node 3; the transaction coordinator is node 1, the group coordinator node 2."""
Who = tuple[int, int]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(random.Random(1))


def begin(cluster: Cluster, node: int = 1) -> Who:
    answer = cluster.answer(node, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def produce(who: Who, partition: int = 2, *, sequence: int = 0, value: bytes = b"v") -> ProduceRequest:
    records = batch(value, producer_id=who[0], producer_epoch=who[1], base_sequence=sequence, transactional=True)
    data = ProduceRequest.PartitionProduceData(index=partition, records=bytes(records))
    topic = ProduceRequest.TopicProduceData(name=DATA, partition_data=[data])
    return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=[topic])


def code_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def end(who: Who, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="x", producer_id=who[0], producer_epoch=who[1], committed=commit)


def commit_offsets(who: Who) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=DATA, partitions=[partition])],
    )


def offset(cluster: Cluster, node: int = 2) -> int:
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[wanted])], require_stable=True)
    (group,) = cluster.answer(node, request, 9).groups
    assert group.error_code == 0, ErrorCode(group.error_code)
    return int(group.topics[0].partitions[0].committed_offset)


def plain_commit(value: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=value, committed_metadata="")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=DATA, partitions=[partition])
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])


def plain_offset(cluster: Cluster, node: int) -> tuple[ErrorCode, int]:
    """As consumers ask that do not care for open transactions: what is committed by now, without waiting."""
    group = cluster.nodes[node].parts.groups
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = group.fetch_offsets(asked, require_stable=False).result()
    return ErrorCode(answer.error_code), answer.topics[0].partitions[0].committed_offset if answer.topics else -1


def state(cluster: Cluster, node: int = 1) -> str:
    return cluster.nodes[node].parts.transactions.describe("x").state.label


def last_stable_lag(cluster: Cluster, partition: TopicPartition) -> int:
    log = cluster.leader(partition).log(partition)
    return log.high_watermark - log.last_stable_offset


def test_verification_and_markers_are_requests_between_nodes(cluster: Cluster) -> None:
    who = begin(cluster)
    assert code_of(cluster.answer(3, produce(who), 12)) is ErrorCode.NONE
    assert cluster.answer(2, commit_offsets(who), 5).topics[0].partitions[0].error_code == 0
    asked = [(3, 1, ApiKey.ADD_PARTITIONS_TO_TXN), (2, 1, ApiKey.ADD_PARTITIONS_TO_TXN)]
    assert [each for each in cluster.network.carried if each[0]] == asked
    assert last_stable_lag(cluster, AFAR) == 1
    assert cluster.answer(1, end(who), 5).error_code == 0
    cluster.run(0.2)
    told = [(1, 2, ApiKey.WRITE_TXN_MARKERS), (1, 3, ApiKey.WRITE_TXN_MARKERS)]
    assert sorted(each for each in cluster.network.carried if each[0] and each not in asked) == told
    assert state(cluster) == "CompleteCommit"
    assert last_stable_lag(cluster, AFAR) == 0
    assert offset(cluster) == 7


def test_look_ups_follow_the_image_of_the_node_that_is_asked(cluster: Cluster) -> None:
    cluster.elect(STATE, 2, 2)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    assert [cluster.answer(node, request, 4).coordinators[0].node_id for node in (1, 2)] == [1, 2]


def test_a_coordinator_that_is_deposed_takes_back_what_was_never_committed(cluster: Cluster) -> None:
    who = begin(cluster)
    assert code_of(cluster.answer(3, produce(who), 12)) is ErrorCode.NONE
    # Nobody copies from node 1 any more: the decision is in its log, and never gets committed.
    cluster.network.cut |= {frozenset((1, 2)), frozenset((1, 3))}
    ended = cluster.ask(1, end(who), 5)
    cluster.run(0.1)
    [shard] = cluster.nodes[1].parts.transactions.runtime.each_active(lambda shard: shard)
    assert shard.transactions["x"].state.label == "PrepareCommit"
    assert not ended.done
    cluster.elect(STATE, 2, 2, 3)
    cluster.network.cut.clear()
    cluster.tell(1)
    cluster.run(0.1)
    assert ErrorCode(ended.result().error_code) is ErrorCode.NOT_COORDINATOR
    assert ErrorCode(cluster.answer(1, end(who), 5).error_code) is ErrorCode.NOT_COORDINATOR
    assert state(cluster, 2) == "Ongoing"
    # To the new coordinator it was never said: the producer says it again, and may say the opposite.
    assert cluster.answer(2, end(who, commit=False), 5).error_code == 0
    cluster.run(0.5)
    assert state(cluster, 2) == "CompleteAbort"
    assert last_stable_lag(cluster, AFAR) == 0
    assert cluster.nodes[1].log(STATE).log_end_offset == cluster.nodes[2].log(STATE).log_end_offset


def test_the_next_coordinator_writes_the_markers_of_what_was_decided(cluster: Cluster) -> None:
    who = begin(cluster)
    for node, partition in ((3, 2), (2, 1)):
        assert code_of(cluster.answer(node, produce(who, partition), 12)) is ErrorCode.NONE
    # The marker reaches node 2 only, and its answer nobody.
    cluster.network.cut.add(frozenset((1, 3)))
    cluster.network.on_request = lambda source, target, key: (
        cluster.network.cut.add(frozenset((1, 2))) if (source, key) == (1, ApiKey.WRITE_TXN_MARKERS) else None
    )
    # Node 3 cannot copy, so that node 1 has to do without it.
    ended = cluster.ask(1, end(who), 5)
    cluster.network.cut.discard(frozenset((1, 3)))
    cluster.run(0.05)
    cluster.network.cut.add(frozenset((1, 3)))
    cluster.run(0.5)
    assert ended.result().error_code == 0
    assert state(cluster) == "PrepareCommit"
    cluster.network.on_request = None
    cluster.elect(STATE, 3, 2, 3)
    cluster.network.cut.clear()
    cluster.run(1)
    # The old one does not know yet: whatever it sends is fenced by its epoch, and the markers are written.
    for partition in (AFAR, TopicPartition(DATA, 1)):
        assert last_stable_lag(cluster, partition) == 0
    cluster.tell(1)
    cluster.run(1)
    assert state(cluster, 3) == "CompleteCommit"
    before = [cluster.leader(each).log(each).log_end_offset for each in (AFAR, TopicPartition(DATA, 1), STATE)]
    cluster.run(35)
    assert [cluster.leader(each).log(each).log_end_offset for each in (AFAR, TopicPartition(DATA, 1), STATE)] == before
    assert cluster.nodes[1].parts.transactions.unfinished_markers == 0


def test_a_decision_that_the_log_refuses_leaves_no_trace(cluster: Cluster) -> None:
    who = begin(cluster)
    assert code_of(cluster.answer(3, produce(who), 12)) is ErrorCode.NONE
    runtime = cluster.nodes[1].parts.transactions.runtime
    context = runtime.find(STATE)
    assert context is not None
    log = context.log
    # Deposed in the metadata, but not yet as a coordinator: the partition itself refuses the append.
    listeners, cluster.nodes[1].manager.changes.on_leadership = cluster.nodes[1].manager.changes.on_leadership, []
    context.stop_listening()
    cluster.elect(STATE, 2, 1, 2, 3)
    assert runtime.find(STATE) is context
    assert context.log is log
    assert ErrorCode(cluster.answer(1, end(who), 5).error_code) is ErrorCode.NOT_COORDINATOR
    assert context.shard.transactions["x"].state.label == "Ongoing"
    assert len(context.journal) == 0
    cluster.nodes[1].manager.changes.on_leadership = listeners
    assert cluster.answer(2, end(who), 5).error_code == 0
    cluster.run(0.2)
    assert state(cluster, 2) == "CompleteCommit"


def test_markers_for_offsets_wait_for_the_next_group_coordinator(cluster: Cluster) -> None:
    who = begin(cluster)
    assert cluster.answer(2, commit_offsets(who), 5).topics[0].partitions[0].error_code == 0
    cluster.network.cut.add(frozenset((1, 2)))
    cluster.network.cut.add(frozenset((2, 3)))
    ended = cluster.ask(1, end(who), 5)
    cluster.network.cut.discard(frozenset((1, 2)))
    cluster.run(0.004)
    cluster.elect(GROUPS, 3, 1, 3)
    cluster.network.cut.clear()
    cluster.run(1)
    assert ended.result().error_code == 0
    assert state(cluster) == "PrepareCommit"
    cluster.tell(2)
    cluster.run(1)
    assert offset(cluster, 3) == 7
    assert state(cluster) == "CompleteCommit"
    assert cluster.nodes[2].log(GROUPS).log_end_offset == cluster.nodes[3].log(GROUPS).log_end_offset


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def member(cluster: Cluster, node: int) -> tuple[str, Deferred[Any]]:
    member_id = cluster.answer(node, join(), 9).member_id
    return member_id, cluster.ask(node, join(member_id), 9)


def test_who_waits_in_a_rebalance_is_sent_to_the_next_coordinator(cluster: Cluster) -> None:
    _, first = member(cluster, 2)
    cluster.run(0.5)
    assert first.result().generation_id == 1
    _, parked = member(cluster, 2)
    cluster.run(0.5)
    assert not parked.done
    cluster.elect(GROUPS, 1, 1, 2, 3)
    cluster.run(0.1)
    assert ErrorCode(parked.result().error_code) is ErrorCode.NOT_COORDINATOR
    _, again = member(cluster, 1)
    cluster.run(0.5)
    assert again.result().generation_id >= 1


def test_an_offset_that_was_acknowledged_is_seen_whatever_the_next_coordinators_high_watermark(cluster: Cluster) -> None:
    assert cluster.answer(2, plain_commit(100), 9).topics[0].partitions[0].error_code == 0
    cluster.run(0.1)
    acknowledged = cluster.ask(2, plain_commit(200), 9)
    cluster.advance_ms(2)
    # The first fetch gets the records; with the second the leader learns that they are there, and its followers not yet.
    cluster.copy(1, 3)
    cluster.copy(1, 3)
    cluster.advance_ms(2)
    assert acknowledged.result().topics[0].partitions[0].error_code == 0
    next_log = cluster.nodes[1].log(GROUPS)
    assert next_log.high_watermark < next_log.log_end_offset
    cluster.elect(GROUPS, 1, 1, 2, 3)
    cluster.advance_ms(50)
    assert plain_offset(cluster, 1)[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    cluster.run(0.1)
    assert plain_offset(cluster, 1) == (ErrorCode.NONE, 200)


def test_members_stay_when_their_coordinator_leads_on_in_the_next_epoch(cluster: Cluster) -> None:
    member_id, joined = member(cluster, 2)
    cluster.run(0.5)
    assert joined.result().generation_id == 1
    parked_id, parked = member(cluster, 2)
    cluster.run(0.1)
    cluster.elect(GROUPS, 2, 1, 2, 3)
    cluster.run(0.1)
    assert not parked.done
    again = cluster.ask(2, join(member_id), 9)
    cluster.run(0.5)
    assert (again.result().error_code, again.result().generation_id) == (0, 2)
    assert (parked.result().error_code, parked.result().member_id) == (0, parked_id)


@pytest.mark.parametrize("epoch_rises", [True, False])
def test_markers_go_on_when_their_coordinator_does(cluster: Cluster, epoch_rises: bool) -> None:
    """Each change of the in-sync replicas tells the leader of its leadership again, in the same epoch."""
    who = begin(cluster)
    assert code_of(cluster.answer(3, produce(who), 12)) is ErrorCode.NONE
    cluster.network.on_request = lambda source, target, key: (
        cluster.network.cut.add(frozenset((1, 3))) if (source, key) == (1, ApiKey.WRITE_TXN_MARKERS) else None
    )
    assert cluster.answer(1, end(who), 5).error_code == 0
    cluster.run(0.5)
    cluster.network.on_request = None
    assert state(cluster) == "PrepareCommit"
    if epoch_rises:
        cluster.elect(STATE, 1, 1, 2, 3)
    else:
        cluster.change_isr(STATE, (1, 2), 1, 2, 3)
    cluster.run(0.1)
    cluster.network.cut.clear()
    cluster.run(31)
    assert state(cluster) == "CompleteCommit"
    assert last_stable_lag(cluster, AFAR) == 0
    assert cluster.nodes[1].parts.transactions.unfinished_markers == 0


def test_markers_wait_for_a_leader_and_go_on_after_the_election(cluster: Cluster) -> None:
    who = begin(cluster)
    assert code_of(cluster.answer(3, produce(who), 12)) is ErrorCode.NONE
    cluster.elect(AFAR, -1, 1, 2, 3)
    assert cluster.answer(1, end(who), 5).error_code == 0
    cluster.run(5)
    assert state(cluster) == "PrepareCommit"
    cluster.elect(AFAR, 2, 1, 2, 3)
    cluster.run(0.5)
    assert state(cluster) == "CompleteCommit"
    assert last_stable_lag(cluster, AFAR) == 0


def test_an_offset_that_was_never_committed_is_not_there_afterwards(cluster: Cluster) -> None:
    assert cluster.answer(2, plain_commit(1), 9).topics[0].partitions[0].error_code == 0
    cluster.network.cut |= {frozenset((1, 2)), frozenset((2, 3))}
    lost = cluster.ask(2, plain_commit(2), 9)
    cluster.run(0.1)
    assert not lost.done
    # With the deposed one nothing but what is committed is to be seen, either.
    assert plain_offset(cluster, 2) == (ErrorCode.NONE, 1)
    cluster.elect(GROUPS, 3, 1, 3)
    cluster.network.cut.clear()
    cluster.tell(2)
    cluster.run(0.1)
    assert lost.result().topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert offset(cluster, 3) == 1
