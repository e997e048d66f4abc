"""Two-phase commit (KIP-939) on sockets: prepared transactions outlive their producer, and the broker, until somebody decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.differential.batches import batch
from interop.differential.peer import Peer
from interop.peers import BrokerProcess, OdradekBroker
from interop.waiting import becomes
from odradek.base.errors import ErrorCode
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import ProduceRequest
from tests.interop.transaction_support import PATIENCE_S, contents

CONFIG = {
    "transaction.state.log.num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
Producer = tuple[int, int]
RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


peers: list[Peer] = []
"""Connections of the test that is running."""


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    yield
    while peers:
        peers.pop().close()


class Client:
    """A transactional producer that speaks for itself; every call is one request, repeated while it is told to come again."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.peer = Peer(broker.name, broker.port)
        peers.append(self.peer)
        self.name = name
        self.who: Producer = (-1, -1)
        self.sequences: dict[str, int] = {}
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        self.ask(ApiKey.FIND_COORDINATOR, 4, request, lambda answer: [answer.coordinators[0].error_code])

    def ask(self, api_key: ApiKey, version: int, request: Any, codes: Callable[[Any], list[int]]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.peer.call(api_key, version, request)
            if not any(code in RETRIED for code in codes(answer)):
                return answer
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def initialize(self, *, keep: bool = False, two_phase: bool = True) -> Producer | None:
        """The transaction that was kept, if any."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=1_000, enable2_pc=two_phase, keep_prepared_txn=keep
        )
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, 6, request, lambda answer: [answer.error_code])
        assert answer.error_code == 0, answer
        self.who, self.sequences = (answer.producer_id, answer.producer_epoch), {}
        found = answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch
        return None if found == (-1, -1) else found

    def send(self, topic: str, value: bytes) -> ErrorCode:
        producer_id, epoch = self.who
        records = batch(
            1,
            value=value,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.sequences.get(topic, 0),
            transactional=True,
        )
        data = ProduceRequest.TopicProduceData(name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = self.ask(ApiKey.PRODUCE, 12, request, lambda answer: [answer.responses[0].partition_responses[0].error_code])
        self.sequences[topic] = self.sequences.get(topic, 0) + 1
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def end(self, *, commit: bool, who: Producer | None = None, version: int = 5) -> ErrorCode:
        producer_id, epoch = who or self.who
        request = EndTxnRequest(transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        answer = self.ask(ApiKey.END_TXN, version, request, lambda answer: [answer.error_code])
        if not answer.error_code and version >= 5:
            self.who, self.sequences = (answer.producer_id, answer.producer_epoch), {}
        return ErrorCode(answer.error_code)

    def state(self) -> Any:
        answer = self.peer.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[self.name]))
        return answer.transaction_states[0]


@pytest.fixture(scope="module")
def two_phase_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = OdradekBroker(tmp_path_factory.mktemp("two-phase"), CONFIG).start()
    yield broker
    assert broker.stop() == 0, broker.log_tail()


def prepared(broker: BrokerProcess, name: str, *topics: str) -> Client:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(PATIENCE_S)
    client = Client(broker, name)
    assert client.initialize(keep=True) is None
    for topic in topics:
        assert client.send(topic, b"prepared") is ErrorCode.NONE
    return client


def afterwards(client: Client, topic: str) -> None:
    """The id is good for another transaction."""
    assert client.send(topic, b"afterwards") is ErrorCode.NONE
    assert client.end(commit=True) is ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_producer_decides(two_phase_broker: BrokerProcess, commit: bool) -> None:
    name = f"decides-{commit}".lower()
    topics = [f"{name}-1", f"{name}-2"]
    dead = prepared(two_phase_broker, name, *topics)
    heir = Client(two_phase_broker, name)
    assert heir.initialize(keep=True) == dead.who
    assert heir.who == (dead.who[0], dead.who[1] + 1)
    assert (heir.state().transaction_state, heir.state().producer_epoch) == ("Ongoing", dead.who[1])
    assert dead.end(commit=not commit) is ErrorCode.PRODUCER_FENCED
    assert heir.end(commit=commit) is ErrorCode.NONE
    wanted = [b"prepared0"] if commit else []
    for topic in topics:
        becomes(lambda topic=topic: contents(two_phase_broker, topic), wanted)  # type: ignore[misc]
    afterwards(heir, topics[0])
    becomes(lambda: contents(two_phase_broker, topics[0]), [*wanted, b"afterwards0"])


def test_a_prepared_transaction_is_older_than_its_timeout_and_the_broker(tmp_path: Path) -> None:
    broker = OdradekBroker(tmp_path, CONFIG).start()
    try:
        dead = prepared(broker, "old", "old")
        other = prepared(broker, "other", "other")
        broker.kill()
        broker.start()
        heir = Client(broker, "old")
        assert heir.initialize(keep=True) == dead.who
        broker.kill()
        broker.start()
        second = Client(broker, "old")
        assert second.initialize(keep=True) == dead.who
        assert second.who[1] == heir.who[1] + 1
        # One without two-phase commit begins after it and is ended by the clock, which shows that the clock goes.
        mortal = Client(broker, "mortal")
        mortal.initialize(two_phase=False)
        assert mortal.send("other", b"mortal") is ErrorCode.NONE
        becomes(lambda: mortal.state().transaction_state, "CompleteAbort")
        assert second.state().transaction_state == Client(broker, "other").state().transaction_state == "Ongoing"
        assert contents(broker, "old") == contents(broker, "other") == []
        assert second.end(commit=True) is ErrorCode.NONE
        becomes(lambda: contents(broker, "old"), [b"prepared0"])
        broker.kill()
        broker.start()
        third = Client(broker, "old")
        assert third.initialize(keep=True) is None, "it has been ended"
        afterwards(third, "old")
        assert Client(broker, "other").initialize() is None, "whoever does not keep it has it aborted"
        becomes(lambda: contents(broker, "other"), [])
        other.peer.close()
        assert other.end(commit=True) is ErrorCode.PRODUCER_FENCED
        becomes(lambda: contents(broker, "old"), [b"prepared0", b"afterwards0"])
    finally:
        broker.kill()


def test_nothing_is_added_to_a_kept_transaction(two_phase_broker: BrokerProcess) -> None:
    dead = prepared(two_phase_broker, "closed", "closed", "closed-2")
    heir = Client(two_phase_broker, "closed")
    heir.initialize(keep=True)
    assert heir.send("closed-2", b"more") is not ErrorCode.NONE
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="closed", partitions=[0])
    for who, wanted in ((heir.who, ErrorCode.INVALID_TXN_STATE), (dead.who, ErrorCode.PRODUCER_FENCED)):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="closed",
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=[topic],
        )
        answer = heir.peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == wanted
    assert heir.end(commit=True) is ErrorCode.NONE
    becomes(lambda: contents(two_phase_broker, "closed"), [b"prepared0"])
    becomes(lambda: contents(two_phase_broker, "closed-2"), [b"prepared0"])


def test_an_older_request_ends_it_as_well(two_phase_broker: BrokerProcess) -> None:
    prepared(two_phase_broker, "older", "older")
    heir = Client(two_phase_broker, "older")
    heir.initialize(keep=True)
    before = heir.who
    assert heir.end(commit=True, version=4) is ErrorCode.NONE
    becomes(lambda: contents(two_phase_broker, "older"), [b"prepared0"])
    assert heir.end(commit=True, version=4) is ErrorCode.NONE, "the answer got lost"
    assert heir.who == before
    afterwards(heir, "older")
    becomes(lambda: contents(two_phase_broker, "older"), [b"prepared0", b"afterwards0"])
