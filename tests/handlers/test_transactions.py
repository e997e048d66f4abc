"""The APIs of transactions on real partitions: a coordinator, the leaders it writes to, and the leaders that ask it, in one broker."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.transaction.records import encoded_transaction
from odradek.coordinator.transaction.state import Transaction, TransactionState
from odradek.handlers.data import fetch, produce
from odradek.handlers.group import offset_fetch, txn_offset_commit
from odradek.handlers.transaction import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata_records import FeatureLevelRecord
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.schema import Message
from odradek.records.batch import encode_batch
from odradek.storage.append import AppendOrigin
from tests.handlers.support import NODE, Broker, Ids, batch, through_the_wire

LAST_PRODUCE = 13
Producer = tuple[int, int]


class Channel:
    """Markers for partitions that another broker leads, kept back on demand."""

    def __init__(self, broker: Transactions) -> None:
        self.broker = broker
        self.held: list[tuple[Deferred[Message], Message, int]] | None = None

    def send(self, node: int, api_key: int, request: Message, version: int) -> Deferred[Message]:
        result: Deferred[Message] = Deferred()
        if self.held is not None and api_key == ApiKey.WRITE_TXN_MARKERS:
            self.held.append((result, request, version))
        else:
            self.deliver(result, request, version)
        return result

    def deliver(self, result: Deferred[Message], request: Message, version: int) -> None:
        module = {ApiKey.WRITE_TXN_MARKERS: write_txn_markers, ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn}[ApiKey(request.API_KEY)]
        answer = self.broker.call(module.handle, request, version)
        if isinstance(answer, Deferred):
            answer.add_callback(lambda done: result.complete(through_the_wire(done.result(), version)))
        else:
            result.complete(answer)

    def release(self) -> None:
        held, self.held = self.held or [], None
        for each in held:
            self.deliver(*each)
        self.broker.settle()


class Transactions(Broker):
    def __init__(self, *, version: int = 2, **config: str) -> None:
        super().__init__(producer_ids=Ids(), new_channel=Channel, **config)
        self.channel: Channel = self.parts.channel  # type: ignore[assignment]
        self.manager.verified_appender.verifier = self.coordinators
        self.apply(FeatureLevelRecord(name="transaction.version", feature_level=version))
        self.state_id = self.create_topic("__transaction_state", number=8, cleanup_policy="compact")
        self.create_topic("__consumer_offsets", number=9, cleanup_policy="compact")
        self.topic_id = self.create_topic("t", number=2, partitions=2)
        self.settle()

    def settle(self) -> None:
        for _ in range(6):
            self.clock.run_due()

    def ask(self, module: ModuleType, request: Message, version: int) -> Any:
        answer = self.call(module.handle, request, version)
        self.settle()
        return through_the_wire(answer.result(), version) if isinstance(answer, Deferred) else answer

    def init(self, name: str = "x", *, version: int = 5, timeout_ms: int = 60_000, **more: Any) -> Any:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms, **more)
        return self.ask(init_producer_id, request, version)

    def producer(self, name: str = "x") -> Producer:
        answer = self.init(name)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def add(self, producer: Producer, *partitions: int, name: str = "x", topic: str = "t", version: int = 3) -> list[int]:
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
        answer = self.ask(add_partitions_to_txn, request, version)
        return [each.partition_error_code for result in answer.results_by_topic_v3_and_below for each in result.results_by_partition]

    def write(self, producer: Producer, sequence: int = 0, *, partition: int = 0, version: int = 12, name: str = "x") -> int:
        records = batch(b"v", producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, transactional=True)
        data = ProduceRequest.PartitionProduceData(index=partition, records=bytes(records))
        named: dict[str, Any] = {"topic_id": self.topic_id} if version >= 13 else {"name": "t"}
        topic = ProduceRequest.TopicProduceData(partition_data=[data], **named)
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1_000, topic_data=[topic])
        answer = self.ask(produce, request, version)
        return int(answer.responses[0].partition_responses[0].error_code)

    def end(self, producer: Producer, *, commit: bool = True, version: int = 5, name: str = "x") -> Any:
        request = EndTxnRequest(transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit)
        return self.ask(end_txn, request, version)

    def commit_offset(self, producer: Producer) -> int:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        offsets = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        return int(self.ask(txn_offset_commit, offsets, 5).topics[0].partitions[0].error_code)

    def state(self, name: str = "x") -> Any:
        (state,) = self.ask(describe_transactions, DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
        return state

    def read(self, partition: int = 0) -> Any:
        wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000_000,
            isolation_level=1,
            topics=[FetchRequest.FetchTopic(topic="t", partitions=[wanted])],
        )
        return self.ask(fetch, request, 12).responses[0].partitions[0]


@pytest.fixture
def broker() -> Transactions:
    return Transactions()


def test_a_transaction_of_a_client_that_adds_its_partitions(broker: Transactions) -> None:
    who = broker.producer()
    assert broker.add(who, 0, 1) == [0, 0]
    assert broker.write(who, version=11) == 0
    assert broker.read().last_stable_offset == 0
    assert (broker.state().transaction_state, broker.state().topics[0].partitions) == ("Ongoing", [0, 1])
    assert broker.end(who, version=4).error_code == 0
    assert broker.state().transaction_state == "CompleteCommit"
    assert [broker.log_end("t", partition) for partition in (0, 1)] == [2, 1]
    assert broker.read().last_stable_offset == 2
    # The epoch stays: the next transaction may begin, and the same end is the repetition of the last one.
    assert broker.end(who, version=4).error_code == 0
    assert broker.log_end("t") == 2
    assert broker.add(who, 0) == [0]


def test_a_transaction_of_a_client_whose_partitions_are_added_on_the_way(broker: Transactions) -> None:
    who = broker.producer()
    for version in (12, LAST_PRODUCE):
        assert broker.write(who, version=version) == 0
        answer = broker.end(who, commit=False)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, who[0], who[1] + 1)
        who = answer.producer_id, answer.producer_epoch
    found = broker.read()
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(who[0], 0), (who[0], 2)]
    assert broker.state().transaction_state == "CompleteAbort"


def test_a_producer_that_hears_of_its_commit_may_begin_again(broker: Transactions) -> None:
    """Its next request is not served before the one turn of the loop in which the markers were written, too."""
    who = broker.producer()
    assert broker.add(who, 0) == [0]
    request = EndTxnRequest(transactional_id="x", producer_id=who[0], producer_epoch=who[1], committed=True)
    answer = broker.call(end_txn.handle, request, 4)
    assert isinstance(answer, Deferred)
    broker.clock.turn()
    assert answer.done
    assert broker.log_end("t") == 1
    assert broker.state().transaction_state == "CompleteCommit"


def test_who_waits_for_what_a_coordinator_writes_hears_of_it_at_once(broker: Transactions) -> None:
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [FetchRequest.FetchTopic(topic="__transaction_state", partitions=[wanted])]
    waiting = broker.call(fetch.handle, FetchRequest(max_wait_ms=600_000, min_bytes=1, max_bytes=1_000_000, topics=topics), 12)
    assert isinstance(waiting, Deferred)
    broker.settle()
    assert not waiting.done
    broker.producer()
    assert waiting.done
    assert through_the_wire(waiting.result(), 12).responses[0].partitions[0].high_watermark == 1


def test_records_of_a_partition_that_was_not_added_are_refused(broker: Transactions) -> None:
    who = broker.producer()
    assert broker.add(who, 0) == [0]
    assert broker.write(who, partition=1, version=10) == ErrorCode.INVALID_TXN_STATE
    assert broker.write(who, partition=1, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert broker.log_end("t", 1) == 0


def test_without_verification_clients_of_version_2_still_have_their_partitions_added() -> None:
    broker = Transactions(transaction_partition_verification_enable="false")
    who = broker.producer()
    assert broker.write(who, version=12) == 0
    assert broker.state().topics[0].partitions == [0]
    # Nobody is asked about those that add them themselves.
    assert broker.write((9_999, 0), partition=1, version=11, name="unknown") == 0


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_fenced_producer_is_told_in_the_words_of_its_version(broker: Transactions, version: int, code: ErrorCode) -> None:
    former = broker.producer()
    broker.producer()
    assert broker.add(former, 0, version=version) == [code]
    assert broker.end(former, version=version).error_code == code
    request = AddOffsetsToTxnRequest(transactional_id="x", producer_id=former[0], producer_epoch=former[1], group_id="g")
    assert broker.ask(add_offsets_to_txn, request, version).error_code == code
    going_on = broker.init(version=version + 2, producer_id=former[0] + 7, producer_epoch=0)
    assert going_on.error_code == code


def test_a_successor_has_the_open_transaction_aborted(broker: Transactions) -> None:
    former = broker.producer()
    broker.add(former, 0)
    broker.write(former, version=11)
    broker.parts.transactions._markers._here = None
    broker.channel.held = []
    assert broker.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert broker.state().transaction_state == "PrepareAbort"
    assert broker.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert broker.add(former, 0) == [ErrorCode.PRODUCER_FENCED]
    broker.channel.release()
    assert broker.init().producer_epoch == former[1] + 2
    assert len(broker.read().aborted_transactions) == 1


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_clients_do_not_add_internal_topics(broker: Transactions, topic: str) -> None:
    assert broker.add(broker.producer(), 0, topic=topic) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert broker.state().transaction_state == "Empty"


def test_one_unknown_partition_spoils_them_all(broker: Transactions) -> None:
    who = broker.producer()
    assert broker.add(who, 0, 7) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert broker.state().transaction_state == "Empty"


def test_brokers_ask_in_batches(broker: Transactions) -> None:
    who = broker.producer()
    broker.add(who, 0)
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction

    def asked(name: str, *, verify: bool, partitions: list[int]) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=partitions)]
        return transaction(transactional_id=name, producer_id=who[0], producer_epoch=who[1], verify_only=verify, topics=topics)

    request = AddPartitionsToTxnRequest(transactions=[asked("x", verify=True, partitions=[0, 1]), asked("y", verify=False, partitions=[0])])
    answer = broker.ask(add_partitions_to_txn, request, 5)
    codes = {
        result.transactional_id: [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
        for result in answer.results_by_transaction
    }
    assert codes == {"x": [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE], "y": [ErrorCode.INVALID_PRODUCER_ID_MAPPING]}
    assert broker.ask(add_partitions_to_txn, AddPartitionsToTxnRequest(), 5).results_by_transaction == []


def test_each_transaction_of_a_batch_gets_its_own_answer_in_whatever_order_they_are_decided(broker: Transactions) -> None:
    who = broker.producer()
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[1])]
    # The first waits for what its coordinator writes, the second is refused at once.
    transactions = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], verify_only=verify, topics=topics
        )
        for name, verify in (("x", False), ("y", True))
    ]
    answer = broker.ask(add_partitions_to_txn, AddPartitionsToTxnRequest(transactions=transactions), 5)
    codes = {
        each.transactional_id: each.topic_results[0].results_by_partition[0].partition_error_code for each in answer.results_by_transaction
    }
    assert codes == {"x": ErrorCode.NONE, "y": ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_group_become_visible_with_the_transaction(broker: Transactions, commit: bool) -> None:
    who = broker.producer()
    assert broker.commit_offset(who) == 0
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[wanted])], require_stable=True)
    assert broker.ask(offset_fetch, asked, 8).groups[0].topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert broker.end(who, commit=commit).error_code == 0
    found = broker.ask(offset_fetch, asked, 8).groups[0].topics[0].partitions[0]
    assert (found.error_code, found.committed_offset) == (0, 7 if commit else -1)


def test_who_hosts_nothing_of_a_marker_says_so(broker: Transactions) -> None:
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 9]),
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0]),
        ],
    )
    again = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=7,
        producer_epoch=1,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="t", partition_indexes=[1])],
    )
    (result,) = broker.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker, again]), 2).markers
    codes = {(topic.name, each.partition_index): each.error_code for topic in result.topics for each in topic.partitions}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {("t", 0): 0, ("t", 9): unknown, ("nowhere", 0): unknown, ("t", 1): 0}
    for negative in ({"producer_epoch": -1}, {"producer_id": -1}, {"transaction_version": -1}):
        odd = WriteTxnMarkersRequest.WritableTxnMarker(**({"producer_id": 7, "producer_epoch": 0, "topics": marker.topics} | negative))  # type: ignore[arg-type]
        (result,) = broker.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[odd]), 2).markers
        assert {each.error_code for topic in result.topics for each in topic.partitions} == {ErrorCode.INVALID_REQUEST}
    assert broker.log_end("t") == 1


def test_a_marker_of_a_deposed_coordinator_is_refused(broker: Transactions) -> None:
    """It went on after a pause, and has not heard yet that its successor has ended the transaction."""
    who = broker.producer()
    assert broker.write(who) == broker.commit_offset(who) == 0

    def mark(coordinator_epoch: int, *, commit: bool = True) -> dict[str, int]:
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=who[0],
            producer_epoch=who[1],
            coordinator_epoch=coordinator_epoch,
            transaction_result=commit,
            topics=[
                WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in ("t", "__consumer_offsets")
            ],
        )
        (result,) = broker.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1).markers
        return {topic.name: topic.partitions[0].error_code for topic in result.topics}

    assert mark(1) == {"t": 0, "__consumer_offsets": 0}
    ends = [broker.log_end(topic) for topic in ("t", "__consumer_offsets")]
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    for commit in (True, False):
        assert mark(0, commit=commit) == {"t": fenced, "__consumer_offsets": fenced}
    assert [broker.log_end(topic) for topic in ("t", "__consumer_offsets")] == ends


def test_a_marker_that_its_replicas_lack_is_not_written_yet(broker: Transactions) -> None:
    broker.create_topic("r", number=5, replicas=(NODE, 2))
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=7, producer_epoch=0, topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="r", partition_indexes=[0])]
    )
    answer = broker.call(write_txn_markers.handle, WriteTxnMarkersRequest(markers=[marker]), 2)
    assert isinstance(answer, Deferred), "with this broker it would be lost"
    broker.clock.advance_s(30)
    (result,) = answer.result().markers
    assert result.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("version", "code"), [(0, ErrorCode.NONE), (1, ErrorCode.NONE), (2, ErrorCode.INVALID_PRODUCER_EPOCH)], ids=["0", "1", "2"]
)
def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(broker: Transactions, version: int, code: ErrorCode) -> None:
    who = broker.producer()
    assert broker.write(who) == broker.commit_offset(who) == 0
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=who[0],
        producer_epoch=who[1],
        transaction_version=version,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="t", partition_indexes=[0]),
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[0]),
        ],
    )
    (result,) = broker.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 2).markers
    codes = {topic.name: topic.partitions[0].error_code for topic in result.topics}
    assert codes == {"t": code, "__consumer_offsets": code}
    assert broker.log_end("t") == (1 if code else 2)


def test_producers_of_a_partition(broker: Transactions) -> None:
    who = broker.producer()
    broker.write(who)
    topic = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[
            topic(name="t", partition_indexes=[0, 5]),
            topic(name="nowhere", partition_indexes=[0]),
            topic(name="", partition_indexes=[0]),
        ]
    )
    known, unknown, invalid = broker.ask(describe_producers, request, 0).topics
    (producer,) = known.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset) == (*who, 0)
    assert known.partitions[1].error_code == unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert invalid.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_lists_can_be_narrowed(broker: Transactions) -> None:
    first = broker.producer("first")
    broker.write(first, name="first")
    broker.producer("second")

    def names(version: int = 2, **filters: Any) -> set[str]:
        answer = broker.ask(list_transactions, ListTransactionsRequest(**filters), version)
        assert answer.error_code == 0
        return {each.transactional_id for each in answer.transaction_states}

    assert names() == {"first", "second"}
    assert names(state_filters=["Ongoing"]) == {"first"}
    assert names(state_filters=["Empty", "Ongoing"]) == {"first", "second"}
    assert names(producer_id_filters=[first[0]]) == {"first"}
    assert names(transactional_id_pattern="s.*d") == {"second"}
    assert names(duration_filter=3_600_000, state_filters=["Ongoing"]) == set()
    unknown = broker.ask(list_transactions, ListTransactionsRequest(state_filters=["Lost"]), 0)
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Lost"], [])
    bad = broker.ask(list_transactions, ListTransactionsRequest(transactional_id_pattern="["), 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_dead_transactions_of_another_broker_are_not_listed(broker: Transactions) -> None:
    """Kafka writes no such state, but knows it, and lists none that it finds (TransactionStateManager.listTransactionStates)."""
    who = broker.producer()
    now_ms = broker.clock.time_ms()
    dead = Transaction("gone", who[0] + 1, 0, 60_000, TransactionState.DEAD, last_update_ms=now_ms)
    key, value = encoded_transaction(dead, 2)
    stored = memoryview(encode_batch([(now_ms, key, value, ())]))
    broker.manager.partition(TopicPartition("__transaction_state", 0)).append_as_leader(stored, -1, AppendOrigin.COORDINATOR)
    broker.move_leader(broker.state_id, 2)
    broker.move_leader(broker.state_id, NODE)
    broker.settle()
    assert "gone" in [each.transactional_id for each in broker.parts.transactions.all()]
    for filters in ({}, {"state_filters": ["Dead", "Empty"]}, {"producer_id_filters": [who[0], who[0] + 1]}):
        answer = broker.ask(list_transactions, ListTransactionsRequest(**filters), 2)
        assert [each.transactional_id for each in answer.transaction_states] == ["x"]
        assert answer.unknown_state_filters == []


def test_another_coordinator_goes_on_from_the_log(broker: Transactions) -> None:
    who = broker.producer()
    broker.write(who)
    broker.channel.held = []
    assert broker.end(who).error_code == 0
    broker.move_leader(broker.state_id, 2)
    assert broker.state().error_code == ErrorCode.NOT_COORDINATOR
    assert broker.init().error_code == ErrorCode.NOT_COORDINATOR
    # The former coordinator's markers are lost with their connection.
    held, broker.channel.held = broker.channel.held, None
    for answer, _, _ in held:
        answer.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    broker.move_leader(broker.state_id, NODE)
    broker.settle()
    assert broker.state().transaction_state == "CompleteCommit"
    assert broker.log_end("t") == 2


def test_an_error_of_the_whole_answer_gives_out_no_id() -> None:
    answer = init_producer_id.error_response(InitProducerIdRequest(), KafkaError(ErrorCode.NOT_COORDINATOR))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NOT_COORDINATOR, -1, -1)


def test_a_marker_for_a_coordinator_that_is_elsewhere_is_to_be_sent_there(broker: Transactions) -> None:
    offsets = broker.services.metadata.image.topics.by_name["__consumer_offsets"]
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[0])],
    )
    broker.move_leader(offsets.topic_id, 2)
    answer = broker.ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1)
    (code,) = [each.error_code for topic in answer.markers[0].topics for each in topic.partitions]
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_every_replica_tells_of_the_producers_that_it_knows(broker: Transactions) -> None:
    """kafka-transactions find-hanging asks a broker for all replicas that it has, whoever leads them."""
    who = broker.producer()
    broker.write(who)
    (id_,) = [topic.topic_id for topic in broker.services.metadata.image.topics.by_name.values() if topic.name == "t"]
    request = DescribeProducersRequest(topics=[DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])])
    (as_leader,) = broker.ask(describe_producers, request, 0).topics[0].partitions
    broker.move_leader(id_, 2)
    (as_follower,) = broker.ask(describe_producers, request, 0).topics[0].partitions
    assert as_follower == as_leader
    assert [producer.producer_id for producer in as_follower.active_producers] == [who[0]]


def test_a_transaction_is_listed_when_it_has_run_for_longer_than_asked(broker: Transactions) -> None:
    producer = broker.producer()
    broker.add(producer, 0)
    begun = broker.state().transaction_start_time_ms

    def listed(duration: int) -> bool:
        answer = broker.ask(list_transactions, ListTransactionsRequest(duration_filter=duration), 2)
        return bool(answer.transaction_states)

    broker.clock.advance_ms(500)
    age = broker.services.clock.time_ms() - begun
    assert listed(age - 1)
    assert not listed(age)
    assert listed(0)
    assert listed(-1)
