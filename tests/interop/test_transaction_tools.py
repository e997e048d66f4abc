"""kafka-transactions, every verb, on transactions in every state and on hanging ones: it says of Odradek what it says of the JVM broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from interop.differential.peer import Peer
from interop.differential.transactions import (
    aborted_0,
    added,
    committed_0,
    committed_2,
    data_batch,
    initialized,
    producer_of,
    transactional_produce,
    written,
)
from interop.peers import BrokerProcess
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.interop.pair import PATIENCE_S, TRANSACTIONS, Pair

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOPIC, HANGING = "transactional", "x-hanging"
OPEN, OPEN_2, COMMITTED, COMMITTED_2, ABORTED, IDLE = "x-open", "x-open-2", "x-committed", "x-committed-2", "x-aborted", "x-idle"
LATE, UNKNOWN = "x-late", "x-unknown"
NO_ID = 777_777
"""A producer id that no transaction coordinator gave."""

SINCE = r"\d{13}\s+\d+"
"""When a transaction began or a producer last wrote, and how long ago that is."""

MARKED = r"\b(?!179000000000)\d{13}\b"
"""When a marker was written; records have 1790000000000 and a little more."""


def produce(peer: Peer, transactional_id: str, topic: str, partition: int, producer_id: int, epoch: int, sequence: int = 0) -> None:
    """As a client of transaction version 0 does after it added the partition; again until a change of configuration has come through."""
    records = {partition: data_batch(producer_id, epoch, sequence)}
    request = transactional_produce(peer, 11, transactional_id, records, topic)
    deadline = time.monotonic() + PATIENCE_S
    while code := peer.call(ApiKey.PRODUCE, 11, request).responses[0].partition_responses[0].error_code:
        assert time.monotonic() < deadline, (peer.name, code)


def find_coordinators(peer: Peer) -> None:
    """The first question makes the topic."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[*STATES, LATE])
    deadline = time.monotonic() + PATIENCE_S
    while any(each.error_code for each in peer.call(ApiKey.FIND_COORDINATOR, 4, request).coordinators):
        assert time.monotonic() < deadline, f"{peer.name} has no transaction coordinators"


def use_up_small_ids(peer: Peer) -> None:
    """The ids that come after cannot be taken for other numbers in the tool's lines."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    while peer.call(ApiKey.INIT_PRODUCER_ID, 4, request).producer_id < 100:
        pass


def verify(broker: BrokerProcess, wanted: bool) -> None:
    """Whether leaders ask coordinators before they take transactional records (KIP-890)."""
    entry = ConfigEntry("transaction.partition.verification.enable", str(wanted).lower(), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def open_transaction(peer: Peer, transactional_id: str) -> None:
    added(peer, transactional_id)
    produce(peer, transactional_id, TOPIC, 0, *producer_of(peer, transactional_id))


def hang(peer: Peer) -> None:
    """Records that came without their partition being added: of an id whose transaction is over, and of one nobody knows."""
    committed_0(peer, LATE)
    produce(peer, LATE, HANGING, 0, *producer_of(peer, LATE))
    produce(peer, UNKNOWN, HANGING, 0, NO_ID, 3)
    produce(peer, UNKNOWN, HANGING, 1, NO_ID, 3)


STATES: dict[str, Callable[[Peer, str], object]] = {
    OPEN: open_transaction,
    OPEN_2: written,
    COMMITTED: committed_0,
    COMMITTED_2: committed_2,
    ABORTED: aborted_0,
    IDLE: initialized,
}


@pytest.fixture(scope="module")
def transactions(pair: Pair) -> Pair:
    for broker in pair.brokers:
        peer = Peer(broker.name, broker.port)
        peer.create_topic(TOPIC, 3)
        peer.create_topic(HANGING, 3)
        find_coordinators(peer)
        use_up_small_ids(peer)
        for transactional_id, reach in STATES.items():
            reach(peer, transactional_id)
        verify(broker, False)
        hang(peer)
        verify(broker, True)
        pair.spellings[broker.name] |= {str(producer_of(peer, each)[0]): f"(producer of {each})" for each in (*STATES, LATE)}
        peer.close()
    return pair


def test_list(transactions: Pair) -> None:
    said = transactions.same(TRANSACTIONS, "list", status=0)
    assert f"{OPEN} 1 (producer of {OPEN}) Ongoing" in said
    assert f"{ABORTED} 1 (producer of {ABORTED}) CompleteAbort" in said
    for options in ("--duration-filter -1", "--duration-filter 0", "--duration-filter 3600000", "--transactional-id-pattern x-c.*"):
        said = transactions.same(TRANSACTIONS, "list", *options.split(), status=0)
        assert any(OPEN in line for line in said) == options.endswith((" -1", " 0"))
    transactions.same(TRANSACTIONS, "list", "--transactional-id-pattern", "x-[", status=1)


@pytest.mark.parametrize("transactional_id", [*STATES, LATE, UNKNOWN, ""])
def test_describe(transactions: Pair, transactional_id: str) -> None:
    known = transactional_id not in (UNKNOWN, "")
    said = transactions.same(TRANSACTIONS, "describe", "--transactional-id", transactional_id, hide=[SINCE], status=0 if known else 1)
    if transactional_id in (OPEN, OPEN_2):
        assert any(f"{TOPIC}-0" in line and "Ongoing" in line for line in said)


@pytest.mark.parametrize("where", [f"{TOPIC} 0", f"{TOPIC} 1", f"{HANGING} 0", f"{HANGING} 1"])
@pytest.mark.parametrize("options", ["", "--broker-id 1"])
def test_describe_producers(transactions: Pair, where: str, options: str) -> None:
    topic, partition = where.split()
    arguments = ("--topic", topic, "--partition", partition, *options.split())
    said = transactions.same(TRANSACTIONS, "describe-producers", *arguments, hide=[MARKED], status=0)
    if topic == HANGING:
        assert any(line.startswith(f"{NO_ID} 3 -1 1 ") for line in said)


def test_hanging_transactions_are_found_and_aborted(transactions: Pair) -> None:
    def find(*options: str) -> list[str]:
        said = transactions.same(TRANSACTIONS, "find-hanging", *options, hide=[SINCE], status=0)
        return [line for line in said if not line.startswith("Topic Partition")]

    def abort(*options: str, status: int = 0, partition: int = 0) -> list[str]:
        return transactions.same(TRANSACTIONS, "abort", "--topic", HANGING, "--partition", str(partition), *options, status=status)

    transactions.same(TRANSACTIONS, "find-hanging", status=1)
    transactions.same(TRANSACTIONS, "find-hanging", "--partition", "0", status=1)
    unknown = f"{HANGING} 0 {NO_ID} 3 -1 2 (hidden)"
    late = f"{HANGING} 0 (producer of {LATE}) 0 -1 0 (hidden)"
    other = f"{HANGING} 1 {NO_ID} 3 -1 0 (hidden)"
    assert find("--broker-id", "1") == sorted([unknown, late, other])
    assert find("--topic", HANGING, "--max-transaction-timeout", "1") == sorted([unknown, late, other])
    assert find("--topic", HANGING, "--partition", "1") == [other]
    assert find("--topic", HANGING, "--max-transaction-timeout", "100000000") == []
    assert find("--topic", TOPIC) == []
    abort(status=1)
    abort("--start-offset", "1", status=1)
    abort("--producer-id", str(NO_ID), status=1)
    abort("--producer-id", str(NO_ID), "--producer-epoch", "2", "--coordinator-epoch", "0", status=1)
    abort("--start-offset", "0")
    abort("--producer-id", str(NO_ID), "--producer-epoch", "3", "--coordinator-epoch", "-1")
    assert find("--topic", HANGING) == [other]
    abort("--start-offset", "0", partition=1)
    assert find("--topic", HANGING) == []
    for partition in ("0", "1"):
        transactions.same(TRANSACTIONS, "describe-producers", "--topic", HANGING, "--partition", partition, hide=[MARKED], status=0)
    offsets = transactions.same("org.apache.kafka.tools.GetOffsetShell", "--topic", HANGING, status=0)
    assert offsets == [f"{HANGING}:0:6", f"{HANGING}:1:3", f"{HANGING}:2:0"]


def test_an_open_transaction_is_terminated(transactions: Pair) -> None:
    transactions.same(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", OPEN_2, status=0)
    transactions.same(TRANSACTIONS, "abort", "--topic", TOPIC, "--partition", "0", "--start-offset", "0", status=0)
    transactions.same(TRANSACTIONS, "describe-producers", "--topic", TOPIC, "--partition", "0", hide=[MARKED], status=0)
