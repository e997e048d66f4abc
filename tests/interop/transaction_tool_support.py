"""Transactions in each state, as tests of the transaction tools expect them."""

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
from tests.interop.pair import PATIENCE_S, Pair

TOPIC, HANGING = "transactional", "x-hanging"


OPEN, OPEN_2, COMMITTED, COMMITTED_2, ABORTED, IDLE = "x-open", "x-open-2", "x-committed", "x-committed-2", "x-aborted", "x-idle"


LATE, UNKNOWN = "x-late", "x-unknown"


NO_ID = 777_777
"""A producer id that no transaction coordinator gave."""


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
