"""The group APIs on a real partition: shapes and versions of answers, topics by id, leadership that goes and comes back."""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.partitioning import partition_of
from odradek.handlers.group import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataProvenance
from odradek.protocol.messages.create_topics import CreateTopicsResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata_records import FenceBrokerRecord, PartitionChangeRecord, RemoveTopicRecord
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.schema import Message
from tests.handlers.group_support import Groups
from tests.handlers.support import Broker, through_the_wire, topic_id

NOBODY = UUID(int=4711 << 64)
OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_the_leader_of_the_groups_partition(version: int) -> None:
    broker = Groups()
    request = FindCoordinatorRequest(coordinator_keys=["a", "b"]) if version >= 4 else FindCoordinatorRequest(key="a")
    answer = broker.ask(find_coordinator.handle, request, version)
    found = answer.coordinators if version >= 4 else [answer]
    assert [(each.error_code, each.node_id, each.host, each.port) for each in found] == [(0, 1, "host1", 9001)] * len(found)


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves(version: int) -> None:
    broker = Groups()
    member, generation = broker.member(version)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"mine")],
    )
    sync_version = min(version, 5)
    if sync_version >= 5:
        assert broker.ask(sync_group.handle, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "range"
    assert broker.ask(sync_group.handle, request, sync_version).assignment == b"mine"
    beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    assert broker.ask(heartbeat.handle, beat, min(version, 4)).error_code == ErrorCode.NONE
    leaving = LeaveGroupRequest(group_id="g", member_id=member)
    if version >= 3:
        leaving = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=member)])
    assert broker.ask(leave_group.handle, leaving, min(version, 5)).error_code == ErrorCode.NONE
    assert broker.ask(heartbeat.handle, beat, min(version, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_before_batches_leaving_tells_of_the_member_in_the_top_level_error() -> None:
    broker = Groups()
    broker.member()
    for version in range(3):
        answer = broker.ask(leave_group.handle, LeaveGroupRequest(group_id="g", member_id="nobody"), version)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_to_partitions_that_exist(version: int) -> None:
    broker = Groups()
    assert broker.commit(version) is ErrorCode.NONE
    assert broker.commit(version, partition=2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.commit(version, topic="other", topic_id=NOBODY) is unknown
    assert broker.log_end("__consumer_offsets") == 1


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("everything", [False, True])
def test_offsets_are_fetched_in_every_version(version: int, everything: bool) -> None:
    if everything and version < 2:
        return
    broker = Groups()
    broker.commit(10)
    answer = broker.fetch(version, everything=everything)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert len(topics) == 1
    assert topics[0].topic_id == broker.topic if version >= 10 else topics[0].name == "t"
    found = topics[0].partitions[0]
    assert (found.committed_offset, found.metadata, found.error_code) == (5, "m", 0)


def test_a_topic_id_that_nobody_knows() -> None:
    broker = Groups()
    (topic,) = broker.fetch(10, topic_id=NOBODY).groups[0].topics
    assert (topic.topic_id, topic.partitions[0].error_code) == (NOBODY, ErrorCode.UNKNOWN_TOPIC_ID)


def test_groups_are_listed_described_and_deleted() -> None:
    broker = Groups()
    broker.commit(8)
    (listed,) = broker.ask(list_groups.handle, ListGroupsRequest(), 5).groups
    assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Empty", "classic")
    assert not broker.ask(list_groups.handle, ListGroupsRequest(states_filter=["stable"]), 4).groups
    for group_type, found in (("Classic", [listed]), ("CONSUMER", [])):
        wanted = ListGroupsRequest(states_filter=["EMPTY"], types_filter=[group_type])
        assert broker.ask(list_groups.handle, wanted, 5).groups == found
    described = broker.ask(describe_groups.handle, DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=True), 6).groups
    assert [(each.group_state, each.error_code) for each in described] == [("Empty", 0), ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert described[0].authorized_operations > 0 > described[1].authorized_operations
    deleting = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name="t",
                partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)],
            )
        ],
    )
    (topic,) = broker.ask(offset_delete.handle, deleting, 0).topics
    assert {each.partition_index: each.error_code for each in topic.partitions} == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    deleting.group_id = "x"
    refused = broker.ask(offset_delete.handle, deleting, 0)
    assert (refused.error_code, refused.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, []), "the group's error is the whole answer"
    results = broker.ask(delete_groups.handle, DeleteGroupsRequest(groups_names=["g", "x"]), 2).results
    assert {each.group_id: each.error_code for each in results} == {"g": 0, "x": ErrorCode.GROUP_ID_NOT_FOUND}


def test_the_coordinator_goes_with_the_leadership_and_finds_everything_when_it_comes_back() -> None:
    broker = Groups()
    broker.commit(8)
    member, generation = broker.member()
    broker.move_leader(broker.offsets_id, 2)
    assert broker.commit(8, 6) is ErrorCode.NOT_COORDINATOR
    broker.move_leader(broker.offsets_id, 1)
    broker.clock.run_due()
    broker.clock.run_due()
    assert broker.fetch(8).groups[0].topics[0].partitions[0].committed_offset == 5
    beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
    assert broker.ask(heartbeat.handle, beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_offsets_of_a_deleted_topic_go() -> None:
    broker = Groups()
    broker.commit(8)
    image = broker.services.metadata.image
    delta = MetadataDelta(image)
    delta.replay(RemoveTopicRecord(topic_id=broker.topic))
    after = delta.apply(MetadataProvenance(image.offset + 1, 1, 0))
    broker.services.metadata.image = after
    broker.parts.coordinators.publish(delta, after)
    broker.clock.run_due()
    assert broker.fetch(8).groups[0].topics[0].partitions[0].committed_offset == -1
    assert broker.log_end("__consumer_offsets") == 2


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_those_of_the_topic_that_had_the_name(version: int) -> None:
    broker = Groups()
    assert broker.commit(version) is ErrorCode.NONE
    again = broker.create_topic("t", number=3, partitions=2, former=broker.topic)
    assert broker.commit(version, 6, partition=1, topic_id=again) is ErrorCode.NONE
    broker.clock.run_due()
    found = {topic_id: broker.fetch(10, topic_id=topic_id).groups[0].topics[0].partitions[0] for topic_id in (broker.topic, again)}
    assert found[broker.topic].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (found[again].error_code, found[again].committed_offset) == (ErrorCode.NONE, -1)
    (topic,) = broker.fetch(8, everything=True).groups[0].topics
    assert [(partition.partition_index, partition.committed_offset) for partition in topic.partitions] == [(1, 6)]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_coordinator_that_was_away_when_a_topic_was_made_anew_does_not_take_its_offsets_for_those_of_the_new_one(version: int) -> None:
    broker = Groups()
    assert broker.commit(version) is ErrorCode.NONE
    broker.move_leader(broker.offsets_id, 2)
    again = broker.create_topic("t", number=3, partitions=2, former=broker.topic)
    broker.move_leader(broker.offsets_id, 1)
    broker.clock.run_due()
    (answer,) = broker.fetch(10, topic_id=again).groups[0].topics[0].partitions
    assert (answer.error_code, answer.committed_offset) == (ErrorCode.NONE, -1)


def test_after_the_shutdown_nobody_coordinates() -> None:
    broker = Groups()
    broker.commit(8)
    broker.parts.coordinators.close()
    assert broker.commit(8) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(6))
def test_transactional_offsets_wait_for_the_marker(version: int) -> None:
    broker = Groups()
    log = broker.manager.partition(OFFSETS).log
    assert log is not None
    broker.parts.groups.verify = lambda partition, request, version: Deferred.of(log.start_verification(5, -1, 0))
    partitions = [TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 9)]
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=5,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    (topic,) = broker.ask(txn_offset_commit.handle, request, version).topics
    assert {each.partition_index: each.error_code for each in topic.partitions} == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    unstable = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[wanted])], require_stable=True)
    assert broker.ask(offset_fetch.handle, unstable, 8).groups[0].topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    wanted.topic_id = broker.topic
    assert broker.ask(offset_fetch.handle, unstable, 10).groups[0].topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    broker.parts.groups.runtime.end_transaction(OFFSETS, 5, 0, 0, committed=True, version=0)
    broker.clock.run_due()
    assert broker.ask(offset_fetch.handle, unstable, 8).groups[0].topics[0].partitions[0].committed_offset == 7


def offsets_of_a_transaction() -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=5,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t", partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
            )
        ],
    )


def test_offsets_of_a_transaction_that_cannot_be_verified_are_refused() -> None:
    broker = Groups()
    failed: Deferred[object | None] = Deferred.failed(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    broker.parts.groups.verify = lambda partition, request, version: failed
    request = offsets_of_a_transaction()
    for version, code in ((1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
        (topic,) = broker.ask(txn_offset_commit.handle, request, version).topics
        assert topic.partitions[0].error_code == code
    assert broker.log_end("__consumer_offsets") == 0


@pytest.mark.parametrize("version", range(6))
def test_a_former_coordinator_sends_the_offsets_of_a_transaction_on_to_the_one_that_there_is_now(version: int) -> None:
    """Producers look for it after NOT_COORDINATOR; after the error of the log they would abort, and ask here again."""
    broker = Groups()
    assert broker.commit(8) is ErrorCode.NONE
    home = broker.services.metadata.image.topics.by_name["__consumer_offsets"]
    broker.move_leader(home.topic_id, 2)
    (topic,) = broker.ask(txn_offset_commit.handle, offsets_of_a_transaction(), version).topics
    assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR


class Controller:
    """Answers CreateTopics when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Message]] = []

    def send(self, node: int, api_key: int, request: Message, version: int) -> Deferred[Message]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        topic = CreateTopicsResponse.CreatableTopicResult(name="__consumer_offsets", error_code=code, error_message="why")
        self.asked.pop().complete(CreateTopicsResponse(topics=[topic]))


class TestFirstCoordinator:
    def look_up(self, broker: Broker) -> Deferred[FindCoordinatorResponse]:
        request = FindCoordinatorRequest(coordinator_keys=["a"])
        answer: Deferred[FindCoordinatorResponse] = broker.call(find_coordinator.handle, request, 4)
        return answer

    def found(self, broker: Broker, answer: Deferred[FindCoordinatorResponse]) -> FindCoordinatorResponse.Coordinator:
        """The coordinator that a client is told after the loop has turned."""
        broker.clock.run_due()
        (found,) = through_the_wire(answer.result(), 4).coordinators
        return found

    def broker(self) -> tuple[Broker, Controller]:
        controller = Controller()
        return Broker(new_channel=lambda _: controller), controller

    def test_who_asks_first_hears_when_the_topic_is_there(self) -> None:
        broker, controller = self.broker()
        first, second = self.look_up(broker), self.look_up(broker)
        assert len(controller.asked) == 1
        controller.answer()
        assert not first.done
        broker.create_topic("__consumer_offsets", number=9, cleanup_policy="compact")
        for answer in (first, second):
            found = self.found(broker, answer)
            assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)
        assert not controller.asked

    @pytest.mark.parametrize("refused", [True, False])
    def test_nobody_waits_for_a_topic_that_does_not_come(self, refused: bool) -> None:
        broker, controller = self.broker()
        answer = self.look_up(broker)
        if refused:
            controller.answer(ErrorCode.INVALID_REPLICATION_FACTOR)
        else:
            broker.clock.advance_ms(900)
            assert not answer.done
            broker.clock.advance_ms(200)
        found = self.found(broker, answer)
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert self.look_up(broker).done is False
        broker.parts.coordinators.close()

    def test_the_log_says_once_why_there_is_no_topic(self, caplog: pytest.LogCaptureFixture) -> None:
        broker, controller = self.broker()
        for code in (ErrorCode.INVALID_REPLICATION_FACTOR,) * 3 + (ErrorCode.POLICY_VIOLATION,):
            self.look_up(broker)
            controller.answer(code)
        said = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert [message.rsplit(": ", 2)[1] for message in said] == ["INVALID_REPLICATION_FACTOR", "POLICY_VIOLATION"]


class TestSeveralAtOnce:
    def test_each_group_has_its_own_coordinator(self) -> None:
        broker = Broker()
        broker.create_topic("__consumer_offsets", number=9, partitions=2, cleanup_policy="compact")
        broker.apply(PartitionChangeRecord(partition_id=1, topic_id=topic_id(9), leader=2))
        keys = [f"group {number}" for number in range(8)]
        answer = broker.call(find_coordinator.handle, FindCoordinatorRequest(coordinator_keys=keys), 6)
        found = {each.key: each.node_id for each in answer.coordinators}
        assert found == {key: 1 + partition_of(key, 2) for key in keys}
        assert set(found.values()) == {1, 2}

    def test_a_coordinator_that_does_not_live_is_none(self) -> None:
        broker = Groups()
        broker.apply(FenceBrokerRecord(id=1, epoch=100))
        answer = broker.call(find_coordinator.handle, FindCoordinatorRequest(key="g"), 3)
        assert (answer.error_code, answer.node_id, answer.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)

    @pytest.mark.parametrize("version", [9, 10])
    def test_what_is_refused_of_a_commit_is_answered_beside_what_is_not(self, version: int) -> None:
        broker = Groups()
        partition = OffsetCommitRequest.OffsetCommitRequestPartition
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name, topic_id=id_, partitions=[partition(partition_index=number, committed_offset=5) for number in (0, 9)]
            )
            for name, id_ in (("t", broker.topic), ("nothing", NOBODY))
        ]
        answer = broker.ask(offset_commit.handle, OffsetCommitRequest(group_id="g", topics=topics), version)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = [{each.partition_index: each.error_code for each in topic.partitions} for topic in answer.topics]
        assert {0: 0, 9: int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)} in codes
        assert {0: int(unknown), 9: int(unknown)} in codes

    def test_offsets_of_what_is_unknown_are_not_deleted_whatever_the_group(self) -> None:
        broker = Groups()
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(name="nothing", partitions=[partition])
        answer = broker.ask(offset_delete.handle, OffsetDeleteRequest(group_id="no such group", topics=[topic]), 0)
        assert answer.error_code == 0
        assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def test_a_group_named_twice_is_deleted_and_answered_once(self) -> None:
        broker = Groups()
        broker.commit(8)
        results = broker.ask(delete_groups.handle, DeleteGroupsRequest(groups_names=["g", "g"]), 2).results
        assert [(each.group_id, each.error_code) for each in results] == [("g", 0)]


@pytest.mark.parametrize("version", [1, 2])
def test_before_version_2_the_coordinator_s_error_stands_with_each_partition(version: int) -> None:
    broker = Groups()
    broker.move_leader(broker.offsets_id, 2)
    answer = broker.fetch(version)
    if version == 1:
        assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR]
    else:
        assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_an_answer_that_failed_says_so_in_every_version(version: int) -> None:
    old = [OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")]
    request = OffsetFetchRequest(groups=groups) if version >= 8 else OffsetFetchRequest(group_id="g", topics=old)
    answer = through_the_wire(offset_fetch.error_response(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)), version)
    if version >= 8:
        assert [(group.group_id, group.error_code) for group in answer.groups] == [("g", ErrorCode.UNKNOWN_SERVER_ERROR)]
        return
    assert [(each.partition_index, each.error_code, each.committed_offset) for each in answer.topics[0].partitions] == [
        (0, ErrorCode.UNKNOWN_SERVER_ERROR, -1),
        (1, ErrorCode.UNKNOWN_SERVER_ERROR, -1),
    ]
    assert version < 2 or answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
