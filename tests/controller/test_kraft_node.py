"""A node of the metadata quorum: what it writes, what it takes back, what it finds again."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import METADATA_TOPIC_ID
from odradek.consensus.progress import OBSERVER_SESSION_MS
from odradek.consensus.voters import Endpoint
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft import KRaftNode
from odradek.controller.kraft.records import decode_batches
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_quorum import DescribeQuorumRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
)
from odradek.testing.simulation.disk import VirtualDisk
from tests.controller import kraft_cluster
from tests.controller.kraft_cluster import HANDLERS, Quorum, RecordingPublisher, serve, set_config
from tests.controller.kraft_support import DIRECTORY, code_of


def started(**settings: str) -> Quorum:
    quorum = Quorum(settings={key.replace("_", "."): value for key, value in settings.items()})
    quorum.start()
    return quorum


def test_a_sole_node_is_active_when_started_and_has_written_the_bootstrap_records() -> None:
    quorum = started()
    node = quorum.nodes[1]
    assert node.is_active_controller
    assert node.image.features.metadata_version == 30
    kinds = [
        [type(record.message).__name__ for record in batch.records] or [kind for kind, _ in batch.control]
        for batch in decode_batches(node.log.read(0, up_to=node.next_offset))
    ]
    # metadata.version, group.version and transaction.version
    assert kinds == [[2], ["BeginTransactionRecord", *["FeatureLevelRecord"] * 3, "EndTransactionRecord"]]


@pytest.mark.parametrize(("dynamic", "version"), [(False, 0), (True, 1)], ids=["static", "dynamic"])
def test_quorum_state_is_written_as_kafka_writes_it(dynamic: bool, version: int) -> None:
    quorum = Quorum(dynamic=dynamic)
    quorum.start()
    state = json.loads(quorum.disks[1].read_bytes(f"{DIRECTORY}/quorum-state"))
    assert state["data_version"] == version
    assert state["leaderId"] == 1
    assert state["leaderEpoch"] == 1
    assert state["votedId"] == -1


def test_the_voters_of_the_first_checkpoint_enter_the_log() -> None:
    quorum = Quorum(dynamic=True)
    quorum.start()
    first = next(iter(decode_batches(quorum.nodes[1].log.read(0, up_to=99))))
    assert [kind for kind, _ in first.control] == [2, 5, 6], "leader change, kraft.version, voters"


def test_an_operation_is_answered_when_it_is_committed_and_survives_a_crash() -> None:
    quorum = started()
    publisher = RecordingPublisher()
    quorum.nodes[1].add_publisher(publisher)
    answer = quorum.nodes[1].submit(set_config("a", "1"))
    assert answer.result() == "a is 1"
    assert publisher.images[-1].configs.of(4, "") == {"a": "1"}
    epoch = quorum.nodes[1].leader_and_epoch.epoch
    quorum.crash(1)
    quorum.start()
    node = quorum.nodes[1]
    assert node.image.configs.of(4, "") == {"a": "1"}
    assert node.leader_and_epoch.epoch == epoch + 1
    assert node.image.features.metadata_version == 30
    bootstraps = [record for batch in decode_batches(node.log.read(0, up_to=node.next_offset)) for record in batch.records]
    assert sum(isinstance(record.message, BeginTransactionRecord) for record in bootstraps) == 1, "written once in the life of a cluster"


def test_an_error_of_an_operation_is_its_answer() -> None:
    quorum = started()

    def refuse(_: ControllerContext) -> ControllerResult[None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    assert code_of(quorum.nodes[1].submit(refuse)) is ErrorCode.INVALID_REQUEST
    assert quorum.nodes[1].submit(set_config("a", "1")).done


def test_a_failed_fsync_stops_the_node_and_nothing_is_called_committed() -> None:
    quorum = started()
    node = quorum.nodes[1]
    high_watermark = node.high_watermark

    def fault(operation: str, path: str) -> None:
        if operation == "fsync":
            raise OSError(5, "Input/output error", path)

    disk = quorum.disks[1]
    disk.fault = fault  # type: ignore[assignment]
    answer = node.submit(set_config("a", "1"))
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    assert isinstance(quorum.faults[1], OSError)
    assert node.high_watermark == high_watermark
    assert code_of(node.submit(set_config("a", "2"))) is ErrorCode.NOT_CONTROLLER


def test_resigning_takes_back_what_is_not_committed() -> None:
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    assert leader.controller is not None
    committed = leader.submit(set_config("kept", "1"))
    quorum.wait_for(lambda: committed.done)
    quorum.cut = set(quorum.ids)
    lost = leader.submit(set_config("lost", "1"))
    assert leader.controller.core.state.configs.get((4, "")) == {"kept": "1", "lost": "1"}, "the next operation sees it already"
    assert not lost.done
    quorum.wait_for(lambda: not leader.is_active_controller)
    assert code_of(lost) is ErrorCode.NOT_CONTROLLER
    assert leader.controller.core.state.configs.get((4, "")) == {"kept": "1"}
    quorum.cut = set()
    new = quorum.wait_for_leader()
    after = new.submit(set_config("after", "1"))
    quorum.wait_for(lambda: after.done)
    quorum.wait_for_all()
    for node in quorum.nodes.values():
        assert {key for key in node.image.configs.of(4, "") if key != "lost"} == {"kept", "after"}
        assert node.image.equal_state(new.image)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_three_nodes_share_one_log_over_the_wire(dynamic: bool) -> None:
    quorum = Quorum(3, dynamic=dynamic)
    quorum.start()
    leader = quorum.wait_for_leader()
    answers = [leader.submit(set_config(f"key{number}", "v")) for number in range(20)]
    quorum.wait_for(lambda: all(answer.done for answer in answers))
    quorum.wait_for_all()
    for node in quorum.nodes.values():
        assert len(node.image.configs.of(4, "")) == 20
        assert node.log.read(0, up_to=99) == leader.log.read(0, up_to=99), "byte for byte"
    other = next(node for node in quorum.nodes.values() if node is not leader)
    assert code_of(other.submit(set_config("a", "1"))) is ErrorCode.NOT_CONTROLLER
    described = serve(leader, _describe()).topics[0].partitions[0]
    assert {voter.replica_id for voter in described.current_voters} == {1, 2, 3}
    assert all(voter.last_caught_up_timestamp > 0 for voter in described.current_voters)
    refused = serve(other, _describe()).topics[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not quorum.faults


def test_voters_that_cannot_read_a_pre_vote_do_not_hinder_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Kafka 3.9 know Vote 1."""
    monkeypatch.setitem(kraft_cluster.VERSIONS, ApiKey.VOTE, 1)
    quorum = Quorum(3)
    quorum.start()
    quorum.wait_for_leader()
    quorum.wait_for_all()
    assert not quorum.faults


def test_a_leader_that_leaves_answers_until_another_has_been_elected() -> None:
    quorum = Quorum(2)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    left = leader.leave()
    assert not left.done, "the other needs this one's vote"
    quorum.wait_for(lambda: left.done, 1)
    other = next(node for node in quorum.nodes.values() if node is not leader)
    quorum.wait_for(lambda: other.raft.is_leader, 1)
    assert leader.leave() is left
    assert other.leader_endpoint() == Endpoint("CONTROLLER", f"node{other.node_id}", 9093)


def test_a_leader_that_is_stopped_while_it_leaves_has_left() -> None:
    """Whoever waits for that would wait for ever: nobody answers it any more."""
    quorum = Quorum(2)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    left = leader.leave()
    assert not left.done
    leader.stop()
    assert left.done


def test_who_has_nobody_to_hand_over_to_has_left_at_once() -> None:
    alone = started()
    assert alone.nodes[1].leave().done
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    follower = next(node for node in quorum.nodes.values() if node is not leader)
    assert follower.leave().done
    assert leader.is_active_controller
    follower.stop()


def test_leaders_are_told_of_and_so_are_epochs_without_one() -> None:
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    follower = next(node for node in quorum.nodes.values() if node is not leader)
    told: list[int] = []
    follower.on_leader.append(lambda news: told.append(news.leader_id))
    endpoint = follower.leader_endpoint()
    assert endpoint is not None
    assert endpoint.host == f"node{leader.node_id}"
    leader.stop()
    quorum.kill(leader.node_id)
    new = quorum.wait_for_leader()
    quorum.wait_for(lambda: bool(told) and told[-1] == new.node_id)


def test_who_is_no_replica_reads_what_is_committed() -> None:
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    committed = leader.next_offset
    quorum.cut = set(quorum.ids)
    leader.submit(set_config("lost", "1"))
    quorum.clock.advance_s(0.1)
    assert (leader.high_watermark, leader.next_offset) == (committed, committed + 1)
    read = {reader: decode_batches(_fetched(leader, reader)) for reader in (-1, 9)}
    assert {reader: sum(len(batch.records) + len(batch.control) for batch in batches) for reader, batches in read.items()} == {
        -1: committed,
        9: committed + 1,
    }


def _fetched(node: KRaftNode, replica: int) -> bytes:
    partition = FetchRequest.FetchPartition(
        partition=0, current_leader_epoch=node.leader_and_epoch.epoch, fetch_offset=0, last_fetched_epoch=0
    )
    topic = FetchRequest.FetchTopic(topic="__cluster_metadata", topic_id=METADATA_TOPIC_ID, partitions=[partition])
    state = FetchRequest.ReplicaState(replica_id=replica)
    answer = serve(node, FetchRequest(replica_state=state, max_wait_ms=0, max_bytes=1 << 20, topics=[topic]))
    return bytes(answer.result().responses[0].partitions[0].records)


def _describe() -> DescribeQuorumRequest:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])])


def test_who_has_not_fetched_for_long_is_described_no_more() -> None:
    quorum = started()
    leader = quorum.wait_for_leader()
    _fetched(leader, 7)

    def described() -> list[int]:
        return [each.replica_id for each in serve(leader, _describe()).topics[0].partitions[0].observers]

    assert described() == [7]
    quorum.clock.advance_s(OBSERVER_SESSION_MS / 1000)
    assert described() == []


def test_a_node_that_was_away_too_long_starts_from_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, set[int]] = {ApiKey.FETCH: set(), ApiKey.FETCH_SNAPSHOT: set()}
    served = dict(HANDLERS)

    def asking(context: object, request: FetchRequest | FetchSnapshotRequest, services: object) -> object:
        asked[request.API_KEY].add(request.max_bytes)
        return served[request.API_KEY](context, request, services)

    for api_key in asked:
        monkeypatch.setitem(HANDLERS, api_key, asking)
    quorum = Quorum(
        3,
        settings={
            "controller.quorum.fetch.max.bytes": "5000",
            "controller.quorum.fetch.snapshot.max.bytes": "500",
            "metadata.log.max.record.bytes.between.snapshots": "2000",
            "metadata.max.retention.bytes": "3000",
            "internal.metadata.log.segment.bytes": "2048",
        },
    )
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    away = next(node for node in quorum.ids if quorum.nodes[node] is not leader)
    quorum.crash(away)
    for number in range(200):
        answer = leader.submit(set_config(f"key{number % 10}", f"value {number}"))
        quorum.wait_for(lambda answer=answer: answer.done)
    assert leader.log.start_offset > 100, "the old log is gone"
    assert asked == {ApiKey.FETCH: {5000}, ApiKey.FETCH_SNAPSHOT: set()}
    assert len(leader.log.snapshots) <= 2
    quorum.start(away)
    quorum.wait_for_all()
    assert asked == {ApiKey.FETCH: {5000}, ApiKey.FETCH_SNAPSHOT: {500}}, "piece by piece, none larger than was configured"
    assert quorum.nodes[away].log.start_offset > 100
    assert quorum.nodes[away].image.equal_state(leader.image)
    controller = quorum.nodes[away].controller
    assert controller is not None
    assert controller.core.state.configs.get((4, "")) == leader.image.configs.of(4, "")
    assert not quorum.faults


def test_a_restart_from_snapshot_and_log_gives_the_same_image() -> None:
    quorum = started()
    node = quorum.nodes[1]
    for number in range(30):
        node.submit(set_config(f"key{number}", "before"))
    node.write_snapshot()
    for number in range(10):
        node.submit(set_config(f"key{number}", "after"))
    image = node.image
    assert len(node.log.snapshots) == 1
    node.stop()
    quorum.start()
    assert quorum.nodes[1].image.equal_state(image)


def test_snapshots_are_written_at_the_thresholds() -> None:
    quorum = started(metadata_log_max_record_bytes_between_snapshots="3000", metadata_log_max_snapshot_interval_ms="60000")
    node = quorum.nodes[1]
    assert not node.log.snapshots
    for number in range(40):
        node.submit(set_config("key", f"value {number}"))
    by_size = len(node.log.snapshots)
    assert by_size >= 1
    quorum.clock.advance_s(61)
    node.submit(set_config("key", "late"))
    assert len(node.log.snapshots) == by_size + 1
    node.submit(set_config("key", "soon after"))
    assert len(node.log.snapshots) == by_size + 1, "the time counts from the last one"


def test_no_op_records_are_written_while_idle() -> None:
    quorum = started(metadata_max_idle_interval_ms="500")
    before = quorum.nodes[1].next_offset
    quorum.clock.advance_s(5.1)
    assert quorum.nodes[1].next_offset - before == 10
    assert quorum.nodes[1].image.offset == quorum.nodes[1].next_offset - 1


def test_a_log_without_quorum_state_is_refused() -> None:
    quorum = started()
    quorum.nodes[1].stop()
    quorum.disks[1].remove(f"{DIRECTORY}/quorum-state")
    with pytest.raises(StorageError, match="no quorum-state"):
        quorum.start()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"data_version":7,"leaderEpoch":1}', b'{"data_version":0}'])
def test_a_quorum_state_that_makes_no_sense_is_refused(content: bytes) -> None:
    quorum = started()
    quorum.nodes[1].stop()
    quorum.disks[1].write_atomic(f"{DIRECTORY}/quorum-state", content)
    with pytest.raises(StorageError, match="quorum-state cannot be used"):
        quorum.start()


@dataclass
class Step:
    """A batch of records to append, and what the image then holds."""

    records: list[object]
    configs: dict[str, str]


def test_a_metadata_transaction_shows_only_when_it_ends() -> None:
    quorum = started()
    node = quorum.nodes[1]

    def config(name: str) -> ConfigRecord:
        return ConfigRecord(resource_type=4, resource_name="", name=name, value="v")

    steps = [
        Step([config("a"), BeginTransactionRecord(name="one"), config("b")], {"a": "v"}),
        Step([config("c")], {"a": "v"}),
        Step([EndTransactionRecord(), config("d")], {"a": "v", "b": "v", "c": "v", "d": "v"}),
        Step([BeginTransactionRecord(name="two"), config("e")], {"a": "v", "b": "v", "c": "v", "d": "v"}),
        Step([AbortTransactionRecord(reason="no"), config("f")], {"a": "v", "b": "v", "c": "v", "d": "v", "f": "v"}),
    ]
    for step in steps:
        records = [VersionedRecord(record, 0) for record in step.records]
        node.submit(lambda _, records=records: ControllerResult(records, None, atomic=True)).result()
        assert node.image.configs.of(4, "") == step.configs
    assert node.controller is not None
    assert node.controller.core.state.configs.get((4, "")) == steps[-1].configs
    image = node.image
    node.stop()
    quorum.start()
    assert quorum.nodes[1].image.equal_state(image)


def test_hostile_requests_are_refused() -> None:
    quorum = started()
    node = quorum.nodes[1]
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        serve(node, FetchSnapshotRequest())
    with pytest.raises(KafkaError, match="INCONSISTENT_CLUSTER_ID"):
        serve(node, FetchSnapshotRequest(cluster_id="other"))
    for position in (-1, 10**12, 2**62):
        partition = FetchSnapshotRequest.PartitionSnapshot(
            partition=0,
            current_leader_epoch=node.leader_and_epoch.epoch,
            snapshot_id=FetchSnapshotRequest.SnapshotId(end_offset=5, epoch=1),
            position=position,
        )
        request = FetchSnapshotRequest(topics=[FetchSnapshotRequest.TopicSnapshot(name="__cluster_metadata", partitions=[partition])])
        answer = serve(node, request).result().topics[0].partitions[0]
        assert answer.error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert not quorum.faults
    assert isinstance(quorum.disks[1], VirtualDisk)
